#!/usr/bin/env python3
"""Trains the predictors forest and mlp (runtime/cache/predict_forest.c, predict_mlp.c) on a routing trace.

    make replay
    tools/train_predictor.py TRACE --docs 0,1,2 [--hidden FILE] -o FILE
    lua5.4 build.lua MODEL HW --set predict=forest --set predictor=FILE ...

TRACE is MOETRC01 or MOETRC02 (`trace -o F.trace` writes the latter), --hidden what `trace --hidden` wrote
beside it.  What an expert is judged by is computed by the C code that the engine runs
(`replay --features`), so training and use cannot differ.  The layers are cut into groups; each gets a
forest and a small network.  With hidden states each layer and distance first gets a linear map from the hidden
state to its experts, of low rank; its answer is one more feature.

Needs numpy and scikit-learn.  The same inputs give the same file.
"""
import argparse
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import log_loss
from sklearn.neural_network import MLPClassifier

N_FEATURE = 9  # enum ig_pfeature
DISTANCES = (1, 2, 4, 8)


def read_trace(path):
    """Layers, experts, top-k, first row and rows of each document, expert ids [row][layer][rank]."""
    data = open(path, "rb").read()
    magic = data[:8]
    if magic == b"MOETRC02":
        docs, _, layers, experts, k, ndist = struct.unpack_from("<6I", data, 8)
        at = 32 + 4 * ndist
        tokens = [struct.unpack_from("<4I", data, at + 16 * d)[0] for d in range(docs)]
        rows, at = sum(tokens), at + 16 * docs + 4 * sum(tokens)
    elif magic == b"MOETRC01":
        rows, layers, experts, k, window, _ = struct.unpack_from("<6I", data, 8)
        tokens = [min(window, rows - i) for i in range(0, rows, window)]
        at = 32 + 4 * rows
    else:
        sys.exit(f"{path}: magic: want MOETRC01 or MOETRC02, got {magic!r}")
    ids = np.frombuffer(data, np.uint8, rows * layers * k, at).reshape(rows, layers, k)
    return layers, experts, k, np.concatenate([[0], np.cumsum(tokens)]), ids


def read_hidden(path, rows, layers):
    """[row][layer][width] floats."""
    data = open(path, "rb").read()
    if data[:8] != b"INGOTHID":
        sys.exit(f"{path}: magic: want INGOTHID, got {data[:8]!r}")
    n_row, n_layer, width, _ = struct.unpack_from("<4I", data, 8)
    if (n_row, n_layer) != (rows, layers) or len(data) != 24 + rows * layers * (4 + width):
        sys.exit(f"{path}: shape: want {rows} rows of {layers} layers, got {n_row} of {n_layer}")
    cell = np.dtype([("scale", "<f4"), ("x", "i1", width)])
    raw = np.frombuffer(data, cell, rows * layers, 24).reshape(rows, layers)
    return raw["x"].astype(np.float32) * raw["scale"][..., None]


def int8(w):
    """Weights of -127..127 and their scale."""
    scale = max(float(np.abs(w).max()) / 127, 1e-12)
    return np.rint(w / scale).astype(int), scale


def numbers(out, values, each=32):
    values = [f"{v:.9g}" if isinstance(v, float) else str(int(v)) for v in values]
    for i in range(0, len(values), each):
        out.append(" ".join(values[i:i + each]))


def floats(a):
    return [float(v) for v in np.asarray(a, np.float32).ravel()]


def train_linear(out, hidden, ids, experts, rows, rank, ridge):
    """Reduced-rank ridge regression of the choice, then logistic scaling of its score."""
    for layer in range(1, ids.shape[1]):
        y = np.zeros((len(rows), experts), np.float32)
        np.put_along_axis(y, ids[rows, layer].astype(int), 1, 1)
        for dist in (d for d in DISTANCES if d <= layer):
            x = hidden[rows, layer - dist]
            mean = y.mean(0)
            gram = x.T @ x + ridge * len(rows) * np.eye(x.shape[1], dtype=np.float32) * (x ** 2).mean()
            w = np.linalg.solve(gram, x.T @ (y - mean)).T                # [expert][width]
            r = min(rank, experts, x.shape[1])
            _, _, basis = np.linalg.svd(x @ w.T, full_matrices=False)   # of the fitted choices
            u, v = basis[:r].T, basis[:r] @ w
            vi, vs = int8(v)
            z = x @ vi.T * vs
            # One slope for all experts turns scores into log odds; Newton steps on the log loss.
            score, slope, bias = z @ u.T, 4.0, np.log((mean + 1e-4) / (1 - mean + 1e-4))
            for _ in range(20):
                p = 1 / (1 + np.exp(-(slope * score + bias)))
                slope += float(((y - p) * score).sum() / ((p * (1 - p)) * score ** 2 + 1e-6).sum())
                bias = bias + (y - p).sum(0) / ((p * (1 - p)).sum(0) + 1)
            ui, us = int8(u * slope)
            out.append(f"linear {layer} {dist} {r} {vs:.9g} {us:.9g}")
            numbers(out, floats(bias))
            numbers(out, vi.ravel())
            numbers(out, ui.ravel())


def tree_tables(tree, depth):
    """A complete tree: early leaves repeat below; the threshold 255 always goes left."""
    feature, threshold = [0] * (2 ** depth - 1), [255] * (2 ** depth - 1)
    leaf = [0] * 2 ** depth
    todo = [(0, 0)]
    while todo:
        at, node = todo.pop()
        if at >= len(feature):
            leaf[at - len(feature)] = round(255 * tree.value[node][0][1] / tree.value[node][0].sum())
        elif tree.children_left[node] < 0:
            todo += [(2 * at + 1, node), (2 * at + 2, node)]
        else:
            feature[at], threshold[at] = tree.feature[node], int(tree.threshold[node])
            todo += [(2 * at + 1, tree.children_left[node]), (2 * at + 2, tree.children_right[node])]
    return feature, threshold, leaf


def train_forest(out, first, last, x, y, args):
    forest = RandomForestClassifier(args.trees, max_depth=args.depth, min_samples_leaf=50, max_features=4,
                                    random_state=1, n_jobs=1).fit(x, y)
    out.append(f"forest {first} {last} {args.trees} {args.depth}")
    leaves = []
    for e in forest.estimators_:
        feature, threshold, leaf = tree_tables(e.tree_, args.depth)
        numbers(out, [v for pair in zip(feature, threshold) for v in pair])
        leaves += leaf
    numbers(out, leaves)
    return forest.predict_proba(x)[:, 1]


def train_mlp(out, first, last, x, y, args):
    net = MLPClassifier((args.width,) * args.hidden_layers, activation="relu", batch_size=512, max_iter=args.epochs,
                        learning_rate_init=2e-3, tol=0, n_iter_no_change=args.epochs, random_state=1)
    net.fit(x / np.float32(255), y)
    out.append(f"mlp {first} {last} {args.hidden_layers} {args.width}")
    quantised = [int8(w.T) for w in net.coefs_]
    numbers(out, [float(s) for _, s in quantised])
    numbers(out, [v for b in net.intercepts_ for v in floats(b)])
    for w, _ in quantised:
        numbers(out, w.ravel())
    return net.predict_proba(x / np.float32(255))[:, 1]


def features(args, text):
    """What `replay --features` writes with the linear parts so far: features, dist, layer, chosen."""
    with tempfile.TemporaryDirectory() as folder:
        partial, table = os.path.join(folder, "linear"), os.path.join(folder, "features")
        open(partial, "w").write("\n".join(text + ["end\n"]))
        command = [args.replay, args.trace, "--docs", args.docs, "--predictor", partial, "--features", table,
                   "--every", str(args.every)]
        if args.hidden:
            command += ["--hidden", args.hidden]
        subprocess.run(command, check=True)
        return np.fromfile(table, np.uint8).reshape(-1, N_FEATURE + 3)


def options():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("trace")
    p.add_argument("--docs", required=True, help="documents to train on, 0,1,...; keep the others to judge by")
    p.add_argument("--hidden")
    p.add_argument("--replay", default="out/tools/replay")
    p.add_argument("-o", "--out", required=True)
    p.add_argument("--every", type=int, default=4, help="train on every Nth token")
    p.add_argument("--groups", type=int, default=3, help="of layers")
    p.add_argument("--trees", type=int, default=16)
    p.add_argument("--depth", type=int, default=7)
    p.add_argument("--width", type=int, default=16)
    p.add_argument("--hidden-layers", type=int, default=2)
    p.add_argument("--epochs", type=int, default=6)
    p.add_argument("--rank", type=int, default=16)
    p.add_argument("--ridge", type=float, default=0.1)
    p.add_argument("--most", type=int, default=300000, help="examples of a group")
    return p.parse_args()


def main():
    args = options()
    layers, experts, k, first_row, ids = read_trace(args.trace)
    docs = [int(d) for d in args.docs.split(",")]
    rows = np.concatenate([np.arange(first_row[d], first_row[d + 1]) for d in docs])
    linear, width = [], 0
    if args.hidden:
        hidden = read_hidden(args.hidden, len(ids), layers)
        width = hidden.shape[2]
        train_linear(linear, hidden, ids, experts, rows, args.rank, args.ridge)
    head = ["ingot-predictor 1", f"shape {layers} {experts} {k} {width} {N_FEATURE}"]
    table = features(args, head + linear)
    out, groups = [], min(args.groups, layers)
    for g in range(groups):
        first, last = g * layers // groups, (g + 1) * layers // groups - 1
        rows_of = table[(table[:, -2] >= first) & (table[:, -2] <= last)]
        if len(rows_of) > args.most:
            rows_of = rows_of[np.random.default_rng(1).choice(len(rows_of), args.most, replace=False)]
        if len(np.unique(rows_of[:, -1])) < 2:
            continue
        x, y = rows_of[:, :N_FEATURE], rows_of[:, -1]
        for train in (train_forest, train_mlp):
            loss = log_loss(y, np.clip(train(out, first, last, x, y, args), 1e-6, 1 - 1e-6))
            print(f"layers {first}..{last}: {len(y)} examples, {100 * y.mean():.1f} % chosen, {train.__name__[6:]}: "
                  f"{loss:.4f} nats each", file=sys.stderr)
    whole = args.out + ".partial"  # an older file stays until this one is complete
    with open(whole, "w") as f:
        f.write("\n".join(head + linear + out + ["end\n"]))
    os.replace(whole, args.out)


main()
