-- Completion for shells, the manual page, and examples in --help: all from the parsers of the command line.

local fails = require("tests.support.fails")
local program = require("tests.support.program")
local verbs = require("seqrun.cli.verbs")

local SHELLS = { "bash", "zsh", "fish" }

---What a shell prints when it is given a script.
local function output(command)
  local pipe <close> = assert(io.popen(command .. " 2>&1"))
  return pipe:read("a")
end

local function has(command) return os.execute("command -v " .. command .. " >/dev/null 2>&1") == true end

describe("completion", function()
  local folder, scripts
  setup(function()
    folder, scripts = program.folder(), {}
    for _, shell in ipairs(SHELLS) do
      scripts[shell] = program.ok { "completion", shell }
      program.write(folder, shell, scripts[shell])
    end
  end)

  it("has every command, every option, every option of a run and every config key", function()
    local function check(text)
      for shell, script in pairs(scripts) do
        local shown = shell == "fish" and text:find("^%-%-") and "-l " .. text:sub(3) or text
        assert.truthy(script:find(shown, 1, true), shell .. ": " .. text)
      end
    end
    local all = verbs.all()
    assert.is_true(#all > 10)
    for _, verb in ipairs(all) do
      check(verb.name)
      for _, option in ipairs(verb.options) do check(option.names[#option.names]) end
    end
    for _, option in ipairs(verbs.run_options()) do check(option.names[1]) end
    for _, key in ipairs(verbs.keys()) do check(key.name) end
  end)

  it("is accepted by its shell", function()
    for _, shell in ipairs(SHELLS) do
      if has(shell) then assert.equal("", output(("%s -n '%s/%s'"):format(shell, folder, shell))) end
    end
  end)

  it("completes commands, options, values, keys and recipes in bash", function()
    local harness = program.write(folder, "harness", [[
      source "$1"; shift
      compopt() { :; }
      COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _seqrun; printf '%s ' "${COMPREPLY[@]}"
    ]])
    local function complete(...)
      local words = { ... }
      for i, word in ipairs(words) do words[i] = "'" .. word .. "'" end
      return output(("bash '%s' '%s/bash' seqrun %s"):format(harness, folder, table.concat(words, " ")))
    end
    assert.equal("pack ", complete "pac")
    assert.equal("--solver ", complete("pack", "--so"))
    assert.equal("optimal online ", complete("pack", "--solver", "o"))
    assert.equal("rate.peak= ", complete("recipes/pretrain.lua", "rate.pe"))
    assert.equal("packs sequences ", complete("recipes/pretrain.lua", "batch.by", "=", ""))
    assert.equal("packs sequences ", complete("recipes/pretrain.lua", "batch.by", "="))
    assert.equal("--max-steps ", complete("recipes/pretrain.lua", "--max"))
    assert.equal("predict ", complete("help", "pr"))
    assert.equal("recipes/pretrain.lua ", complete "recipes/pretr")
    assert.equal("", (complete("recipes/pretrain.lua", "--max-steps", ""):gsub("%s", "")))
    assert.matches("README.md", (complete("pack", "--hist", "READ")))
  end)

  it("completes commands, options, values, keys and recipes in fish", function()
    if not has "fish" then return pending "no fish" end
    local function complete(line)
      local script = ("source %s/fish; complete -C '%s'"):format(folder, line)
      return (output(('fish --no-config -c "%s"'):format(script)):gsub("\t[^\n]*", ""):gsub("\n", " "))
    end
    assert.equal("pack ", complete "seqrun pac")
    assert.equal("--solver ", complete "seqrun pack --so")
    assert.equal("online optimal ", complete "seqrun pack --solver o")
    assert.equal("rate.peak= ", complete "seqrun recipes/pretrain.lua rate.pe")
    assert.equal("batch.by=packs batch.by=sequences ", complete "seqrun recipes/pretrain.lua batch.by=")
    assert.equal("--max-steps ", complete "seqrun recipes/pretrain.lua --max")
    assert.equal("predict ", complete "seqrun help pr")
    assert.matches("recipes/pretrain.lua", complete "seqrun recipes/pretr", 1, true)
    assert.equal("README.md ", complete "seqrun pack --hist READ")
  end)

  it("completes commands, options, values, keys and recipes in zsh", function()
    if not has "zsh" then return pending "no zsh" end
    program.write(folder, "_seqrun", scripts.zsh)
    local lines = {
      { "pac", "pack " }, { "pack --so", "pack --solver=" }, { "pack --solver opt", "pack --solver optimal " },
      { "recipes/pretr", "recipes/pretrain.lua " },
      { "recipes/pretrain.lua rate.pe", "recipes/pretrain.lua rate.peak=" },
      { "recipes/pretrain.lua batch.by=pa", "recipes/pretrain.lua batch.by=packs " },
      { "recipes/pretrain.lua --max", "recipes/pretrain.lua --max-steps=" }, { "help pr", "help predict " },
      { "pack --hist READ", "pack --hist README.md " }, { "info READ", "info README.md " },
    }
    local words, wanted = { "zsh -f tests/support/complete.zsh " .. folder }, {}
    for i, line in ipairs(lines) do
      words[i + 1], wanted[i] = ("'seqrun %s'"):format(line[1]), "seqrun " .. line[2]
    end
    assert.equal(table.concat(wanted, "\n") .. "\n", output(table.concat(words, " ")))
  end)

  it("of an unknown shell is an error with the known ones", function()
    fails.exiting(2, "bash", { "completion", "tcsh" })
  end)
end)

it("the manual page names every command, and has no errors for groff", function()
  local out = program.ok { "completion", "man" }
  for _, name in ipairs(require("seqrun.cli.commands").names()) do
    assert.truthy(out:find("seqrun " .. name, 1, true), name)
  end
  local page = program.write(program.folder(), "seqrun.1", out)
  if has "groff" then assert.equal("", output("groff -man -ww -z " .. page)) end
end)

it("--help of every command has examples that its parser accepts", function()
  local commands = require("seqrun.cli.commands")
  for _, name in ipairs(commands.names()) do
    if name ~= "help" then
      local count = 0
      local examples = commands.parser_of(name):get_help():match("\nexamples:\n(.*)$")
      for line in (examples or ""):gmatch("[^\n]+") do
        line = line:gsub("%S   +.*$", function(tail) return tail:sub(1, 1) end) -- what it prints, or a remark
        line = line:gsub("'([^']*)'", function(quoted) return (quoted:gsub(" ", "\1")) end)
        local words = {}
        for word in (line:match("seqrun " .. name .. " ?(.*)$") or ""):gmatch("%S+") do
          if word:find("^[<>|]") or word:find("^{") then break end
          if word:find("%)$") and not word:find("%(") then word = word:sub(1, -2) end
          words[#words + 1] = word:gsub("\1", " ")
        end
        if line:find("seqrun " .. name, 1, true) then
          count = count + 1
          local parser = commands.parser_of(name)
          local good, problem = parser:pparse(words)
          assert.truthy(good, name .. ": " .. line .. ": " .. tostring(problem))
        end
      end
      assert.is_true(count > 0, name .. " --help has no example")
    end
  end
end)
