-- build.lua MODEL HW [options] -- cast one model and one machine into a C source tree.
--
-- The only Lua that reads, writes, prints or exits (0 done, 1 problems in the inputs, 2 bad usage).

if tonumber(_VERSION:match("%d+%.%d+")) < 5.4 then
  io.stderr:write("build.lua: want Lua 5.4 or newer (lua5.4 on Debian and Ubuntu), got ", _VERSION, "\n")
  os.exit(2)
end

local root = arg[0]:match("^(.*/)") or "./"
package.path = root .. "?.lua;" .. package.path

local args, describe, emit, plan = require "gen.args", require "gen.describe", require "gen.emit", require "gen.plan"
local options, schema, sources = require "gen.options", require "gen.schema", require "gen.sources"
local function say(...) io.stderr:write(schema.escape(table.concat { ... })) end
local function stop(code, ...) say(...) os.exit(code) end

local function slurp(path)
  local file, err = io.open(path, "rb")
  return file and file:read("a"), file and file:close() and "not a readable file" or err
end
local function text_of(path) return path and (slurp(path) or "") end

-- Written only if changed, so that make rebuilds only what moved; renamed into place from `whose` own name.
local function write(path, text, whose)
  if slurp(path) == text then return end
  local new = path .. "." .. whose .. ".tmp"
  local file, err = io.open(new, "wb")
  local ok = file and file:write(text)
  ok = file and file:close() and ok and os.rename(new, path)
  if not ok then
    os.remove(new)
    stop(1, "build.lua: ", path, ": want to write it, got: ", err or "a failed write", "\n")
  end
end

local function quoted(...)
  return "'" .. table.concat({ ... }, "\0"):gsub("'", "'\\''"):gsub("\0", "' '") .. "'"
end

local function make_folder(path)
  if os.execute(quoted("mkdir", "-p", path)) then return path end
  stop(1, "build.lua: ", path, ": want a folder to write to, got none\n")
end
-- hw/this.lua, made by compiling and running tools/probe*.c.
local function this_machine(request, out)
  local this, tool, src = root .. "hw/this.lua", make_folder(out) .. "/probe", root .. "tools/probe"
  if not request.probe and slurp(this) then return this end
  if os.execute(quoted(os.getenv("CC") or "cc", "-O2", "-fopenmp", "-o", tool) .. " " .. quoted(src) .. "*.c -ldl") then
    local pipe = io.popen(quoted(tool, out))
    local profile = pipe:read("a")
    if pipe:close() then write(this, profile, "probe") return this end
  end
  stop(1, "build.lua: this: want tools/probe*.c to compile and measure, got a failure\n")
end

-- A reader of a file's bytes (n of them, from an offset or the start on), and its size.
local function open_binary(path)
  local f, why = io.open(path, "rb")
  return f and function(n, from) return f:seek("set", from) and f:read(n) or "" end, f and f:seek("end") or 0, why
end

-- models/NAME.lua of a bare NAME, where no folder of that name has a model.
local function model_path(name)
  local path = "models/" .. name .. ".lua"
  return not name:find("/") and not slurp(name .. "/config.json") and slurp(root .. path) and path or name
end

-- What gen/describe.lua wants to know about a MODEL or HW.
local function input(path, problems)
  local given, why = { id = describe.id_of(path), path = path, file = describe.banner_of(path) }
  if path:find("%.gguf$") then
    given.read, given.size, why = open_binary(path)
    given.sibling = function(name) return open_binary(path:gsub("[^/]*$", "") .. name) end
  elseif path:find("%.lua$") then
    given.text, why = slurp(path)
    if not given.text then given.text = slurp(root .. path) end
  else
    local found, json = pcall(require, "dkjson")
    if not found then stop(1, "build.lua: config.json: want the Lua module dkjson (lua-dkjson), got none\n") end
    given.file, given.json = given.file .. "/config.json", json
    given.text, why = slurp(path .. "/config.json")
  end
  problems[#problems + 1] = describe.complaint(given, why)
  return given
end

local function stop_if(problems) if #problems > 0 then stop(1, table.concat(problems, "\n"), "\n") end end

local function texts_of(paths)
  local texts = {}
  for i, path in ipairs(paths) do texts[i] = { path = path, text = assert(slurp(root .. path)) } end
  return texts
end

local function main(request)
  local problems, out = {}, request.out or root .. "out"
  local model_in = input(model_path(request.model), problems)
  local hw_in = input(request.hw == "this" and this_machine(request, out) or request.hw, problems)
  local opts = options.parse(request.set, problems)
  local model = (model_in.text or model_in.read) and describe.model(model_in, problems)
  local hw = hw_in.text and describe.hardware(hw_in, problems)
  stop_if(problems)
  local p, reasons = plan.plan { model = model, hw = hw, opts = opts, model_id = model_in.id, hw_id = hw_in.id,
    model_file = model_in.file, hw_file = hw_in.file, trace = text_of(opts.trace), predictor = text_of(opts.predictor) }
  stop_if(reasons)
  local templates = texts_of(sources.templates)
  local hash = emit.plan_hash(p, texts_of(sources.modules), templates)
  if request.explain then return io.write(emit.explain(p, hash)) end
  if request.dump then return io.write(emit.dump(p, hash)) end

  local folder = make_folder(out .. "/" .. p.id)
  for _, file in ipairs(emit.files(p, hash, templates)) do write(folder .. "/" .. file.name, file.text, p.id) end
  write(out .. "/active.mk", emit.active(p), p.id)
  for _, note in ipairs(p.notes) do say("note: ", note, "\n") end
end

local request, complaint = args.parse(arg)
if not request then stop(2, "build.lua: ", complaint, "\n\n", args.USAGE) end
if request.help then io.write(args.USAGE) else main(request) end
