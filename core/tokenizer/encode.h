/* encode.h - tokenizes lines to text: sources in, lines of ids out, on all threads.
 *
 * Writes one line of output per line of input, in order.  Work is split into blocks of lines by
 * size, never by the number of threads, so the output does not depend on it.  If input arrives
 * slowly (a terminal, a pipe), each line is answered at once.  With WordPiece memory is bounded: a
 * line longer than the limit of the source is processed in parts, which changes no ids unless it
 * has a megabyte without white space.  With other models a line is held as a whole.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/base/thread.h"
#include "core/text/source.h"
#include "core/tokenizer/tokenizer.h"

SR_BEGIN_C

typedef struct sr_encode_opts {
    bool ids;        /* 7592:0:5 with offsets, else 7592; if neither is set, the tokens as text */
    bool offsets;    /* first:last of each token, in code points of the line */
    bool frame;      /* the frame of the tokenizer around each line, at 0:0 */
    bool json;       /* {"line":1,"ids":[..],"offsets":[[0,5],..]}, or "tokens" if neither is set;
                      * a line that was split gives an object per part, with the same number */
    bool count_only; /* count only, write nothing */
} sr_encode_opts;

/* Receives the next bytes of output; a failure ends the work and is returned. */
typedef sr_status (*sr_encode_sink)(void *context, const void *bytes, size_t size);

typedef struct sr_encode_counts {
    uint64_t lines, bytes, tokens, unknown, invalid, long_cut;
} sr_encode_counts;

/* Encodes all of `source`.  If `threads` is NULL, only the caller's thread is used.
 * Errors: those of sr_source_line() and of the sink; SR_ENOMEM; SR_ESTOP if a stop was requested.
 */
sr_status sr_encode(sr_source *source, const sr_tokenizer *t, const sr_encode_opts *opts,
                    sr_threads *threads, sr_encode_sink sink, void *context,
                    sr_encode_counts *counts);

SR_END_C
