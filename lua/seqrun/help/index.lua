-- index.lua - what help knows: every public function, method and class, read from the annotations of the Lua files.
--
-- Public is what `sr` leads to: its functions, those of its parts, and the classes that they return or contain.

local names = require("seqrun.base.names")
local sorted = require("seqrun.base.sorted")
local sys = require("seqrun.core.sys")

-- The annotations of the C modules, which .make/annotations.lua makes: beside the program in a checkout.
local MADE = sys.real_path("/proc/self/exe"):match("^(.*)/[^/]*$") .. "/meta"
local ROOT = debug.getinfo(1, "S").source:match("^@(.*)/help/index%.lua$")
local DEPTH = 3 -- of tables below a part

local index = {}

---@class seqrun.HelpEntry
---@field name string "sr.pack.pack", "Plan:view", "Plan"
---@field text string what it does
---@field parameters? { name: string, type?: string, text?: string, optional?: boolean }[] nil for classes
---@field returns? { type: string, text?: string }[]
---@field fields? { name: string, type: string, text?: string }[] of a class
---@field example? string

-- ---- annotations ---------------------------------------------------------------------------------

---Splits "TYPE text" where a type may have braces, brackets and parentheses.
local function split_type(text)
  local depth, i = 0, 1
  while i <= #text do
    local c = text:sub(i, i)
    if c:find("[%(%[{<]") then depth = depth + 1 end
    if c:find("[%)%]}>]") then depth = depth - 1 end
    local joins = text:find("^%s*|", i) or text:sub(1, i - 1):find("[|:,]%s*$")
    if depth == 0 and c == " " and not joins then break end
    i = i + 1
  end
  return text:sub(1, i - 1), (text:sub(i):match("^%s*#?%s*(.-)%s*$"))
end

local function add_tag(doc, tag, rest)
  if tag == "param" then
    local name, optional, after = rest:match("^([%w_.]+)(%??)%s+(.*)$")
    if not name then return end
    local kind, text = split_type(after)
    doc.parameters[name] = { name = name, optional = optional == "?", type = kind, text = text }
  elseif tag == "return" then
    local kind, text = split_type(rest)
    doc.returns[#doc.returns + 1] = { type = kind, text = text }
  elseif tag == "field" then
    local name, optional, after = rest:match("^(%S-)(%??)%s+(.*)$")
    if not name then return end
    local kind, text = split_type(after)
    doc.fields[#doc.fields + 1] = { name = name, optional = optional == "?", type = kind, text = text }
  elseif tag == "alias" then
    local name, meaning = rest:match("^seqrun%.([%w_.]+)%s+(.*)$")
    doc.alias = name and { name = name, meaning = meaning }
  elseif tag == "class" then
    doc.class = rest:match("^seqrun%.([%w_.]+)")
    doc.base = rest:match(":%s*seqrun%.([%w_.]+)")
  end
end

---What the comment lines above a definition say.
local function read_doc(lines)
  local doc, text, tag, rest = { parameters = {}, returns = {}, fields = {} }, {}, nil, nil
  local function finish()
    if tag then add_tag(doc, tag, rest) end
    tag = nil
  end
  for _, line in ipairs(lines) do
    local next_tag, after = line:match("^@(%l+)%s*(.*)$")
    if next_tag then
      finish()
      tag, rest = next_tag, after
    elseif tag then
      rest = rest .. " " .. line:match("^%s*(.*)$")
    else
      text[#text + 1] = line
    end
  end
  finish()
  doc.text = table.concat(text, "\n"):gsub("^%s+", ""):gsub("%s+$", "")
  return doc
end

---The names of parameters in a definition, in order, with what is said of them.
local function parameters_of(doc, list)
  local result = {}
  for name in list:gmatch("[%w_.]+") do
    result[#result + 1] = doc.parameters[name] or { name = name }
  end
  return result
end

local function definition(line)
  local name, list = line:match("^%s*function ([%w_.:]+)%s*%(([^)]*)%)")
  if not name then name, list = line:match("^%s*local function ([%w_]+)%s*%(([^)]*)%)") end
  if not name then
    list = line:match("^return function%s*%(([^)]*)%)")
    name = list and "return"
  end
  return name, list
end

---Reads one file into `found`: functions by "FILE:LINE", methods and classes by name.
local function read_file(path, found)
  local comment, number, class_of = {}, 0, {}
  local module = path:match("meta/core_(%w+)%.lua$")
  for line in (assert(sys.read_file(path)) .. "\n"):gmatch("([^\n]*)\n") do
    number = number + 1
    local said = line:match("^%s*%-%-%-(.*)$")
    local name, list = definition(line)
    local variable = line:match("^local ([%w_]+)%s*=")
    if said then
      comment[#comment + 1] = said:gsub("^ ", "")
    else
      local doc = #comment > 0 and read_doc(comment)
      if doc and doc.alias then found.aliases[doc.alias.name] = doc.alias.meaning end
      if doc and doc.class then
        if doc.text ~= "" or #doc.fields > 0 or not found.classes[doc.class] then -- else methods are added to the class
          found.classes[doc.class] = { text = doc.text, fields = doc.fields, base = doc.base, path = path }
        end
        if variable then class_of[variable] = doc.class end
      elseif name and doc then
        local entry = { text = doc.text, parameters = parameters_of(doc, list), returns = doc.returns }
        found.lines[path .. ":" .. number] = entry
        local owner, sep, short = name:match("^([%w_]+)([.:])([%w_]+)$")
        local class = owner and class_of[owner]
        if class and sep == ":" then found.methods[class .. ":" .. short] = entry end
        if module and sep == "." then found.core[module .. "." .. short] = entry end
      end
      comment = {}
    end
  end
end

local function read_folder(path, found)
  for _, name in ipairs(sys.list(path) or {}) do
    local whole = path .. "/" .. name
    if sys.is_dir(whole) then
      if name ~= "examples" then read_folder(whole, found) end
    elseif name:find("%.lua$") then
      read_file(whole, found)
    end
  end
end

local annotations

---All annotations; read on first use.
local function all()
  if annotations then return annotations end
  annotations = { lines = {}, methods = {}, classes = {}, aliases = {}, core = {}, values = {} }
  read_folder(ROOT, annotations)
  read_folder(MADE, annotations)
  for name, entry in pairs(annotations.core) do
    local module, short = name:match("^(%w+)%.(.*)$")
    local core = package.loaded["seqrun.core." .. module]
    if core and core[short] then annotations.values[core[short]] = entry end
  end
  return annotations
end

---What the annotations say of a function; nil if it has none.
---@param fn function
---@return table|nil
function index.of_function(fn)
  local info = debug.getinfo(fn, "S")
  if info.what == "C" then return all().values[fn] end
  return all().lines[info.source:sub(2) .. ":" .. info.linedefined]
end

-- ---- what is public -------------------------------------------------------------------------------

local function add_functions(entries, path, value, depth, seen)
  if type(value) ~= "table" or seen[value] or depth == 0 then return end
  seen[value] = true
  for _, key in ipairs(names.of(value)) do
    local inner, name = names.field(value, key), path .. "." .. key
    if type(inner) == "function" then
      local found = index.of_function(inner) or { text = "" }
      entries[name] = { name = name, text = found.text, parameters = found.parameters or {}, value = inner,
        returns = found.returns or {} }
    elseif depth > 1 then
      add_functions(entries, name, inner, depth - 1, seen)
    end
  end
end

local function classes_in(text, wanted)
  for name in (text or ""):gmatch("seqrun%.([%w_.]+)") do wanted[#wanted + 1] = name end
end

---Classes whose methods are entries of their own, as there are many, and the field of seqrun.core.tensor with them.
local OWN_ENTRIES = { Tensor = "methods", Layout = "layout_methods" }

---Classes of C modules behind those that Lua code meets.
local BEHIND = { ["core.data.dataset"] = true, ["core.metric.metric"] = true, ["core.text.tokenizer"] = true }

---The first sentence of a file, which says what its class is.
local function head_of(path) return sys.read_file(path):match("^%-%- %S+ %- ([^\n]*)") or "" end

local function add_class(entries, name, class, methods)
  local short = name:match("[^.]*$")
  if #methods == 0 or BEHIND[name] then return end
  table.sort(methods, function(a, b) return a.name < b.name end)
  local text = class.text ~= "" and class.text or head_of(class.path)
  entries[short] = { name = short, text = text, fields = class.fields, class = name, methods = methods }
  if not OWN_ENTRIES[short] then return end
  for _, method in ipairs(methods) do entries[method.name] = method end
end

---The classes that public functions return, those in their fields, and so on.
local function add_classes(entries)
  local wanted, done = {}, {}
  for _, entry in pairs(entries) do
    for _, result in ipairs(entry.returns or {}) do classes_in(result.type, wanted) end
  end
  while #wanted > 0 do
    local name = table.remove(wanted)
    local class = not done[name] and all().classes[name]
    done[name] = true
    if class then
      local methods = {}
      for _, field in ipairs(class.fields) do classes_in(field.type, wanted) end
      if class.base then wanted[#wanted + 1] = class.base end
      for key, entry in pairs(all().methods) do
        local owner, method = key:match("^(.*):(.*)$")
        if owner == name and not method:find("^_") then
          entry.name = name:match("[^.]*$") .. ":" .. method
          methods[#methods + 1] = entry
          for _, result in ipairs(entry.returns) do classes_in(result.type, wanted) end
        end
      end
      add_class(entries, name, class, methods)
    end
  end
end

local function add_examples(entries)
  local folder = ROOT .. "/help/examples"
  for _, file in ipairs(sys.list(folder) or {}) do
    local part = file:match("^([%w_]+)%.lua$")
    for name, example in pairs(part and require("seqrun.help.examples." .. part) or {}) do
      if entries[name] then entries[name].example = example end
    end
  end
end

local entries

---Every entry by name; made on first use.
---@return table<string, seqrun.HelpEntry>
function index.entries()
  if entries then return entries end
  entries = {}
  add_functions(entries, "sr", require("seqrun"), DEPTH + 1, {})
  annotations = nil -- the walk has loaded the parts, so that C functions are known now
  entries = {}
  add_functions(entries, "sr", require("seqrun"), DEPTH + 1, {})
  add_classes(entries)
  add_examples(entries)
  return entries
end

---The names of all entries, in order.
---@return string[]
function index.names() return sorted(index.entries()) end

-- ---- options -----------------------------------------------------------------------------------------

---The fields of a class, those of its base first.
local function fields_of(name)
  local class = all().classes[name]
  local fields = class.base and all().classes[class.base] and fields_of(class.base) or {}
  return table.move(class.fields, 1, #class.fields, #fields + 1, fields)
end

---What the types of a function's parameters consist of, if they have no entries of their own: tables of options, and
---functions.
---@param entry seqrun.HelpEntry
---@return { name: string, fields: table[] }[]
function index.options_of(entry)
  local wanted, done, list = {}, {}, {}
  for _, parameter in ipairs(entry.parameters or {}) do classes_in(parameter.type, wanted) end
  local i = 1
  while wanted[i] do
    local name = wanted[i]
    local short, alias = name:match("[^.]*$"), all().aliases[name]
    if not done[name] and not index.entries()[short] and (alias or all().classes[name]) then
      local fields = alias and { { name = "is", type = alias } } or fields_of(name)
      if #fields > 0 then list[#list + 1] = { name = short, fields = fields } end
      for _, field in ipairs(alias and {} or fields) do classes_in(field.type, wanted) end
    end
    done[name] = true
    i = i + 1
  end
  return list
end

---The options of this name, such as LoaderOptions; nil if there are none.
---@param name string
---@return { name: string, fields: table[] }|nil
function index.options_named(name)
  if index.entries()[name] or not name:find("^%u") then return nil end
  for class in pairs(all().classes) do
    if class:match("[^.]*$") == name then return { name = name, fields = fields_of(class) } end
  end
end

-- ---- other ways to an entry -------------------------------------------------------------------------

---A method by "Class:name", with the example of its class.
---@param name string
---@return seqrun.HelpEntry|nil
function index.method(name)
  local class = index.entries()[name:match("^([^:]*):") or ""]
  for _, method in ipairs(class and class.methods or {}) do
    if method.name == name then
      method.example = method.example or class.example
      return method
    end
  end
end

---The entry of a function or a method.
---@param fn function
---@return seqrun.HelpEntry|nil
function index.entry_of(fn)
  local said = index.of_function(fn)
  for _, entry in pairs(index.entries()) do
    if rawequal(entry.value, fn) then return entry end
    for _, method in ipairs(entry.methods or {}) do
      if method == said then return index.method(method.name) end
    end
  end
  for class, field in pairs(OWN_ENTRIES) do
    for name, method in pairs(require("seqrun.core.tensor")[field]) do
      if rawequal(method, fn) then return index.entries()[class .. ":" .. name] end
    end
  end
  if said then return { name = "function", text = said.text, parameters = said.parameters, returns = said.returns } end
end

---The entry of an object's class.
---@param value any
---@return seqrun.HelpEntry|nil
function index.class_of(value)
  local meta = debug.getmetatable(value)
  local name = type(meta) == "table" and rawget(meta, "__name")
  local entry = type(name) == "string" and index.entries()[name:match("[^.]*$")]
  if entry then return entry end
  local methods = type(meta) == "table" and rawget(meta, "__index")
  for _, method in pairs(type(methods) == "table" and methods or {}) do
    local said = type(method) == "function" and index.of_function(method)
    local class = said and said.name and said.name:match("^([^:]*):")
    if class and index.entries()[class] then return index.entries()[class] end
  end
end

---The parts of `sr`, in order: those that are tables.
---@return string[]
function index.parts()
  local list = {}
  for name, part in pairs(require("seqrun")) do
    if index.module_of(name) and type(part) == "table" then list[#list + 1] = name end
  end
  table.sort(list)
  return list
end

---The module of a part of `sr`: "pack" -> "seqrun.pack", "ops" -> "seqrun.tensor.ops".
---@param name string
---@return string|nil
function index.module_of(name) return getmetatable(require("seqrun")).__modules[name] end

---What a part is for, from the first line of its file; nil if there is no such part.
---@param name string
---@return string|nil
function index.summary(name)
  local module = index.module_of(name)
  return module and index.purpose(module)
end

---What a module is for, from the first line of its file.
---@param module string
---@return string
function index.purpose(module) return head_of(assert(package.searchpath(module, package.path))) end

return index
