-- gen/schema.lua -- a stated table + a field list -> a checked table, or ALL its problems.
--
-- A field is { name, kind, ... }: kind is "integer", "number", "numbers" (a list of positive ones),
-- "boolean", "string", "choice" or "table".  min/max bound numbers, `choices` lists what a
-- choice may be, `fields` describes a nested table, `pattern`/`want` a string;
-- a field without `default` or `optional` must be there.  Unknown fields are
-- problems: a misspelt optional field must not mean "the default".

local M = {}

local function short(s) return #s > 60 and s:sub(1, 60) .. "..." or s end

--- How a found value is shown in a message.
function M.show(v)
  if v == nil then return "nothing" end
  if type(v) == "string" then return (("%q"):format(short(v)):gsub("\n", "n")) end
  if math.type(v) == "integer" then return ("%d"):format(v) end
  if v ~= v then return "nan" end
  if type(v) == "number" then return ("%.14g"):format(v) end
  if type(v) == "boolean" then return tostring(v) end
  return "a " .. type(v)
end

-- A key that nobody chose a name for: no bytes that move a cursor, no addresses.
local function show_key(k)
  return type(k) == "string" and short(k):gsub("[%c\x7f-\xff]", "?") or M.show(k)
end

--- The one form of every problem.
function M.problem(file, field, want, got)
  return ("%s: %s: want %s, got %s"):format(file, field, want, got)
end

--- Text that cannot steer a terminal: names of users and of files are in it.  As ig_escape (runtime/base/base.h),
--- but lines stay lines.
function M.escape(text)
  text = text:gsub("%c", function(ch) return ch ~= "\n" and ("\\x%02x"):format(ch:byte()) or nil end)
  return (text:gsub("\194[\128-\159]", function(two) return ("\\x%02x\\x%02x"):format(two:byte(1, 2)) end))
end

local function wanted(f)
  if f.want then return f.want end
  if f.kind == "numbers" then return "a list of positive numbers" end
  if f.kind == "choice" then return table.concat(f.choices, " or ") end
  local article = f.kind == "integer" and "an " or "a "
  if f.min and f.max then
    local both = f.kind == "integer" and "%d to %d" or "%.14g to %.14g"
    return article .. f.kind .. " from " .. both:format(f.min, f.max)
  end
  return article .. f.kind
end

local function in_range(f, v)
  return v == v and (not f.min or v >= f.min) and (not f.max or v <= f.max)
end

-- One function a kind: the value in its checked form, or nil.
local CHECK = {
  integer = function(f, v)
    local n = type(v) == "number" and math.tointeger(v)
    return n and in_range(f, n) and n or nil
  end,
  number = function(f, v)
    return type(v) == "number" and in_range(f, v) and v + 0.0 or nil
  end,
  string = function(f, v)
    return type(v) == "string" and (not f.pattern or v:find(f.pattern)) and v or nil
  end,
  numbers = function(_, v)
    if type(v) ~= "table" then return nil end
    for _, x in ipairs(v) do
      if type(x) ~= "number" or not (x > 0 and x < math.huge) then return nil end
    end
    return v
  end,
  choice = function(f, v)
    for _, c in ipairs(f.choices) do
      if v == c then return v end
    end
  end,
}

local function check_value(f, v, file, path, problems)
  if f.kind == "boolean" then
    if type(v) == "boolean" then return v end
  elseif f.kind == "table" then
    if type(v) == "table" then return M.check(f.fields, v, file, problems, path .. ".") end
  else
    local checked = CHECK[f.kind](f, v)
    if checked ~= nil then return checked end
  end
  problems[#problems + 1] = M.problem(file, path, wanted(f), M.show(v))
  return nil
end

local function report_unknown(fields, stated, file, problems, prefix)
  local known, names = {}, {}
  for _, f in ipairs(fields) do
    known[f.name], names[#names + 1] = true, f.name
  end
  local found = {}
  for k in pairs(stated) do found[#found + 1] = known[k] and "" or show_key(k) end
  table.sort(found)
  for _, shown in ipairs(found) do
    if shown ~= "" then
      problems[#problems + 1] = M.problem(file, prefix .. shown,
        "a known field (" .. table.concat(names, " ") .. ")", "an unknown one")
    end
  end
end

--- @param fields   table   the field list
--- @param stated   table   what a description said
--- @param file     string  for messages
--- @param problems table   list to add problems to
--- @param prefix   string? of nested field names
--- @param names    table?  field name -> the name its source uses, for messages
--- @return table checked   (complete only when no problem was added)
function M.check(fields, stated, file, problems, prefix, names)
  prefix = prefix or ""
  report_unknown(fields, stated, file, problems, prefix)
  local checked = {}
  for _, f in ipairs(fields) do
    local path = prefix .. (names and names[f.name] or f.name)
    local v = stated[f.name]
    if v ~= nil then
      checked[f.name] = check_value(f, v, file, path, problems)
    elseif f.default ~= nil then
      checked[f.name] = f.default
    elseif not f.optional then
      problems[#problems + 1] = M.problem(file, path, wanted(f), "nothing")
    end
  end
  return checked
end

return M
