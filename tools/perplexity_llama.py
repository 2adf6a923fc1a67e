#!/usr/bin/env python3
"""Perplexity of one model in every quantised type, by llama.cpp and by this engine, on the same GGUF files.

    perplexity_llama.py FOLDER TEXT -o OUT.tsv [--types Q8_0,Q4_K,...] [--hw this]

FOLDER is a Mixtral in Hugging Face layout.  llama.cpp's own quantiser writes the files, all matrices in the type (where
its blocks do not fit the columns, in the stand-in of llama.cpp); an engine is built for each.  Windows of 512 tokens,
each alone, the first token of each not predicted.  Exits 1 when some pair is more than 0.5 % apart.
Needs the packages llama-cpp-python, gguf and numpy.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import llama_cpp as ll
import numpy as np

from llama_peer import Llama

ROOT = Path(__file__).parent.parent
WINDOW = 512
# llama.cpp's numbers of file types
TYPES = {"F32": 0, "F16": 1, "BF16": 32, "Q8_0": 7, "Q6_K": 18, "Q5_K": 16, "Q5_1": 9, "Q5_0": 8, "Q4_K": 14, "Q4_1": 3,
         "Q4_0": 2, "IQ4_NL": 25, "IQ4_XS": 30, "MXFP4": 38, "Q3_K": 11, "Q2_K": 10}  # fmt: skip


def quantise(source, out, number):
    how = ll.llama_model_quantize_default_params()
    how.ftype, how.pure, how.nthread, how.allow_requantize = number, True, 1, True
    if ll.llama_model_quantize(str(source).encode(), str(out).encode(), how) != 0:
        sys.exit(f"{out}: llama_model_quantize failed")


def theirs(path, text):
    model = Llama(path, positions=WINDOW)
    ids, loss, n = model.ids(text), 0.0, 0
    if ids[0] == ll.llama_vocab_bos(model.vocab):
        ids = ids[1:]
    for at in range(0, len(ids) - 1, WINDOW):
        part = ids[at : at + WINDOW]
        rows = model.logits(part)[:-1].astype(np.float64)
        top = rows.max(1)
        loss += (np.log(np.exp(rows - top[:, None]).sum(1)) + top - rows[np.arange(len(rows)), part[1:]]).sum()
        n += len(rows)
    return np.exp(loss / n), n


def ours(path, name, hw, text):
    run = lambda *a: subprocess.run(a, cwd=ROOT, check=True, capture_output=True, text=True).stdout  # noqa: E731
    run("lua5.4", "build.lua", str(path), hw, "--out", "out/perplexity", "--set", "id=" + name, "--set", f"ctx={WINDOW}")
    run("make", f"ID=perplexity/{name}", "build")
    binary = ROOT / "out/perplexity" / name / path.stem
    weights = path.with_suffix(".ingot")
    run(str(binary), "pack", str(path), "-o", str(weights))
    words = run(str(binary), "eval", "-m", str(weights), "-f", str(text.resolve())).split()
    weights.unlink()
    return float(words[1].rstrip(",")), int(words[words.index("over") + 1])


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("folder", type=Path)
    a.add_argument("text", type=Path)
    a.add_argument("-o", required=True)
    a.add_argument("--types", default=",".join(TYPES))
    a.add_argument("--hw", default="this")
    a = a.parse_args()
    quiet = ll.llama_log_callback(lambda *_: None)
    ll.llama_log_set(quiet, None)
    far = False
    with tempfile.TemporaryDirectory() as folder, open(a.o, "w") as out:
        source = Path(folder) / "source.gguf"
        subprocess.run([sys.executable, ROOT / "tools/make_gguf.py", a.folder, source, "--lossless"], check=True)
        for file in (out, sys.stdout):
            print("type", "tokens", "llama.cpp", "ingot", "apart %", sep="\t", file=file)
        for name in a.types.split(","):
            path = Path(folder) / f"{name}.gguf"
            quantise(source, path, TYPES[name])
            (peer, n), (mine, m) = theirs(path, a.text.read_text()), ours(path, name, a.hw, a.text)
            if n != m:
                sys.exit(f"{name}: want the same tokens, got {n} and {m}")
            apart = 100 * (mine / peer - 1)
            far |= abs(apart) > 0.5
            for file in (out, sys.stdout):
                print(name, n, f"{peer:.4f}", f"{mine:.4f}", f"{apart:+.3f}", sep="\t", file=file, flush=True)
            path.unlink()
    sys.exit(bool(far))


if __name__ == "__main__":
    main()
