#!/usr/bin/env python3
"""Compare an engine's greedy texts and logits with llama.cpp's on one GGUF file, and llama.cpp with itself.

    agree_llama.py BINARY WEIGHTS FILE.gguf [--f32 BINARY WEIGHTS] [-n TOKENS] [--prompts FILE] [--text FILE] -o OUT

BINARY is the engine built for FILE.gguf, WEIGHTS what it packed of it; --f32: the same with quant=f32.  Two engines
that round at different places part where two tokens are nearly equal, so a text that differs says little.  Measured:

  texts     greedy texts equal to llama.cpp's default settings, for this engine and for llama.cpp under other
            settings (batch 1, no flash attention, KV in F32, both, kernels without repacking) and with the same
            weights as F32 (written by the public gguf package), which is the nearest to exact here
  forced    along llama.cpp's and this engine's text: positions where both would choose the same token
  splits    where they would not: each one's gap between its two candidates, and the distance of their logits there
            (standard deviation of the difference over the vocabulary)

Writes texts.tsv and splits.tsv.  Needs the packages llama-cpp-python, gguf and numpy.
"""

import argparse
import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import llama_cpp as ll
import numpy as np

PROMPTS = """The capital of France is
Once upon a time, there was a
def fibonacci(n):
The three laws of motion are
Water boils at
In 1969, the first man
To bake a simple loaf of bread, you need
The difference between a virus and a bacterium is
Dear Sir or Madam,
1, 1, 2, 3, 5, 8,
The sun rises in the
My favourite book is
"""

F32, F16 = 0, 1  # llama.cpp's numbers of KV types
OFF, AUTO = 0, -1  # of flash attention


class Llama:
    """One model under one choice of settings."""

    def __init__(self, path, batch=512, flash=AUTO, kv=F16, repack=True, positions=1024):
        model = ll.llama_model_default_params()
        model.use_extra_bufts = repack
        self.model = ll.llama_model_load_from_file(str(path).encode(), model)
        c = ll.llama_context_default_params()
        c.n_ctx, c.n_batch, c.n_ubatch, c.n_threads, c.n_threads_batch = positions, batch, batch, 1, 1
        c.flash_attn_type, c.type_k, c.type_v = flash, kv, kv
        self.context, self.batch = ll.llama_init_from_model(self.model, c), batch
        self.vocab = ll.llama_model_get_vocab(self.model)
        self.n_vocab = ll.llama_vocab_n_tokens(self.vocab)

    def ids(self, text):
        raw = text.encode()
        out = (ll.llama_token * (len(raw) + 8))()
        return list(out[: ll.llama_tokenize(self.vocab, raw, len(raw), out, len(out), True, True)])

    def feed(self, ids, position):
        rows = []
        for at in range(0, len(ids), self.batch):
            part = ids[at : at + self.batch]
            b = ll.llama_batch_init(len(part), 0, 1)
            b.n_tokens = len(part)
            for k, token in enumerate(part):
                b.token[k], b.pos[k], b.n_seq_id[k], b.logits[k] = token, position + at + k, 1, 1
                b.seq_id[k][0] = 0
            if ll.llama_decode(self.context, b) != 0:
                sys.exit("llama_decode failed")
            for k in range(len(part)):
                rows.append(np.ctypeslib.as_array(ll.llama_get_logits_ith(self.context, k), (self.n_vocab,)).copy())
            ll.llama_batch_free(b)
        return np.array(rows)

    def logits(self, ids):
        ll.llama_memory_clear(ll.llama_get_memory(self.context), True)
        return self.feed(ids, 0)

    def greedy(self, ids, n):
        out = [int(self.logits(ids)[-1].argmax())]
        while len(out) < n:
            out.append(int(self.feed(out[-1:], len(ids) + len(out) - 1)[0].argmax()))
        return out


class Engine:
    """The binary under test, asked through its command line."""

    def __init__(self, binary, weights):
        self.command = [binary, "eval", "-m", weights, "-t", "1"]

    def run(self, ids, *more):
        with tempfile.TemporaryDirectory() as folder:
            out = folder + "/dump"
            subprocess.run(
                [*self.command, "--tokens", ",".join(map(str, ids)), "--dump", out, *more],
                check=True, capture_output=True,
            )  # fmt: skip
            return tensors(Path(out).read_bytes())

    def logits(self, ids):
        return self.run(ids)["logits"]

    def greedy(self, ids, n):
        return [int(t) for t in self.run(ids, "--greedy", str(n))["greedy.tokens"].reshape(-1)]


def tensors(data):
    end = 8 + struct.unpack("<Q", data[:8])[0]
    out = {}
    for name, t in json.loads(data[8:end]).items():
        if name in ("logits", "greedy.tokens"):
            lo, hi = t["data_offsets"]
            out[name] = np.frombuffer(data[end + lo : end + hi], {"F32": "<f4", "I32": "<i4"}[t["dtype"]])
            out[name] = out[name].reshape(t["shape"])
    return out


def as_f32(source, out):
    """The same model with every tensor dequantised."""
    r = gguf.GGUFReader(source)
    w = gguf.GGUFWriter(out, r.fields["general.architecture"].contents())
    for f in r.fields.values():
        if not f.name.startswith("GGUF.") and f.name != "general.architecture":
            item = f.types[1] if f.types[0] == gguf.GGUFValueType.ARRAY else None
            w.add_key_value(f.name, f.contents(), f.types[0], item)
    for t in r.tensors:
        values = gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32)
        w.add_tensor(t.name, values.reshape([int(n) for n in reversed(t.shape)]))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return out


def first_difference(a, b):
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), len(a))


def distance(a, b):
    """Of rows of logits: a constant added to all changes no choice."""
    return np.std(a.astype(np.float64) - b, axis=-1)


def perplexity(engine, ids, window=512):
    loss, n = 0.0, 0
    for at in range(0, len(ids) - 1, window):
        part = ids[at : at + window]
        if len(part) < 2:
            break
        rows = engine.logits(part)[:-1].astype(np.float64)
        top = rows.max(1)
        loss += (np.log(np.exp(rows - top[:, None]).sum(1)) + top - rows[np.arange(len(rows)), part[1:]]).sum()
        n += len(rows)
    return np.exp(loss / n)


def split_rows(prompt, kind, start, seq, rows):
    """Positions from `start` on where llama.cpp and the engine choose differently along `seq`."""
    out = []
    l, e, f = rows["llama.cpp"], rows["engine"], rows["llama.cpp F32"]
    for p in range(start, len(seq)):
        i, j = int(l[p].argmax()), int(e[p].argmax())
        if i != j:
            exact = int(f[p].argmax())
            side = "llama.cpp" if exact == i else "engine" if exact == j else "neither"
            out.append((prompt, kind, p, l[p][i] - l[p][j], e[p][j] - e[p][i], f[p][i] - f[p][j],
                        distance(l[p], e[p]), distance(l[p], f[p]), distance(e[p], f[p]), side))  # fmt: skip
    return out


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("binary", "weights", "gguf"):
        a.add_argument(name)
    a.add_argument("-n", type=int, default=64)
    a.add_argument("--f32", nargs=2, metavar=("BINARY", "WEIGHTS"))
    a.add_argument("--prompts")
    a.add_argument("--text")
    a.add_argument("-o", required=True)
    a = a.parse_args()
    prompts = (Path(a.prompts).read_text() if a.prompts else PROMPTS).splitlines()
    quiet = ll.llama_log_callback(lambda *_: None)
    ll.llama_log_set(quiet, None)
    out = Path(a.o)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        exact = as_f32(a.gguf, folder + "/f32.gguf")
        engines = {
            "llama.cpp": Llama(a.gguf), "engine": Engine(a.binary, a.weights), "batch 1": Llama(a.gguf, batch=1),
            "no flash attention": Llama(a.gguf, flash=OFF), "F32 KV": Llama(a.gguf, kv=F32),
            "F32 KV, no flash attention": Llama(a.gguf, kv=F32, flash=OFF), "no repacking": Llama(a.gguf, repack=False),
            "llama.cpp F32": Llama(exact, kv=F32, flash=OFF), "llama.cpp F32, F16 KV": Llama(exact),
        }  # fmt: skip
        if a.f32:
            engines["engine F32"] = Engine(*a.f32)
        compare(engines, prompts, a.n, out, Path(a.text).read_text() if a.text else None)


def compare(engines, prompts, n, out, text):
    base, splits = engines["llama.cpp"], []
    firsts = {name: [] for name in engines}
    same = {name: [0, 0] for name in engines}  # choices equal to the default settings', along its text; of how many
    far = {name: [[], []] for name in engines}  # distance to the default settings, to F32
    for prompt in prompts:
        ids = base.ids(prompt)
        texts = {name: e.greedy(ids, n) for name, e in engines.items()}
        for name in engines:
            firsts[name].append(first_difference(texts[name], texts["llama.cpp"]))
        for kind in ("llama.cpp", "engine"):
            seq = ids + texts[kind][:-1]
            rows = {name: e.logits(seq) for name, e in engines.items()}
            splits += split_rows(prompt, kind, len(ids) - 1, seq, rows)
            for name, r in rows.items():
                r = r[len(ids) - 1 :]
                same[name][0] += int((r.argmax(1) == rows["llama.cpp"][len(ids) - 1 :].argmax(1)).sum())
                same[name][1] += len(r)
                far[name][0].append(distance(r, rows["llama.cpp"][len(ids) - 1 :]))
                far[name][1].append(distance(r, rows["llama.cpp F32"][len(ids) - 1 :]))
    with open(out / "texts.tsv", "w") as f:
        print("engine", "texts equal", "of", "forced equal", "of", "distance to llama.cpp", "distance to F32",
              "perplexity", "equal tokens", sep="\t", file=f)  # fmt: skip
        for name, e in engines.items():
            row = (name, sum(x == n for x in firsts[name]), len(prompts), *same[name],
                   *("%.4f" % np.concatenate(d).mean() for d in far[name]),
                   "%.4f" % perplexity(e, base.ids(text)) if text else "-",
                   " ".join(map(str, firsts[name])))  # fmt: skip
            print(*row, sep="\t", file=f)
    with open(out / "splits.tsv", "w") as f:
        print("prompt", "along", "position", "gap llama.cpp", "gap engine", "gap F32", "distance", "llama.cpp to F32",
              "engine to F32", "F32 sides with", sep="\t", file=f)  # fmt: skip
        for s in splits:
            print(*s[:3], *("%.4f" % x for x in s[3:9]), s[9], sep="\t", file=f)
    print((out / "texts.tsv").read_text() + "\n" + (out / "splits.tsv").read_text(), end="")


if __name__ == "__main__":
    main()
