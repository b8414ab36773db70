/* pattern_known.h - known patterns as programs; internal to pattern.c. */
#pragma once

#include "core/tokenizer/pattern.h"

SR_BEGIN_C

/* The program of a pattern as published, NULL if it is not known. */
sr_pattern_scan sr_pattern_known(const char *regex);

size_t sr_scan_gpt2(const uint8_t *bytes, size_t at, size_t size);

SR_END_C
