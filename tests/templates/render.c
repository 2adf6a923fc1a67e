/* render.c -- a chat template over conversations, for tests/templates/check.py.
 *
 * Standard input: JSON objects, one a line: template, messages, tools (or null),
 * extra, add_generation_prompt.  For each a line: {"text": ...} or {"error": ...}.
 */
#include "chat.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static json_t *answer(const json_t *line)
{
    struct ig_chat_template *t = NULL;
    struct ig_why why = { "" };
    char *text = NULL;
    const json_t *tools = json_object_get(line, "tools");
    const struct ig_chat_input in = {
        .messages = json_object_get(line, "messages"),
        .tools = json_is_null(tools) ? NULL : tools,
        .extra = json_object_get(line, "extra"),
        .add_generation_prompt = json_is_true(json_object_get(line, "add_generation_prompt")),
    };
    enum ig_err err = ig_chat_parse(&t, json_string_value(json_object_get(line, "template")), &why);
    if (!err) err = ig_chat_render(t, NULL, &in, &text, &why);
    json_t *out = err ? json_pack("{s:s}", "error", why.text) : json_pack("{s:s}", "text", text);
    if (t) ig_chat_free(t);
    free(text);
    return out;
}

int main(void)
{
    char *line = NULL;
    size_t room = 0;

    while (getline(&line, &room, stdin) > 0) {
        json_t *in = json_loads(line, 0, NULL), *out = in ? answer(in) : NULL;
        if (!out) return 1;
        json_dumpf(out, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(out);
        json_decref(in);
    }
    free(line);
    return 0;
}
