---@meta

---Local sockets of one user, and work that a connection may end.
---@class seqrun.core.socket
local socket = {}

---A connection; nothing blocks except wait().
---@class seqrun.core.Socket
local Socket = {}

---What has arrived, "" if nothing has; nil once the other end has closed.
---@return string? bytes
---@return string? message
---@return string? code
function Socket:read() end

---Writes as much as there is room for, from a position on.
---@param bytes string
---@param from? integer default 1
---@return integer? count of bytes written
---@return string? message
---@return string? code
function Socket:write(bytes, from) end

---Waits until the socket can be read, or written; a signal ends the wait.
---@param seconds number
---@param writes? boolean
---@return boolean ready
function Socket:wait(seconds, writes) end

---Closes the connection; twice is allowed.
function Socket:close() end

---A socket that listens.
---@class seqrun.core.Listener
local Listener = {}

---The next connection of a program of this user; nil if there is none.
---@return seqrun.core.Socket?
---@return string? message
---@return string? code
function Listener:accept() end

---Stops listening; the path stays.
function Listener:close() end

---The directory of this user's sockets, which only this user can enter; created if needed.
---@return string? path
---@return string? message
---@return string? code
function socket.folder() end

---Listens at a path, with mode 0600; a socket that is there already is replaced.
---@param path string
---@return seqrun.core.Listener?
---@return string? message
---@return string? code
function socket.listen(path) end

---Connects to a process of this user that listens there.
---@param path string
---@return seqrun.core.Socket?
---@return string? message
---@return string? code "missing" if nobody listens there
function socket.connect(path) end

---Calls a function that ends with "interrupted" after some time, when the other end of the socket closes or sends
---"stop", or on a signal.
---@param connection seqrun.core.Socket
---@param limits { seconds?: number, lua?: integer, tensors?: integer } seconds: default 10; bytes that it may
---  allocate for values of Lua (default 2 GiB) and for tensors (default: no limit)
---@param fn function
---@param ... any its arguments
---@return "time"|"stop"|"gone"|"signal"|nil why it was interrupted
---@return boolean done
---@return any ... what it returned, or the error
function socket.limited(connection, limits, fn, ...) end

return socket
