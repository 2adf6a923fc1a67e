/* Chat templates that nobody meant: an error or a text, never a crash and never for ever. */
#include "chat.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
size_t fuzz_seed(int i, uint8_t *out, size_t room);

static const char *const seeds[] = {
    ("{{ bos_token }}{% for m in messages %}{% if m['role'] == 'user' %}{{ '<|user|>\\n' + "
     "m['content'] + '<|end|>\\n' }}{% elif m.tool_calls is defined %}{{ m.tool_calls|tojson }}"
     "{% endif %}{% endfor %}{% if add_generation_prompt %}x{% endif %}"),
    ("{%- macro f(a, b=[1, 2]) -%}{{ a ~ b|join(',') }}{%- endmacro -%}{% set ns = "
     "namespace(i=0) %}{% for m in messages if not loop is defined %}{% set ns.i = ns.i + 1 %}"
     "{{ f(m.content, b=m.content.split(' ')) }}{% else %}none{% endfor %}{{ ns.i ** 2 // 3 % 5 "
     "}}"),
    ("{% set x %}{{ messages|map(attribute='content')|select('string')|list|tojson(indent=2) }}"
     "{% endset %}{{ x|indent(4)|trim|upper|replace('A', 'b')|length }}{# c #}{% raw %}{{{% endraw "
     "%}"
     "{{ x[::-1][1:5] if x is string and 'a' not in x else none }}"),
    ("{% for k, v in {'a': 1, 'b': (2, 3.5)}.items() recursive %}{{ loop.index ~ k ~ v }}"
     "{% if loop.first %}{% continue %}{% endif %}{% break %}{% endfor %}{{ range(3)|sum }}"
     "{{ '%s-%d'|format('a', 3) }}{{ [3, 1]|sort|first is odd }}{% filter title %}ab{% endfilter "
     "%}"),
    ("{% call(u) m() %}{{ u }}{% endcall %}{% with a = 1 %}{{ a }}{% endwith %}{{ raise_exception("
     "'x') }}{{ messages[-1].content.strip().startswith(('a', 'b')) }}{{ 'x'.center(9, '*') }}"),
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static json_t *messages;
    struct ig_chat_template *t;
    struct ig_why why;
    char *text, *source = malloc(bytes + 1);
    if (!messages)
        messages = json_loads("[{\"role\":\"user\",\"content\":\"a b <|end|> \xc3\xa9\"},{\"role\":"
                              "\"assistant\",\"content\":null,\"tool_calls\":[{\"n\":1.5}]}]",
                              0, NULL);
    if (!source) return 0;
    memcpy(source, data, bytes);
    source[bytes] = 0;
    if (!ig_chat_parse(&t, source, &why)) {
        const struct ig_chat_input in = { .messages = messages, .add_generation_prompt = 1 };
        if (!ig_chat_render(t, NULL, &in, &text, &why)) free(text);
        ig_chat_free(t);
    }
    free(source);
    return 0;
}

size_t fuzz_seed(int i, uint8_t *out, size_t room)
{
    if (i < 0 || (size_t)i >= sizeof seeds / sizeof *seeds) return 0;
    const size_t n = strlen(seeds[i]);
    if (n > room) return 0;
    memcpy(out, seeds[i], n);
    return n;
}
