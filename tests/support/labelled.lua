-- labelled.lua - a folder for specs of labelled files: a vocabulary, files, and sr.data.read on them.

local program = require "tests.support.program"
local sr = require "seqrun"
local sys = require "seqrun.core.sys"

local labelled = { folder = program.folder() }
labelled.vocab = labelled.folder .. "/vocab.txt"

---Words are tokens if they are in the list, else they are spelled.
local WORDS = "the a garden rain was fine it she he good bad who what where walked in london emma yes no day"

function labelled.setup()
  local lines = { "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]" }
  for byte = 33, 126 do
    local char = string.char(byte)
    if not char:find("%u") then lines[#lines + 1] = char end
  end
  for char in ("abcdefghijklmnopqrstuvwxyz0123456789"):gmatch(".") do lines[#lines + 1] = "##" .. char end
  for word in WORDS:gmatch("%a%a+") do lines[#lines + 1] = word end
  assert(sys.write_file(labelled.vocab, table.concat(lines, "\n") .. "\n"))
end

---Writes a file of the folder; its path.
function labelled.put(name, text) return program.write(labelled.folder, name, text) end

---sr.data.read on a file of the folder: the data set and the report, or nil, message without the folder, code.
function labelled.read(options)
  local given = require("tests.support.with")({ vocab = labelled.vocab, out = labelled.folder .. "/out.sqr" }, options)
  local report, message, code = sr.data.read(given)
  if not report then
    assert(not sys.exists(given.out), "a data set was written")
    return nil, labelled.short(message), code
  end
  local set = assert(sr.data.open(given.out, { held = 0 }))
  assert(sys.remove(given.out))
  return set, report
end

---A message without the folder.
function labelled.short(message) return (message:gsub(labelled.folder:gsub("%p", "%%%0") .. "/", "")) end

---All values of a column.
function labelled.column(set, name)
  local list = {}
  for i = 1, set:info().examples do list[i] = assert(set:column(name, i)) end
  return list
end

return labelled
