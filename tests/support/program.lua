-- program.lua - runs the program: arguments in; exit code, stdout and stderr out.

local json = require("seqrun.core.json")
local sys = require("seqrun.core.sys")

local folders = {} -- made here and removed when the tests end
local program = setmetatable({ path = assert(sys.real_path("/proc/self/exe")) }, {
  __gc = function()
    for _, folder in ipairs(folders) do sys.remove(folder) end
  end,
})

local function quote(word) return "'" .. word:gsub("'", "'\\''") .. "'" end

local function take(path)
  local text = assert(sys.read_file(path))
  os.remove(path)
  return text
end

---@param words string[] arguments
---@param options? { input?: string, shell?: string, before?: string } shell: text after the command,
---  such as a redirection; before: text before it
---@return integer code 128 + n if signal n killed it
---@return string stdout
---@return string stderr
function program.run(words, options)
  options = options or {}
  local out, err, input = os.tmpname(), os.tmpname(), "/dev/null"
  if options.input then
    input = os.tmpname()
    assert(sys.write_file(input, options.input))
  end
  local line = { options.before or "", quote(program.path) }
  for _, word in ipairs(words) do line[#line + 1] = quote(word) end
  local redirect = ("<%s >%s 2>%s %s"):format(input, out, err, options.shell or "")
  local _, how, code = os.execute(table.concat(line, " ") .. " " .. redirect)
  if options.input then os.remove(input) end
  return how == "signal" and 128 + code or code, take(out), take(err)
end

---Runs the program: its exit code, and stdout and stderr as one text.
---@return integer code
---@return string text
function program.all(words, options)
  local code, out, err = program.run(words, options)
  return code, out .. err
end

---Runs the program, which must end with 0.
---@return string stdout
---@return string stderr
function program.ok(words, options) return program.works(program.run(words, options)) end

---The same, of a line whose output is JSON.
function program.json(words, options) return assert(json.decode((program.ok(words, options)))) end

---Creates an empty directory, removed when the tests end.
---@return string
function program.folder()
  local path = os.tmpname()
  os.remove(path)
  assert(sys.make_dirs(path))
  folders[#folders + 1] = path
  return path
end

---Writes a file into a directory and returns its path.
function program.write(folder, name, text)
  local path = folder .. "/" .. name
  assert(sys.write_file(path, text))
  return path
end

---Copies files of a directory into another, which is made if it is not there; returns the path of that.
function program.copy(from, to, names)
  assert(sys.make_dirs(to))
  for _, name in ipairs(names) do program.write(to, name, assert(sys.read_file(from .. "/" .. name))) end
  return to
end

---Installs the program in a directory, so that any user can run it.
---@param folder string
---@return string path of the program
---@return string lua the directory of its Lua files
function program.install(folder)
  local path, lua = folder .. "/bin/seqrun", folder .. "/share/seqrun/lua"
  local own = package.searchpath("seqrun.cli", package.path):match("^(.*)/seqrun/cli/init%.lua$")
  local line = "mkdir -p '%s/bin' '%s/share/seqrun' && cp '%s' '%s' && cp -r '%s' '%s' && chmod -R a+rX '%s'"
  assert(os.execute(line:format(folder, folder, program.path, path, own, lua, folder)))
  return path, lua
end

---Words before a command that is to have no more rights than file modes give: no mode keeps root out.
---@return string
function program.as_nobody()
  local pipe <close> = assert(io.popen("id -u"))
  return pipe:read("l") == "0" and "setpriv --reuid=65534 --regid=65534 --clear-groups " or ""
end

---Fails at the line of the test; level 3 of error().
local function expect(good, format, ...)
  if not good then error(format:format(...), 3) end
end

---Whether a text has these words: a part of it, or a pattern.
function program.has(text, words) return text:find(words, 1, true) ~= nil or text:find(words) ~= nil end

---Passes on what a command wrote if it ended well: `local out, err = works(program.run(words))`.
function program.works(code, out, err)
  expect(code == 0, "exit code %s, not 0: %s%s", code, out, err or "")
  return out, err
end

---Passes on what a command wrote if it ended with a code and a message: `exits(2, "unknown", program.run(words))`.
---@param words string in stderr, or in all output where that is one text: a part of it, or a pattern
function program.exits(wanted, words, code, out, err)
  expect(code == wanted, "exit code %s, not %d: %s%s", code, wanted, out, err or "")
  expect(program.has(err or out, words), "%q is not in: %s", words, err or out)
  return out, err
end

---The same of a command that wrote nothing to stdout.
function program.refuses(wanted, words, code, out, err)
  expect(code == wanted, "exit code %s, not %d: %s%s", code, wanted, out, err)
  expect(out == "", "stdout is not empty: %s", out)
  expect(program.has(err, words), "%q is not in: %s", words, err)
  return out, err
end

return program
