-- scores - metrics of predictions, over plain lists: sr.scores.f1({ 0, 1, 1 }, { 0, 1, 0 }, "macro").
--
-- The first list has the labels, the second the predictions.

local answers = require("seqrun.scores.answers")
local classes = require("seqrun.scores.classes")
local correlation = require("seqrun.scores.correlation")
local decisions = require("seqrun.scores.decisions")
local spans = require("seqrun.scores.spans")
local sweep = require("seqrun.scores.sweep")

return {
  confusion = classes.confusion,
  accuracy = classes.accuracy,
  f1 = classes.f1,
  matthews = classes.matthews,
  multilabel_f1 = classes.multilabel_f1,
  multilabel_accuracy = classes.multilabel_accuracy,

  roc_auc = sweep.roc_auc,
  average_precision = sweep.average_precision,
  threshold = decisions.threshold,

  pearson = correlation.pearson,
  spearman = correlation.spearman,

  squad = answers.squad,
  answer = answers.score,
  best_threshold = answers.best_threshold,

  spans = spans.score,
  calibration = require("seqrun.scores.calibration"),
}
