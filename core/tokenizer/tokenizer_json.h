/* tokenizer_json.h - reads a tokenizer.json. */
#ifndef SR_TOKENIZER_TOKENIZER_JSON_H
#define SR_TOKENIZER_TOKENIZER_JSON_H

#include "core/tokenizer/parts.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fills a blank tokenizer from the text of a tokenizer.json. */
sr_status sr_tokenizer_read_json(sr_tokenizer *t, const char *bytes, size_t size, const char *name,
                                 const sr_tokenizer_opts *opts);

#ifdef __cplusplus
}
#endif
#endif
