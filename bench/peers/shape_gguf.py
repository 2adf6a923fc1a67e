#!/usr/bin/env python3
"""Write a GGUF file of a real model's shape with random weights, for speed comparisons.

    shape_gguf.py SHAPE TYPE LAYERS OUT.gguf     e.g. qwen3 Q4_K 8 out.gguf

SHAPE is qwen3 (Qwen3-30B-A3B) or mixtral (Mixtral 8x7B).  Every matrix is of TYPE but the
router, which is F32 as converters leave it.  Blocks are random bytes with scales that give
weights of about 0.02; one stretch of them, over and over at other offsets, makes a tensor.
Needs the packages gguf and numpy.
"""

import sys

import gguf
import numpy as np

T = gguf.GGMLQuantizationType
STRETCH = 8 << 20  # bytes; no cache of a core holds them
STD = 0.02
SHAPES = {
    "qwen3": dict(arch="qwen3moe", embd=2048, heads=32, kv=4, dim=128, ff=768, experts=128, used=8,
                  vocab=151936, ctx=40960, theta=1e6, eps=1e-6, qk_norm=True),
    "mixtral": dict(arch="llama", embd=4096, heads=32, kv=8, dim=128, ff=14336, experts=8, used=2,
                    vocab=32000, ctx=32768, theta=1e6, eps=1e-5, qk_norm=False),
}  # fmt: skip


def half(x):
    return np.frombuffer(np.float16(x).tobytes(), dtype=np.uint8)


def blocks(kind, rng):
    """A stretch of whole blocks; scales are what makes codes of this type about STD wide."""
    if kind == T.BF16:
        x = rng.standard_normal(STRETCH // 2).astype(np.float32) * STD
        return (x.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    size = gguf.GGML_QUANT_SIZES[kind][1]
    b = rng.integers(0, 256, (STRETCH // size, size), dtype=np.uint8)
    if kind == T.Q8_0:
        b[:, 0:2] = half(STD / 73)
    elif kind == T.Q4_0:
        b[:, 0:2] = half(STD / 4.6)
    elif kind == T.Q4_K:  # sub-scales and minima of about 31 a side
        b[:, 0:2] = half(STD / 4.6 / 31)
        b[:, 2:4] = half(STD / 4.6 / 31 * 7.5)
    elif kind == T.Q6_K:  # sub-scales -128 .. 127
        b[:, 208:210] = half(STD / 18 / 73)
    elif kind == T.MXFP4:
        b[:, 0] = 120
    else:
        sys.exit(f"{kind.name}: want BF16, Q8_0, Q4_0, Q4_K, Q6_K or MXFP4")
    return b.reshape(-1)


class Writer:
    def __init__(self, path, s, kind, layers):
        self.out = gguf.GGUFWriter(path, s["arch"])
        self.kind, self.todo = kind, []
        self.rng = np.random.default_rng(1)
        self.stretch = blocks(kind, self.rng)
        self.block = gguf.GGML_QUANT_SIZES[kind]
        self.meta(s, layers)

    def meta(self, s, layers):
        o = self.out
        o.add_name("shape")
        o.add_block_count(layers)
        o.add_context_length(s["ctx"])
        o.add_embedding_length(s["embd"])
        o.add_feed_forward_length(s["ff"])
        o.add_expert_feed_forward_length(s["ff"])
        o.add_head_count(s["heads"])
        o.add_head_count_kv(s["kv"])
        o.add_key_length(s["dim"])
        o.add_value_length(s["dim"])
        o.add_rope_dimension_count(s["dim"])
        o.add_rope_freq_base(s["theta"])
        o.add_layer_norm_rms_eps(s["eps"])
        o.add_expert_count(s["experts"])
        o.add_expert_used_count(s["used"])
        o.add_vocab_size(s["vocab"])
        o.add_tokenizer_model("none")

    def matrix(self, name, *shape):
        count = int(np.prod(shape))
        size = count // self.block[0] * self.block[1]
        self.out.add_tensor_info(name, shape[:-1] + (shape[-1] // self.block[0] * self.block[1],)
                                 if self.kind != T.BF16 else shape,
                                 np.dtype(np.uint8 if self.kind != T.BF16 else np.uint16), size, raw_dtype=self.kind)
        self.todo.append(size)

    def floats(self, name, array):
        self.out.add_tensor_info(name, array.shape, array.dtype, array.nbytes)
        self.todo.append(array)

    def bytes_of(self, size):
        """`size` bytes of the stretch from a block in it on."""
        start = int(self.rng.integers(0, len(self.stretch) // self.block[1])) * self.block[1]
        parts, at = [], start
        while size:
            n = min(size, len(self.stretch) // self.block[1] * self.block[1] - at)
            parts.append(self.stretch[at : at + n])
            size, at = size - n, 0
        return parts

    def write(self):
        self.out.write_header_to_file()
        self.out.write_kv_data_to_file()
        self.out.write_ti_data_to_file()
        f = self.out.fout[0]
        f.write(b"\0" * (-f.tell() % self.out.data_alignment))
        for item in self.todo:
            parts = self.bytes_of(item) if isinstance(item, int) else [item]
            n = sum(f.write(p.tobytes()) for p in parts)
            f.write(b"\0" * (-n % self.out.data_alignment))
        self.out.close()


def main():
    if len(sys.argv) != 5 or sys.argv[1] not in SHAPES:
        sys.exit(__doc__)
    s, kind, layers = SHAPES[sys.argv[1]], T[sys.argv[2].upper()], int(sys.argv[3])
    w = Writer(sys.argv[4], s, kind, layers)
    ones = lambda n: np.ones(n, dtype=np.float32)  # noqa: E731
    w.matrix("token_embd.weight", s["vocab"], s["embd"])
    for i in range(layers):
        at, q, kv = f"blk.{i}.", s["heads"] * s["dim"], s["kv"] * s["dim"]
        w.floats(at + "attn_norm.weight", ones(s["embd"]))
        w.matrix(at + "attn_q.weight", q, s["embd"])
        w.matrix(at + "attn_k.weight", kv, s["embd"])
        w.matrix(at + "attn_v.weight", kv, s["embd"])
        w.matrix(at + "attn_output.weight", s["embd"], q)
        if s["qk_norm"]:
            w.floats(at + "attn_q_norm.weight", ones(s["dim"]))
            w.floats(at + "attn_k_norm.weight", ones(s["dim"]))
        w.floats(at + "ffn_norm.weight", ones(s["embd"]))
        router = w.rng.standard_normal((s["experts"], s["embd"])).astype(np.float32)
        w.floats(at + "ffn_gate_inp.weight", router * np.float32(STD))
        for part in ("gate", "up"):
            w.matrix(at + f"ffn_{part}_exps.weight", s["experts"], s["ff"], s["embd"])
        w.matrix(at + "ffn_down_exps.weight", s["experts"], s["embd"], s["ff"])
    w.floats("output_norm.weight", ones(s["embd"]))
    w.matrix("output.weight", s["vocab"], s["embd"])
    w.write()


if __name__ == "__main__":
    main()
