/* encode.h - many lines to ids, written as text: sources in, lines out, on all threads.
 *
 * One line of output for each line of input, in order.  The work is cut into blocks of lines by
 * their size, never by the number of threads, so the output is the same on any number.  When the
 * input comes slowly (a terminal, a pipe) a line is answered when it has come.  Memory is bounded:
 * a line longer than the source's limit is taken in parts, which changes no id unless it has a
 * megabyte without white space.
 */
#ifndef SR_TEXT_ENCODE_H
#define SR_TEXT_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/base/thread.h"
#include "core/text/source.h"
#include "core/text/wordpiece.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_encode_opts {
    bool ids; /* 7592:0:5 with offsets, else 7592; without either the tokens as they are spelt */
    bool offsets; /* first:last of each token, in code points of the line */
    bool frame;   /* [CLS] before and [SEP] behind each line, at 0:0 */
    bool json;    /* {"line":1,"ids":[..],"offsets":[[0,5],..]}, "tokens" when neither is asked for;
                   * a line that was cut gives an object for each part, all with its number */
    bool count_only; /* write nothing: what is wanted is the counts */
} sr_encode_opts;

/* Takes the next bytes of output; a failure ends the work and is returned. */
typedef sr_status (*sr_encode_sink)(void *context, const void *bytes, size_t size);

typedef struct sr_encode_counts {
    uint64_t lines, bytes, tokens, unknown, invalid, long_cut;
} sr_encode_counts;

/* Encodes all of `source`.  A NULL `threads` is the caller's thread alone.
 * Errors: those of sr_source_line() and of the sink; SR_ENOMEM; SR_ESTOP when asked to stop. */
sr_status sr_encode(sr_source *source, const sr_tokenizer *t, const sr_encode_opts *opts,
                    sr_threads *threads, sr_encode_sink sink, void *context,
                    sr_encode_counts *counts);

#ifdef __cplusplus
}
#endif
#endif
