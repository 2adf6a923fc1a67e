#!/usr/bin/env python3
"""Write tests/data/quants.bin: blocks of every GGUF type and what they mean.

Needs the public `gguf` package (pip install gguf), whose numpy code is the
reference; the tests themselves need only the file.

  records:  char name[8]; u32 columns, block_bytes, quantised_bytes;
            u8 block[block_bytes]; f32 value[columns];        blocks -> values
            f32 input[columns], u8 quantised[quantised_bytes] values -> blocks,
                                    absent where quantised_bytes is 0
"""
import struct
import sys

import gguf
import numpy as np

COLUMNS = 512
TYPES = "Q8_0 Q4_0 Q4_K Q6_K Q5_K MXFP4 Q4_1 Q5_0 Q5_1 IQ4_NL Q3_K Q2_K IQ4_XS".split()
# Where f16 numbers are in a block; random bytes there could be infinities.
HALVES = {"Q2_K": (80, 82), "Q3_K": (108,), "Q6_K": (208,), "Q4_K": (0, 2), "Q5_K": (0, 2),
          "Q4_1": (0, 2), "Q5_1": (0, 2), "MXFP4": ()}


def main(path):
    rng = np.random.default_rng(7)
    with open(path, "wb") as out:
        for name in TYPES:
            kind = getattr(gguf.GGMLQuantizationType, name)
            block, size = gguf.GGML_QUANT_SIZES[kind]
            n = COLUMNS // block
            raw = rng.integers(0, 256, (n, size), dtype=np.uint8)
            for at in HALVES.get(name, (0,)):
                scale = (rng.standard_normal(n) * 2.0 ** rng.integers(-20, 8, n)).astype(np.float16)
                raw[:, at:at + 2] = scale[:, None].view(np.uint8)
            if name == "MXFP4":
                raw[:4, 0] = (0, 1, 2, 254)
            with np.errstate(over="ignore"):
                values = gguf.quants.dequantize(raw.reshape(-1), kind).astype("<f4").reshape(-1)
            given, quantised = b"", b""
            try:
                x = (rng.standard_normal(COLUMNS) * 0.1).astype("<f4")
                x[32:64] = 0
                x[64:96] *= 1e-6
                x[96:128] = np.abs(x[96:128])
                quantised = gguf.quants.quantize(x, kind).tobytes()
                given = x.tobytes()
            except NotImplementedError:
                pass
            out.write(name.lower().encode().ljust(8, b"\0"))
            out.write(struct.pack("<3I", COLUMNS, raw.size, len(quantised)))
            out.write(raw.tobytes() + values.tobytes() + given + quantised)


main(sys.argv[1] if len(sys.argv) > 1 else "tests/data/quants.bin")
