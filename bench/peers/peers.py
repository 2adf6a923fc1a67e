#!/usr/bin/env python3
"""This engine and llama.cpp on the same GGUF files, runs interleaved.

    bench/peers/peers.py [-o peers.csv] [-d DIR] [-r ROUNDS] [--test decode|prefill] [--only prepare]
                         [--keep] [SHAPE:TYPE ...]

SHAPE is qwen3 or mixtral, TYPE one of q4_k q8_0 bf16 q4_0 q6_k mxfp4; default: all.  For each: the
GGUF file is written to DIR unless it is there, an engine is built for it and its weights are
packed, unless they are there (and removed again, without --keep); then ROUNDS (5) times each test in
turn by both programs.  The figures are medians; ratio is the peer's time over ours, with the least and
the largest of the rounds' own ratios; of_read is the share of the memory's read bandwidth that our
weights come at, measured in the same rounds.  `--only prepare` writes files and builds engines, with
--keep it packs too.

Needs llama-cpp-python, built from its source distribution with -march=native (its prebuilt
wheels know no AVX-512), and the packages gguf and numpy, in the Python that runs this.
"""

import argparse
import csv
import io
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TYPES = ("q4_k", "q8_0", "bf16", "q4_0", "q6_k", "mxfp4")
# Layers, so that both programs' weights are in memory together.
LAYERS = {"qwen3": 8, "mixtral": 4}
LAYERS_BF16 = {"qwen3": 4, "mixtral": 2}
PREFILL = (128, 512, 2048)
DECODE = 48
COLUMNS = ("shape", "type", "layers", "threads", "test", "tokens", "ms_ours", "ms_peer", "ratio", "ratio_min",
           "ratio_max", "tokens_per_s", "peer_tokens_per_s", "gb_per_s", "read_gb_per_s", "of_read", "rounds", "peer")  # fmt: skip


def say(*text):
    print(*text, file=sys.stderr, flush=True)


def prepare(shape, kind, folder):
    """GGUF file and engine; returns the paths of both and the layers."""
    layers = (LAYERS_BF16 if kind == "bf16" else LAYERS)[shape]
    name = f"{shape}-{kind}-{layers}l"
    gguf = folder / f"{name}.gguf"
    if not gguf.exists():
        say(f"{name}: writing {gguf}")
        part = gguf.with_suffix(".part")
        subprocess.run([sys.executable, HERE / "shape_gguf.py", shape, kind, str(layers), part], check=True)
        part.rename(gguf)
    lua = os.environ.get("LUA", "lua5.4")
    quiet = dict(cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    subprocess.run([lua, "build.lua", gguf, "this", "--set", f"id=peers-{name}"], **quiet)
    subprocess.run(["make", f"ID=peers-{name}", "build"], **quiet)
    out = ROOT / "out" / f"peers-{name}"
    binary = [l.split(":=")[1].strip() for l in (out / "build.mk").read_text().splitlines() if l.startswith("BINARY")]
    return gguf, out / binary[0], layers


def pack(binary, gguf, args):
    """The weights file of this engine's layout beside the GGUF file."""
    weights = args.dir / (gguf.stem + ".ingot")
    if weights.exists():
        said = subprocess.run([binary, "info", "--no-load", "-m", weights], capture_output=True, check=False)
        if said.returncode == 0:
            return weights
        weights.unlink()
    say(f"{gguf.stem}: packing")
    subprocess.run([binary, "pack", gguf, "-o", weights], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    os.sync()  # writing it back takes memory's time
    return weights


class Ours:
    def __init__(self, binary, weights, threads):
        self.command = [binary, "bench", "-m", weights, "-t", str(threads), "-r", "1", "-o", "csv"]

    def rows(self, prefill, decode):
        """Both tests of one run, after a round that bench itself does not count; a row's columns by test."""
        sizes = ["-p", str(prefill), "-n", str(decode)]
        text = subprocess.run(self.command + sizes, capture_output=True, text=True, check=True).stdout
        return {r["test"]: r for r in csv.DictReader(io.StringIO(text))}


class Peer:
    def __init__(self, gguf, threads):
        self.p = subprocess.Popen([sys.executable, HERE / "peer.py", gguf, str(threads)], text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
        self.build = self.p.stdout.readline().strip()
        if not self.build:
            sys.exit("peers.py: the peer did not start")

    def ms(self, what, n):
        self.p.stdin.write(f"{what} {n}\n")
        self.p.stdin.flush()
        return float(self.p.stdout.readline())

    def close(self):
        self.p.stdin.close()
        self.p.wait()


def rounds(ours, peer, args):
    """(test, tokens) -> rows of ours, milliseconds of the peer's."""
    tests = [("prefill", p) for p in PREFILL] if args.test != "decode" else []
    tests += [("decode", DECODE)] if args.test != "prefill" else []
    got = {t: [] for t in tests}
    for test, n in tests:  # the peer's first run of a size plans its graph
        peer.ms(test, n)
    for _ in range(args.rounds):
        for test, n in tests:
            mine = ours.rows(n if test == "prefill" else 0, n if test == "decode" else 0)
            got[test, n].append((mine[test], peer.ms(test, n)))
    return got


def row(shape, kind, layers, args, test, tokens, pairs, build):
    """A line of the table, and what is said meanwhile."""

    def of(column):
        return statistics.median(float(r[column]) for r, _ in pairs)

    a, b = of("ms_median"), statistics.median(p for _, p in pairs)
    each = [p / float(r["ms_median"]) for r, p in pairs]
    gbs, read = of("gb_per_s"), of("bound_gb_per_s")
    say(f"{shape} {kind} {test} {tokens}: {1e3 / a:.1f} t/s, peer {1e3 / b:.1f}, ratio {b / a:.2f}, "
        f"{gbs:.1f} of {read:.1f} GB/s")  # fmt: skip
    return (shape, kind, layers, args.threads, test, tokens, f"{a:.4f}", f"{b:.4f}", f"{b / a:.3f}",
            f"{min(each):.3f}", f"{max(each):.3f}", f"{1e3 / a:.1f}", f"{1e3 / b:.1f}", f"{gbs:.2f}",
            f"{read:.2f}", f"{gbs / read:.3f}", args.rounds, build)  # fmt: skip


def compare(shape, kind, args, out):
    gguf, binary, layers = prepare(shape, kind, args.dir)
    if args.only == "prepare":
        if args.keep:
            pack(binary, gguf, args)
        return
    weights = pack(binary, gguf, args)
    peer = Peer(gguf, args.threads)
    try:
        got = rounds(Ours(binary, weights, args.threads), peer, args)
    finally:
        peer.close()
        if not args.keep:
            weights.unlink()
    for (test, tokens), pairs in got.items():
        out.writerow(row(shape, kind, layers, args, test, tokens, pairs, peer.build))
        args.output.flush()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-o", "--output", type=argparse.FileType("w"), default=sys.stdout)
    p.add_argument("-d", "--dir", type=Path, default=ROOT / "out" / "peers")
    p.add_argument("-r", "--rounds", type=int, default=5)
    p.add_argument("-t", "--threads", type=int, default=os.cpu_count())
    p.add_argument("--test", choices=["decode", "prefill"])
    p.add_argument("--only", choices=["prepare"])
    p.add_argument("--keep", action="store_true")
    p.add_argument("cases", nargs="*", default=[f"{s}:{t}" for t in TYPES for s in LAYERS])
    args = p.parse_args()
    args.dir.mkdir(parents=True, exist_ok=True)
    out = csv.writer(args.output, lineterminator="\n")
    out.writerow(COLUMNS)
    for case in args.cases:
        shape, _, kind = case.partition(":")
        if shape not in LAYERS or kind not in TYPES:
            sys.exit(f"peers.py: {case}: want SHAPE:TYPE of {', '.join(LAYERS)} and {', '.join(TYPES)}")
        compare(shape, kind, args, out)


if __name__ == "__main__":
    main()
