-- attach - a prompt inside a running run.

local converters = require("seqrun.config.converters")

local attach = { summary = "a prompt inside a running run: inspect it, change the rate, save, stop" }

function attach.define(cmd)
  cmd:argument("dir", "directory of the run")
  cmd:option("-e --eval", "evaluate, print and detach"):argname("EXPR")
  cmd:option("--timeout", "seconds that an expression may take, at most 60"):argname("SECONDS"):default("10")
    :convert(converters.whole(1, 60))
  cmd:epilog([[Each line of standard input is evaluated between two steps of the run; help() lists the available
names. A run with attach=false cannot be attached to.

examples:
  seqrun attach runs/pretrain
  seqrun attach runs/pretrain -e 'status()'
  echo 'step, loss' | seqrun attach runs/pretrain
  seqrun attach runs/pretrain -e 'scale_rate(0.5)']])
end

function attach.run(args)
  local client = require("seqrun.attach.client").open((args.dir:gsub("(.)/+$", "%1")), args.timeout)
  if client:greet() then
    if args.eval then client:evaluate(args.eval) else client:prompt() end
  else
    client.code = 1
  end
  return client:close()
end

return attach
