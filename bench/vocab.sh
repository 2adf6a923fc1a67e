#!/bin/sh
# CPU seconds that each reader takes for a GGUF vocabulary of N tokens (150000) with types, scores and merges.
set -eu
cd "$(dirname "$0")/.."
n=${1:-150000}
file=$(mktemp) tool=$(mktemp)
trap 'rm -f "$file" "$tool"' EXIT
make -s out/common/libcommon.a out/common/libkernels.a >/dev/null
gcc -std=c11 -D_GNU_SOURCE -O2 -fopenmp -iquote kernels -iquote runtime/base -iquote runtime/text -iquote runtime/file \
    -o "$tool" bench/vocab.c out/common/libcommon.a out/common/libkernels.a -ljansson -lpcre2-8 -lm
lua5.4 - "$file" "$n" <<'LUA'
package.path = "./?.lua;" .. package.path
local path, n = arg[1], math.tointeger(tonumber(arg[2]))
local function str(s) return string.pack("<s8", s) end
local out, n_kv = {}, 0
local function kv(key, value) n_kv = n_kv + 1; out[#out + 1] = str(key) .. value end
local function list(kind, item)
  local parts = {}
  for i = 1, n do parts[i] = item(i) end
  return string.pack("<I4I4I8", 9, kind, n) .. table.concat(parts)
end
kv("tokenizer.ggml.model", string.pack("<I4", 8) .. str("gpt2"))
kv("tokenizer.ggml.tokens", list(8, function(i) return str(("token-%d"):format(i)) end))
kv("tokenizer.ggml.token_type", list(5, function() return string.pack("<i4", 1) end))
kv("tokenizer.ggml.scores", list(6, function(i) return string.pack("<f", -i) end))
kv("tokenizer.ggml.merges", list(8, function(i) return str(("to ken-%d"):format(i)) end))
local f = assert(io.open(path, "wb"))
f:write("GGUF", string.pack("<I4I8I8", 3, 0, n_kv), table.concat(out), ("\0"):rep(64))
f:close()

f = assert(io.open(path, "rb"))
local text = f:read("a")
f:close()
local start, problems = os.clock(), {}
local found = require("gen.gguf_parts").parse(function(m) return text:sub(1, m) end, #text, path, problems)
require("gen.gguf_vocab").check(found, function(...) problems[#problems + 1] = table.concat({ ... }, " ") end)
assert(#problems == 0, problems[1])
print(("generator\t%d tokens\t%.3f s CPU"):format(n, os.clock() - start))
LUA
"$tool" "$file"
