/* layout.c -- the one word of the plan that wfile.c, which knows no plan, puts into messages. */
#include "wfile.h"

#include "config.h"

const char ig_layout_text[] = IG_LAYOUT_TEXT;
