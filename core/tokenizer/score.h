/* score.h - numbers of a tokenizer.json as Hugging Face's library reads them.
 *
 * It takes the digits as a whole number and divides once by a power of ten, which rounds twice
 * where there are more than 15 digits.  Ways through Unigram that are equal to the last bit or not
 * depend on it. */
#pragma once

#include "core/base/extern.h"

SR_BEGIN_C

/* `number` as it is read there from its shortest decimal form. */
double sr_score(double number);

SR_END_C
