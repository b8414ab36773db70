/* Tiles of attention: every row once, every key range right, groups full, falling cost. */
#include "core/batch/tiles.h"

#include <stdlib.h>

#include "tests/c/owners.h"
#include "tests/support/fail.h"

OWNER(sr_tiles, sr_tiles_free)

enum { SETS = 10000, MOST = 64 };

/* A length set: some are sentences, some long, some all equal, some have gaps. */
static sr_layout *draw(uint32_t set) {
    int32_t len[MOST], start[MOST], at = 0;
    uint32_t uid[MOST], epoch[MOST];
    sr_u32x4 head = sr_philox((sr_u32x4){{set, 0, 1, 0}}, 5, SR_ROUNDS_DATA);
    int32_t n = (int32_t)sr_below(head.w[0], MOST + 1);
    uint32_t top = (uint32_t[]){16, 48, 64, 130, 520, 2100}[set % 6];
    for (int32_t s = 0; s < n; s++) {
        sr_u32x4 w = sr_philox((sr_u32x4){{set, (uint32_t)s, 2, 0}}, 5, SR_ROUNDS_DATA);
        len[s] = 1 + (int32_t)sr_below(set % 5 == 0 ? head.w[1] : w.w[0], top);
        at += set % 3 == 0 ? (int32_t)sr_below(w.w[1], 20) : 0;
        start[s] = at;
        at += len[s];
        uid[s] = w.w[2], epoch[s] = w.w[3];
    }
    sr_layout *l = NULL;
    CHECK_OK(sr_layout_new(&l, n, start, len, uid, epoch, (at + 127) / 128 * 128, 1));
    return l;
}

/* One row of a strip, against what the layout says. */
static bool is_right(const sr_layout *l, const sr_tile *tile, const sr_strip *s, int32_t i) {
    int32_t owner = l->owner[s->row + i];
    if (owner != s->sequence || l->position[s->row + i] != s->position + i) return false;
    if (l->uid[owner] != s->uid || l->epoch[owner] != s->epoch) return false;
    if (s->key_end - s->key_begin != l->len[owner]) return false;
    if (tile->key_row >= 0) /* column c is row key_row + c */
        return tile->key_row + s->key_begin == l->start[owner] && tile->keys == l->len[owner];
    for (int32_t c = s->key_begin; c < s->key_end; c++) { /* column c is a row of a strip */
        const sr_strip *key = &tile->strip[c / SR_STRIP_ROWS];
        if (c % SR_STRIP_ROWS >= key->rows) return false;
        if (key->row + c % SR_STRIP_ROWS != l->start[owner] + c - s->key_begin) return false;
    }
    return tile->keys == SR_TILE_ROWS;
}

/* The strip of a tile, as kernels derive it. */
static sr_strip strip_of(const sr_tile *tile, int32_t i) {
    if (tile->key_row < 0) return tile->strip[i];
    sr_strip s = tile->strip[0];
    int32_t left = tile->rows - i * SR_STRIP_ROWS;
    s.row += i * SR_STRIP_ROWS, s.position += i * SR_STRIP_ROWS;
    s.rows = left < SR_STRIP_ROWS ? left : SR_STRIP_ROWS;
    return s;
}

/* Marks the rows of a run; false on a wrong strip, a row seen twice or a cost that rises. */
static bool mark(uint8_t *seen, const sr_layout *l, const sr_tiles *t, sr_tile_run run,
                 int32_t most, bool sorted) {
    for (int32_t i = run.first; i < run.first + run.count; i++) {
        const sr_tile *tile = &t->tile[i];
        if (tile->rows < 1 || tile->rows > most) return false;
        if (sorted && i > run.first && tile->cost > tile[-1].cost) return false;
        for (int32_t k = 0; k * SR_STRIP_ROWS < tile->rows; k++) {
            sr_strip s = strip_of(tile, k);
            if (s.rows == 0 && (tile->key_row >= 0 || s.sequence != -1)) return false;
            for (int32_t r = 0; r < s.rows; r++)
                if (!is_right(l, tile, &s, r) || seen[s.row + r]++ > 0) return false;
        }
    }
    return true;
}

static bool all_seen(const uint8_t *seen, const sr_layout *l, int32_t from, int32_t to) {
    for (int64_t r = 0; r < l->rows; r++) {
        int32_t n = l->owner[r] < 0 ? 0 : l->len[l->owner[r]];
        if (seen[r] != (n >= from && n <= to)) return false;
    }
    return true;
}

/* The runs in `runs` hold every row of sequences of from .. to rows exactly once. */
static bool covers(const sr_layout *l, const sr_tiles *t, const sr_tile_run *runs, int count,
                   int32_t from, int32_t to, int32_t most) {
    uint8_t *seen = NULL;
    CHECK_OK(sr_new(&seen, l->rows + 1));
    bool right = true;
    for (int i = 0; i < count; i++)
        right = right && mark(seen, l, t, runs[i], most, runs[i].first != t->blocks.first);
    right = right && all_seen(seen, l, from, to);
    sr_free(seen);
    return right;
}

static bool slack_is_right(const sr_layout *l, const sr_tiles *t) {
    int32_t n = 0;
    for (int32_t r = 0; r < l->rows; r++)
        if (l->owner[r] < 0 && (n >= t->slack_count || t->slack[n++] != r)) return false;
    return n == t->slack_count;
}

/* No arrangement needs fewer groups: 3s stand alone, the rest is filled. */
static int32_t fewest_groups(const sr_layout *l) {
    int32_t count[4] = {0};
    for (int32_t s = 0; s < l->sequences; s++)
        if (l->len[s] <= SR_GROUP_LIMIT) count[(l->len[s] + 15) / 16]++;
    int32_t ones = count[1] > count[3] ? count[1] - count[3] : 0;
    return count[3] + (2 * count[2] + ones + 3) / 4;
}

static bool owners_hold_blocks(const sr_tiles *t) {
    int32_t at = t->blocks.first;
    for (int32_t i = 0; i < t->owners.count; i++) {
        const sr_tile *owner = &t->tile[t->owners.first + i];
        if (owner->block != at - t->blocks.first) return false;
        for (int32_t r = 0; r < owner->rows; r += SR_TILE_ROWS, at++)
            if (t->tile[at].block != at - t->blocks.first ||
                t->tile[at].key_row != owner->key_row || t->tile[at].strip[0].position != r)
                return false;
    }
    return at == t->blocks.first + t->blocks.count;
}

static void check_layout(const sr_layout *l) {
    OWN(sr_tiles, *t, sr_tiles_new(&t, l));
    sr_tile_run both[] = {t->wide, t->narrow};
    CHECK(covers(l, t, both, 2, SR_GROUP_LIMIT + 1, INT32_MAX, SR_TILE_WIDE));
    CHECK(covers(l, t, &t->blocks, 1, SR_GROUP_LIMIT + 1, INT32_MAX, SR_TILE_ROWS));
    CHECK(covers(l, t, &t->owners, 1, SR_GROUP_LIMIT + 1, INT32_MAX, INT32_MAX));
    CHECK(covers(l, t, &t->groups, 1, 1, SR_GROUP_LIMIT, SR_TILE_ROWS));
    CHECK(t->groups.count == fewest_groups(l));
    CHECK(owners_hold_blocks(t));
    CHECK(slack_is_right(l, t));
    CHECK(t->count == t->groups.first + t->groups.count);
    for (int32_t i = 0; i < t->wide.count; i++)
        if (t->tile[t->wide.first + i].rows <= SR_TILE_ROWS) CHECK(!"a wide tile is half empty");
}

static void test_random_sets(void) {
    for (uint32_t set = 0; set < SETS; set++) {
        OWNED(sr_layout) *l = draw(set);
        check_layout(l);
    }
}

static sr_tiles *tiles_of(int32_t n, const int32_t *len) {
    sr_tiles *t = NULL;
    OWN(sr_layout, *l, sr_layout_new(&l, n, NULL, len, NULL, NULL, 0, 1));
    CHECK_OK(sr_tiles_new(&t, l));
    return t;
}

static void test_lengths(void) {
    struct {
        int32_t len, wide, narrow, blocks, groups;
    } want[] = {{1, 0, 0, 0, 1},   {16, 0, 0, 0, 1},  {48, 0, 0, 0, 1},  {49, 0, 1, 1, 0},
                {64, 0, 1, 1, 0},  {65, 1, 0, 2, 0},  {128, 1, 0, 2, 0}, {129, 1, 1, 3, 0},
                {192, 1, 1, 3, 0}, {193, 2, 0, 4, 0}, {512, 4, 0, 8, 0}, {8192, 64, 0, 128, 0}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        OWNED(sr_tiles) *t = tiles_of(1, &want[i].len);
        CHECK(t->wide.count == want[i].wide && t->narrow.count == want[i].narrow);
        CHECK(t->blocks.count == want[i].blocks && t->groups.count == want[i].groups);
        CHECK(t->owners.count == (want[i].blocks > 0));
    }
    OWNED(sr_tiles) *none = tiles_of(0, NULL);
    CHECK(none->count == 0 && none->slack_count == 0);
}

/* The split of n sequences. */
static sr_split split_of(int32_t n, const int32_t *len, int heads, int kv_heads, int64_t reach) {
    OWNED(sr_tiles) *t = tiles_of(n, len);
    sr_split split;
    CHECK_OK(sr_tiles_split(&split, t, heads, kv_heads, 264, reach));
    int32_t blocks = 0;
    for (int32_t i = 0; i < split.sequences; i++)
        blocks += (t->tile[t->owners.first + i].rows + SR_TILE_ROWS - 1) / SR_TILE_ROWS;
    CHECK(blocks == split.blocks && split.sequences + split.before <= t->owners.count);
    CHECK(split.sequences > 0 || split.before == 0);
    return split;
}

static void test_split(void) {
    enum { ALL = 1 << 20 };
    int32_t len[40], small[2] = {64, 20};
    for (int i = 0; i < 40; i++) len[i] = 512;
    CHECK(split_of(40, len, 33, 33, ALL).sequences == 0); /* five even rounds */
    /* 640 jobs, not 528: two rounds and what fills a third of one */
    sr_split some = split_of(40, len, 16, 16, ALL);
    CHECK(some.sequences == 7 && some.before == 33);
    CHECK(split_of(40, len, 1, 1, ALL).sequences == 40);  /* jobs for all workers */
    CHECK(split_of(40, len, 16, 4, ALL).sequences == 40); /* 160 jobs */
    len[7] = 2048;                                        /* only this one takes longer than all */
    some = split_of(40, len, 16, 16, ALL);
    CHECK(some.sequences == 1 && some.before == 39);
    CHECK(split_of(40, len, 64, 64, ALL).sequences == 0); /* an even share takes as long */
    CHECK(split_of(40, len, 64, 64, 129).sequences == 0); /* a window makes it cheap */
    CHECK(split_of(2, small, 1, 1, ALL).sequences == 0);  /* a block cannot be split */
    CHECK(split_of(0, NULL, 16, 16, ALL).sequences == 0);
}

static void test_memory(void) {
    OWNED(sr_layout) *l = draw(5);
    int64_t before = sr_mem_live();
    sr_tiles *t;
    sr_status st;
    STARVE(st, false, sr_tiles_new(&t, l)) {
        sr_tiles_free(t);
        CHECK(sr_mem_live() == before);
    }
}

int main(void) {
    test_random_sets();
    test_lengths();
    test_split();
    test_memory();
    return CHECK_DONE();
}
