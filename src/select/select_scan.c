/* SPDX-License-Identifier: Apache-2.0
 *
 * Scan: each value is read from memory once and compared with a threshold. Contract: select.h.
 *
 * Idea. A threshold that a few more than k values pass makes nearly every compare fail, eight
 * vectors at a time, so that the row costs what reading it costs. What passes is noted by its
 * place; words are made of these few alone, and the best k of them are the answer.
 *
 * Threshold. Values are dealt to cells, each cell has a minimum, and the threshold is the r-th
 * smallest minimum, or a little more.
 *   short rows  all values are in cells, at least 2k of them, and r = k: k cells hold a value that
 *               passes, so k values pass, for certain. Some 1.4 k do where there are 2k cells. The
 *               row is read again, from the cache, where a segment's minimum passes: k of them.
 *               Where k is a large part of the row, each value is a cell of its own.
 *   long rows   (and such that are not many times longer than k) cells hold a sample at even
 *               strides. Fewer than k values pass only if r sampled ones are among the k - 1
 *               smallest. Their number X has mean m = k S / n, and by Bernstein's inequality, which
 *               holds for draws without replacement (Hoeffding 1963),
 *                   P(X >= m + t) <= exp(-t^2 / (2 m + 2 t / 3)),
 *               which is 1/256 for t = L / 3 + sqrt(L^2 / 9 + 2 m L), L = ln 256. Then r = m + t.
 *
 * Bad luck. Rows may be no random order, so both ends are provided for. Too many pass: when there
 * is no more room for words, the k best stay, and the k-th is the new threshold; where ids are
 * places, later ones must be below it. Too few pass, because of the sample or because there are
 * not k numbers beside NaNs: the row is read once more, words of all values until there is no more
 * room, then with the k-th as threshold. Where that is a NaN, all numbers pass; NaNs with given
 * ids have to be looked at each.
 *
 * Cost: one read; where order is hostile, a compaction of k + 4,096 words every 4,096 values, which
 * is linear too. Limits: k beyond half of the row is selected without a threshold.
 */
#include "select/select_scan.h"

#include "host/host_cpu.h"

#include <math.h>

enum {
    MOST_SEGMENT = KIN_SCAN_VECTORS * KIN_SCAN_MOST_LANES,
    PLACES = 2048,      /* noted before they become words */
    NEW_WORDS = 4096,   /* between two compactions, at least */
    COVER = 65536,      /* values of a short row: it stays in the second-level cache */
    SAMPLE = 16384,     /* values of a sample at most */
    SAMPLE_SHARE = 4,   /* of the row at most: one in so many */
    AHEAD_BYTES = 2048, /* prefetched */
    PICK_SLACK = 8,     /* the threshold's rank may be above r by this share */
    RADIXED = 96,       /* so many words or more are sorted digit by digit */
    SCRATCH_ALIGN = 64
};
static const double LUCK = 5.545177444479562; /* ln 256 */

/* At the start of the scratch memory. */
typedef struct scan {
    const kin_scan_machine *machine;
    const kin_scan_ops *ops;
    int64_t value_bytes;
    int64_t segment; /* values */
    uint32_t *places;
    char *cells;  /* SAMPLE lanes; of a short row: minima of segments, then folded ones */
    char *least;  /* the minima, where they are of all segments; else NULL */
    char *padded; /* the last segment, filled up with NaN */
    void *words;
    int64_t room; /* words */
    bool strict;  /* later words of equal values come behind */
    bool rising;  /* words stand in the order of ids */
} scan;

enum { SCAN_CELLS_BYTES = SAMPLE * 8, SCAN_PADDED_BYTES = MOST_SEGMENT * 8 };

static int64_t room_for(int64_t k, int64_t count)
{
    return 2 * kin_min_i64(k, count) + PLACES + NEW_WORDS;
}

static uint64_t scratch_bytes(const kin_select_job *job, int64_t longest_run)
{
    const int64_t places = (PLACES + 2 * MOST_SEGMENT) * (int64_t)sizeof(uint32_t);
    const uint64_t words =
        kin_size_mul((uint64_t)room_for(job->k, longest_run), (uint64_t)kin_word_bytes(job->dtype));
    return kin_size_add(words, (uint64_t)(kin_round_up(sizeof(scan), SCRATCH_ALIGN) + places +
                                          SCAN_CELLS_BYTES + SCAN_PADDED_BYTES));
}

static scan *lay_out(const kin_select_job *job, const kin_run *run, void *scratch)
{
    scan *s = scratch;
    s->ops = kin_scan_ops_of(s->machine, run->dtype);
    char *at = (char *)scratch + kin_round_up(sizeof(scan), SCRATCH_ALIGN);
    s->places = (uint32_t *)(void *)at;
    at += (PLACES + 2 * MOST_SEGMENT) * sizeof(uint32_t);
    s->cells = at;
    at += SCAN_CELLS_BYTES;
    s->padded = at;
    s->words = at + SCAN_PADDED_BYTES;
    s->value_bytes = kin_select_type_bytes(run->dtype);
    s->segment = KIN_SCAN_VECTORS * s->ops->lanes;
    s->least = NULL;
    s->room = room_for(job->k, run->count);
    s->strict = run->ids == NULL;
    s->rising = s->strict;
    return s;
}

/* ---- Thresholds ----------------------------------------------------------------------------- */

static double threshold_of_key(kin_select_type dtype, uint64_t key)
{
    return dtype == KIN_SELECT_F64 ? kin_scan_threshold64(key)
                                   : kin_scan_threshold32((uint32_t)key);
}

/* A threshold that at least `rank` lanes of the cells are not above, and few more, by halving the
 * range of keys. Infinity where no other has so many. */
static double pick(const scan *s, kin_select_type dtype, const char *cells, int64_t count,
                   int64_t rank)
{
    const bool wide = dtype == KIN_SELECT_F64;
    uint64_t low = wide ? 0x000fffffffffffffu : 0x007fffffu;  /* -inf */
    uint64_t high = wide ? 0xfff0000000000000u : 0xff800000u; /* inf */
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        const int64_t below = s->ops->count(cells, count, threshold_of_key(dtype, middle));
        if (below < rank) {
            low = middle + 1;
            continue;
        }
        high = middle;
        if (below <= rank + rank / PICK_SLACK) {
            break;
        }
    }
    return threshold_of_key(dtype, high);
}

static char *pad_tail(const scan *s, const kin_run *run)
{
    const int64_t whole = run->count / s->segment * s->segment;
    memset(s->padded, 0xff, (size_t)(s->segment * s->value_bytes)); /* NaN in every type */
    memcpy(s->padded, run->values + whole * s->value_bytes,
           (size_t)((run->count - whole) * s->value_bytes));
    return s->padded;
}

/* A cell of each `vectors` vectors of the row, the last ones filled up with NaN. How many. */
static int64_t cells_of_all(const scan *s, const kin_run *run, int64_t vectors)
{
    const int64_t lane_bytes = run->dtype == KIN_SELECT_F64 ? 8 : 4;
    const int64_t vector = s->ops->lanes * s->value_bytes;
    const int64_t segments = run->count / s->segment;
    const int64_t a_segment = KIN_SCAN_VECTORS / vectors;
    kin_scan_cells cells = {.cells = segments * a_segment,
                            .cell_stride = vectors * vector,
                            .vectors = vectors,
                            .vector_stride = vector,
                            .ahead = AHEAD_BYTES};
    s->ops->least(run->values, &cells, run->largest, s->cells);
    if (segments * s->segment == run->count) {
        return cells.cells;
    }
    const int64_t whole = cells.cells;
    cells.cells = a_segment;
    s->ops->least(pad_tail(s, run), &cells, run->largest,
                  s->cells + whole * s->ops->lanes * lane_bytes);
    return whole + a_segment;
}

/* Segments are cells: makes s->least. */
static double threshold_of_segments(scan *s, const kin_run *run, int64_t k)
{
    const int64_t lane_bytes = run->dtype == KIN_SELECT_F64 ? 8 : 4;
    const int64_t count = cells_of_all(s, run, KIN_SCAN_VECTORS);
    char *folded = s->cells + SCAN_CELLS_BYTES / 2;
    s->least = s->cells;
    memcpy(folded, s->least, (size_t)(count * s->ops->lanes * lane_bytes));
    const int64_t kept = kin_min_i64(count, kin_ceil_div(2 * k, s->ops->lanes));
    s->ops->fold(folded, count, kept);
    return pick(s, run->dtype, folded, kept, k);
}

/* Every value is a cell. */
static double threshold_of_values(const scan *s, const kin_run *run, int64_t k)
{
    return pick(s, run->dtype, s->cells, cells_of_all(s, run, 1), k);
}

/* The sample's size, its cells and the rank of the threshold among them. A rank of 0: without. */
typedef struct plan {
    int64_t sample; /* vectors */
    int64_t cells;  /* vectors */
    int64_t rank;
} plan;

static plan plan_sample(const scan *s, int64_t count, int64_t k)
{
    const int64_t lanes = s->ops->lanes;
    plan p = {.sample = kin_min_i64(count / SAMPLE_SHARE, SAMPLE) / lanes};
    const double mean = (double)k * (double)(p.sample * lanes) / (double)count;
    const double over = LUCK / 3.0 + sqrt(LUCK * LUCK / 9.0 + 2.0 * mean * LUCK);
    p.rank = (int64_t)ceil(mean + over);
    if (p.rank * 2 > p.sample * lanes) {
        return (plan){0};
    }
    p.cells = kin_min_i64(p.sample, kin_ceil_div(4 * p.rank, lanes));
    p.sample = p.sample / p.cells * p.cells;
    return p;
}

static double threshold_of_sample(const scan *s, const kin_run *run, const plan *p)
{
    const int64_t stride = run->count / p->sample * s->value_bytes;
    const kin_scan_cells cells = {.cells = p->cells,
                                  .cell_stride = stride,
                                  .vectors = p->sample / p->cells,
                                  .vector_stride = p->cells * stride};
    s->ops->least(run->values, &cells, run->largest, s->cells);
    return pick(s, run->dtype, s->cells, p->cells, p->rank);
}

/* False: no threshold is worth it. */
static bool find_threshold(scan *s, const kin_run *run, int64_t k, double *threshold)
{
    const int64_t segments = kin_ceil_div(run->count, s->segment);
    if (run->count <= COVER && segments * s->ops->lanes >= 2 * k) {
        *threshold = threshold_of_segments(s, run, k);
        return true;
    }
    if (run->count <= SAMPLE / 2 && 2 * k <= run->count) {
        *threshold = threshold_of_values(s, run, k);
        return true;
    }
    const plan p = plan_sample(s, run->count, k);
    if (p.rank == 0) {
        return false;
    }
    *threshold = threshold_of_sample(s, run, &p);
    return true;
}

/* ---- Words ---------------------------------------------------------------------------------- */

static void nth_64(kin_word64 *words, int64_t count, int64_t k)
{
    kin_select_nth_word(words, count, k);
}

static void nth_128(kin_word128 *words, int64_t count, int64_t k)
{
    kin_select_nth_word128(words, count, k);
}

/* What stands for the words in machine->rank: of wide ones the keys alone, made in `room`, where
 * equal ones are in the order of their ids. NULL: nothing does. */
static uint64_t *numbers_64(kin_word64 *words, int64_t count, bool rising, kin_word64 *room)
{
    (void)count;
    (void)rising;
    (void)room;
    return words;
}

static uint64_t *numbers_128(kin_word128 *words, int64_t count, bool rising, kin_word128 *room)
{
    uint64_t *keys = (uint64_t *)(void *)room;
    for (int64_t i = 0; rising && i < count; i++) {
        keys[i] = (uint64_t)(words[i] >> 64);
    }
    return rising ? keys : NULL;
}

#define SELECT_BODY "select/select_scan_body.inc"
#include "select/select_twice.inc"

/* ---- Machines ------------------------------------------------------------------------------- */

static void select_on(const kin_scan_machine *machine, const kin_select_job *job,
                      const kin_run *run, void *scratch, void *out)
{
    ((scan *)scratch)->machine = machine;
    select_any(job, run, scratch, out);
}

#define SCAN_FOR(what, NAME, isa)                                                          \
    static void select_##isa(const kin_select_job *job, const kin_run *run, void *scratch, \
                             void *out)                                                    \
    {                                                                                      \
        select_on(&kin_scan_machine_##isa, job, run, scratch, out);                        \
    }                                                                                      \
    static const kin_select_body scan_##isa = {scratch_bytes, select_##isa};

SCAN_FOR(scan, PORTABLE, portable)
KIN_VECTOR_MAP(SCAN_FOR, scan)

const kin_select_body *kin_select_scan(kin_isa isa)
{
    static const void *const bodies[KIN_ISA_COUNT] = KIN_BODIES(scan);
    return kin_isa_pick(isa, bodies);
}
