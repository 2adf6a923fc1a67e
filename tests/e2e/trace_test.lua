-- Traces: the CSV and the binary one say the same; hidden states lie beside; bench and replay's reader
-- take them.
package.path = "tests/e2e/?.lua;" .. package.path
local lu = require "luaunit"
local cli = require "cli"
local ingot, refuses, tmp, L = cli.ingot, cli.refuses, cli.tmp, cli.L

local TEXT = "Once upon a time there was a house, and in the house there lived an old man who would not speak."
local T = {}

local function record()
  local text, bin, hidden = tmp "text", tmp "t.trace", tmp "t.hidden"
  L.write(text, TEXT)
  local _, err, code = ingot(("trace %%m -f %s -c 10 -b 4 -o %s --hidden %s"):format(text, bin, hidden))
  cli.assert_code(0, code, err)
  lu.assertStrMatches(err, ".*t%.trace: written, [%d.]+ MB; %d+ tokens in [23] windows\n"
    .. ".*t%.hidden: written, [%d.]+ MB\n.*")
  return text, L.read(bin), L.read(hidden)
end

function T.test_binary_is_the_csv()
  local text, bin = record()
  local csv = ingot("trace %m -f " .. text .. " -c 10")
  local docs, longest, layers, experts, k, dists, at = ("<I4I4I4I4I4I4"):unpack(bin, 9)
  lu.assertEquals({ bin:sub(1, 8), longest, layers, experts, k, dists }, { "MOETRC02", 10, 7, 16, 2, 3 })
  lu.assertEquals({ ("<I4I4I4"):unpack(bin, at) }, { 1, 2, 4, at + 12 })
  at = at + 12
  local rows = 0
  for d = 1, docs do
    local n = ("<I4"):unpack(bin, at + 16 * (d - 1))
    lu.assertTrue(n == 10 or d == docs)
    rows = rows + n
  end
  local ids = at + 16 * docs + 4 * rows
  lu.assertEquals(#bin, ids - 1 + 5 * rows * layers * k)
  local seen = 0
  for turn, step, layer, slot, expert, weight in csv:gmatch("\n(%d+),0,(%d+),(%d+),(%d+),(%d+),([%d.]+),") do
    local cell = ((tonumber(turn) * 10 + tonumber(step)) * layers + tonumber(layer)) * k + tonumber(slot)
    lu.assertEquals(bin:byte(ids + cell), tonumber(expert))
    lu.assertAlmostEquals(bin:byte(ids + rows * layers * k + cell), 255 * tonumber(weight), 0.51)
    seen = seen + 1
  end
  lu.assertEquals(seen, rows * layers * k)
  -- Next-router at distance 1 is right more often than chance, and says nothing of layer 0.
  local right, said = 0, ids + 2 * rows * layers * k
  for row = 0, rows - 1 do
    for layer = 0, layers - 1 do
      local cell = (row * layers + layer) * k
      if layer == 0 then lu.assertEquals(bin:byte(said + cell), 255) end
      for i = 0, k - 1 do
        for j = 0, k - 1 do
          right = right + (layer > 0 and bin:byte(said + cell + i) == bin:byte(ids + cell + j) and 1 or 0)
        end
      end
    end
  end
  lu.assertTrue(right > 0.6 * rows * (layers - 1) * k, ("%d of %d"):format(right, rows * (layers - 1) * k))
end

-- Router inputs: a scale and 256 bytes, of which the largest is 127; the same whatever the batch.
function T.test_hidden_states()
  local text, bin, hidden = record()
  local rows, layers, width, zero = ("<I4I4I4I4"):unpack(hidden, 9)
  lu.assertEquals({ hidden:sub(1, 8), layers, width, zero }, { "INGOTHID", 7, 256, 0 })
  lu.assertEquals(#hidden, 24 + rows * layers * 260)
  for cell = 0, rows * layers - 1 do
    local most = 0
    for i = 1, width do most = math.max(most, math.abs(("<i1"):unpack(hidden, 28 + cell * 260 + i))) end
    lu.assertEquals(most, 127)
    lu.assertTrue(("<f"):unpack(hidden, 25 + cell * 260) > 0)
  end
  local other = { tmp "o.trace", tmp "o.hidden" }
  ingot(("trace %%m -f %s -c 10 -b 1 -t 1 -o %s --hidden %s"):format(text, other[1], other[2]))
  lu.assertTrue(L.read(other[1]) == bin and L.read(other[2]) == hidden)
end

function T.test_bench_takes_it()
  record()
  local out, err, code = ingot("bench %m -p 0 -n 4 -r 1 --route " .. tmp "t.trace")
  cli.assert_code(0, code, err)
  lu.assertStrContains(out, "decode took its experts from")
end

function T.test_refusals()
  local text = tmp "text"
  L.write(text, TEXT)
  refuses(2, "trace %m -f " .. text .. " --hidden " .. tmp "h", "--hidden: want -o NAME.trace beside it, got none")
  refuses(2, "trace %m -f " .. text .. " -o " .. tmp "x.csv" .. " --hidden " .. tmp "h", "want -o NAME.trace")
  refuses(1, "trace %m -f " .. text .. " -o /nowhere/x.trace", "/nowhere/x.trace: cannot create: the folder")
  refuses(1, "trace %m -f " .. text .. " -o " .. tmp "y.trace" .. " --hidden /nowhere/h", "/nowhere/h: cannot create")
  lu.assertFalse(L.exists(tmp "y.trace"))
  L.write(text, "")
  refuses(1, "trace %m -f " .. text .. " -o " .. tmp "x.trace", "want 1 token or more, got 0")
  lu.assertFalse(L.exists(tmp "x.trace"))
end

-- An output does not take the place of what the run reads, whatever name or link leads there.
function T.test_outputs_that_are_inputs()
  local text, link, mine = tmp "text", tmp "link.trace", tmp "mine.ingot"
  L.write(text, TEXT)
  L.run(("ln -sf %s %s; cp %s %s"):format(text, link, cli.weights, mine))
  for _, case in ipairs {
    { "trace -f %s -o %s", text, text, "the text" }, { "trace -f %s -o %s", text, link, "the text" },
    { "trace -f %s -o %s", text, mine, "the weights file" },
    { "trace -f %s -o " .. tmp "t.trace" .. " --hidden %s", text, mine, "the weights file" },
    { "eval --tokens %s --dump %s", "1,2", mine, "the weights file" },
    { "eval --tokens %s --dump %s", "1,2", cli.bin, "the running program" },
  } do
    refuses(2, case[1]:format(case[2], case[3]) .. " -m " .. mine,
      case[3] .. ": want another name: this is " .. case[4])
  end
  lu.assertEquals(L.read(text), TEXT)
  lu.assertTrue(L.read(mine) == L.read(cli.weights))
  refuses(2, ("trace %%m -f %s -o %s --hidden %s"):format(text, tmp "new.trace", tmp "new.trace"),
    "new.trace: want two outputs, got the same file twice")
  lu.assertFalse(L.exists(tmp "new.trace"))
end

-- What had the name keeps it until all of a trace is there.
local function partials() return (L.run(("ls %s | grep partial"):format(L.tmp()))) end

function T.test_no_room()
  local text, out, hidden = tmp "text", tmp "kept.csv", tmp "kept.hidden"
  L.write(text, TEXT)
  for _, case in ipairs { { out, "" }, { tmp "kept.trace", "--hidden " .. hidden } } do
    for _, path in ipairs { case[1], hidden } do L.write(path, "old") end
    local printed, err, code = ingot(("trace %%m -f %s -o %s %s"):format(text, case[1], case[2]), "ulimit -f 2;")
    lu.assertEquals({ printed, code, partials() }, { "", 1, "" }, err)
    lu.assertStrContains(err, ": cannot write: File too large")
    lu.assertEquals({ L.read(case[1]), L.read(hidden) }, { "old", "old" })
  end
end

local function end_run(path, more, kills)
  local text = tmp "long"
  L.write(text, TEXT:rep(2000))
  for _, name in ipairs { path, tmp "sig.hidden" } do L.write(name, "old") end
  local _, err, code = L.run(([[
    env --default-signal=INT %s trace -m %s -f %s -c 100 -t 1 -o %s %s & p=$!
    for i in $(seq 500); do [ -e %s.partial-$p ] && break; sleep 0.01; done
    for i in $(seq %d); do kill -INT $p; done; wait $p]]):format(cli.bin, cli.weights, text, path, more, path, kills))
  lu.assertEquals({ code, partials() }, { 130, "" }, err)
  lu.assertEquals({ L.read(path), L.read(tmp "sig.hidden") }, { "old", "old" })
  return err
end

function T.test_signals()
  for path, more in pairs { [tmp "sig.csv"] = "", [tmp "sig.trace"] = "--hidden " .. tmp "sig.hidden" } do
    lu.assertStrContains(end_run(path, more, 1), path .. ": not written: the run was interrupted")
    end_run(path, more, 2) -- at once
  end
end

local function replay(arguments) return L.run("out/tools/replay " .. arguments) end

-- Names of files are shown with their control bytes spelled; files take their names when complete.
function T.test_replay()
  local trace, odd = "tests/data/tiny-route.trace", L.quote(tmp "a\27[31m\nb")
  for _, arguments in ipairs { odd, trace .. " --hidden " .. odd, trace .. " --predictor " .. odd,
    trace .. " --svg /nowhere/" .. odd, trace .. " --features /nowhere/" .. odd, trace .. " --pool " .. odd,
    trace .. " --policies " .. odd, trace .. " --sets '\27x'" } do
    local _, err, code = replay(arguments)
    lu.assertTrue(code == 1 or code == 2, arguments)
    lu.assertStrContains(err, "\\x1b")
    lu.assertNil(err:find "[^\n\32-\126]", err)
    lu.assertEquals(select(2, err:gsub("\n", "")), 1, err)
  end
  local svg = tmp "out.svg"
  L.write(svg, "old")
  local _, err, code = replay(trace .. " --pool 50 --policies lru --svg " .. svg)
  lu.assertEquals({ code, partials() }, { 0, "" }, err)
  lu.assertStrMatches(L.read(svg), "<svg.*</svg>\n")
  L.write(svg, "old")
  _, err, code = L.run(("ulimit -f 2; out/tools/replay %s --pool 50 --features %s"):format(trace, svg))
  lu.assertEquals({ code, partials(), L.read(svg) }, { 2, "", "old" }, err)
end

TestTrace = T
cli.finish()
