/* tokenizer_json.h - reads a tokenizer.json. */
#pragma once

#include "core/tokenizer/parts.h"

SR_BEGIN_C

/* Fills a blank tokenizer from the text of a tokenizer.json. */
sr_status sr_tokenizer_read_json(sr_tokenizer *t, const char *bytes, size_t size, const char *name,
                                 const sr_tokenizer_opts *opts);

SR_END_C
