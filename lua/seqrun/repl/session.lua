-- session.lua - the functions of the prompt that are not Lua's.

local check = require("seqrun.base.check")
local failure = require("seqrun.base.failure")
local live = require("seqrun.draw.live")
local sys = require("seqrun.core.sys")

local EDITORS = { "editor", "nano", "vi" }

---@param env table the names of the session
---@return table<string, function>
return function(env)
  local function print(...) env.print(...) end -- that of the session
  local function tell(words) print(live.fit_output(words)) end
  local session = { sample = require("seqrun.help.sample")() }

  ---Prints what is known of a function, an object or a topic.
  ---@param topic? any
  function session.help(topic)
    if topic == nil then
      tell(require("seqrun.help").overview())
    else
      tell((require("seqrun.help").about(topic)))
    end
  end

  ---Prints the entries that mention a word.
  ---@param word string
  function session.apropos(word) tell(require("seqrun.help").search(word)) end

  ---Prints the recipes that come with the program, or the examples of a topic.
  ---@param topic? string
  function session.examples(topic) tell(require("seqrun.help").examples(topic)) end

  ---Calls a function, prints how long it took, and returns its results.
  ---@param fn function
  ---@param ... any its arguments
  ---@return any ...
  function session.time(fn, ...)
    if type(fn) ~= "function" then
      check.fail("time: expected a function and its arguments, as in time(sr.randn, 1000, 1000)")
    end
    local sr = env.sr
    sr.synchronize()
    local begin = sys.now()
    local results = table.pack(fn(...))
    sr.synchronize()
    local took = sys.now() - begin
    print(took < 1e-3 and ("%.1f µs"):format(1e6 * took) or took < 1 and ("%.2f ms"):format(1e3 * took)
      or ("%.2f s"):format(took))
    return table.unpack(results, 1, results.n)
  end

  ---Runs a Lua file in this session: the names that it sets stay.
  ---@param path string
  ---@return any ...
  function session.run(path)
    if type(path) ~= "string" then check.fail("%s", 'run: expected a file, as in run "work.lua"') end
    local chunk, problem = loadfile(path, "t", env)
    if not chunk then failure.raise("invalid", "%s", problem) end
    return chunk(path)
  end

  ---Opens a file in the editor that EDITOR names, then returns to the prompt.
  ---@param path string
  function session.edit(path)
    if type(path) ~= "string" then check.fail("%s", 'edit: expected a file, as in edit "work.lua"') end
    local quoted = "'" .. path:gsub("'", "'\\''") .. "'"
    local editor = os.getenv("VISUAL") or os.getenv("EDITOR")
    for _, name in ipairs(EDITORS) do
      if editor then break end
      if os.execute("command -v " .. name .. " >/dev/null 2>&1") then editor = name end
    end
    if not editor then failure.raise("missing", "edit: no editor found; set EDITOR, such as EDITOR=nano") end
    sys.signals("default")
    local good = os.execute(editor .. " -- " .. quoted)
    sys.signals("prompt")
    if not good then failure.raise("failed", "edit: %s failed", editor) end
    print(('run "%s" runs it here'):format(path))
  end

  ---Draws numbers in the terminal: a list, a tensor, a schedule, a function of the step, or a run's loss.
  ---@param values any
  ---@param options? table width, height, title, log; key: which metric of a run; steps: how far to draw a function
  function session.plot(values, options) return require("seqrun.repl.plot").show(values, options, print) end

  ---Draws how numbers are spread.
  ---@param values seqrun.Tensor|number[]
  ---@param options? { bins?: integer }
  function session.histogram(values, options) print(require("seqrun.repl.inside").histogram(values, options)) end

  ---Draws what each token of a text attends to in a layer of a model.
  ---@param model string a run, a checkpoint or a Hugging Face directory
  ---@param text string
  ---@param layer? integer from 0; the last by default
  ---@param head? integer from 0; the mean of all heads by default
  ---@param options? { svg?: string } svg: a file that gets the picture
  function session.attention(model, text, layer, head, options)
    print(require("seqrun.repl.inside").attention(model, text, layer, head, options))
  end

  ---Prints the sequences of a batch as text, with its masks in place.
  ---@param batch seqrun.Batch
  ---@param data seqrun.Corpus
  function session.show_batch(batch, data) print(require("seqrun.repl.inside").batch(batch, data)) end

  return session
end
