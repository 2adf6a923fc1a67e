-- gen/template.lua -- C templates that are still C.
--
-- The language, for ever:
--   1. a line that starts with //@ (blanks before it allowed) is a line of Lua;
--   2. in any other line $name and ${name.field} stand for that value.
-- Every template line compiles to exactly one line of Lua, so errors carry the
-- template's own line number.  Of Lua's library only ipairs is in scope: no
-- template can walk a hash table, whose order differs between processes.

local M = {}

-- Only values with one spelling may reach a file; floats go through gen/c.lua.
local function spelled(name, value)
  if type(value) == "string" then return value end
  if math.type(value) == "integer" then return ("%d"):format(value) end
  local kind = value == nil and "undefined" or "a " .. (math.type(value) or type(value))
  error(("$%s is %s, want a string or an integer"):format(name, kind), 2)
end

-- "a $b c" -> put("a ", v("b", b), " c")
local function compile_text(line)
  local args, from = {}, 1
  for at, braced, past in line:gmatch("()%$(%b{})()") do
    if not braced:match("^{[%a_][%w_.]*}$") then
      error(("malformed %s in column %d"):format(braced, at), 0)
    end
    args[#args + 1] = { at, braced:sub(2, -2), past }
  end
  for at, bare, past in line:gmatch("()%$([%a_][%w_]*)()") do
    args[#args + 1] = { at, bare, past }
  end
  table.sort(args, function(a, b) return a[1] < b[1] end)
  local code = {}
  for _, arg in ipairs(args) do
    code[#code + 1] = ("%q"):format(line:sub(from, arg[1] - 1))
    code[#code + 1] = ("v(%q, %s)"):format(arg[2], arg[2])
    from = arg[3]
  end
  code[#code + 1] = ("%q"):format(line:sub(from))
  return "put(" .. table.concat(code, ", ") .. ")"
end

--- @param name string  the template's path, for messages
--- @param text string  the template
--- @param view table   the names it may use
--- @return string      the expanded text
function M.render(name, text, view)
  local code = {}
  for line in text:gmatch("([^\n]*)\n") do
    code[#code + 1] = line:match("^%s*//@(.*)$") or compile_text(line)
  end
  local out = {}
  local scope = {
    ipairs = ipairs,
    v = spelled,
    put = function(...) out[#out + 1] = table.concat({ ... }) .. "\n" end,
  }
  local chunk, err = load(table.concat(code, "\n"), "@" .. name, "t",
    setmetatable(scope, { __index = view }))
  if not chunk then error(err, 0) end
  chunk()
  return table.concat(out)
end

return M
