-- advise - the fastest layouts of a training job over devices, by a fitted model.

local converters = require("seqrun.config.converters")

local command = { summary = "rank parallel layouts of a model on devices by predicted step time" }

local function number(text)
  local n = tonumber(text)
  if n and n > 0 then return n end
  return nil, ("'%s' is not a positive number"):format(text)
end

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
  cmd:option("--recompute", "only layouts that recompute every layer, or only others"):choices { "yes", "no" }
  cmd:option("--zero", "0: every rank keeps the whole optimizer state"):choices { "0", "1" }:default("1")
  cmd:option("--top", "layouts to print"):argname("N"):convert(converters.whole(1, 1 << 20)):default("10")
  cmd:flag("--all", "all layouts; with --json also those that do not fit")
  cmd:flag("--here", "predict steps of our own on this machine after a short probe, and measure them")
  cmd:option("--threads", "with --here: number of threads; default: all"):argname("N"):convert(converters.threads)
  cmd:flag("--no-measure", "with --here: predictions only")
  cmd:flag("--list", "print the known models and devices")
  cmd:flag("--json", "one JSON object")
  cmd:epilog([[examples:
  seqrun advise --model llama-13b --seq 2048 --batch 2048 --devices 64 --device a100
  seqrun advise --model bert-large --seq 512 --attended 386 --batch 1536 --devices 64 --device h100 --json
  seqrun advise --model bert-base/config.json --seq 512 --batch 256 --devices 8 --device h100
  seqrun advise --here --model bert-mini --seq 512 --batch 4]])
end

local function list(args)
  local models = require("seqrun.advise.models")
  local known = { models = models.names(models.models), devices = models.names(models.devices) }
  if args.json then
    print(require("seqrun.core.json").encode(known))
  else
    print("models: " .. table.concat(known.models, ", "))
    print("devices: " .. table.concat(known.devices, ", "))
  end
  return 0
end

---The advice for this machine.
local function here(args)
  for _, key in ipairs { "devices", "device", "kernel", "attended", "recompute" } do
    if args[key] then return nil, ("advise: --%s does not go with --here"):format(key), "config" end
  end
  local prober, show = require("seqrun.advise.here"), require("seqrun.advise.show")
  local batch = args.batch or 4
  local machine, message, code = prober.probe { model = args.model or "bert-mini", seq = args.seq or 512,
    threads = args.threads }
  if not machine then return nil, message, code end
  local arms = prober.check(machine, { batch = batch, measure = not args.no_measure })
  local verdict = prober.judge(arms)
  print(args.json and require("seqrun.core.json").encode(show.here_json(machine, batch, arms, verdict))
    or show.here(machine, batch, arms, verdict))
  return 0
end

local RECOMPUTE = { yes = true, no = false }

function command.run(args)
  if args.list then return list(args) end
  if args.here then return here(args) end
  for _, key in ipairs { "model", "seq", "batch", "devices", "device" } do
    if not args[key] then return nil, ("advise: --%s is missing; see seqrun advise --help"):format(key), "config" end
  end
  local advice, message, code = require("seqrun.advise").advise {
    model = args.model, seq = args.seq, batch = args.batch, devices = args.devices, device = args.device,
    kernel = args.kernel, attended = args.attended, recompute = RECOMPUTE[args.recompute],
    zero = math.tointeger(tonumber(args.zero)),
  }
  if not advice then return nil, message, code end
  local show = require("seqrun.advise.show")
  local most = args.all and #advice.layouts or args.top
  print(args.json and require("seqrun.core.json").encode(show.json(advice, most, args.all))
    or show.text(advice, most))
  return 0
end

return command
