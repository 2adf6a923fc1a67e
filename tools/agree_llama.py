#!/usr/bin/env python3
"""Compare an engine's greedy texts and logits with llama.cpp's on one GGUF file, and llama.cpp with itself.

    agree_llama.py BINARY WEIGHTS FILE.gguf [--f32 BINARY WEIGHTS] [-n TOKENS] [--prompts FILE] [--text FILE [--most TOKENS]] -o OUT

BINARY is the engine built for FILE.gguf, WEIGHTS what it packed of it; --f32: the same with quant=f32.  Two engines
that round at different places part where two tokens are nearly equal, so a text that differs says little.  Measured:

  texts     greedy texts equal to llama.cpp's default settings, for this engine and for llama.cpp under other
            settings (batch 1, no flash attention, KV in F32, both, kernels without repacking) and with the same
            weights as F32 (written by the public gguf package), which is the nearest to exact here
  forced    along llama.cpp's and this engine's text: positions where both would choose the same token
  splits    where they would not: each one's gap between its two candidates, and the distance of their logits there
            (standard deviation of the difference over the vocabulary)
  text      along a text that neither wrote, in windows of 512: next tokens equal to llama.cpp's and to F32's,
            perplexity, and how close llama.cpp's two best are where the choice differs, and everywhere

Writes texts.tsv and splits.tsv (not with -n 0) and, with --text, text.tsv.  Needs the packages llama-cpp-python, gguf and numpy.
"""

import argparse
import tempfile
from pathlib import Path

import llama_cpp as ll
import numpy as np

from llama_peer import F32, OFF, Engine, Llama, as_f32

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

def first_difference(a, b):
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), len(a))


def distance(a, b):
    """Of rows of logits: a constant added to all changes no choice."""
    return np.std(a.astype(np.float64) - b, axis=-1)


def nll(rows, next_ids):
    rows = rows.astype(np.float64)
    top = rows.max(1)
    return (np.log(np.exp(rows - top[:, None]).sum(1)) + top - rows[np.arange(len(rows)), next_ids]).sum()


def along_text(engines, ids, out, window=512):
    loss, choice = {name: 0.0 for name in engines}, {name: [] for name in engines}
    gap = []  # between llama.cpp's two best
    for at in range(0, len(ids) - 1, window):
        part = ids[at : at + window]
        for name, e in engines.items():
            rows = e.logits(part)[:-1]
            loss[name] += nll(rows, part[1:])
            choice[name].append(rows.argmax(1))
            if name == "llama.cpp":
                best = np.partition(rows, -2, axis=1)[:, -2:]
                gap.append(best[:, 1] - best[:, 0])
    choice, gap = {name: np.concatenate(c) for name, c in choice.items()}, np.concatenate(gap)
    with open(out / "text.tsv", "w") as f:
        print("engine", "positions", "equal to llama.cpp", "per cent", "equal to F32", "per cent", "perplexity",
              "median gap where it differs", "largest", "median gap of all", sep="\t", file=f)  # fmt: skip
        for name in engines:
            same, exact = choice[name] == choice["llama.cpp"], choice[name] == choice["llama.cpp F32"]
            apart = gap[~same]
            print(name, len(gap), same.sum(), "%.2f" % (100 * same.mean()), exact.sum(), "%.2f" % (100 * exact.mean()),
                  "%.4f" % np.exp(loss[name] / len(gap)),
                  *("%.4f" % x for x in ((np.median(apart), apart.max()) if len(apart) else (0, 0))),
                  "%.4f" % np.median(gap), sep="\t", file=f)  # fmt: skip


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
    a.add_argument("--most", type=int, default=4096)
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
        if a.text:
            along_text(engines, engines["llama.cpp"].ids(Path(a.text).read_text())[: a.most], out)
            print((out / "text.tsv").read_text())
        if a.n:
            compare(engines, prompts, a.n, out)


def compare(engines, prompts, n, out):
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
              "equal tokens", sep="\t", file=f)  # fmt: skip
        for name in engines:
            row = (name, sum(x == n for x in firsts[name]), len(prompts), *same[name],
                   *("%.4f" % np.concatenate(d).mean() for d in far[name]),
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
