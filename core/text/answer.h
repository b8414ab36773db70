/* answer.h - the form in which SQuAD compares answers.
 *
 * Lower case, without ASCII punctuation and without the words a, an and the; words are separated by
 * one space.  Words are runs of letters, digits and numbers, white space is Unicode's, as in the
 * official script.  Invalid UTF-8 is dropped.
 *
 * Source: Rajpurkar et al. 2016, arXiv:1606.05250.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/base/extern.h"

SR_BEGIN_C

/* Writes the normal form of `size` bytes to `out`, which has room for 2 * size bytes, and returns
 * its size. */
size_t sr_text_answer(uint8_t *out, const uint8_t *bytes, size_t size);

SR_END_C
