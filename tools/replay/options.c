/* options.c -- the command line of replay; see options.h. */
#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policies.h"
#include "say.h"

static const char usage[] =
    "usage: replay TRACE [options]\n"
    "  --pool 3,10,20          cached share of all experts, per cent\n"
    "  --policies lru,decay:64 name[:num[:num[:num]]], comma between; \"all\"\n"
    "  --sets layers,global,N  cut the pool into that many sets\n"
    "  --rule pin|plain        pin: a token's experts never push out each other (the engine);\n"
    "                          plain: they may, when the ways are fewer than they\n"
    "  --order heavy|light     which expert of a token counts as its oldest use\n"
    "  --batch N               prompt rows that go through the layers together, at most\n"
    "  --count all|decode      rows that count; decode: the prompt only warms the cache\n"
    "      A route CSV's defaults: --order heavy --count decode, the prompt is one batch;\n"
    "      else: --order light --count all --batch 1.\n"
    "  --docs 0,1 --train 4,5  documents replayed; documents that tables are learned from\n"
    "  --bw-link --bw-mem GB/s --layer-us US --expert-bytes N    the machine\n"
    "  --drop F:FROM:TO        link F times slower between these shares of the rows\n"
    "  --predict NAME          last token perfect next-router history hybrid forest mlp\n"
    "  --predictor FILE        what tools/train_predictor.py made, for forest and mlp\n"
    "  --hidden FILE           hidden states beside the trace, as the engine's trace --hidden "
    "writes\n"
    "  --features FILE --every N  write what forest and mlp look at, of every Nth row, instead\n"
    "  --distance N --width N  layers ahead; experts of each prediction (0: all)\n"
    "  --least P               predictors leave out experts of a lower chance\n"
    "  --no-prefetch           predictions only reach the policy\n"
    "  --stride MIN:MAX[:WAIT:OVERLOAD:WINDOW]   the distance moves, from --distance\n"
    "  --recall                table of the predictors' recall at distance 1, 2, 4, 8 instead\n"
    "  -o text|csv  --svg FILE\n"
    "policies:\n";

static int bad(const char *opt, const char *got, const char *want)
{
    return ig_say("%s: want %s, got %s", opt, want, got ? got : "nothing");
}

/* Numbers with `sep` between, each in lo..hi; how many, or -1. */
static int numbers(const char *s, char sep, double lo, double hi, double *out, int max)
{
    int n = 0;
    for (;;) {
        char *end;
        if (n == max) return -1;
        out[n] = strtod(s, &end);
        if (end == s || !(out[n] >= lo && out[n] <= hi)) return -1;
        n++;
        if (!*end) return n;
        if (*end != sep) return -1;
        s = end + 1;
    }
}

static int one(const char *s, double lo, double hi, double *out)
{
    return numbers(s, 0, lo, hi, out, 1) == 1;
}

static int doc_list(const char *s, uint32_t *doc, uint32_t *n)
{
    double v[OPT_MAX_DOC];
    const int got = numbers(s, ',', 0, 1e6, v, OPT_MAX_DOC);
    for (int i = 0; i < got; i++) doc[i] = (uint32_t)v[i];
    *n = got < 0 ? 0 : (uint32_t)got;
    return got > 0;
}

static int machine(struct options *o, const char *opt, const char *v)
{
    double d, drop[3];
    if (!strcmp(opt, "--bw-link") || !strcmp(opt, "--bw-mem")) {
        if (!one(v, 1e-3, 1e5, &d)) return bad(opt, v, "GB/s");
        *(opt[5] == 'l' ? &o->m.bw_link : &o->m.bw_mem) = d * 1e9;
    } else if (!strcmp(opt, "--layer-us")) {
        if (!one(v, 0, 1e6, &d)) return bad(opt, v, "microseconds");
        o->m.layer_s = d * 1e-6;
    } else if (!strcmp(opt, "--expert-bytes")) {
        if (!one(v, 1, 1e12, &d)) return bad(opt, v, "bytes");
        o->m.bytes = (uint64_t)d;
    } else if (!strcmp(opt, "--drop")) {
        if (numbers(v, ':', 0, 1e4, drop, 3) != 3 || drop[0] <= 0)
            return bad(opt, v, "FACTOR:FROM:TO");
        o->m.drop = drop[0], o->m.drop_from = drop[1], o->m.drop_to = drop[2];
    } else {
        return 1;
    }
    return 0;
}

static int prediction(struct options *o, const char *opt, const char *v)
{
    const struct ig_stride_rule *usual = &ig_stride_usual;
    double d, s[5] = { 0, 0, usual->wait_max, usual->overload_max, usual->window };
    if (!strcmp(opt, "--predict")) {
        for (int i = 0; i < N_PREDICT; i++)
            if (!strcmp(v, ig_predict_name[i])) o->predict = i;
        if (o->predict < 0 && strcmp(v, "none")) return bad(opt, v, "a predictor's name");
    } else if (!strcmp(opt, "--distance")) {
        if (!one(v, 1, IG_MAX_DIST, &d)) return bad(opt, v, "1..8");
        o->distance = (uint32_t)d;
    } else if (!strcmp(opt, "--least")) {
        if (!one(v, 0, 1, &d)) return bad(opt, v, "0..1");
        o->least = (float)d;
    } else if (!strcmp(opt, "--predictor")) {
        o->predictor = v;
    } else if (!strcmp(opt, "--hidden")) {
        o->hidden = v;
    } else if (!strcmp(opt, "--features")) {
        o->features = v;
    } else if (!strcmp(opt, "--every")) {
        if (!one(v, 1, 1e6, &d)) return bad(opt, v, "1 or more");
        o->every = (uint32_t)d;
    } else if (!strcmp(opt, "--width")) {
        if (!one(v, 0, 256, &d)) return bad(opt, v, "0..256");
        o->width = (uint32_t)d;
    } else if (!strcmp(opt, "--stride")) {
        const int n = numbers(v, ':', 1, 60000, s, 5);
        if (n < 2 || s[0] > s[1] || s[1] > IG_MAX_DIST)
            return bad(opt, v, "MIN:MAX[:WAIT:OVERLOAD:WINDOW], 1 <= MIN <= MAX <= 8");
        o->stride[0] = (uint8_t)s[0], o->stride[1] = (uint8_t)s[1];
        o->rule = (struct ig_stride_rule){ (uint16_t)s[2], (uint16_t)s[3], (uint16_t)s[4] };
    } else {
        return 1;
    }
    return 0;
}

static int replayed(struct options *o, const char *opt, const char *v)
{
    double d;
    int n;
    if (!strcmp(opt, "--pool")) {
        if ((n = numbers(v, ',', 1e-3, 100, o->pool, OPT_MAX_POOL)) < 1)
            return bad(opt, v, "per cent, comma between");
        o->n_pool = (uint32_t)n;
    } else if (!strcmp(opt, "--policies")) {
        o->policies = v;
    } else if (!strcmp(opt, "--sets")) {
        o->sets = v;
    } else if (!strcmp(opt, "--rule")) {
        if (strcmp(v, "pin") && strcmp(v, "plain")) return bad(opt, v, "pin or plain");
        o->pin = !strcmp(v, "pin");
    } else if (!strcmp(opt, "--order")) {
        if (strcmp(v, "heavy") && strcmp(v, "light")) return bad(opt, v, "heavy or light");
        o->order = v[0] == 'h';
    } else if (!strcmp(opt, "--batch")) {
        if (!one(v, 1, 1e6, &d)) return bad(opt, v, "1 or more");
        o->batch = (int)d;
    } else if (!strcmp(opt, "--count")) {
        if (strcmp(v, "all") && strcmp(v, "decode")) return bad(opt, v, "all or decode");
        *(v[0] == 'a' ? &o->count_all : &o->count_decode) = 1;
    } else if (!strcmp(opt, "--docs")) {
        if (!doc_list(v, o->doc, &o->n_doc)) return bad(opt, v, "document numbers");
    } else if (!strcmp(opt, "--train")) {
        if (!doc_list(v, o->train, &o->n_train)) return bad(opt, v, "document numbers");
    } else if (!strcmp(opt, "-o")) {
        if (strcmp(v, "text") && strcmp(v, "csv")) return bad(opt, v, "text or csv");
        o->csv = !strcmp(v, "csv");
    } else if (!strcmp(opt, "--svg")) {
        o->svg = v;
    } else {
        return 1;
    }
    return 0;
}

int ig_options(struct options *o, int argc, char **argv)
{
    /* The machine of the defaults: PCIe 4 x16 and a 1 TB/s card, 40 us of attention a layer. */
    *o = (struct options){
        .n_pool = 3,
        .pool = { 3, 10, 20 },
        .policies = "lru,lru2,decay,echo,belady",
        .sets = "layers",
        .pin = 1,
        .order = -1,
        .batch = -1,
        .predict = -1,
        .prefetch = 1,
        .every = 1,
        .distance = 1,
        .m = { .bw_link = 25e9, .bw_mem = 1000e9, .layer_s = 40e-6, .bytes = 3 << 20 }
    };
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help")) {
            fputs(usage, stdout);
            for (const struct policy_entry *e = ig_policies; e->policy; e++)
                printf("  %-14s %s\n", e->policy->name, e->text);
            return 1;
        }
        if (argv[i][0] != '-') {
            if (o->trace) return bad("TRACE", argv[i], "one");
            o->trace = argv[i];
        } else if (!strcmp(argv[i], "--no-prefetch")) {
            o->prefetch = 0;
        } else if (!strcmp(argv[i], "--recall")) {
            o->recall = 1;
        } else {
            if (i + 1 == argc) return bad(argv[i], NULL, "a value");
            int rc = replayed(o, argv[i], argv[i + 1]);
            if (rc == 1) rc = machine(o, argv[i], argv[i + 1]);
            if (rc == 1) rc = prediction(o, argv[i], argv[i + 1]);
            if (rc == 1) return bad(argv[i], argv[i + 1], "an option of --help");
            if (rc) return rc;
            i++;
        }
    }
    if (!o->trace) return fputs(usage, stderr), -1;
    return 0;
}
