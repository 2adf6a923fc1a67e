/* pretok_names.c -- the pre-tokenizers that GGUF files only name.
 *
 * Each name stands for what the family's tokenizer.json says, as a list of
 * patterns that split one after the other.
 */
#include "tokenizer_int.h"

#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES      "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER       "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER       "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define HEAD        "[^\\r\\n\\p{L}\\p{N}]?"

static const char gpt2[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
static const char llama3[] =
    CONTRACTION "|" HEAD "\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SPACES;
static const char qwen2[] =
    CONTRACTION "|" HEAD "\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SPACES;
static const char qwen35[] =
    CONTRACTION "|" HEAD "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" SPACES;
static const char o200k[] =
    HEAD UPPER "*" LOWER "+" CONTRACTION "?|" HEAD UPPER "+" LOWER "*" CONTRACTION
               "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" SPACES;
static const char tekken[] = HEAD UPPER "*" LOWER "+|" HEAD UPPER "+" LOWER
                                        "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" SPACES;
static const char bailing[] = "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| "
                              "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+";
static const char deepseek3[] =
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?"
    "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*" SPACES;
static const char cjk[] = "[一-龥぀-ゟ゠-ヿ]+";
static const char east_asian[] = "[一-龥ࠀ-一가-퟿]+";
static const char punctuation[] = "\\s?[!-/:-~！-／：-～‘-‟　-。]+";
static const char falcon_punctuation[] = "[\\p{P}$+<=>^~|`]+";

/* The letters of a Unicode version, spelled out in the family's file. */
// clang-format off
static const char deepseek_letters[] =
    "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-"
    "Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-"
    "ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+";
// clang-format on

enum { PLAIN = 0, IGNORE_MERGES = 1, ADD_BOS = 2, NFC = 4 };

static const struct {
    const char *name;
    int flags;
    const char *pattern[6];
} known[] = {
    { "default", PLAIN, { falcon_punctuation, gpt2, "\\p{N}+", "[0-9][0-9][0-9]" } },
    { "gpt-2", PLAIN, { gpt2 } },
    { "phi-2", PLAIN, { gpt2 } },
    { "mpt", PLAIN, { gpt2 } },
    { "olmo", PLAIN, { gpt2 } },
    { "jais", PLAIN, { gpt2 } },
    { "trillion", PLAIN, { gpt2 } },
    { "llama3", IGNORE_MERGES | ADD_BOS, { llama3 } },
    { "llama-v3", IGNORE_MERGES | ADD_BOS, { llama3 } },
    { "llama-bpe", IGNORE_MERGES | ADD_BOS, { llama3 } },
    { "falcon3", IGNORE_MERGES | ADD_BOS, { llama3 } },
    { "pixtral", IGNORE_MERGES | ADD_BOS, { llama3 } },
    { "lfm2", IGNORE_MERGES | ADD_BOS, { llama3 } },
    { "dbrx", PLAIN, { llama3 } },
    { "smaug-bpe", PLAIN, { llama3 } },
    { "chatglm-bpe", PLAIN, { llama3 } },
    { "glm4", PLAIN, { llama3 } },
    { "qwen2", NFC, { qwen2 } },
    { "deepseek-r1-qwen", NFC, { qwen2 } },
    { "qwen35", NFC, { qwen35 } },
    { "stablelm2", PLAIN, { qwen2 } },
    { "megrez", PLAIN, { qwen2 } },
    { "hunyuan", PLAIN, { qwen2 } },
    { "gpt-4o", PLAIN, { o200k } },
    { "llama4", PLAIN, { o200k } },
    { "minimax-m2", PLAIN, { o200k } },
    { "tekken", IGNORE_MERGES | ADD_BOS, { tekken } },
    { "bailingmoe", PLAIN, { bailing } },
    { "bailingmoe2", PLAIN, { bailing } },
    { "llada-moe", PLAIN, { bailing } },
    { "deepseek-v3", PLAIN, { "\\p{N}{1,3}", cjk, deepseek3 } },
    { "hunyuan-dense", PLAIN, { "\\p{N}{1,3}", cjk, deepseek3 } },
    { "joyai-llm", PLAIN, { "\\p{N}{1,3}", cjk, deepseek3 } },
    { "deepseek-llm",
      PLAIN,
      { "[\\r\\n]", deepseek_letters, punctuation, "\\s+$", east_asian, "\\p{N}+" } },
    { "deepseek-coder", PLAIN, { "[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", east_asian, "\\p{N}" } },
    { "falcon", PLAIN, { falcon_punctuation, gpt2, "[0-9][0-9][0-9]" } },
    { "starcoder", PLAIN, { "\\p{N}", gpt2 } },
    { "refact", PLAIN, { "\\p{N}", gpt2 } },
    { "command-r", PLAIN, { "\\p{N}", gpt2 } },
    { "smollm", PLAIN, { "\\p{N}", gpt2 } },
    { "codeshell", PLAIN, { "\\p{N}", gpt2 } },
    { "exaone", PLAIN, { "\\p{N}", gpt2 } },
    { "minerva-7b", PLAIN, { "\\p{N}", gpt2 } },
};

enum ig_err ig_pretok_named(struct ig_blob *b, const char *pre, int *add_bos, struct ig_why *why)
{
    size_t k = 0;
    const size_t n = sizeof known / sizeof *known;
    while (k < n && strcmp(known[k].name, pre)) k++;
    if (k == n)
        return ig_fail(why, IG_BAD_FILE, "tokenizer.ggml.pre: \"%.80s\" is not supported", pre);
    int ok = !(known[k].flags & NFC) || ig_blob_step(b, IG_STEP_NFC, 0, "", 0, "", 0);
    for (int i = 0; i < 6 && known[k].pattern[i] && ok; i++)
        ok = ig_blob_step(b, IG_STEP_SPLIT, IG_SPLIT_ISOLATED, known[k].pattern[i],
                          strlen(known[k].pattern[i]), "", 0);
    if (known[k].flags & IGNORE_MERGES) b->head.flags |= IG_TOK_IGNORE_MERGES;
    *add_bos = (known[k].flags & ADD_BOS) != 0;
    b->head.flags |= IG_TOK_BYTE_LEVEL;
    return ok ? IG_OK : ig_fail(why, IG_NO_MEM, "out of memory");
}
