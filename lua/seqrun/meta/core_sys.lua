---@meta

---Clocks, the terminal, files, signals and facts about the machine and the build.
---@class seqrun.core.sys
local sys = {}

---Seconds of a monotonic clock.
---@return number
function sys.now() end

---Seconds since 1970, with fractions; for logs only.
---@return number
function sys.time() end

---Waits; a signal ends it early.
---@param seconds number
function sys.sleep(seconds) end

---Says whether standard error ends with a line that is not complete: a program that is interrupted completes it.
---@param shown boolean
function sys.status_line(shown) end

---Whether a file descriptor (1 is standard output) is a terminal.
---@param fd integer
---@return boolean
function sys.is_terminal(fd) end

---"FILE:LINE: " of the innermost caller that is not a file of the library, to begin a message about its mistake; "" if
---there is none.
---@return string
function sys.where() end

---Whether the function at a level of the stack, 1 being the caller, is of a file outside the library.
---@param level integer
---@return boolean
function sys.is_outside(level) end

---The width of a terminal, 80 when unknown.
---@param fd integer
---@return integer
function sys.columns(fd) end

---The height of a terminal, 24 when unknown.
---@param fd integer
---@return integer
function sys.rows(fd) end

---What columns() returns from now on, for output that goes to another terminal; nil: the width of the terminal.
---@param columns? integer
function sys.assume_columns(columns) end

---A whole file; one larger than `limit` (default 1 GiB) is an error.
---@param path string
---@param limit? integer
---@return string? bytes
---@return string? message
---@return string? code
function sys.read_file(path, limit) end

---Replaces a file durably and atomically.
---@param path string
---@param bytes string
---@return true? done
---@return string? message
---@return string? code
function sys.write_file(path, bytes) end

---Whether a file can be written there; checked before long work.
---@param path string
---@return true? done
---@return string? message
---@return string? code
function sys.check_writable(path) end

---Makes a directory and its missing parents.
---@param path string
---@return true? done
---@return string? message
---@return string? code
function sys.make_dirs(path) end

---Makes a directory of a new name in TMPDIR, or /tmp, for this user alone.
---@return string? path
---@return string? message
---@return string? code
function sys.temporary_dir() end

---The bytes of a file, or of all files in a directory; 0 of what is not there.
---@param path string
---@return integer? bytes
---@return string? message
---@return string? code
function sys.tree_size(path) end

---Removes a file, or a directory with its contents; links are not followed.
---@param path string
---@return true? done
---@return string? message
---@return string? code
function sys.remove(path) end

---Whether the path exists.
---@param path string
---@return boolean
function sys.exists(path) end

---Whether the path is a directory.
---@param path string
---@return boolean
function sys.is_dir(path) end

---The names in a directory, in byte order.
---@param path string
---@return string[]? names
---@return string? message
---@return string? code
function sys.list(path) end

---Kind, size in bytes and time of the last change.
---@param path string
---@return { kind: "file"|"dir"|"other", size: integer, modified: number }? facts
---@return string? message
---@return string? code
function sys.stat(path) end

---The absolute path, with links followed.
---@param path string
---@return string? path
---@return string? message
---@return string? code
function sys.real_path(path) end

---Syncs a directory: its entries survive a power cut.
---@param path string
---@return true? done
---@return string? message
---@return string? code
function sys.sync_dir(path) end

---XXH3-128 of some bytes, as 32 hexadecimal digits.
---@param bytes string
---@return string
function sys.hash(bytes) end

---XXH3-64 of some bytes, for tables in memory.
---@param bytes string
---@param seed? integer 0; the key of what stands before these bytes
---@return integer
function sys.key(bytes, seed) end

---XXH3-128 of a file, as 32 hexadecimal digits.
---@param path string
---@return string? digits
---@return string? message
---@return string? code
function sys.hash_file(path) end

---Who handles INT, TERM, USR1 and HUP: a run (`caught` names them, HUP is ignored), work without
---steps (the same, and long C functions end with "stopped"), the prompt (INT raises "interrupted" in
---the Lua code that runs), the prompt while it reads (INT ends the read), or the system.
---@param mode "run"|"work"|"prompt"|"reading"|"default"
function sys.signals(mode) end

---The signal that arrived since `signals` was called or it was last cleared.
---@param clear? boolean
---@return "INT"|"TERM"|"USR1"|nil
function sys.caught(clear) end

---Calls a function as pcall does; with signals("prompt"), no interrupt outlives the call.
---@param fn function
---@param ... any its arguments
---@return boolean interrupted
---@return boolean ok
---@return any ... results, or the error
function sys.interruptible(fn, ...) end

---The machine and the features of its processor; `memory` is in bytes.
---@return { system: string, release: string, arch: string, host: string, processors: integer, memory: integer, cpu: string, avx2: boolean, avx512: boolean, avx512_bf16: boolean, amx_bf16: boolean }
function sys.machine() end

---How the program was built: version, commit, compiler, flags, library versions.
---@return table<string, string|boolean>
function sys.build() end

---Resident memory of this process in bytes, now and at its peak.
---@return integer resident
---@return integer peak
function sys.memory() end

---Free bytes on the file system of `path`.
---@param path string
---@return integer? bytes
---@return string? message
---@return string? code
function sys.free_space(path) end

---The process exit code of an error code such as "data"; nil if the code is unknown.
---@param code string
---@return integer?
function sys.exit_code(code) end

---The numbers of the processors that this process may use.
---@return integer[]
function sys.affinity() end

---Binds all threads of this process, and those it makes later, to these processors.
---@param processors integer[]
---@return true|nil
---@return string? message
---@return string? code
function sys.bind(processors) end

---Drops what is written to standard output from now on.
function sys.mute() end

---Whether standard output is a pipe or terminal without a reader.
---@return boolean
function sys.reader_left() end

---The process id.
---@return integer
function sys.pid() end

return sys
