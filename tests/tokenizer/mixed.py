"""Mixed text, the same for the same seed: code, prose, digits, blanks, CJK, Hangul and its letters,
kana with marks, Arabic, Devanagari, combining marks, emoji with joiners, control characters."""

import random
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
BLANKS = ["\t", "\n", "\r\n", "  ", "   ", "\u00a0", "\u3000", "\u2028", "\x0b", "\x0c", "\x85", "\u180e", "\u200b",
          "\u1680", "\n\n\n", " \n ", "    \n"]  # fmt: skip
PICKS = ["👨‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "é", "e\u0301", "ñ", "n\u0303", "각", "\u1100\u1161\u11a8", "\u0e33", "ﬁ", "ſ", "'ſ", "'S", "'LL", "'Re",
         "I'm", "DON'T", "Å", "\u212b", "\u2126", "ﾊﾞ", "か\u3099", "™\u0301", "①", "☺\u200d™\u0301", "ﬁ\u0301"]  # fmt: skip
RANGES = [(0x4E00, 0x9FFF), (0x3040, 0x30FF), (0xAC00, 0xD7A3), (0x1100, 0x11FF), (0x600, 0x6FF), (0x400, 0x4FF), (0x900, 0x97F),
          (0x300, 0x36F), (0x1F300, 0x1FAFF), (1, 31), (0x7F, 0x24F), (0x2000, 0x2BFF)]  # fmt: skip
PUNCTUATION = '!@#$%^&*()_+-=[]{};:"\\|,.<>/?`~'


def mixed(size, seed, picks=()):
    r, out, done = random.Random(seed), [], 0
    prose = (ROOT / "README.md").read_text() + (ROOT / "docs/ARCHITECTURE.md").read_text()
    code = (ROOT / "runtime/text/bpe.c").read_text() + (ROOT / "gen/families.lua").read_text()

    def piece(text):
        at = r.randrange(len(text))
        return text[at : at + r.randint(1, 60)]

    def of(low, high):
        return lambda: "".join(chr(r.randint(low, high)) for _ in range(r.randint(1, 12)))

    makers = [lambda: piece(prose), lambda: piece(code), lambda: str(r.randint(0, 10 ** r.randint(1, 12))),
              lambda: "".join(r.choice(BLANKS) for _ in range(r.randint(1, 5))), lambda: r.choice(BLANKS), lambda: r.choice(PICKS),
              lambda: r.choice(PUNCTUATION) * r.randint(1, 5),
              lambda: chr(r.choice([r.randint(0x20, 0xD7FF), r.randint(0xE000, 0x10FFFF)])), lambda: " ", lambda: " "]  # fmt: skip
    makers += [of(*pair) for pair in RANGES] + ([lambda: r.choice(picks)] if picks else [])
    while done < size:
        out.append(r.choice(makers)())
        done += len(out[-1].encode())
    return "".join(out)


EDGES = ["", " ", "  ", "▁", " ▁ ", "a", " a ", "\0a", "a\0", "\u3000", "ﬁ", "ﬁ\u0301", "é", "e\u0301", "\r\n", "a\r\nb", "<unk>",
         "<0x41>", "™\u0301", "\u1100\u1161\u11a8\u0301", " \u3000 x \u3000 ", "が", "ก\u0e33", "a" * 5000, " " * 5000,
         "\u0958\u0301", "\u200b", "\u200d", "\ufeff", "①②", "\u0915\u094d\u0958\u0301"]  # fmt: skip


def texts(size=1 << 20, picks=()):
    """One text of that size, as much again in 40 parts, and short ones."""
    return [mixed(size, 1, picks)] + [mixed(size // 40, s, picks) for s in range(2, 42)] + EDGES
