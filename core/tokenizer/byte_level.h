/* byte_level.h - GPT-2's characters for bytes: printable Latin-1 stands for itself, other bytes for
 * U+0100 and up. */
#pragma once

#include <stdint.h>

#include "core/base/extern.h"

SR_BEGIN_C

/* The character of a byte. */
static inline int32_t sr_char_of_byte(uint8_t byte) {
    if ((byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE) return byte;
    if (byte <= 0x20) return 0x100 + byte;
    return byte == 0xAD ? 0x143 : 0x121 + byte - 0x7F;
}

/* The byte of a character, -1 if it stands for none. */
static inline int sr_byte_of_char(int32_t cp) {
    if (cp > 0x143) return -1;
    uint8_t byte = cp < 0x100    ? (uint8_t)cp
                   : cp <= 0x120 ? (uint8_t)(cp - 0x100)
                   : cp == 0x143 ? 0xAD
                                 : (uint8_t)(cp - 0x121 + 0x7F);
    return sr_char_of_byte(byte) == cp ? byte : -1;
}

SR_END_C
