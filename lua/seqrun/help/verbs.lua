-- verbs.lua - how help and completion reach the list of commands, which stands above them.  The program sets `load`
-- when it starts (cli/init.lua).

---@type { load?: fun(): table } gives seqrun.cli.verbs
return {}
