-- man.lua - the manual page, seqrun.1, which `make install` writes.

local verbs = require("seqrun.cli.verbs")

---Text as troff takes it.
local function plain(text) return (text:gsub("\\", "\\e"):gsub("%-", "\\-"):gsub("^([.'])", "\\&%1")) end

---Lines that are set unchanged.
local function verbatim(text)
  local lines = {}
  for line in (text .. "\n"):gmatch("(.-)\n") do lines[#lines + 1] = plain(line) end
  return ".nf\n" .. table.concat(lines, "\n") .. "\n.fi"
end

local function option(o)
  local names = {}
  for i, name in ipairs(o.names) do names[i] = "\\fB" .. plain(name) .. "\\fR" end
  local value = o.value and "\\fI" .. plain(o.value) .. "\\fR" or nil
  local shown = table.concat(names, ", ") .. (o.maybe and "[=" .. value .. "]" or value and " " .. value or "")
  return ".TP\n" .. shown .. "\n" .. plain(o.doc)
end

local function argument(a) return ".TP\n\\fI" .. plain(a.name) .. "\\fR\n" .. plain(a.doc) end

local function command(verb)
  local usage = verb.usage:gsub("^Usage: ", "")
  local parts = { ".SS seqrun " .. verb.name, plain(verb.summary) .. ".", ".PP", verbatim(usage) }
  for _, a in ipairs(verb.arguments) do parts[#parts + 1] = argument(a) end
  for _, o in ipairs(verb.options) do
    if o.names[1] ~= "-h" then parts[#parts + 1] = option(o) end
  end
  if verb.epilog then table.move({ ".PP", verbatim(verb.epilog) }, 1, 2, #parts + 1, parts) end
  return table.concat(parts, "\n")
end

local ENVIRONMENT = {
  { "SEQRUN_ISA", "instructions of CPU kernels: plain, avx2, avx512, avx512_bf16 or amx; default: the best" },
  { "SEQRUN_PLUGINS", "shared libraries to load, separated by colons" },
  { "SEQRUN_SLOW_PRODUCTS", "set: large products that cuBLASLt does not have are computed by a slow kernel" },
  { "CUDA_HOME", "where libcublasLt.so is looked for" },
}

local function list_of(entries)
  local parts = {}
  for i, entry in ipairs(entries) do
    parts[i] = ".TP\n\\fB" .. plain(tostring(entry[1])) .. "\\fR\n" .. plain(entry[2])
  end
  return table.concat(parts, "\n")
end

local INTRODUCTION = [[
.TH SEQRUN 1 "" "seqrun" "User Commands"
.SH NAME
seqrun \- train BERT\-type encoders on packed sequences
.SH SYNOPSIS
.nf
\fBseqrun\fR
\fBseqrun\fR \fIFILE.lua\fR [\fIkey.path=value\fR ...] [\fIoption\fR ...]
\fBseqrun \-e\fR \fIEXPR\fR
\fBseqrun\fR \fICOMMAND\fR ...
.fi
.SH DESCRIPTION
Without arguments, \fBseqrun\fR starts a prompt for Lua.
With a Lua file it runs a recipe: a program that trains, whose settings are in the YAML file beside it, in the file of
\fBconfig=\fR\fIFILE\fR, in a part of it that \fBpreset=\fR\fINAME\fR names, and on the command line, in rising
precedence.
With \fB\-e\fR it evaluates an expression and prints the result.
A command looks at data, models and runs.]]

---@return string
return function()
  local parts = { INTRODUCTION, ".SH OPTIONS OF A RUN" }
  for _, o in ipairs(verbs.run_options()) do parts[#parts + 1] = option(o) end
  parts[#parts + 1] = ".SH COMMANDS"
  for _, verb in ipairs(verbs.all()) do parts[#parts + 1] = command(verb) end
  table.move({
    ".SH EXIT STATUS", list_of(require("seqrun.cli.exits")), ".SH ENVIRONMENT", list_of(ENVIRONMENT),
    ".SH SIGNALS", plain("SIGINT, SIGTERM and SIGUSR1 end a run after the current step, with a checkpoint and exit "
      .. "code 75; a second SIGINT ends it at once.  A run continues after SIGHUP."),
    ".SH EXAMPLES", verbatim(table.concat({
      "seqrun recipes/prepare.lua inputs=[my/texts] out=runs/data/mine.sqr vocab.size=30000",
      "seqrun recipes/bert_phase1.lua preset=base data.file=runs/data/mine.sqr --dry-run",
      "seqrun recipes/bert_phase1.lua --resume",
      "echo 'a fine day' | seqrun predict runs/finetune_classify",
    }, "\n")),
    ".SH SEE ALSO", "The guide, the cookbook and other documents, installed beside this page in share/doc/seqrun/docs.",
  }, 1, 12, #parts + 1, parts)
  return table.concat(parts, "\n") .. "\n"
end
