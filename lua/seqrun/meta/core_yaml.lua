---@meta

---Strict YAML, read event by event: no anchors, tags, aliases, duplicate keys or second documents.
---@class seqrun.core.yaml
local yaml = {}

---@class seqrun.core.yaml.node
---@field kind "scalar"|"list"|"map"
---@field line integer
---@field column integer
---@field value? string of a scalar, untyped
---@field quoted? boolean

---Reads the only document of a text into nodes with their positions; reports all problems.
---@param text string
---@return seqrun.core.yaml.node? root nil if there is no document
---@return { message: string, line: integer, column: integer }[] problems empty if the text is valid
function yaml.parse(text) end

return yaml
