-- place.lua - where a run listens: a socket in the user's run-time directory, named in RUN/attach.json.

local failure = require("seqrun.base.failure")
local guess = require("seqrun.base.guess")
local json = require("seqrun.core.json")
local socket = require("seqrun.core.socket")
local sys = require("seqrun.core.sys")
local text = require("seqrun.base.format")

local place = {}

---Bytes that the path of a socket may have.
local LONGEST = 107

local function file_of(folder) return folder .. "/attach.json" end

---Listens for the run in `folder`, whose lock this process holds.
---@param folder string
---@return seqrun.core.Listener|nil
---@return string path of the socket, or a message
function place.listen(folder)
  local directory, message = socket.folder()
  if not directory then return nil, message end
  local whole = sys.real_path(folder) or folder
  local path = ("%s/%s.sock"):format(directory, sys.hash(whole):sub(1, 16)) -- a resume replaces a stale one
  local listener
  listener, message = socket.listen(path)
  if not listener then return nil, message end
  local facts = { socket = path, pid = sys.pid(), host = sys.machine().host }
  local done
  done, message = sys.write_file(file_of(folder), json.encode(facts) .. "\n")
  if done then return listener, path end
  listener:close()
  os.remove(path)
  return nil, message
end

---Removes what listen() made.
---@param folder string
---@param path string
function place.leave(folder, path)
  os.remove(path)
  os.remove(file_of(folder))
end

---A run with a similar name: "; did you mean 'runs/pretrain'?" or "".
local function hint(folder)
  local parent, name = folder:match("^(.*/)([^/]*)$")
  local near = guess.nearest(name or folder, sys.list(parent or ".") or {})
  return near and ("; did you mean '%s%s'?"):format(parent or "", near) or "; give the directory of a run"
end

---What RUN/attach.json says, or a failure.
local function read(folder)
  if not sys.exists(folder) then failure.raise("missing", "%s: no such directory%s", folder, hint(folder)) end
  if not sys.is_dir(folder) then failure.raise("missing", "%s is not a directory; give that of a run", folder) end
  local content = failure.there(sys.read_file(file_of(folder), 1 << 16))
  local facts = content and json.decode(content)
  if type(facts) == "table" and type(facts.socket) == "string" then
    if facts.socket:find("^[^%z]+$") and #facts.socket <= LONGEST then return facts end
    failure.raise("data", "%s names no socket: a path of 1 to %d bytes; the run writes it again when it is resumed",
      file_of(folder), LONGEST)
  end
  if sys.exists(folder .. "/config.yaml") then
    failure.raise("missing", "%s is not running, or was started with attach=false", folder)
  end
  failure.raise("missing", "%s is not a run: it has no config.yaml", folder)
end

---Connects to the run in `folder`; raises a failure that says why it cannot.
---@param folder string
---@return seqrun.core.Socket
function place.connect(folder)
  local facts, host = read(folder), sys.machine().host
  if facts.host and facts.host ~= host then
    failure.raise("missing", "%s runs on host %s, and this is %s; run seqrun attach there", folder, facts.host, host)
  end
  local connection, message, code = socket.connect(facts.socket)
  if connection then return connection end
  if code == "missing" then
    failure.raise("missing", "%s is not running: process %s ended without a message; resume it with --resume=%s",
      folder, tostring(facts.pid), text.shell(folder))
  end
  failure.raise(code, "%s", message)
end

return place
