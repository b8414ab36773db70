-- listener.lua - what lets other processes attach to a run.  The program sets `open` when it starts (cli/init.lua):
-- prompts stand above runs, and a run knows only that it can be listened to.

---@type { open?: fun(run: seqrun.Run): table?, string? }
return {}
