-- version - print the version and how it was built.

local formats = require("seqrun.draw.formats")
local live = require("seqrun.draw.live")
local sorted = require("seqrun.base.sorted")
local sys = require("seqrun.core.sys")

local command = { summary = "print the version and how it was built" }

function command.define(cmd)
  formats.define(cmd)
  cmd:epilog([[examples:
  seqrun version
  seqrun version --json]])
end

function command.run(args)
  local facts = sys.build()
  facts.lua = _VERSION
  facts.instructions = require("seqrun.core.tensor").instructions()
  if args.format ~= "table" then
    formats.tell(args, { json = function() return facts end })
    return 0
  end
  print(("seqrun %s (%s)"):format(facts.version, facts.git))
  for _, name in ipairs(sorted(facts)) do
    if name ~= "version" and name ~= "git" then
      print(live.fit_output(("  %-13s %s"):format(name, tostring(facts[name]))))
    end
  end
  return 0
end

return command
