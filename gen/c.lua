-- gen/c.lua -- Lua values -> C literals.  The only module that knows how C spells a value.

local M = {}

--- A float literal that reads back as the nearest float of `x`, in as few digits as that takes.
function M.f32(x)
  local want = string.pack("<f", x)
  -- Nine digits of the float always do; those of a double near the middle of two floats may not.
  for _, value in ipairs { x, (string.unpack("<f", want)) } do
    for digits = 1, 9 do
      local text = ("%." .. digits .. "g"):format(value)
      local back = tonumber(text) -- nil for what has no literal: nan, inf
      if back and string.pack("<f", back) == want then
        return (text:find("[.e]") and text or text .. ".0") .. "f"
      end
    end
  end
  error(("%s has no float literal"):format(tostring(x)))
end

function M.u64(n)
  return ("UINT64_C(%d)"):format(n)
end

--- A 64-bit pattern, such as a hash.
function M.hex64(n)
  return ("UINT64_C(0x%016x)"):format(n)
end

local ESCAPE = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\t"] = "\\t", ["?"] = "\\?" }

--- A string literal; `?` is escaped so that no trigraph can appear.
function M.str(s)
  return '"' .. s:gsub('[%c"\\?\x7f-\xff]', function(ch)
    return ESCAPE[ch] or ("\\%03o"):format(ch:byte())
  end) .. '"'
end

--- A name inside a comment of C or make: nothing that ends the comment or that make expands.
function M.remark(s)
  return (s:gsub("[^%w._/+-]", "-"))
end

--- Rows of at most 8 numbers, each ending in a comma.
function M.rows(list)
  local rows = {}
  for at = 1, #list, 8 do
    rows[#rows + 1] = table.concat(list, ", ", at, math.min(at + 7, #list)) .. ","
  end
  return rows
end

return M
