-- gen/gguf_types.lua -- the tensor and value types of GGUF: id, name, block, bytes.

local M = {}

-- fmt: the engine's format of the same bits; types without one are refused by name.
M.tensor = {
  [0] = { name = "F32",  block = 1,   bytes = 4,  fmt = "f32" },
  [1] = { name = "F16",  block = 1,   bytes = 2,  fmt = "f16" },
  [2] = { name = "Q4_0", block = 32,  bytes = 18, fmt = "q4_0" },
  [3] = { name = "Q4_1", block = 32,  bytes = 20, fmt = "q4_1" },
  [6] = { name = "Q5_0", block = 32,  bytes = 22, fmt = "q5_0" },
  [7] = { name = "Q5_1", block = 32,  bytes = 24, fmt = "q5_1" },
  [8] = { name = "Q8_0", block = 32,  bytes = 34, fmt = "q8_0" },
  [9] = { name = "Q8_1", block = 32,  bytes = 36 },
  [10] = { name = "Q2_K", block = 256, bytes = 84, fmt = "q2_k" },
  [11] = { name = "Q3_K", block = 256, bytes = 110, fmt = "q3_k" },
  [12] = { name = "Q4_K", block = 256, bytes = 144, fmt = "q4_k" },
  [13] = { name = "Q5_K", block = 256, bytes = 176, fmt = "q5_k" },
  [14] = { name = "Q6_K", block = 256, bytes = 210, fmt = "q6_k" },
  [15] = { name = "Q8_K", block = 256, bytes = 292 },
  [16] = { name = "IQ2_XXS", block = 256, bytes = 66 },
  [17] = { name = "IQ2_XS",  block = 256, bytes = 74 },
  [18] = { name = "IQ3_XXS", block = 256, bytes = 98 },
  [19] = { name = "IQ1_S",   block = 256, bytes = 50 },
  [20] = { name = "IQ4_NL",  block = 32,  bytes = 18, fmt = "iq4_nl" },
  [21] = { name = "IQ3_S",   block = 256, bytes = 110 },
  [22] = { name = "IQ2_S",   block = 256, bytes = 82 },
  [23] = { name = "IQ4_XS",  block = 256, bytes = 136, fmt = "iq4_xs" },
  [24] = { name = "I8",  block = 1, bytes = 1 },
  [25] = { name = "I16", block = 1, bytes = 2 },
  [26] = { name = "I32", block = 1, bytes = 4 },
  [27] = { name = "I64", block = 1, bytes = 8 },
  [28] = { name = "F64", block = 1, bytes = 8 },
  [29] = { name = "IQ1_M", block = 256, bytes = 56 },
  [30] = { name = "BF16",  block = 1,   bytes = 2, fmt = "bf16" },
  [34] = { name = "TQ1_0", block = 256, bytes = 54 },
  [35] = { name = "TQ2_0", block = 256, bytes = 66 },
  [39] = { name = "MXFP4", block = 32,  bytes = 17, fmt = "mxfp4" },
}

-- For messages: what `fmt` above lists.
M.SUPPORTED = "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K to Q6_K, IQ4_NL, IQ4_XS or MXFP4"

M.STRING, M.ARRAY, M.BOOL, M.U16, M.U32, M.I32, M.U64 = 8, 9, 7, 2, 4, 5, 10

-- pack: how string.unpack reads one.
M.value = {
  [0] = { name = "u8",  bytes = 1, pack = "<I1" },
  [1] = { name = "i8",  bytes = 1, pack = "<i1" },
  [2] = { name = "u16", bytes = 2, pack = "<I2" },
  [3] = { name = "i16", bytes = 2, pack = "<i2" },
  [4] = { name = "u32", bytes = 4, pack = "<I4" },
  [5] = { name = "i32", bytes = 4, pack = "<i4" },
  [6] = { name = "f32", bytes = 4, pack = "<f" },
  [7] = { name = "bool", bytes = 1, pack = "<I1" },
  [8] = { name = "string" },
  [9] = { name = "array" },
  [10] = { name = "u64", bytes = 8, pack = "<I8" },
  [11] = { name = "i64", bytes = 8, pack = "<i8" },
  [12] = { name = "f64", bytes = 8, pack = "<d" },
}

return M
