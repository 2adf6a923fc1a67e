-- bench/tier_table.lua -- the rows of bench/tier.sh: medians of runs of `NAME bench -o json`.
--
--   lua bench/tier_table.lua FOLDER SIZE...   FOLDER has ours-SIZE and mmap-SIZE, a run a line.

local folder = arg[1]

local function number(text, key)
  return tonumber(text:match('"' .. key .. '": ([%d.e+-]+)'))
end

local function runs(name)
  local list = {}
  for line in io.lines(folder .. "/" .. name) do
    if line:find "tokens_per_s" then list[#list + 1] = line end
  end
  if #list == 0 then error(name .. ": want runs, got none") end
  return list
end

-- Median, least and most of a key over runs.
local function of(list, key)
  local v = {}
  for i, line in ipairs(list) do v[i] = number(line, key) or 0 end
  table.sort(v)
  return v[(#v + 1) // 2], v[1], v[#v]
end

local function constant(size, name)
  for line in io.lines(("out/bench-tier-%s/config.h"):format(size)) do
    local v = line:match("#define " .. name .. "%s+([%d.e+-]+)")
    if v then return tonumber(v) end
  end
end

print("experts_ram,tokens_per_s,least,most,bound,share_of_bound,hit_pct,predicted_hit_pct,predicted_tokens_per_s,"
  .. "missed_mb,disk_gb_per_s,memory_gb_per_s,mmap_tokens_per_s,mmap_least,mmap_most,ratio")
for i = 2, #arg do
  local ours, mmap = runs("ours-" .. arg[i]), runs("mmap-" .. arg[i])
  local rate, least, most = of(ours, "tokens_per_s")
  local theirs, m_least, m_most = of(mmap, "tokens_per_s")
  local bound = of(ours, "bound_tokens_per_s")
  print(("%s,%.2f,%.2f,%.2f,%.2f,%.3f,%.2f,%.2f,%.2f,%.2f,%.2f,%.1f,%.2f,%.2f,%.2f,%.2f"):format(arg[i], rate, least,
    most, bound, of(ours, "fraction_of_bound"), of(ours, "hit"), 100 * constant(arg[i], "IG_PREDICTED_HIT"),
    constant(arg[i], "IG_PREDICTED_TPS"), of(ours, "missed_bytes") / 1e6, of(ours, "disk_read_gb_per_s"),
    of(ours, "memory_read_gb_per_s"), theirs, m_least, m_most, rate / theirs))
end
