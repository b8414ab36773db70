/* spaced.h - scans of text 16 bytes at a time: words as white space separates them, and the next
 * byte that may end a sentence.  Internal to core/text and core/data.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/base/extern.h"

SR_BEGIN_C

/* The number of words: runs of what is not Unicode's White_Space, as `wc -w` counts them. */
size_t sr_spaced_words(const uint8_t *bytes, size_t size);

/* The position of the next . ! or ? from `at` on; `size` if there is none.  SR_SPACED_MORE bytes
 * after `size` must be readable; their values do not matter. */
enum { SR_SPACED_MORE = 16 };
size_t sr_spaced_stop(const uint8_t *bytes, size_t at, size_t size);

SR_END_C
