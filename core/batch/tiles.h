/* tiles.h - packed attention cut into tiles: which query rows attend to which keys.
 *
 * The unit is a strip: up to 16 rows of one sequence.  A tile is a run of rows of one long
 * sequence, or a group: up to four strips of short sequences, whose keys are the same strips.  A
 * strip of a group sees the columns [key_begin, key_end) of its own sequence and no others, so
 * which sequences share a group changes no bit of their results.
 *
 * One list serves all layers, both passes and all devices.  It is made once per layout.  Kernels
 * read the structs below directly: SR_TILES_VERSION is their version.
 */
#pragma once

#include <stdint.h>

#include "core/base/status.h"
#include "core/batch/layout.h"

SR_BEGIN_C

enum {
    SR_TILES_VERSION = 1,
    SR_STRIP_ROWS = 16,
    SR_TILE_STRIPS = 4,
    SR_TILE_ROWS = SR_STRIP_ROWS * SR_TILE_STRIPS,
    SR_TILE_WIDE = 2 * SR_TILE_ROWS,
    SR_GROUP_LIMIT = 48 /* rows of a short sequence: at most three strips */
};

typedef struct sr_strip {
    int32_t row;                /* in the buffer */
    int32_t position;           /* of that row in its sequence */
    int32_t rows;               /* 1..16; 0: unused */
    int32_t key_begin, key_end; /* columns of the tile's keys */
    uint32_t uid, epoch;        /* of the sequence */
    int32_t sequence;           /* index in the layout; -1: unused */
} sr_strip;

/* A tile of one sequence has strip[0] alone; its other strips follow without gaps and see the same
 * keys.  A group has four strips, strip s being the columns 16 s .. 16 s + 15. */
typedef struct sr_tile {
    int32_t rows;    /* of queries; a group: SR_TILE_ROWS */
    int32_t keys;    /* columns; a group: SR_TILE_ROWS */
    int32_t key_row; /* column 0 in the buffer; -1: a group */
    int32_t block;   /* its index in the run `blocks`; an owner: of its first; a group: -1 */
    int32_t cost;    /* strips of queries times strips of keys */
    sr_strip strip[SR_TILE_STRIPS];
} sr_tile;

/* A range of sr_tiles.tile. */
typedef struct sr_tile_run {
    int32_t first, count;
} sr_tile_run;

/* Every run is in order of falling cost, so that workers that take tiles in order finish together;
 * blocks are in the order of their sequences in `owners`. */
typedef struct sr_tiles {
    sr_tile *tile;
    int32_t count;
    sr_tile_run wide;   /* long sequences: SR_TILE_WIDE rows each, at least SR_TILE_ROWS + 1 */
    sr_tile_run narrow; /* long sequences: the rows left over, at most SR_TILE_ROWS */
    sr_tile_run blocks; /* long sequences once more: SR_TILE_ROWS each */
    sr_tile_run owners; /* long sequences once more: all rows of one */
    sr_tile_run groups; /* short sequences */
    int32_t *slack;     /* (slack_count) rows of no sequence, ascending */
    int32_t slack_count;
} sr_tiles;

/* SR_ENOMEM.  Cost: O(rows + sequences log sequences). */
sr_status sr_tiles_new(sr_tiles **out, const sr_layout *layout);
void sr_tiles_free(sr_tiles *tiles); /* may be NULL */

/* How workers share the backward pass of a layout.  They take jobs in this order, each for every
 * head: `before` whole sequences that take longer than what follows; the blocks of keys of those
 * that are split, then their blocks of queries; the other whole sequences; groups. */
typedef struct sr_split {
    int32_t sequences; /* that are split: a prefix of `owners` */
    int32_t blocks;    /* of them: a prefix of `blocks` */
    int32_t before;    /* owners that follow those */
} sr_split;

/* A split sequence costs more in total, 7 products instead of 5, but its short jobs fill the last
 * round.  *out: what lets `slots` workers be done soonest.
 *
 *   heads     of queries; kv_heads of them are jobs of a whole sequence or of a block of keys
 *   reach     rows that a row sees at most
 *
 * Errors: SR_ENOMEM.  Cost: O(jobs log slots) for each number of sequences that is tried; few. */
sr_status sr_tiles_split(sr_split *out, const sr_tiles *tiles, int heads, int kv_heads, int slots,
                         int64_t reach);

SR_END_C
