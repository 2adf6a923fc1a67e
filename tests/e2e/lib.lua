-- lib.lua -- what the end-to-end tests share: running a binary, reading tensors.
local json = require "dkjson"
local lu = require "luaunit"

local M = {}
M.shared = os.getenv("INGOT_SHARED") or "../shared"

function M.read(path)
  local f = io.open(path, "rb")
  if not f then return nil end
  local s = f:read("a")
  f:close()
  return s
end

function M.write(path, text)
  local f = assert(io.open(path, "wb"))
  f:write(text)
  f:close()
end

function M.exists(path)
  local f = io.open(path, "rb")
  if f then f:close() end
  return f ~= nil
end

function M.quote(s)
  return "'" .. s:gsub("'", "'\\''") .. "'"
end

--- A folder of this run's own, removed at exit.
local tmp
function M.tmp()
  if not tmp then
    local p = assert(io.popen("mktemp -d"))
    tmp = p:read("l")
    p:close()
  end
  return tmp
end
function M.cleanup()
  if tmp then os.execute("rm -rf " .. M.quote(tmp)) end
end

--- Run a shell command; stdout, stderr, exit code (128 + n when signal n ended it).
function M.run(command)
  local out, err = M.tmp() .. "/stdout", M.tmp() .. "/stderr"
  local _, how, code = os.execute(("( %s ) >%s 2>%s"):format(command, out, err))
  return M.read(out), M.read(err), how == "signal" and 128 + code or code
end

--- The binary of a generated engine: out/test/<id>/<BINARY of its build.mk><flavor>.
function M.engine(id, flavor)
  local mk = M.read("out/test/" .. id .. "/build.mk")
  local name = mk and mk:match("BINARY%s*:=%s*(%S+)")
  local path = name and ("out/test/%s/%s%s"):format(id, name, flavor or "")
  return path and M.exists(path) and path or nil
end

--- Pack a checkpoint for an engine, once a run; the weights file's path.
local packed = {}
function M.pack(id, src)
  if not packed[id] then
    packed[id] = ("%s/%s.ingot"):format(M.tmp(), id)
    local _, err, code = M.run(("%s pack %s -o %s"):format(M.engine(id), M.quote(src), packed[id]))
    assert(code == 0, err)
  end
  return packed[id]
end

--- safetensors text -> { name = { shape = {...}, [1..n] = values } }, decoded on demand.
function M.safetensors(path)
  local s = assert(M.read(path), path)
  local n = ("<I8"):unpack(s)
  local head = assert(json.decode(s:sub(9, 8 + n)))
  return setmetatable({}, { __index = function(t, name)
    local h = head[name]
    if not h then return nil end
    local fmt = assert(({ F32 = "<f", I32 = "<i4" })[h.dtype], h.dtype)
    local v = { shape = h.shape }
    for at = 9 + n + h.data_offsets[1], 8 + n + h.data_offsets[2], 4 do
      v[#v + 1] = fmt:unpack(s, at)
    end
    rawset(t, name, v)
    return v
  end })
end

--- eval --tokens of a prompt; the dumped tensors and the file's bytes.
function M.dump(engine, weights, ids, options)
  local path = M.tmp() .. "/dump.safetensors"
  local _, err, code = M.run(("%s eval -m %s --tokens %s --dump %s %s")
    :format(engine, weights, M.ids(ids), path, options or ""))
  assert(code == 0, err)
  return M.safetensors(path), M.read(path)
end

--- A folder of goldens: the repository's copy, else the one beside it.
function M.golden_folder(name)
  for _, folder in ipairs { "tests/golden/" .. name, M.shared .. "/goldens/" .. name } do
    if M.exists(folder .. "/golden.safetensors") then return folder end
  end
end

--- Folders of goldens, one a family of decoders.
M.FAMILIES = {
  "mixtral", "mixtral-swa", "mixtral-bf16-sharded", "qwen3-moe", "qwen3-moe-bf16-sharded", "olmoe", "qwen2-moe",
  "granitemoe", "llama-dense", "glm4-moe", "phimoe", "dbrx", "gpt-oss", "deepseek-v2", "deepseek-v3",
}

--- The trained tiny Mixtral; its checkpoint and goldens are beside the repository, or not there.
M.tiny = { gold = M.shared .. "/goldens/tiny-mixtral", model = M.shared .. "/models/tiny-mixtral" }

--- Largest |a - b|; fails on unequal lengths.  NaN counts as infinite.
function M.max_diff(a, b)
  assert(#a == #b, ("%d values, want %d"):format(#b, #a))
  local worst = 0.0
  for i = 1, #a do
    local d = math.abs(a[i] - b[i])
    if not (d <= worst) then worst = d == d and d or math.huge end
  end
  return worst
end

function M.std(a)
  local mean, sq = 0.0, 0.0
  for i = 1, #a do mean = mean + a[i] / #a end
  for i = 1, #a do sq = sq + (a[i] - mean) ^ 2 / #a end
  return math.sqrt(sq)
end

function M.same(a, b)
  if #a ~= #b then return false end
  for i = 1, #a do
    if a[i] ~= b[i] then return false end
  end
  return true
end

--- A test of what `ingot` (arguments -> stdout, stderr, code) refuses: it must end with `code`, say each of `...` on
--- stderr, and print nothing.
function M.refuser(ingot)
  return function(code, arguments, ...)
    local out, err, got = ingot(arguments)
    lu.assertEquals(got, code, arguments .. ": " .. err)
    lu.assertEquals(out, "", arguments)
    for _, text in ipairs { ... } do lu.assertStrContains(err, text, false, arguments) end
  end
end

--- The values as one comma-separated argument.
function M.ids(t)
  local out = {}
  for i = 1, #t do out[i] = ("%d"):format(t[i]) end
  return table.concat(out, ",")
end

return M
