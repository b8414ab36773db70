-- exits.lua - the exit codes, for the manual page; the guide has the same table.

---@type { [1]: integer, [2]: string }[]
return {
  { 0, "done" },
  { 1, "the run failed: the recipe raised an error, or too many updates were not finite" },
  { 2, "command line, config or recipe invalid" },
  { 3, "input data, vocabulary or checkpoint invalid" },
  { 4, "device or memory" },
  { 5, "storage full, a file that cannot be read or written, or a directory in use by another run" },
  { 8, "one of several processes died or hung" },
  { 70, "internal error" },
  { 75, "stopped, can be resumed" },
  { 130, "interrupted twice" },
}
