-- new - write a recipe and its config to start from: a copy of a shipped recipe, with every key as a comment.

local config = require("seqrun.config")
local failure = require("seqrun.base.failure")
local guess = require("seqrun.base.guess")
local json = require("seqrun.core.json")
local reference = require("seqrun.config.reference")
local shipped = require("seqrun.base.shipped")
local sys = require("seqrun.core.sys")
local tasks = require("seqrun.tasks")

local command = { summary = "write a recipe and its config to start from" }

---The shipped recipe that trains a task.
local function recipe_of(task)
  if task == "pretraining" then return "pretrain" end
  return tasks[task].head_class and "finetune" or task
end

---Every task that ships.
local TASKS = tasks.names

function command.define(cmd)
  cmd:argument("dir", "directory for the files; created if missing")
  cmd:option("--task", "what to train: " .. table.concat(TASKS, ", "), "pretraining")
  cmd:option("--name", "name of the recipe", "train")
  cmd:flag("--json", "one JSON object")
  cmd:epilog([[examples:
  seqrun new work                       work/train.lua pretrains on a data set
  seqrun new work --task classify       it fine-tunes on labelled files]])
end


local function recipe(name) return failure.must(sys.read_file(shipped.root .. "/recipes/" .. name)) end

local HEAD = [[
-- NAME.lua - change it as you like; its settings are in NAME.yaml.
--
--     seqrun NAME.lua --help        all keys
--     seqrun NAME.lua --dry-run     what it would do

]]

---The recipe as one file, with its task.
local function recipe_text(task, name)
  local text = recipe(recipe_of(task) .. ".lua")
  if recipe_of(task) == "finetune" then
    text = text:gsub("%-%- the task:.-\n\n", function() return ("local task = sr.tasks.%s\n\n"):format(task) end, 1)
    text = text:gsub(", name = name }", " }", 1)
  end
  local body = text:gsub("^%-%-[^\n]*\n", ""):gsub("^%-%-[^\n]*\n", "")
  while body:find("^%-%-") do body = body:gsub("^%-%-[^\n]*\n", "", 1) end
  local head = HEAD:gsub("NAME", name)
  return head .. body:gsub("^\n+", "")
end

---The shipped config, and its schema.
local function shipped_config(task)
  local schema = require("seqrun.run").schema(tasks[task])
  local file = shipped.root .. "/recipes/" .. recipe_of(task) .. ".yaml"
  return failure.must(config.load { schema = schema, file = file, partial = true }), schema
end

local HEAD_YAML = [[
# yaml-language-server: $schema=SCHEMA
# Settings of NAME.lua; KEY=VALUE on the command line overrides them.
# Every key is listed; those behind a # have their default.  To set one, remove the # from it and from its section.
]]

---The text of the config, and its JSON Schema.
local function config_text(task, name, schema_file)
  local loaded, keys = shipped_config(task)
  local head = HEAD_YAML:gsub("SCHEMA", schema_file):gsub("NAME", name)
  return head .. "\n" .. reference.yaml(keys, loaded) .. "\n",
    reference.json_schema(keys, "config of " .. name .. ".lua")
end

function command.run(args)
  local known = false
  for _, name in ipairs(TASKS) do known = known or name == args.task end
  if not known then
    local hint = guess.hint(args.task, TASKS)
    return nil, ("unknown task '%s'%s; use %s"):format(args.task, hint, table.concat(TASKS, ", ")), "config"
  end
  if not args.name:find("^[%w_-]+$") then
    return nil, ("--name: '%s' must be letters, digits, '_' and '-'"):format(args.name), "config"
  end
  local base = args.dir:gsub("(.)/+$", "%1") .. "/" .. args.name
  local schema = args.name .. ".schema.json"
  local text, json_schema = config_text(args.task, args.name, schema)
  local files = {
    { base .. ".lua", recipe_text(args.task, args.name) }, { base .. ".yaml", text },
    { base .. ".schema.json", json.encode(json_schema) .. "\n" },
  }
  for _, file in ipairs(files) do
    if sys.exists(file[1]) then
      return nil, ("%s exists; choose another directory or --name"):format(file[1]), "config"
    end
  end
  failure.must(sys.make_dirs(args.dir))
  for _, file in ipairs(files) do failure.must(sys.write_file(file[1], file[2])) end
  if args.json then
    local paths = json.array()
    for i, file in ipairs(files) do paths[i] = file[1] end
    print(json.encode { task = args.task, files = paths })
    return 0
  end
  for _, file in ipairs(files) do print("wrote " .. file[1]) end
  print(("next: edit %s.yaml, then seqrun %s.lua --dry-run"):format(base, base))
  return 0
end

return command
