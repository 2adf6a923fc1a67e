-- gen/num.lua -- the integer arithmetic every plan_*.lua needs.

local M = {}

--- ceil(a / b) for a >= 0, b > 0.
function M.ceil_div(a, b)
  return (a + b - 1) // b
end

--- `n` rounded up to a multiple of `to`.
function M.align_up(n, to)
  return (n + to - 1) // to * to
end

--- `bytes` for a person: binary units, one decimal, one spelling.
function M.human(bytes)
  local units = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" }
  local at, size = 1, bytes
  while size >= 1024 and at < #units do
    at, size = at + 1, size / 1024
  end
  if at == 1 then return ("%d B"):format(bytes) end
  return ("%.1f %s"):format(size, units[at])
end

return M
