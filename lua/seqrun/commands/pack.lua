-- pack - plan which sequences share a row, with efficiency and proof.

local converters = require("seqrun.config.converters")
local failure = require("seqrun.base.failure")
local formats = require("seqrun.draw.formats")
local json = require("seqrun.core.json")
local live = require("seqrun.draw.live")
local pack = require("seqrun.pack")
require("seqrun.data") -- for data sets by their path
local same_file = require("seqrun.base.same_file")
local sys = require("seqrun.core.sys")

local command = { summary = "plan packs for a histogram of lengths or a data set" }

local whole = converters.number("'%s' is not a positive integer", function(x)
  return x >= 1 and math.tointeger(x)
end)

local function depth(text)
  if text == "auto" then return text end
  local n, problem = whole(text)
  return n, problem and problem .. ", nor auto"
end

local length = converters.number("'%s' is not a length from 1 to 65535", function(x)
  return x >= 1 and x <= 65535 and math.tointeger(x)
end)

local number = converters.number("'%s' is not a number", function(x) return x >= 0 and x end)

function command.define(cmd)
  cmd:argument("data", "a data set (.sqr)"):args("?")
  cmd:option("--hist", "a histogram instead: line l is the number of sequences of l tokens"):argname("FILE")
  cmd:option("--max-len", "tokens per pack; default: the lines of the .hist file, 512 for a data set"):argname("L")
    :convert(length)
  cmd:option("--max-seqs", "maximum sequences per pack, or auto; default: unlimited"):argname("K"):convert(depth)
  cmd:option("--solver", table.concat(pack.solvers(), ", ")):argname("NAME"):default("optimal")
  cmd:option("--too-long", "sequences longer than L: error, truncate or split"):argname("POLICY"):default("error")
    :choices { "error", "truncate", "split" }
  cmd:flag("--no-nsp", "of a data set of text: single texts, as with data.nsp=false, instead of sentence pairs")
  cmd:option("--tolerance", "for auto: excess over the unlimited bound (0.0005)"):argname("PART"):convert(number)
  cmd:option("--iterations", "maximum simplex iterations"):argname("N"):convert(whole)
  cmd:option("--seconds", "time limit of optimal and nnlshp; returns the best so far"):argname("S"):convert(number)
  cmd:option("--open", "open packs of the online solver (64)"):argname("M"):convert(whole)
  cmd:option("--seed", "seed of the order in which online sees a histogram"):argname("N"):convert(math.tointeger)
  formats.define(cmd)
  cmd:flag("--compare", "compare all solvers and common baselines")
  cmd:flag("--plot", "plot the lengths and the efficiency by depth")
  cmd:option("--svg", "write that plot as SVG"):argname("FILE")
  cmd:option("--certificate", "write a proof of the lower bound"):argname("FILE")
  cmd:option("--check", "verify a proof for these lengths"):argname("FILE")
  cmd:option("--out", "write the plan"):argname("FILE")
  cmd:epilog([[examples:
  seqrun pack runs/data/novels.sqr --max-len 128 --compare
  seqrun pack --hist wikipedia.hist --max-len 512 --max-seqs 3 --json
  seqrun pack --hist wikipedia.hist --max-len 512 --certificate proof.txt]])
end

local function options_of(args)
  return {
    max_len = args.max_len, max_seqs = args.max_seqs, solver = args.solver, too_long = args.too_long,
    tolerance = args.tolerance, iterations = args.iterations, seconds = args.seconds, open = args.open,
    seed = args.seed,
  }
end

local LEAST = 5 -- [CLS] a [SEP] b [SEP]

local function histogram_of(args)
  if args.hist and args.data then return nil, "pack: give a data set or --hist FILE, not both", "config" end
  if args.hist then
    -- by content, regardless of the file's name
    return require("seqrun.core.pack").load_histogram(args.hist, args.max_len, args.too_long)
  end
  if args.max_len and args.max_len < LEAST and not (args.data or ""):find("%.hist$") then
    local text = "pack: --max-len %d is less than the %d tokens of the shortest pair of a data set"
    return nil, text:format(args.max_len, LEAST), "config"
  end
  if not args.data then return nil, "pack: nothing to pack; give a data set or --hist FILE", "config" end
  if args.data:find("%.hist$") then return pack.lengths(args.data, options_of(args)) end
  local dataset = failure.must(require("seqrun.data").open(args.data))
  return pack.lengths(dataset, { max_len = args.max_len or 512, too_long = args.too_long, nsp = args.no_nsp and false })
end

local function check(args, histogram)
  local certificate = failure.must(pack.load_certificate(args.check))
  local info = certificate:info()
  local asked = args.max_seqs
  if math.type(asked) == "integer" and info.max_seqs and info.max_seqs < asked then
    local text = "pack: invalid proof: it is for at most %d sequences per pack, not %d"
    failure.raise("data", text, info.max_seqs, asked)
  end
  failure.must(certificate:check(histogram))
  formats.tell(args, {
    json = function()
      return {
        holds = true, lower_bound = info.bound, max_len = info.max_len, max_seqs = info.max_seqs or json.null,
        total_weight = info.total, max_weight_of_any_pack = info.heaviest,
      }
    end,
    text = function()
      local limit = info.max_seqs and ("at most %d sequences"):format(info.max_seqs) or "any number of sequences"
      return ("the proof is valid: at least %d packs with %s per pack; the total weight is %d, of a pack at most %d")
        :format(info.bound, limit, info.total, info.heaviest)
    end,
  })
  return 0
end

local function draw(args, histogram)
  if args.svg then failure.must(sys.write_file(args.svg, pack.svg(histogram, { solver = args.solver }))) end
end

---Columns of --compare for other programs and for pages.
local COLUMNS = {
  "name", "packs", "efficiency", "factor", "gap_percent", "deepest", "strategies", "max_seqs", "milliseconds", "note",
}

local function compare(args, histogram)
  local options = options_of(args)
  options.max_len, options.too_long, options.solver = nil, nil, nil
  local result = failure.must(pack.compare(histogram, options))
  draw(args, histogram)
  formats.tell(args, {
    json = function()
      return { lower_bound = result.lower_bound, max_seqs = result.max_seqs or json.null, rows = result.rows }
    end,
    text = function() return tostring(result) end,
    rows = function(format) return formats.rows(result.rows, COLUMNS, format) end,
  })
end

---The proof, and the bound that it adds to the plan.
local function certify(args, histogram, plan)
  local certificate = failure.must(plan:prove())
  failure.must(certificate:save(args.certificate, histogram))
  local bound = certificate:info().bound
  if bound > plan.lower_bound then
    plan.lower_bound, plan.bound_kind, plan.gap_packs = bound, "lp", plan.packs - bound
  end
end

---Files are written before the report, so that a failure leaves stdout empty.
local function write_files(args, histogram, plan)
  for _, name in ipairs { "certificate", "out", "svg" } do
    failure.must(same_file(args[name], { args.data or args.hist }, "--" .. name))
  end
  if args.certificate then certify(args, histogram, plan) end
  if args.out then failure.must(plan:save(args.out)) end
  draw(args, histogram)
end

---Plans packs, and tells about the plan.
local function make_plan(args, histogram)
  local options = options_of(args)
  options.max_len, options.too_long = nil, nil
  local busy <close> = args.format == "table" and live.busy("packing") or nil
  local planned, plan, message, code = pcall(pack.pack, histogram, options)
  if busy then busy:finish() end
  if not planned then failure.raise("config", "%s", (tostring(plan):gsub("^[^:]+:%d+: ", ""))) end
  failure.must(plan, message, code)
  write_files(args, histogram, plan)
  formats.tell(args, {
    json = function()
      local object = plan:json()
      object.lower_bound, object.bound_kind, object.gap_packs = plan.lower_bound, plan.bound_kind, plan.gap_packs
      return object
    end,
    text = function() return tostring(plan) end,
  })
end

---Options that another option makes meaningless.
local CLASHES = {
  { "check", { "compare", "plot", "svg", "certificate", "out" }, "--check verifies a proof and makes no plan" },
  { "compare", { "certificate", "out" }, "--compare prints a table and makes no plan" },
}

local function check_clashes(args)
  for _, clash in ipairs(CLASHES) do
    for _, other in ipairs(clash[2]) do
      if args[clash[1]] and args[other] then
        failure.raise("config", "pack: %s; leave out --%s or --%s", clash[3], other, clash[1])
      end
    end
  end
  if args.plot and args.format ~= "table" then
    failure.raise("config", "pack: --format %s has no drawing; leave out --plot, or write it with --svg FILE",
      args.format)
  end
end

function command.run(args)
  local good, problem = pack.check_solver(args.solver)
  if not good then return nil, problem, "config" end
  check_clashes(args)
  local histogram = failure.must(histogram_of(args))
  if args.check then return check(args, histogram) end
  local answer = args.compare and compare or make_plan
  answer(args, histogram)
  if args.plot then print(pack.plot(histogram, { solver = args.solver })) end
  return 0
end

return command
