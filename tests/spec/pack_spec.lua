-- Packing as a user sees it: sr.pack, plans, drawings, solvers in Lua, and the command.

local json = require("seqrun.core.json")
local pack = require("seqrun.pack")
local core = require("seqrun.core.pack")
local program = require("tests.support.program")
local sys = require("seqrun.core.sys")

local fails, none = require("tests.support.fails"), require("tests.support.none")
local exits, refuses, works = program.exits, program.refuses, program.works

local DATA = "tests/data/packing/"
local SQUAD, COLA = DATA .. "squad_384.hist", DATA .. "glue_cola_128.hist"

local folder = program.folder()

local function run(...) return program.run { "pack", ... } end

--- Every uid once, in packs that fit, for one epoch.
local function exactly_once(packing, lengths, max_len, epoch)
  local seen = {}
  for i = 1, #packing do
    local tokens = 0
    for _, uid in ipairs((packing:at(epoch, i))) do
      assert.is_nil(seen[uid])
      seen[uid] = true
      tokens = tokens + lengths[uid + 1]
    end
    assert.is_true(tokens <= max_len)
  end
  for uid = 0, #lengths - 1 do assert.is_true(seen[uid]) end
end

describe("sr.pack", function()
  local lengths = {}
  for i = 1, 500 do lengths[i] = (i * 7919) % 120 + 3 end

  it("packs a list of lengths, and reports the quality", function()
    local plan = assert(pack(lengths, { max_len = 128 }))
    assert.equal("optimal", plan.solver)
    assert.equal(500, plan.sequences)
    assert.is_nil(plan.max_seqs)
    assert.is_true(plan.packs >= plan.lower_bound)
    assert.equal(plan.packs - plan.lower_bound, plan.gap_packs)
    assert.equal(plan.packs * 128 - plan.tokens, plan.padding_tokens)
    assert.near(plan.tokens / (plan.packs * 128), plan.efficiency, 1e-12)
    local text = tostring(plan)
    assert.truthy(text:find("500 sequences", 1, true) and text:find("lower bound", 1, true))
  end)

  it("returns the same plan for lengths, a histogram, a data set and a file", function()
    local counts = {}
    for i = 1, 128 do counts[i] = 0 end
    for _, l in ipairs(lengths) do counts[l] = counts[l] + 1 end
    local histogram = assert(pack.histogram(counts))
    local path = folder .. "/same.hist"
    assert(histogram:save(path))
    local dataset = { lengths = function(_, part, epoch, max_len)
      assert.same({ "train", 2, 128 }, { part, epoch, max_len })
      return lengths
    end }
    local function patterns(plan)
      local again = assert(pack.parse(plan:text()))
      return again:patterns()
    end
    local wanted = patterns(assert(pack(lengths, { max_len = 128 })))
    assert.same(wanted, patterns(assert(pack(histogram))))
    assert.same(wanted, patterns(assert(pack(path))))
    assert.same(wanted, patterns(assert(pack(dataset, { max_len = 128, epoch = 2 }))))
  end)

  it("covers every length exactly, in packs within capacity and depth", function()
    for _, solver in ipairs { "optimal", "lpfhp", "spfhp", "bfd", "ffd", "bpcc", "online", "none" } do
      local plan = assert(pack(lengths, { max_len = 128, max_seqs = 3, solver = solver }))
      local used = {}
      for _, pattern in ipairs(plan:patterns()) do
        local tokens = 0
        assert.is_true(#pattern <= 3)
        for _, l in ipairs(pattern) do
          tokens = tokens + l
          used[l] = (used[l] or 0) + pattern.count
        end
        assert.is_true(tokens <= 128)
      end
      for l, n in ipairs(plan:hist():counts()) do assert.equal(n, used[l] or 0) end
    end
  end)

  it("assigns each sequence once per epoch, and regroups them in the next", function()
    local plan = assert(pack(lengths, { max_len = 128 }))
    local packing = assert(plan:packing(lengths, 5))
    assert.equal(plan.packs, #packing)
    for epoch = 0, 2 do exactly_once(packing, lengths, 128, epoch) end
    local same = 0
    for i = 1, #packing do
      if table.concat(packing:at(0, i), " ") == table.concat(packing:at(1, i), " ") then same = same + 1 end
    end
    assert.is_true(same < #packing / 10)
    assert.same({ plan:packing(lengths, 5):at(1, 7) }, { packing:at(1, 7) })
    assert.equal(500, (packing:tally(0, 1, #packing)))
    none("data", "pack these lengths again", plan:packing({ 1, 2, 3 }, 5))
  end)

  it("chooses a depth and gives the reason", function()
    local plan = assert(pack(DATA .. "wikipedia_512.hist", { max_seqs = "auto", solver = "optimal" }))
    assert.equal(4, plan.max_seqs)
    assert.truthy(plan.reason:find("above the bound without a limit", 1, true))
    assert.truthy(tostring(plan):find("depth chosen: 4", 1, true))
    assert.equal(3, assert(pack(SQUAD, { max_seqs = "auto" })).max_seqs)
  end)

  it("treats overlong sequences as requested, and counts them", function()
    local long = { 10, 300, 40 }
    assert.truthy(none("data", "300 tokens", pack(long, { max_len = 128 })):find("(sequence 2)", 1, true))
    local plan = assert(pack(long, { max_len = 128, too_long = "truncate" }))
    assert.same({ 3, 1, 172, 178 }, { plan.sequences, plan.longer, plan.lost, plan.tokens })
    plan = assert(pack(long, { max_len = 128, too_long = "split" }))
    assert.same({ 5, 1, 0, 350 }, { plan.sequences, plan.longer, plan.lost, plan.tokens })
    plan = assert(pack(long, { max_len = 128, too_long = "split", solver = "online" }))
    assert.equal(350, plan.tokens)
  end)

  it("assigns the pieces of split sequences", function()
    local long = { 10, 300, 40, 256 }
    local plan = assert(pack(long, { max_len = 128, too_long = "split" }))
    assert.truthy(none("data", "7 pieces", plan:packing(long)):find("sr.pack.split", 1, true))
    local pieces, uids, starts = assert(pack.split(long, 128))
    assert.same({ 10, 128, 128, 44, 40, 128, 128 }, pieces)
    assert.same({ 0, 1, 1, 1, 2, 3, 3 }, uids)
    assert.same({ 0, 0, 128, 256, 0, 0, 128 }, starts)
    exactly_once(assert(plan:packing(pieces)), pieces, 128, 0)
    assert.equal(2, plan:hist():info().longer)
  end)

  it("packs zero, one and a thousand equal sequences", function()
    assert.equal(0, assert(pack({}, { max_len = 512 })).packs)
    assert.equal(1, assert(pack({ 77 }, { max_len = 512 })).packs)
    local equal = {}
    for i = 1, 1000 do equal[i] = 512 end
    assert.equal(1000, assert(pack(equal, { max_len = 512 })).packs)
    for i = 1, 1000 do equal[i] = 1 end
    assert.equal(2, assert(pack(equal, { max_len = 512 })).packs)
    assert.equal(1000, assert(pack(equal, { max_len = 512, max_seqs = 1 })).packs)
  end)

  it("saves and loads a plan, and rejects a modified one with the line", function()
    local plan, path = assert(pack(SQUAD)), folder .. "/squad.plan"
    assert(plan:save(path))
    local again = assert(pack.load(path))
    assert.equal(plan:text(), again:text())
    assert.equal(40195, again.packs)
    local text = assert(sys.read_file(path))
    none("data", "squad.plan:3:", pack.parse((text:gsub("capacity 384", "capacity x")), "squad.plan"))
    none(nil, "checksum", pack.parse((text:gsub("\nmilliseconds %S+", "\nmilliseconds 1")), "squad.plan"))
  end)

  it("reports errors at the caller's line", function()
    fails.raising("unknown option 'sover'.*'solver'", pack, lengths, { max_len = 128, sover = "lpfhp" })
    assert.has_error(function() pack(lengths) end)
    assert.has_error(function() pack(12) end)
    assert.has_error(function() pack(lengths, { max_len = 128, solver = "magic" }) end)
    assert.has_error(function() pack(lengths, { max_len = 70000 }) end)
    assert.has_error(function() pack({ 1.5 }, { max_len = 12 }) end)
    assert.has_error(function() assert(pack(lengths, { max_len = 128 })):view(0) end)
    local wrong = { { max_len = 70000 }, { max_len = 8, max_seqs = "many" }, { max_len = 8, max_seqs = 1.5 } }
    for _, options in ipairs(wrong) do
      fails.raising("^tests/spec/pack_spec.lua:%d+: pack: max_", function() return 1, pack({ 1, 2 }, options) end)
    end
    fails.raising("^tests/spec/pack_spec.lua:%d+: pack: lengths%[3%] must be an integer from 0 to 4294967295, got x$",
      function() return 1, pack({ 1, 2, "x" }, { max_len = 8 }) end)
  end)
end)

describe("a solver written in Lua", function()
  pack.register("pairs_of_equals", function(counts, options)
    local patterns = {}
    for l, n in ipairs(counts) do
      local both = 2 * l <= options.max_len and n // 2 or 0
      if both > 0 then patterns[#patterns + 1] = { count = both, l, l } end
      if n - 2 * both > 0 then patterns[#patterns + 1] = { count = n - 2 * both, l } end
    end
    return patterns
  end)

  it("is listed with the built-in ones", function()
    local plan = assert(pack({ 5, 5, 5, 60 }, { max_len = 64, solver = "pairs_of_equals" }))
    assert.same({ "pairs_of_equals", 3, 2 }, { plan.solver, plan.packs, plan.deepest })
    local names = table.concat(pack.solvers(), " ")
    assert.truthy(names:find("^optimal") and names:find("pairs_of_equals", 1, true))
    assert.truthy(tostring(pack.compare(COLA)):find("pairs_of_equals", 1, true))
  end)

  it("cannot return an invalid plan or replace a built-in solver", function()
    pack.register("forgets", function() return { { count = 1, 5 } } end)
    none("invalid", "1 sequence of 5 tokens is not in any pack", pack({ 5, 5 }, { max_len = 64, solver = "forgets" }))
    pack.register("shrugs", function() end)
    assert.has_error(function() pack({ 5, 5 }, { max_len = 64, solver = "shrugs" }) end,
      "pack: solver shrugs returned a nil; expected a list of patterns, { count = packs, length, ... } each")
    pack.register("overflows", function() return { { count = 1, 60, 60 } } end)
    assert.is_nil((pack({ 60, 60 }, { max_len = 64, solver = "overflows" })))
    assert.has_error(function() pack.register("lpfhp", print) end)
    pack.register("boasts", function() return { { count = math.maxinteger, 5 }, { count = math.maxinteger, 5, 5 } } end)
    none(nil, "integer overflow", pack({ 5, 5 }, { max_len = 64, solver = "boasts" }))
  end)
end)

it("padding reports the gap that packing would close", function()
  local plan = assert(pack(COLA, { solver = "none" }))
  assert.same({ 8551, 757, 7794 }, { plan.packs, plan.lower_bound, plan.gap_packs })
  assert.is_nil(plan.max_seqs)
  assert.equal(3, assert(pack(COLA, { solver = "none", max_seqs = 3 })).max_seqs)
end)

it("drawings show a pack to scale, with its sequences", function()
  local lengths = { 64, 32, 16 }
  local plan = assert(pack(lengths, { max_len = 128 }))
  local text = plan:view(1)
  assert.truthy(text:find("3 sequences, 112 of 128 tokens", 1, true))
  local row = text:match("\n(|[^\n]*)")
  assert.equal(73, #row)
  assert.equal(9, #row:match("%.+$"))
  local packing = assert(plan:packing(lengths, 1))
  assert.truthy(plan:view(1, packing, 0):find("uids 0 1 2", 1, true))
end)

it("drawings show lengths and efficiency in the terminal and as SVG", function()
  local text = assert(pack.plot(COLA))
  assert.truthy(text:find("8,551 sequences by length", 1, true) and text:find("99.431%%"))
  local svg = assert(pack.svg(COLA))
  assert.truthy(svg:find("^<svg ") and svg:find("</svg>\n$"))
  for _, solver in ipairs(core.solvers()) do assert(pack.plot(COLA, { solver = solver })) end
end)

it("assigning packs to ranks balances numbers exactly and costs nearly", function()
  local packs = {}
  for i = 1, 64 do packs[i] = { 512 - i * 3, (i * 37) % 150 + 1 } end
  local group, imbalance = pack.assign(packs, 8, { per_token = 1, per_square = 1 / 256 })
  local members = {}
  for _, g in ipairs(group) do members[g] = (members[g] or 0) + 1 end
  for g = 1, 8 do assert.equal(8, members[g]) end
  assert.is_true(imbalance < 1.01)
end)

it("assigning packs to ranks cost is more even than random, and both have equal groups", function()
  local packs, imbalance = {}, {}
  for i = 1, 64 do packs[i] = { 512 - i * 3, (i * 37) % 150 + 1 } end
  for _, balance in ipairs { "random", "cost" } do
    local group, uneven = pack.assign(packs, 8, nil, balance)
    local members = {}
    imbalance[balance] = uneven
    for _, g in ipairs(group) do members[g] = (members[g] or 0) + 1 end
    assert.same({ 8, 8, 8, 8, 8, 8, 8, 8 }, members)
  end
  assert.is_true(imbalance.cost < 1.001 and imbalance.random > 1.01)
  assert.has_error(function() pack.assign(packs, 8, nil, "exchange") end)
end)

describe("seqrun pack", function()
  local KEYS = {
    "solver", "sequences", "tokens", "max_len", "max_seqs", "packs", "strategies", "efficiency", "factor",
    "padding_tokens", "lower_bound", "gap_packs", "deepest", "milliseconds",
  }

  it("prints one JSON object for every solver", function()
    for _, solver in ipairs(core.solvers()) do
      local out = works(run("--hist", COLA, "--max-len", "128", "--max-seqs", "3", "--solver", solver, "--json"))
      local object = assert(json.decode(out))
      for _, key in ipairs(KEYS) do assert.is_not_nil(object[key]) end
      assert.equal(solver, object.solver)
      assert.equal(8551, object.sequences)
      assert.is_true(object.packs >= 2851 and object.lower_bound <= object.packs)
    end
  end)

  it("packs optimally without a limit per pack by default", function()
    local object = json.decode((works(run("--hist", SQUAD, "--max-len", "384", "--json"))))
    assert.same({ "optimal", 40195, 40195, 0 }, { object.solver, object.packs, object.lower_bound, object.gap_packs })
    assert.equal(json.null, object.max_seqs)
    assert.equal(3, json.decode((works(run("--hist", SQUAD, "--max-seqs", "auto", "--json")))).max_seqs)
  end)

  it("writes a proof, accepts it, and rejects it with one weight changed", function()
    local proof = folder .. "/proof.tsv"
    works(run("--hist", SQUAD, "--max-seqs", "3", "--certificate", proof))
    assert.equal(40195, json.decode((works(run("--hist", SQUAD, "--check", proof, "--json")))).lower_bound)
    local text = assert(sys.read_file(proof))
    local changed = text:gsub("\n300\t(%d+)", function(w) return "\n300\t" .. math.tointeger(w) + 1 end)
    assert.not_equal(text, changed)
    assert(sys.write_file(proof, changed))
    refuses(3, "invalid proof", run("--hist", SQUAD, "--check", proof, "--json"))
    exits(3, "", run("--hist", COLA, "--check", DATA .. "cert_squad_384_k3.tsv"))
    exits(3, "", run("--hist", SQUAD, "--max-seqs", "4", "--check", DATA .. "cert_squad_384_k3.tsv"))
    for _, depth in ipairs { "3", "4", "max" } do
      assert.equal(0, (run("--hist", SQUAD, "--check", DATA .. "cert_squad_384_k" .. depth .. ".tsv")))
    end
  end)

  it("compares all solvers with padding and concatenation", function()
    local out = works(run("--hist", COLA, "--compare"))
    for _, name in ipairs { "padding", "sorted batches", "next fit", "spfhp", "nnlshp", "online", "optimal" } do
      assert.truthy(out:find("\n" .. name, 1, true))
    end
    local object = json.decode((works(run("--hist", COLA, "--compare", "--max-seqs", "auto", "--json"))))
    assert.same({ 12, 757 }, { object.max_seqs, object.lower_bound })
    assert.equal(11, #object.rows)
  end)

  it("writes the plan and the drawing", function()
    local plan, svg = folder .. "/out.plan", folder .. "/out.svg"
    local out = works(run("--hist", COLA, "--out", plan, "--svg", svg, "--plot"))
    assert.truthy(out:find("by depth", 1, true))
    assert.equal(757, assert(pack.load(plan)).packs)
    assert.truthy(assert(sys.read_file(svg)):find("^<svg"))
    local _, told = program.run { "info", plan, "--json" }
    assert.equal(757, json.decode(told).packs)
    _, told = program.run { "info", plan }
    assert.matches("\n  max_seqs +none\n", told)
    sys.remove(svg)
    out = works(run("--hist", COLA, "--compare", "--svg", svg, "--plot"))
    assert.truthy(out:find("above bound", 1, true) and out:find("by depth", 1, true))
    assert.is_true(sys.exists(svg))
  end)

  it("fails with an exit code and a message, and nothing on stdout", function()
    local bad = program.write(folder, "bad.hist", "1\n2\nthree\n")
    local cases = {
      { 3, "bad.hist:3:", "--hist", bad },
      { 3, "no/such.hist", "--hist", "no/such.hist" },
      { 3, "does not fit a pack of 10", "--hist", COLA, "--max-len", "10" },
      { 2, "did you mean 'lpfhp'", "--hist", COLA, "--solver", "lpfp" },
      { 2, "not a positive integer", "--hist", COLA, "--max-seqs", "0" },
      { 2, "nothing to pack" },
      { 2, "not both", "x.sqr", "--hist", COLA },
      { 2, "1 to 65535", "--hist", COLA, "--max-len", "70000" },
      { 2, "use the solver optimal", "--hist", SQUAD, "--solver", "nnlshp", "--max-seqs", "9" },
      { 5, "no/such/dir/plan", "--hist", COLA, "--out", "no/such/dir/plan" },
      { 3, "not a certificate", "--hist", COLA, "--check", bad },
      { 2, "leave out --out", "--hist", COLA, "--compare", "--out", folder .. "/unheard" },
      { 2, "leave out --svg", "--hist", COLA, "--check", bad, "--svg", folder .. "/unheard" },
      { 2, "leave out --plot", "--hist", COLA, "--json", "--plot" },
      { 2, "nor auto", "--hist", COLA, "--max-seqs", "all" },
      { 2, "'-1' is not a length from 1 to", "--hist", COLA, "--max-len", "-1" },
    }
    for _, case in ipairs(cases) do
      local words = table.move(case, 3, #case, 1, {})
      words[#words + 1] = "--json"
      local _, err = refuses(case[1], case[2], run(table.unpack(words)))
      assert.equal(1, select(2, err:gsub("\n", "")))
    end
  end)
end)
