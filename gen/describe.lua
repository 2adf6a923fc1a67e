-- gen/describe.lua -- any kind of input -> a checked model or profile.
--
-- A description is { id, path, file, text } for Lua, { id, path, file, text, json } for
-- config.json, { id, path, file, read, size, sibling } for GGUF (file: what banners show of the
-- path): the caller did the reading.

local gguf_model = require "gen.gguf_model"
local hf = require "gen.hf"
local hw = require "gen.hw"
local load_text = require "gen.load"
local model = require "gen.model"
local schema = require "gen.schema"

local M = {}

--- A path's last name, made fit for file names and banners.
function M.id_of(path)
  local base = path:gsub("/+$", ""):match("[^/]*$"):gsub("%.gguf$", ""):gsub("%.lua$", "")
    :gsub("%-%d%d%d%d%d%-of%-%d%d%d%d%d$", "")
  local id = base:gsub("[^%w._-]", "-"):gsub("^[^%w]+", ""):sub(1, 63)
  return id ~= "" and id or nil
end

--- A path as banners show it: the same from every folder and on every machine.
function M.banner_of(path)
  local trimmed = path:gsub("/+$", "")
  return trimmed:match("models/[^/]*%.lua$") or trimmed:match("hw/[^/]*%.lua$") or trimmed:match("[^/]*$")
end

--- What is wrong with an input before anything in it is looked at, or nil.
function M.complaint(input, why)
  if not (input.text or input.read) then
    local inside = input.path:match("config%.json/*$") or input.path:match("%.safetensors/*$")
    return schema.problem(input.path, "file", inside and "the folder that holds it"
      or "a models/*.lua or hw/*.lua (or its name), a folder with config.json, or a .gguf", why)
  elseif not input.id then
    return schema.problem(input.file, "name", "letters or digits to make an id of", "none")
  end
end

local function from_lua(input, word, check, problems)
  local stated, problem = load_text.description(input.text, input.file, word)
  if not stated then
    problems[#problems + 1] = problem
    return nil
  end
  return check(stated, input.file, problems)
end

--- @return table? model (complete only when no problem was added)
function M.model(input, problems)
  if input.json then return hf.describe(input.text, input.json, input.file, problems) end
  if input.read then return gguf_model.describe(input.read, input.size, input.file, problems, input.sibling) end
  return from_lua(input, "model", model.check, problems)
end

--- @return table? hw (complete only when no problem was added)
function M.hardware(input, problems)
  return from_lua(input, "hardware", hw.check, problems)
end

return M
