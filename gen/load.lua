-- gen/load.lua -- a description's text -> the table that it states.
--
-- A description is Lua that runs with one word in scope, `model` or
-- `hardware`: it can state facts, but not read files or call anything.

local M = {}

local STEPS_MOST = 10000000 -- of Lua's machine: a description takes a few hundred

-- Run a chunk that may not end.  Strings lose their methods meanwhile: a pattern can take
-- for ever inside one step.
local function run(chunk)
  local strings = getmetatable("")
  local methods = strings.__index
  strings.__index = nil
  debug.sethook(function() error("more than " .. STEPS_MOST .. " steps", 0) end, "", STEPS_MOST)
  local ok, err = pcall(chunk)
  debug.sethook()
  strings.__index = methods
  return ok, err
end

--- @param text string  the description
--- @param file string  its name, for messages
--- @param word string  "model" or "hardware"
--- @return table? stated, string? problem
function M.description(text, file, word)
  local stated, times
  times = 0
  local env = { [word] = function(t) stated, times = t, times + 1 end }
  local chunk, syntax = load(text, "@" .. file, "t", env)
  if not chunk then return nil, ("%s: syntax: want Lua, got: %s"):format(file, syntax) end
  local ok, err = run(chunk)
  if not ok then
    return nil, ("%s: text: want %s { ... } and nothing else, got: %s"):format(file, word, tostring(err))
  end
  if times ~= 1 then
    return nil, ("%s: %s: want it stated once, got %d times"):format(file, word, times)
  end
  if type(stated) ~= "table" then
    return nil, ("%s: %s: want a table, got a %s"):format(file, word, type(stated))
  end
  return stated
end

return M
