---@meta

---Lines that a person types.
---@class seqrun.core.edit
local edit = {}

---Edits lines of a terminal, with history and completion; its __close restores the terminal.
---@class seqrun.core.Editor
local Editor = {}

---The next line: nil at the end of the input, false after Ctrl-C.
---@param prompt string
---@return string|false|nil
function Editor:read(prompt) end

---Adds a line to the history of this editor.
---@param line string valid UTF-8
function Editor:remember(line) end

---The editor of the standard input and output; nil if they are not a terminal or the build has no libedit.
---@param complete fun(before: string): string?, string? from the text before the cursor: what to insert, what to list
---@return seqrun.core.Editor|nil
function edit.open(complete) end

---Single keys of a terminal, also Ctrl-C and Ctrl-Z; its __close restores the terminal.
---@class seqrun.core.Keys
local Keys = {}

---The bytes of the next keys: "" if none came in time or a signal arrived, nil at the end of the input.
---@param seconds number to wait
---@return string|nil
function Keys:read(seconds) end

---Stops the process as Ctrl-Z does, with the terminal restored; returns when it is continued.
function Keys:pause() end

---Restores the terminal.
function Keys:close() end

---The keys of standard input; nil if it is not a terminal.
---@return seqrun.core.Keys|nil
function edit.keys() end

---Appends to a file that only its owner may read, created if missing.
---@param path string
---@param text string
---@param replace? boolean empty the file first
---@return true|nil
---@return string? message
---@return string? code
function edit.keep(path, text, replace) end

return edit
