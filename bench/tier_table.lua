-- bench/tier_table.lua -- the rows of bench/tier.sh: medians of runs of `NAME bench -o json`.
--
--   lua bench/tier_table.lua FOLDER SIZE...   FOLDER has ours-SIZE, few-SIZE, mmap-SIZE and perhaps
--                                             next-SIZE, a run a line.

local folder = arg[1]

local function number(text, key)
  return tonumber(text:match('"' .. key .. '": ([%d.e+-]+)'))
end

local function runs(name, optional)
  local list, file = {}, io.open(folder .. "/" .. name)
  for line in file and file:lines() or function() end do
    if line:find "tokens_per_s" then list[#list + 1] = line end
  end
  if #list == 0 and not optional then error(name .. ": want runs, got none") end
  return #list > 0 and list or nil
end

-- Median, least and most of a key over runs.
local function of(list, key)
  local v = {}
  for i, line in ipairs(list) do v[i] = number(line, key) or 0 end
  table.sort(v)
  return v[(#v + 1) // 2], v[1], v[#v]
end

local function constant(engine, name)
  for line in io.lines(("out/bench-tier-%s/config.h"):format(engine)) do
    local v = line:match("#define " .. name .. "%s+([%d.e+-]+)")
    if v then return tonumber(v) end
  end
end

local function rest(size)
  local ours, mmap = of(runs("few-" .. size), "tokens_per_s"), runs("mmap-" .. size)
  local theirs, least, most = of(mmap, "tokens_per_s")
  return ("%.2f,%.2f,%.2f,%d,%.2f"):format(theirs, least, most, number(mmap[1], "tokens"), ours / theirs)
end

local function row(size, prefetch, list, engine, mmap)
  local rate, least, most = of(list, "tokens_per_s")
  local share, share_least, share_most = of(list, "fraction_of_bound")
  local predicted = constant(engine, "IG_PREDICTED_TPS")
  print(("%s,%s,%.2f,%.2f,%.2f,%.2f,%.3f,%.3f,%.3f,%.2f,%.2f,%.2f,%.2f,%.2f,%.2f,%.1f,%s"):format(size, prefetch, rate,
    least, most, of(list, "bound_tokens_per_s"), share, share_least, share_most, of(list, "hit"),
    100 * constant(engine, "IG_PREDICTED_HIT"), predicted, predicted / rate, of(list, "missed_bytes") / 1e6,
    of(list, "disk_read_gb_per_s"), of(list, "memory_read_gb_per_s"), mmap))
end

print("experts_ram,prefetch,tokens_per_s,least,most,bound,share_of_bound,share_least,share_most,hit_pct,"
  .. "predicted_hit_pct,predicted_tokens_per_s,predicted_over_measured,missed_mb,disk_gb_per_s,memory_gb_per_s,"
  .. "mmap_tokens_per_s,mmap_least,mmap_most,mmap_rows,ratio")
for i = 2, #arg do
  local next_runs = runs("next-" .. arg[i], true)
  row(arg[i], "none", runs("ours-" .. arg[i]), arg[i], rest(arg[i]))
  if next_runs then row(arg[i], "next-router as recorded elsewhere", next_runs, "next-" .. arg[i], ",,,,") end
end
