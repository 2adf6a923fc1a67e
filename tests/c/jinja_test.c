/* The template engine against what Jinja2 printed, and against templates made to hurt. */
#include "chat.h"
#include "tok_util.h"
#include <time.h>

/* Renders with the variables; NULL and the reason when that fails. */
static char *render(const char *source, const json_t *extra, struct ig_why *why)
{
    static json_t *none;
    struct ig_chat_template *t;
    char *text = NULL;
    if (!none) none = json_array();
    const struct ig_chat_input in = { .messages = none, .extra = extra };
    if (ig_chat_parse(&t, source, why)) return NULL;
    const enum ig_err err = ig_chat_render(t, NULL, &in, &text, why);
    assert_true((err != IG_OK) == (text == NULL));
    ig_chat_free(t);
    return text;
}

static void golden_templates(void **state)
{
    json_t *g = read_json(TOK_DATA "jinja.json"), *c;
    size_t i, n;
    (void)state;
    json_array_foreach(json_object_get(g, "cases"), i, c)
    {
        struct ig_why why = { "" };
        const char *source = text_of(c, "template", &n);
        const json_t *want = json_object_get(c, "want");
        char *got = render(source, json_object_get(g, "variables"), &why);
        if (!want && got) fail_msg("%s: want an error, got \"%s\"", source, got);
        if (!want) {
            if (strncmp(why.text, "chat template: line ", 20) != 0) fail_msg("%s", why.text);
            continue;
        }
        if (!got) fail_msg("%s: %s", source, why.text);
        if (strcmp(got, json_string_value(want)) != 0)
            fail_msg("%s\n  want \"%s\"\n  got  \"%s\"", source, json_string_value(want), got);
        free(got);
    }
    assert_true(i > 240);
    json_decref(g);
}

static void fails(const char *source, const char *reason)
{
    struct ig_why why = { "" };
    const clock_t start = clock();
    char *got = render(source, NULL, &why);
    if (got) fail_msg("%.80s: want an error about %s, got \"%.80s\"", source, reason, got);
    if (!strstr(why.text, reason)) fail_msg("\"%s\" does not say \"%s\"", why.text, reason);
    assert_true((clock() - start) / CLOCKS_PER_SEC < 60);
}

static void prints(const char *source, const char *want)
{
    struct ig_why why = { "" };
    char *got = render(source, NULL, &why);
    if (!got) fail_msg("%s: %s", source, why.text);
    assert_string_equal(got, want);
    free(got);
}

/* Only what is reached must be supported, and the message names it and its line. */
static void unsupported_only_when_used(void **state)
{
    (void)state;
    prints("{% if false %}{{ 1|zork }}{{ 1 is zork }}{{ zork() }}{% endif %}ok", "ok");
    prints("{% if false %}{% include 'x' %}{% do a.b() %}{% import 'y' as z %}{% endif %}ok", "ok");
    fails("a\n{{ 1|zork }}", "line 2: the filter 'zork' is not supported");
    fails("\n\n{{ 1 is zork }}", "line 3: the test 'zork' is not supported");
    fails("{{ zork() }}", "line 1: 'zork' is undefined");
    fails("x\n{% include 'x' %}", "line 2: the tag 'include' is not supported");
    fails("{% block a %}{% endblock %}", "the tag 'block' is not supported");
    fails("{{ '%q' % 1 }}", "the format %q is not supported");
    fails("{{ '{:>3}'.format(1) }}", "format: {:>3} is not supported");
    fails("\n{% zork %}", "line 2: unknown tag 'zork'");
    fails("a\n\n{{ raise_exception('no ' ~ 'way') }}", "line 3: no way");
}

/* Steps, depth and memory are bounded. */
static void hostile_templates(void **state)
{
    enum { N = 100000 };
    char *text = malloc(N * 8 + 64);
    size_t n = 0;
    (void)state;
    assert_non_null(text);
    fails("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
          "too m");
    fails("{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}",
          "too m");
    fails("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "nested too deep");
    fails("{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}", "nested too deep");
    fails("{{ 'x' * 9000000000 }}", "too ");
    fails("{{ ['x' * 1000] * 900000000 }}", "too ");
    fails("{% set ns = namespace(s='xxxxxxxxxx') %}{% for i in range(60) %}"
          "{% set ns.s = ns.s + ns.s %}{% endfor %}",
          "too much memory");
    fails("{% set ns = namespace(l=[1]) %}{% for i in range(60) %}"
          "{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
          "too ");
    fails("{% set ns = namespace(l=[1]) %}{% for i in range(99999) %}"
          "{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}",
          "nested too deep");
    fails("{% set ns = namespace(l=[1], m=[1]) %}{% for i in range(99999) %}{% set ns.l = [ns.l] %}"
          "{% set ns.m = [ns.m] %}{% endfor %}{{ ns.l == ns.m }}",
          "nested too deep");
    fails("{% set ns = namespace(l=[1]) %}{% for i in range(99999) %}{% set ns.l = [ns.l] %}"
          "{% endfor %}{{ ns.l|tojson }}",
          "nested too deep");
    fails("{{ 'a'.replace('', 'x' * 1000000) * 100000 }}", "too ");
    fails("{{ range(100001) }}", "MAX_RANGE");
    fails("{{ 9223372036854775807 + 1 }}", "integer overflow");
    fails("{{ (-9223372036854775807 - 1) // -1 }}", "integer overflow");
    prints("{{ (-9223372036854775807 - 1) % -1 }}", "0");
    fails("{{ 3 ** 99 }}", "integer overflow");
    fails("{{ 99999999999999999999 }}", "not supported");
    fails("{{ ''.center(9999999999) }}", "too ");
    fails("{{ '%999999d' % 1 }}", "not supported");

    for (int i = 0; i < N; i++) n += (size_t)sprintf(text + n, "%s", i ? "(" : "{{ (");
    fails(text, "deep");
    n = 0;
    for (int i = 0; i < N; i++) n += (size_t)sprintf(text + n, "%s", i ? "-" : "{{ -");
    sprintf(text + n, "1 }}");
    fails(text, "nested too deep");
    n = 0;
    for (int i = 0; i < N / 2; i++) n += (size_t)sprintf(text + n, "%s", i ? "[[" : "{{ [");
    fails(text, "deep");
    n = 0;
    for (int i = 0; i < N / 2; i++) n += (size_t)sprintf(text + n, "{%%if 1%%}");
    fails(text, "nested too deep");
    n = (size_t)sprintf(text, "{{ 1");
    for (int i = 0; i < N; i++) n += (size_t)sprintf(text + n, " + 1");
    sprintf(text + n, " }}");
    fails(text, "nested too deep");
    n = (size_t)sprintf(text, "{{ x");
    for (int i = 0; i < N; i++) n += (size_t)sprintf(text + n, ".a");
    sprintf(text + n, " }}");
    fails(text, "nested too deep");
    n = (size_t)sprintf(text, "{%% if 0 %%}");
    for (int i = 0; i < 9999; i++) n += (size_t)sprintf(text + n, "{%% elif 0 %%}");
    sprintf(text + n, "{%% endif %%}done");
    prints(text, "done");
    free(text);
}

/* Every prefix of a template parses or is refused; nothing crashes. */
static void cut_templates(void **state)
{
    static const char source[] =
        "{%- macro m(a, b=1) -%}{{ a ~ b|upper if a is defined else 'x\\n' }}{%- endmacro %}"
        "{% for m2 in messages if m2.role != 'x' recursive %}{{ loop.index }}{% else %}-{% endfor "
        "%}"
        "{# c #}{% set ns = namespace(a=[1, {'k': (1, 2)}]) %}{% set ns.a = ns.a[::-1][0:1] %}"
        "{% raw %}{{{% endraw %}{% call(q) m(1) %}z{% endcall %}{% filter trim %} y {% endfilter %}"
        "{% with a = 1 %}{% set b %}t{% endset %}{% endwith %}{{ 1.5e3 + 0x1f not in [1] }}";
    char part[sizeof source];
    (void)state;
    for (size_t n = 0; n < sizeof source; n++) {
        struct ig_why why = { "" };
        memcpy(part, source, n);
        part[n] = 0;
        free(render(part, NULL, &why));
        for (size_t i = n ? n - 1 : 0; i < n; i++) { /* and with its last byte changed */
            part[i] = (char)(part[i] ^ 4);
            free(render(part, NULL, &why));
        }
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_templates),
        cmocka_unit_test(unsupported_only_when_used),
        cmocka_unit_test(hostile_templates),
        cmocka_unit_test(cut_templates),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("jinja", tests, NULL, NULL);
}
