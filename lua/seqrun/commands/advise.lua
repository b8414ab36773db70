-- advise - the fastest layouts of a training job over devices, by a fitted model.

local converters = require("seqrun.config.converters")
local failure = require("seqrun.base.failure")
local formats = require("seqrun.draw.formats")

local command = { summary = "rank parallel layouts of a model on devices by predicted step time" }

local number = converters.number("'%s' is not a positive number", function(x) return x > 0 and x end)

function command.define(cmd)
  cmd:option("--model", "a known model, or a config.json or its directory"):argname("FILE|NAME")
  cmd:option("--seq", "tokens per sequence (per pack, where sequences are packed)"):argname("N")
    :convert(converters.whole(1, 1 << 24))
  cmd:option("--batch", "sequences (packs) per step, over all devices"):argname("N")
    :convert(converters.whole(1, 1 << 24))
  cmd:option("--devices", "number of devices"):argname("N"):convert(converters.whole(1, 1 << 16))
  cmd:option("--device", "a known device"):argname("NAME")
  cmd:option("--kernel", "attention and norm: packed (default for encoders), flash2_rms (default for decoders), "
    .. "flash2, flash1, fused, torch"):argname("NAME")
  cmd:option("--attended", "of packs: mean tokens that a token attends to; default: N of --seq"):argname("N")
    :convert(number)
  cmd:option("--recompute", "only layouts that recompute every layer, nothing, or the parts that are large and cheap")
    :choices { "yes", "no", "selective" }
  cmd:option("--zero", "0: every rank keeps the whole optimizer state"):choices { "0", "1" }:default("1")
  cmd:option("--top", "layouts to print"):argname("N"):convert(converters.whole(1, 1 << 20)):default("10")
  cmd:flag("--all", "all layouts; with --json, csv and markdown also those that do not fit")
  cmd:flag("--here", "predict training steps of seqrun on this machine after a short probe, and measure them")
  cmd:option("--threads", "with --here: number of threads; default: all"):argname("N"):convert(converters.threads)
  cmd:flag("--no-measure", "with --here: predictions only")
  cmd:flag("--list", "print the known models and devices")
  formats.define(cmd)
  cmd:epilog([[examples:
  seqrun advise --model llama-13b --seq 2048 --batch 2048 --devices 64 --device a100
  seqrun advise --model bert-large --seq 512 --attended 386 --batch 1536 --devices 64 --device h100 --json
  seqrun advise --model bert-base/config.json --seq 512 --batch 256 --devices 8 --device h100
  seqrun advise --here --model bert-mini --seq 512 --batch 4]])
end

local function list(args)
  local models = require("seqrun.advise.models")
  local known = { models = models.names(models.models), devices = models.names(models.devices) }
  formats.tell(args, {
    json = function() return known end,
    text = function()
      return ("models: %s\ndevices: %s"):format(table.concat(known.models, ", "), table.concat(known.devices, ", "))
    end,
    rows = function()
      local rows = { { "kind", "name" } }
      for _, name in ipairs(known.models) do rows[#rows + 1] = { "model", name } end
      for _, name in ipairs(known.devices) do rows[#rows + 1] = { "device", name } end
      return rows
    end,
  })
  return 0
end

---Columns of CSV and Markdown.
local STEPS = {
  "threads", "ranks", "micro_batch", "recompute", "predicted_seconds", "measured_seconds", "predicted_bytes",
  "measured_bytes", "why",
}
local LAYOUTS = {
  "rank", "micro_batch", "data", "tensor", "pipeline", "interleave", "sequence_parallel", "recompute", "selective",
  "zero", "step_seconds", "mfu", "tokens_per_s", "memory_gib", "fits", "why",
}

---The advice for this machine.
local function here(args)
  for _, key in ipairs { "devices", "device", "kernel", "attended", "recompute" } do
    if args[key] then return nil, ("advise: --%s cannot be combined with --here"):format(key), "config" end
  end
  local prober, show = require("seqrun.advise.here"), require("seqrun.advise.show")
  local batch = args.batch or 4
  local machine = failure.must(prober.probe { model = args.model or "bert-mini", seq = args.seq or 512,
    threads = args.threads })
  local arms = prober.check(machine, { batch = batch, measure = not args.no_measure })
  local verdict = prober.judge(arms)
  local function plain() return show.here_json(machine, batch, arms, verdict) end
  formats.tell(args, {
    json = plain, text = function() return show.here(machine, batch, arms, verdict) end,
    rows = function(format) return formats.rows(plain().steps, STEPS, format) end,
  })
  return 0
end

local RECOMPUTE = { yes = true, no = false, selective = "selective" }

function command.run(args)
  if args.list then return list(args) end
  if args.here then return here(args) end
  for _, key in ipairs { "model", "seq", "batch", "devices", "device" } do
    if not args[key] then return nil, ("advise: --%s is missing; see seqrun advise --help"):format(key), "config" end
  end
  local advice = failure.must(require("seqrun.advise").advise {
    model = args.model, seq = args.seq, batch = args.batch, devices = args.devices, device = args.device,
    kernel = args.kernel, attended = args.attended, recompute = RECOMPUTE[args.recompute],
    zero = math.tointeger(tonumber(args.zero)),
  })
  local show = require("seqrun.advise.show")
  local most = args.all and #advice.layouts or args.top
  local function plain() return show.json(advice, most, args.all) end
  formats.tell(args, {
    json = plain, text = function() return show.text(advice, most) end,
    rows = function(format) return formats.rows(plain().layouts, LAYOUTS, format) end,
  })
  return 0
end

return command
