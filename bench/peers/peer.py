#!/usr/bin/env python3
"""llama.cpp through llama-cpp-python, answering one measurement a line of input.

    peer.py FILE.gguf THREADS
    in:  prefill N | decode N        out: milliseconds a token (first: a line about the build)

Prompts go in calls of 512 tokens with batches of 512, decode one token a call from an empty
cache; only llama_decode and llama_synchronize are timed.
"""

import ctypes
import sys
import time

import llama_cpp as L

BATCH, CTX = 512, 4096


def fill(batch, ids, pos):
    batch.n_tokens = len(ids)
    for i, token in enumerate(ids):
        batch.token[i] = token
        batch.pos[i] = pos + i
        batch.n_seq_id[i] = 1
        batch.seq_id[i][0] = 0
        batch.logits[i] = i == len(ids) - 1


def timed(ctx, batch, n, step, vocab):
    ids = [(1 + i * 7919) % vocab for i in range(n)]
    L.llama_memory_clear(L.llama_get_memory(ctx), True)
    spent = 0.0
    for at in range(0, n, step):
        fill(batch, ids[at : at + step], at)
        t0 = time.perf_counter()
        rc = L.llama_decode(ctx, batch)
        L.llama_synchronize(ctx)
        spent += time.perf_counter() - t0
        if rc:
            sys.exit(f"peer.py: llama_decode: {rc}")
    return 1e3 * spent / n


def main():
    path, threads = sys.argv[1], int(sys.argv[2])
    quiet = L.llama_log_callback(lambda level, text, data: None)
    L.llama_log_set(quiet, ctypes.c_void_p(0))
    L.llama_backend_init()
    model = L.llama_model_load_from_file(path.encode(), L.llama_model_default_params())
    if not model:
        sys.exit(f"peer.py: {path}: llama.cpp does not load it")
    params = L.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch = CTX, BATCH, BATCH
    params.n_threads = params.n_threads_batch = threads
    ctx = L.llama_init_from_model(model, params)
    vocab = L.llama_vocab_n_tokens(L.llama_model_get_vocab(model))
    batch = L.llama_batch_init(BATCH, 0, 1)
    print(f"llama-cpp-python {L.__version__}: {L.llama_print_system_info().decode().strip()}", flush=True)
    for line in sys.stdin:
        what, n = line.split()
        print(timed(ctx, batch, int(n), BATCH if what == "prefill" else 1, vocab), flush=True)


if __name__ == "__main__":
    main()
