-- verbs.lua - how help reaches the commands, which stand above it.  The program sets `load` when it starts (cli.lua).

---@type { load?: fun(): table } gives seqrun.commands.shell.verbs
return {}
