/* compress.h - how well the text of a sequence compresses.  Internal to core/data. */
#pragma once

#include "core/data/measure.h"

SR_BEGIN_C

/* *out = bytes of the text after deflate (level 6, no header) over bytes before.  The text is the
 * tokens of BERT's WordPiece, with a space before each that does not continue a word; of others
 * what the tokenizer decodes. */
sr_status sr_compress_ratio(double *out, sr_measuring *scratch, const sr_tokenizer *tokenizer,
                            const sr_segments *t);
void sr_compress_close(void *deflate); /* may be NULL */

SR_END_C
