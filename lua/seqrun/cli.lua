-- cli.lua - the command line: which word does what, and which exit code an end has.

local cli = {}

---Runs a Lua file as `lua` would: the global `arg` holds what follows its name.
local function run_file(words)
  local path = words[1]
  local chunk, problem = loadfile(path, "t")
  if not chunk then
    io.stderr:write("seqrun: ", problem, "\n")
    return 2
  end
  arg = table.move(words, 1, #words, 0, { [-1] = words[0] }) -- luacheck: ignore 111
  local ok, message = xpcall(chunk, debug.traceback, table.unpack(arg))
  if ok then return 0 end
  io.stderr:write("seqrun: ", tostring(message), "\n")
  return 1
end

---@param words string[] the words of the command line; [0] is the program
---@return integer # the process exit code
function cli.main(words)
  if not words[1] then
    io.stderr:write("seqrun: give a Lua file to run\n")
    return 2
  end
  return run_file(words)
end

return cli
