/* out_json.c -- a JSON value on standard output; allocates, so it stands alone. */
#include "out.h"

#include "base.h"

#include <stdlib.h>
#include <string.h>

void ig_out_json(json_t *root)
{
    char *text = root ? json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(root);
    /* Values are numbers, names and checked text, so only memory can be missing. */
    if (!text) ig_die("no memory to print the results");
    ig_out(text, strlen(text));
    ig_out("\n", 1);
    free(text);
}
