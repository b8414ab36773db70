-- doctor - check whether this machine can train, and what to do if not.

local doctor = require("seqrun.doctor")
local json = require("seqrun.core.json")

local command = { summary = "check whether this machine can train; failed checks suggest a remedy" }

function command.define(cmd)
  cmd:flag("--json", "one JSON object")
  cmd:epilog([[examples:
  seqrun doctor
  seqrun doctor --json]])
end

function command.run(args)
  local findings = doctor.examine()
  local well = true
  for _, finding in ipairs(findings) do well = well and finding.ok end
  if args.json then
    print(json.encode { ok = well, findings = json.array(findings) })
  else
    print(require("seqrun.live").fit_output(doctor.text(findings)))
  end
  return well and 0 or 1
end

return command
