/* utf8.h - converts bytes to code points and back.
 *
 * Input may be invalid.  An invalid sequence (a stray byte, an overlong form, a surrogate, a value
 * above U+10FFFF, a truncated sequence) is read as U+FFFD, one for each maximal subpart, as
 * recommended by Unicode 15 section 3.9 and done by Rust's from_utf8_lossy().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/extern.h"

SR_BEGIN_C

enum { SR_UTF8_REPLACEMENT = 0xFFFD, SR_UTF8_LAST = 0x10FFFF };

/* Reads one code point from size > 0 bytes and returns its size in bytes, 1 to 4.  For an invalid
 * sequence, stores -1 and returns the number of bytes to skip, 1 to 3. */
int sr_utf8_decode(int32_t *cp, const uint8_t *bytes, size_t size);

/* Writes a scalar value and returns its size in bytes, 1 to 4. */
int sr_utf8_encode(uint8_t out[4], int32_t cp);

/* The number of code points; an invalid sequence counts as one. */
size_t sr_utf8_length(const uint8_t *bytes, size_t size);

/* The number of invalid sequences.  If `rest` is not NULL, an incomplete sequence at the end is not
 * counted; its size, 0 to 3 bytes, is stored in *rest, to be passed again with the following bytes.
 */
size_t sr_utf8_invalid(const uint8_t *bytes, size_t size, size_t *rest);

/* The longest prefix, at most `size` bytes, that does not end within a sequence. */
size_t sr_utf8_whole(const uint8_t *bytes, size_t size);

SR_END_C
