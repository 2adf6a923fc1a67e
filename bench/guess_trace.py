#!/usr/bin/env python3
"""A route CSV -> MOETRC02 with predictions of a stated accuracy:  bench/guess_trace.py ROUTE.csv OUT.trace

For `bench --route`, where weights are random and a router's guess would mean nothing.  Of rank r so many per
cent are right at distances 1, 2 and 4 as next-router's of a trained model: RIGHT, whose means are
77, 68 and 55 % as measured on the trace of docs/POLICIES.md.  A wrong guess is another expert, one that was
used lately the likelier (uses fade with a half-life of 16 tokens).  Same input, same output.
"""
import random
import struct
import sys

DISTANCE = (1, 2, 4)
RIGHT = ((97, 90, 82, 74, 66, 55), (92, 82, 72, 63, 54, 44), (81, 68, 57, 48, 41, 35))
FADE, NEW = 0.5 ** (1 / 16), 0.05  # of an expert that was never used


def read(path):
    shape, rows = {}, {}
    for line in open(path):
        if line.startswith("#"):
            shape.update(w.split("=", 1) for w in line[1:].split() if "=" in w)
        elif line[0].isdigit():
            f = line.split(",")
            rows.setdefault((int(f[0]), int(f[2])), {}).setdefault(int(f[3]), []).append((int(f[5]), float(f[6])))
    return int(shape["n_layer"]), int(shape["n_expert"]), int(shape["n_expert_used"]), list(rows.values())


def guess(rng, chosen, right, use):
    out = []
    for rank, (e, _) in enumerate(chosen):
        if 100 * rng.random() >= right[min(rank, len(right) - 1)]:
            others = [x for x in range(len(use)) if x not in out and all(x != c for c, _ in chosen)]
            e = rng.choices(others, [use[x] + NEW for x in others])[0]
        out.append(e)
    return out


def main(source, target):
    n_layer, n_expert, k, rows = read(source)
    rng = random.Random(1)
    use = [[0.0] * n_expert for _ in range(n_layer)]
    ids, weights, guesses = bytearray(), bytearray(), [bytearray() for _ in DISTANCE]
    for row in rows:
        for layer in range(n_layer):
            chosen = row.get(layer, [(e, 1.0) for e in range(k)])[:k]
            whole = sum(w for _, w in chosen) or 1.0
            ids += bytes(e for e, _ in chosen)
            weights += bytes(min(255, round(255 * w / whole)) for _, w in chosen)
            for d, to in enumerate(guesses):
                to += bytes([255] * k if layer < DISTANCE[d] else guess(rng, chosen, RIGHT[d], use[layer]))
            use[layer] = [u * FADE for u in use[layer]]
            for e, _ in chosen:
                use[layer][e] += 1
    with open(target, "wb") as f:
        f.write(b"MOETRC02" + struct.pack("<6I", 1, len(rows), n_layer, n_expert, k, len(DISTANCE)))
        f.write(struct.pack("<3I", *DISTANCE) + struct.pack("<4I", len(rows), 0, 0, 0))
        f.write(struct.pack("<%dI" % len(rows), *range(len(rows))) + ids + weights + b"".join(guesses))


main(*sys.argv[1:])
