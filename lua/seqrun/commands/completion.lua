-- completion - completion for a shell, or the manual page: from the parsers of the command line.

local command_line = require("seqrun.base.hook") "verbs" -- seqrun.cli.verbs

local command = { summary = "print completion for bash, zsh or fish, or the manual page" }

function command.define(cmd)
  cmd:argument("what", "bash, zsh, fish, or man"):args("?"):choices { "bash", "zsh", "fish", "man" }
  cmd:flag("--json", "the commands and their options as one JSON object, for other tools")
  cmd:epilog([[examples:
  source <(seqrun completion bash)                                      this shell only
  seqrun completion bash > ~/.local/share/bash-completion/completions/seqrun
  seqrun completion zsh > ~/.zfunc/_seqrun                              with fpath+=(~/.zfunc) before compinit
  seqrun completion fish > ~/.config/fish/completions/seqrun.fish
  seqrun completion man | man -l -
  seqrun completion --json]])
end

---The table that all of them are made of.
local function plain()
  local array, verbs = require("seqrun.core.json").array, command_line()
  local list = array(verbs.all())
  for _, verb in ipairs(list) do
    verb.options, verb.arguments = array(verb.options), array(verb.arguments)
  end
  return { commands = list, run_options = array(verbs.run_options()) }
end

function command.run(args)
  if args.json then
    if args.what then return nil, "completion: give " .. args.what .. " or --json, not both", "config" end
    print(require("seqrun.core.json").encode(plain()))
    return 0
  end
  if not args.what then return nil, "completion: name a shell (bash, zsh, fish), man, or --json", "config" end
  io.stdout:write(command_line().script(args.what))
  return 0
end

return command
