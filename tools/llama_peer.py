"""Two engines that answer with logits: llama.cpp through its C interface, and the binary under test.

For agree_llama.py.  Needs the packages llama-cpp-python, gguf and numpy.
"""

import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import llama_cpp as ll
import numpy as np

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
