/* carried.h - the tokenizer that a data set carries, so that it is self-contained.
 *
 * BERT's WordPiece, also when it was read from a tokenizer.json, is
 *
 *     vocab      bytes  the tokens, each followed by a line feed
 *     metadata   lowercase, keep_accents, vocab_size, vocab_fingerprint
 *
 * any other tokenizer
 *
 *     tokenizer  bytes  the text of its tokenizer.json
 *     metadata   lowercase, vocab_size, tokenizer_config (the roles of its special tokens),
 *                tokenizer_fingerprint
 */
#pragma once

#include "core/data/shard.h"
#include "core/tokenizer/tokenizer.h"

SR_BEGIN_C

/* True if ids do not show which tokens start a word: the data set needs a column word_starts. */
bool sr_carried_starts(const sr_tokenizer *t);

/* Adds the column and the metadata. */
sr_status sr_carried_write(sr_shard_writer *w, const sr_tokenizer *t);

/* Makes the tokenizer; special tokens in texts are plain text.
 * Errors: SR_EDATA  there is none, or it is invalid; SR_ENOMEM, SR_EIO */
sr_status sr_carried_read(sr_tokenizer **out, sr_shard *s);

SR_END_C
