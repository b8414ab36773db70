-- An optimizer's moments in a checkpoint: whole, or cut over several files in any way.

local checkpoint = require "seqrun.checkpoint"
local moments = require "seqrun.checkpoint.moments"
local none = require("tests.support.none")
local program = require("tests.support.program")
local sr = require "seqrun"
local sys = require "seqrun.core.sys"

local SIZE = { w = 24, b = 5 }

local function folder()
  local path = program.folder()
  assert(sys.make_dirs(path .. "/trainer"))
  return path
end

---An optimizer whose moments follow from `factor`.
local function trained(factor)
  local params = sr.params.new { { name = "w", shape = { 6, 4 } }, { name = "b", shape = { 5 } } }
  params:initialise(3)
  local opt = sr.optim.lamb(params)
  params.core:grad():copy_(params.core:value() * factor)
  opt:step { rate = 0.01 }
  return opt
end

---Writes the moments of `opt`, each cut before the elements of `cuts`, its pieces distributed over `files`.
local function write(dir, opt, cuts, files)
  local held = {}
  for i = 1, files do held[i] = {} end
  for _, piece in ipairs(opt:pieces()) do
    local edges = { 0 }
    for _, cut in ipairs(cuts) do
      if cut < piece.size then edges[#edges + 1] = cut end
    end
    for i, first in ipairs(edges) do
      local last = edges[i + 1] or piece.size
      local name = #edges == 1 and piece.name or ("%s[%d:%d]"):format(piece.name, first, last)
      held[i % files + 1][name] = piece.tensor:narrow(1, first + 1, last - first)
    end
  end
  for i, tensors in ipairs(held) do
    assert(checkpoint.write_tensors(("%s/trainer/optim-%d-of-%d.safetensors"):format(dir, i, files), tensors))
  end
end

---An owner of elements [first, last) of every parameter, as far as it has them.
local function owner(first, last)
  local pieces = {}
  for name, size in pairs(SIZE) do
    for _, moment in ipairs { "m.", "v." } do
      local upto = math.min(last, size)
      if first < upto then
        pieces[#pieces + 1] = {
          name = moment .. name, first = first, last = upto, size = size, tensor = sr.zeros(upto - first),
        }
      end
    end
  end
  return { pieces = function() return pieces end }
end

local function whole(opt)
  local all = {}
  for _, piece in ipairs(opt:pieces()) do all[piece.name] = piece.tensor end
  return all
end

describe("moments", function()
  local dir
  before_each(function() dir = folder() end)

  it("load from one file or several, however they were cut, into whoever owns which part", function()
    local was = trained(1)
    for files, cuts in ipairs { {}, { 3, 12 }, { 1, 2, 4, 5, 20 } } do
      sys.remove(dir .. "/trainer")
      assert(sys.make_dirs(dir .. "/trainer"))
      write(dir, was, cuts, files)
      local opt = trained(2)
      assert(moments.load(dir, opt))
      for name, tensor in pairs(whole(was)) do assert.same(tensor:totable(), whole(opt)[name]:totable()) end
      for _, range in ipairs { { 0, 4 }, { 3, 12 }, { 2, 21 }, { 4, 100 } } do
        local some = owner(table.unpack(range))
        assert(moments.load(dir, some))
        for _, piece in ipairs(some.pieces()) do
          local wanted = whole(was)[piece.name]:narrow(1, piece.first + 1, piece.last - piece.first)
          assert.same(wanted:totable(), piece.tensor:totable())
        end
      end
    end
  end)

  it("stand whole under their own names where one optimizer has them all", function()
    local names = {}
    for name, tensor in pairs(trained(1):state().tensors) do names[name] = tensor:shape() end
    assert.same({ ["m.w"] = { 6, 4 }, ["v.w"] = { 6, 4 }, ["m.b"] = { 5 }, ["v.b"] = { 5 } }, names)
  end)

  local function fails(words) none("data", words, moments.load(dir, trained(2))) end

  it("are rejected if a file is missing, a piece is duplicated, or the model differs", function()
    fails("has no trainer/optim.safetensors")
    write(dir, trained(1), { 3, 12 }, 3)
    assert(sys.remove(dir .. "/trainer/optim-2-of-3.safetensors"))
    fails("is missing or duplicated")
    write(dir, trained(1), { 3, 12 }, 3)
    local again = { ["m.w[2:4]"] = sr.zeros(2) }
    assert(checkpoint.write_tensors(dir .. "/trainer/optim-again.safetensors", again))
    fails("element 2 of 'm.w' is missing or duplicated")
    assert(checkpoint.write_tensors(dir .. "/trainer/optim-again.safetensors", { ["m.w[2:5]"] = sr.zeros(2) }))
    fails("'m.w[2:5]' has 2 elements")
    assert(checkpoint.write_tensors(dir .. "/trainer/optim-again.safetensors", { ["m.w"] = sr.zeros(23) }))
    fails("'m.w' has 23 elements")
  end)
end)
