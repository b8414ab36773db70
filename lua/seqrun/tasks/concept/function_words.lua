-- function_words.lua - words of English that say little alone: pronouns, prepositions, conjunctions, auxiliary verbs.
-- WordNet has nouns that are written like some of them, such as those for an inch, the WHO and iodine.

local words = {}

for word in ([[
  a about above after again against all am an and any are aren as at be because been before being below between both but
  by can cannot could did do does doing don down during each either else ever every few for from further had has have
  having he hence her here hers herself him himself his how however i if in into is it its itself just least less may me
  might mine more most much must my myself nay neither no nor not now o of off oh on once one ones only or other others
  ought our ours ourselves out over own per quite rather same shall she should since so some such than that the thee
  their theirs them themselves then there these they thine this those thou though through thus thy till to too under
  unless until up upon us very was we were what when where whether which while who whom whose why will with within
  without would ye yea yes yet you your yours yourself yourselves]]):gmatch("%S+") do
  words[word] = true
end

return words
