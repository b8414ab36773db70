-- words.lua - a vocabulary as the text of its file.

---@param vocab seqrun.core.text.vocab
---@return string
return function(vocab)
  local lines = {}
  for id = 0, #vocab - 1 do lines[id + 1] = vocab:token(id) end
  lines[#lines + 1] = ""
  return table.concat(lines, "\n")
end
