-- completion - completion for a shell, or the manual page: from the parsers of the command line.

local command = { summary = "print completion for bash, zsh or fish, or the manual page" }

function command.define(cmd)
  cmd:argument("what", "bash, zsh, fish, or man"):choices { "bash", "zsh", "fish", "man" }
  cmd:epilog([[examples:
  source <(seqrun completion bash)                                      this shell only
  seqrun completion bash > ~/.local/share/bash-completion/completions/seqrun
  seqrun completion zsh > ~/.zfunc/_seqrun                              with fpath+=(~/.zfunc) before compinit
  seqrun completion fish > ~/.config/fish/completions/seqrun.fish
  seqrun completion man | man -l -]])
end

function command.run(args)
  io.stdout:write((require("seqrun.shell." .. args.what)()))
  return 0
end

return command
