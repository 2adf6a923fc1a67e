/* chat.h -- conversations to token ids through the checkpoint's Jinja template.
 *
 * The template's own text may contain control tokens; what users and models
 * wrote never becomes one: message contents are rendered as marked spans and
 * encoded without special-token parsing.
 */
#ifndef IG_CHAT_H
#define IG_CHAT_H

#include "tokenizer.h"
#include <jansson.h>

struct ig_chat_template; /* a parsed template */

enum ig_err ig_chat_parse(struct ig_chat_template **t, const char *source, struct ig_why *why);
void ig_chat_free(struct ig_chat_template *t);

/* messages: JSON array of {role, content, ...}; tools: JSON array or NULL;
 * extra: JSON object of further template variables or NULL. */
struct ig_chat_input {
    const json_t *messages, *tools, *extra;
    int add_generation_prompt;
};

/* Rendered text, malloc'ed, as the reference renderer prints it (for tests and display). */
enum ig_err ig_chat_render(const struct ig_chat_template *t, const struct ig_tokenizer *tok,
                           const struct ig_chat_input *in, char **text, struct ig_why *why);
/* The same as ids, malloc'ed. */
enum ig_err ig_chat_encode(const struct ig_chat_template *t, const struct ig_tokenizer *tok,
                           const struct ig_chat_input *in, int32_t **ids, size_t *n,
                           struct ig_why *why);

#endif
