/* utf8.h - bytes to code points and back.
 *
 * Input is not trusted to be UTF-8.  A sequence that is not (a stray byte, an overlong form, a
 * surrogate, a value above U+10FFFF, a sequence cut short) is read as U+FFFD, one for each maximal
 * subpart, as Unicode 15 section 3.9 recommends and as Rust's from_utf8_lossy() does.
 */
#ifndef SR_TEXT_UTF8_H
#define SR_TEXT_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SR_UTF8_REPLACEMENT = 0xFFFD, SR_UTF8_LAST = 0x10FFFF };

/* Reads one code point from size > 0 bytes and returns how many bytes it took, 1 to 4.  An invalid
 * sequence stores -1 and returns the length of the part to skip, 1 to 3. */
int sr_utf8_decode(int32_t *cp, const uint8_t *bytes, size_t size);

/* Writes a scalar value and returns how many bytes it took, 1 to 4. */
int sr_utf8_encode(uint8_t out[4], int32_t cp);

/* The number of code points, an invalid sequence counted as one. */
size_t sr_utf8_length(const uint8_t *bytes, size_t size);

/* The number of invalid sequences.  When `rest` is not NULL, a sequence that the end cuts short
 * (0 to 3 bytes, stored in *rest) is not counted: give it again with the bytes that follow it. */
size_t sr_utf8_invalid(const uint8_t *bytes, size_t size, size_t *rest);

/* The longest prefix, at most `size` bytes, that does not end inside a sequence. */
size_t sr_utf8_whole(const uint8_t *bytes, size_t size);

#ifdef __cplusplus
}
#endif
#endif
