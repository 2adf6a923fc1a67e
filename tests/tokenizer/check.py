#!/usr/bin/env python3
"""Ids of this engine and of the reference libraries: on every text they must be the same.

    make ids
    check.py FILE.json ...    tokenizer.json, against the package tokenizers
    check.py FILE.model ...   SentencePiece's unigram models: as tokenizer.json against tokenizers,
                              as GGUF against sentencepiece
    check.py --train          unigram models trained on the spot, one for each normaliser and flag
    check.py --small FILE     a small one, with its cases, for tests/c/charsmap_test.c

Texts are those of mixed.py, 2 MiB.  Packages: tokenizers, sentencepiece, gguf.  real.py has published vocabularies.
"""

import base64
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from mixed import EDGES, ROOT, mixed, texts

IDS = ROOT / "out/tools/ids"
BAR = "▁"


def ours(path, lines, **how):
    sent = "".join(json.dumps({"text": t, **how}) + "\n" for t in lines)
    done = subprocess.run([IDS, str(path)], input=sent.encode(), capture_output=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def compare(name, lines, got, ids_of, text_of=None):
    """Print the first difference; the number of texts that differ."""
    bad = 0
    for text, mine in zip(lines, got, strict=True):
        want = ids_of(text)
        same = want == mine.get("ids") and (text_of is None or text_of(want) == mine["plain"])
        bad += not same
        if not same and bad == 1:
            print("  want", str(want)[:300], "\n  got ", str(mine)[:300])
    print(f"{name}: {len(lines)} texts, {sum(len(t.encode()) for t in lines)} bytes, {bad} differ", flush=True)
    return bad


def check_json(name, source, lines):
    from tokenizers import Tokenizer

    peer = Tokenizer.from_str(source)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokenizer.json"
        path.write_text(source)
        got = ours(path, lines, special=True, around=True)
    return compare(f"{name}, tokenizer.json", lines, got, lambda t: peer.encode(t).ids, peer.decode)


def write_gguf(path, model, tokens, types, scores=None, merges=None, pre=None, flags=(), charsmap=b"", ids=()):
    import gguf

    w = gguf.GGUFWriter(path, "llama")
    w.add_tokenizer_model(model)
    w.add_token_list(tokens)
    w.add_token_types(types)
    if pre:
        w.add_tokenizer_pre(pre)
    if scores is not None:
        w.add_token_scores(scores)
    if merges:
        w.add_token_merges(merges)
    if charsmap:
        w.add_precompiled_charsmap(charsmap)
    for key, value in flags:
        w.add_bool("tokenizer.ggml." + key, value)
    for key, value in ids:
        w.add_uint32(f"tokenizer.ggml.{key}_token_id", value)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def added(number, content, **more):
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": number, "content": content, **flags, **more}


# -- SentencePiece
def read_model(path):
    from sentencepiece import sentencepiece_model_pb2

    m = sentencepiece_model_pb2.ModelProto()
    m.ParseFromString(Path(path).read_bytes())
    return m


def unigram_json(m, old=False):
    """As the public converter writes it; `old`, as the converter of T5's time did."""
    pieces, eos, steps = m.pieces, m.trainer_spec.eos_id, []
    metaspace = {"type": "Metaspace", "replacement": BAR, "prepend_scheme": "always"}
    if m.normalizer_spec.precompiled_charsmap:
        charsmap = base64.b64encode(m.normalizer_spec.precompiled_charsmap).decode()
        steps.append({"type": "Precompiled", "precompiled_charsmap": charsmap})
    if not old:
        steps.append({"type": "Strip", "strip_left": False, "strip_right": True})
        steps.append({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": BAR})
    split = [{"type": "WhitespaceSplit"}] if old else []
    around = [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}]
    model = {"type": "Unigram", "unk_id": m.trainer_spec.unk_id, "vocab": [[p.piece, p.score] for p in pieces],
             "byte_fallback": m.trainer_spec.byte_fallback}  # fmt: skip
    return json.dumps({
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [added(i, p.piece) for i, p in enumerate(pieces) if p.type in (2, 3)]
        + [added(len(pieces) + k, f"<extra_id_{k}>", lstrip=True) for k in range(3)],
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*split, metaspace]},
        "post_processor": {"type": "TemplateProcessing", "single": around, "pair": around,
                           "special_tokens": {"</s>": {"id": "</s>", "ids": [eos], "tokens": ["</s>"]}}},
        "decoder": metaspace, "model": model,
    }, ensure_ascii=False)  # fmt: skip


def unigram_gguf(m, path):
    n, t = m.normalizer_spec, m.trainer_spec
    write_gguf(path, "t5", [p.piece.encode() for p in m.pieces], [p.type for p in m.pieces], [p.score for p in m.pieces],
               flags=[("add_space_prefix", n.add_dummy_prefix), ("remove_extra_whitespaces", n.remove_extra_whitespaces)],
               charsmap=n.precompiled_charsmap, ids=[("eos", t.eos_id), ("unknown", t.unk_id)])  # fmt: skip


def check_model(path):
    import sentencepiece

    m, name = read_model(path), Path(path).name
    peer = sentencepiece.SentencePieceProcessor(model_file=str(path))
    own = [p.piece for p in m.pieces if p.type == 4]
    plain, full = texts(picks=own) + own + [f" {t}  {t}a" for t in own], texts(picks=["<extra_id_1>", "</s>"])
    bad = check_json(name, unigram_json(m), full) + check_json(name + " as of old", unigram_json(m, old=True), full)
    with tempfile.TemporaryDirectory() as folder:
        gguf = Path(folder) / "x.gguf"
        unigram_gguf(m, gguf)
        got = ours(gguf, plain, special=True)
    return bad + compare(f"{name}, GGUF", plain, got, peer.encode, peer.decode)


RULES = "nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"
FLAGS = [{"remove_extra_whitespaces": False}, {"add_dummy_prefix": False}, {"byte_fallback": True},
         {"split_by_whitespace": False}, {"add_dummy_prefix": False, "remove_extra_whitespaces": False},
         {"user_defined_symbols": ["<sep>", "qu", "é!", " x ", "▁of"]}]  # fmt: skip


def train(folder, name, vocab, size, **more):
    import sentencepiece

    text = Path(folder) / "text"
    prose = (ROOT / "README.md").read_text() + (ROOT / "docs/ARCHITECTURE.md").read_text()
    text.write_text("\n".join(line[:3000] for line in (mixed(size, 7) + prose * 4).split("\n")))
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=f"{folder}/{name}", vocab_size=vocab, model_type="unigram", character_coverage=0.98,
        hard_vocab_limit=False, minloglevel=2, max_sentence_length=20000, **more)  # fmt: skip
    return f"{folder}/{name}.model"


def check_trained():
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for rule, more in [(r, {}) for r in RULES] + [("nmt_nfkc", f) for f in FLAGS]:
            name = "_".join([rule, *(f"{k}={v}" for k, v in more.items())])
            bad += check_model(train(folder, name, 8000, 1 << 17, normalization_rule_name=rule, **more))
    return bad


# -- data for the test that runs without packages
SMALL_RULES = ["ﬁ\tfi", "e\u0301\té", "\u3000\t ", "\u00a0\t ", "\u200b\t", "①\t1", "™\tTM", "ﾊﾞ\tバ", "か\u3099\tが",
               "\u1100\u1161\u11a8\t각", "\u1100\u1161\t가", "…\t...", "\r\n\t ", "\t\t ", "ﷲ\tالله", "A\ta", "\u0958\t\u0915\u093c"]  # fmt: skip
SMALL = ["The file ﬁnds ﬁ\u0301 it", "e\u0301te\u0301 é", " two  spaces\u3000here ", "a\r\nb\tc", "①② ™\u0301 ☺\u200d™\u0301", "ﾊﾞか\u3099",
         "\u1100\u1161\u11a8\u0301 \u1100\u1161", "wait…", "ﷲ", "\u0915\u094d\u0958\u0301", "zero\u200bwidth \u200b ", "AB <0x41> AAA"]  # fmt: skip


def small(path):
    import sentencepiece
    from tokenizers import Tokenizer

    out, lines = [], SMALL + [e for e in EDGES if len(e) < 100]
    with tempfile.TemporaryDirectory() as folder:
        rules = Path(folder) / "rules.tsv"
        rules.write_text("".join(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n"
                                 for a, b in (r.split("\t", 1) if r[0] != "\t" else ("\t", r[2:]) for r in SMALL_RULES)))
        for more in ({}, {"remove_extra_whitespaces": False}, {"add_dummy_prefix": False, "byte_fallback": True}):
            model = train(folder, "small", 600, 0, normalization_rule_tsv=str(rules), **more)
            m, peer = read_model(model), sentencepiece.SentencePieceProcessor(model_file=model)
            tokenizer, n = unigram_json(m), m.normalizer_spec
            hf = Tokenizer.from_str(tokenizer)
            out.append({
                "about": more, "tokenizer": json.loads(tokenizer), "types": [p.type for p in m.pieces],
                "space_prefix": n.add_dummy_prefix, "trim_spaces": n.remove_extra_whitespaces,
                "cases": [{"text": t, "ids": (i := hf.encode(t).ids), "decoded": hf.decode(i), "spm": peer.encode(t)} for t in lines],
            })  # fmt: skip
    about = "what tokenizers and sentencepiece make of small unigram models; written by tests/tokenizer/check.py --small"
    Path(path).write_text(json.dumps({"about": about, "models": out}, ensure_ascii=False, separators=(",", ":")) + "\n")
    return 0


def main():
    bad, names = 0, sys.argv[1:]
    if not names:
        sys.exit(__doc__)
    if names[0] == "--small":
        sys.exit(small(names[1]))
    for name in names:
        if name == "--train":
            bad += check_trained()
        elif name.endswith(".model"):
            bad += check_model(name)
        else:
            bad += check_json(name, Path(name).read_text(), texts())
    print(f"{bad} differ")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
