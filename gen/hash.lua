-- gen/hash.lua -- FNV-1a, 64 bits: the plan hash and the layout hash.
--
-- Lua integers wrap at 64 bits, which is what the definition wants.

local M = {}

--- @param text string
--- @return integer the hash as a two's complement integer
function M.fnv1a64(text)
  local h = 0xcbf29ce484222325
  for i = 1, #text do
    h = (h ~ text:byte(i)) * 0x100000001b3
  end
  return h
end

--- 16 hex digits.
function M.hex(h)
  return ("%016x"):format(h)
end

return M
