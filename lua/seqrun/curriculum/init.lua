-- curriculum - which examples an update may have, and how long they are.

local curriculum = {
  reference = require("seqrun.curriculum.reference"),
}

return curriculum
