/* SPDX-License-Identifier: Apache-2.0
 * Tile kernels for AMX: 16 rows x 32 points in two accumulator tiles. Contract: exact_tile.h.
 *
 * Who holds what: tiles 0, 1 and 2, 3 accumulate 16 rows x (points 0-15 and 16-31), by turns; tile
 * 4 holds 64 bytes of 16 rows, tiles 5, 6 sixteen groups of 16 points. A step is 3 loads and 2
 * products of 16 cycles; its loads take 24 cycles from L1, so the unit is fed as long as the points
 * stay near: rows pass, from the second level.
 *
 * Schedule: a store waits for the last product of its tile, and a test for the store. So the
 * products of one strip of rows run beside the stores of the strip before and the tests of the one
 * before that; the tests are dealt out over the steps, since the processor cannot look further
 * ahead than a few hundred instructions:
 *
 *     tile unit    | products of strip s     | products of strip s+1   |
 *     stores       | strip s-1               | strip s                 |
 *     vector unit  | tests of s-2            | tests of s-1            |
 *
 * The test of a tile is one comparison: of each point, the largest of what 16 rows have above their
 * own thresholds. Rows are told apart only where it passes.
 *
 * Long rows: two panels must stay in the first level while rows pass. So of many steps MOST_STEPS
 * are taken for some rows, whose sums wait in memory, before the next.
 *
 * s8: rows signed, points unsigned (tdpbsud). bf16: rounding and order of the unit are fixed
 * whatever MXCSR says; subnormals count as zero on both sides, and none are stored
 * (exact_round_body.inc). */
#if defined(__x86_64__)
#include "exact/exact_tile_hit.h"
#include "exact/exact_tile_x86.h"

enum {
    ROWS = 16,
    PANELS = 2,
    TILE_WORDS = 256,
    STEP_GROUPS = 16,
    STRIP_WORDS = PANELS * TILE_WORDS,
    MOST_STEPS = 14,
    MOST_STRIPS = 16, /* whose sums wait */
    LINE_WORDS = 16
};

/* Above all accumulators of integers, by less than 32 bits hold. */
enum { NO_INT_PASSES = 1 << 30, NOTHING = -1 };

/* A strip of 16 rows x 32 points that waits for its tests. */
typedef struct strip {
    kin_word acc[STRIP_WORDS] __attribute__((aligned(64)));
    kin_word test[PANELS][ROWS] __attribute__((aligned(64))); /* as of tile_tests_int */
    int32_t row;
    int32_t panel;
} strip;

static inline kin_word *acc_of(strip *s, int32_t side, int32_t row)
{
    return s->acc + side * TILE_WORDS + row * KIN_PANEL;
}

/* Of 16 points, the largest of acc - test (integers), or of acc + start - test (floats: as exact a
 * comparison as that of the two, where acc - test would be rounded another way). */
typedef union surplus {
    __m512i i;
    __m512 f;
} surplus;

/* ---- Tests ----------------------------------------------------------------------------------- */

/* A tile of which some pair passed: which rows have one is told without branches, since where one
 * does others do, in no order that could be foreseen. Not inlined: hits are rare, and the loops
 * around keep their registers. */
static __attribute__((noinline)) void take_hits(const kin_tile_job *job, strip *done, int32_t side,
                                                bool is_float)
{
    const int32_t panel = done->panel + side;
    const kin_word *start = job->start + (int64_t)panel * KIN_PANEL;
    __mmask16 masks[ROWS];
    uint32_t rows = 0;
    for (int32_t r = 0; r < ROWS; r++) {
        kin_word *acc = acc_of(done, side, r);
        const kin_word test = done->test[side][r];
        if (is_float) {
            const __m512 sum = _mm512_add_ps(_mm512_load_ps(acc), _mm512_loadu_ps(start));
            masks[r] = _mm512_cmp_ps_mask(sum, _mm512_set1_ps(test.f), _CMP_NLT_UQ);
            _mm512_store_ps(acc, sum);
        } else {
            const __m512i sum = _mm512_add_epi32(_mm512_load_si512(acc), _mm512_loadu_si512(start));
            masks[r] = _mm512_cmpge_epi32_mask(sum, _mm512_set1_epi32(test.i));
            _mm512_store_si512(acc, sum);
        }
        rows |= (uint32_t)(masks[r] != 0) << r;
    }
    for (; rows != 0; rows &= rows - 1) {
        const int32_t r = __builtin_ctz(rows);
        (is_float ? tile_hit_float : tile_hit_int)(job, done->row + r, panel, masks[r],
                                                   acc_of(done, side, r));
    }
}

/* Tests on the way: rows from next_row on are left. */
typedef struct tests {
    strip *done;
    int32_t next_row;
    surplus most[PANELS];
    surplus start[PANELS];
} tests;

static inline __attribute__((always_inline)) tests begin_tests(const kin_tile_job *job, strip *done,
                                                               bool is_float)
{
    tests t = {.done = done, .next_row = done->row == NOTHING ? ROWS : 0};
    for (int side = 0; side < PANELS; side++) {
        const kin_word *start = job->start + (int64_t)(done->panel + side) * KIN_PANEL;
        if (is_float) {
            t.most[side].f = _mm512_set1_ps(-INFINITY);
            t.start[side].f = _mm512_loadu_ps(start);
        } else {
            t.most[side].i = _mm512_set1_epi32(INT32_MIN);
            t.start[side].i = _mm512_loadu_si512(start);
        }
    }
    return t;
}

/* A NaN is no surplus, and no pair with one survives. */
static inline __attribute__((always_inline)) void test_rows(tests *t, int32_t rows, bool is_float)
{
    const int32_t first = t->next_row;
    const int32_t last = first + rows < ROWS ? first + rows : ROWS;
    for (int32_t r = first; r < last; r++) {
#pragma GCC unroll 2
        for (int side = 0; side < PANELS; side++) {
            const kin_word *acc = acc_of(t->done, side, r);
            const kin_word *test = &t->done->test[side][r];
            if (is_float) {
                const __m512 sum = _mm512_add_ps(t->start[side].f, _mm512_load_ps(acc));
                const __m512 over = _mm512_sub_ps(sum, _mm512_set1_ps(test->f));
                t->most[side].f = _mm512_max_ps(over, t->most[side].f);
            } else {
                const __m512i over =
                    _mm512_sub_epi32(_mm512_load_si512(acc), _mm512_set1_epi32(test->i));
                t->most[side].i = _mm512_max_epi32(over, t->most[side].i);
            }
        }
    }
    t->next_row = last;
}

static inline __attribute__((always_inline)) void end_tests(const kin_tile_job *job, const tests *t,
                                                            bool is_float)
{
    if (t->done->row == NOTHING) {
        return;
    }
    for (int side = 0; side < PANELS; side++) {
        const __m512i least = _mm512_sub_epi32(_mm512_setzero_si512(), t->start[side].i);
        const __mmask16 passed =
            is_float ? _mm512_cmp_ps_mask(t->most[side].f, _mm512_setzero_ps(), _CMP_GE_OQ)
                     : _mm512_cmpge_epi32_mask(t->most[side].i, least);
        if (__builtin_expect(passed != 0, 0)) {
            take_hits(job, t->done, side, is_float);
        }
    }
}

/* ---- Products -------------------------------------------------------------------------------- */

/* The unit's part of a turn: tiles A and B accumulate, the other two are stored. */
#define TURN(parity, A, B, OTHER_A, OTHER_B)                                               \
    static inline __attribute__((always_inline)) void begin_##parity(const kin_word *sums) \
    {                                                                                      \
        if (sums == NULL) {                                                                \
            _tile_zero(A);                                                                 \
            _tile_zero(B);                                                                 \
        } else {                                                                           \
            _tile_loadd(A, sums, 64);                                                      \
            _tile_loadd(B, sums + TILE_WORDS, 64);                                         \
        }                                                                                  \
    }                                                                                      \
    static inline __attribute__((always_inline)) void store_##parity(kin_word *other)      \
    {                                                                                      \
        _tile_stored(OTHER_A, other, 64);                                                  \
        _tile_stored(OTHER_B, other + TILE_WORDS, 64);                                     \
    }                                                                                      \
    TURN_PRODUCTS(parity, s8, _tile_dpbsud, A, B)                                          \
    TURN_PRODUCTS(parity, bf16, _tile_dpbf16ps, A, B)
#define TURN_PRODUCTS(parity, type, product, A, B)                                \
    static inline __attribute__((always_inline)) void type##_##parity(            \
        const uint32_t *row, const uint32_t *point, const uint32_t *second_point) \
    {                                                                             \
        _tile_loadd(4, row, 64);                                                  \
        _tile_loadd(5, point, 64);                                                \
        product(A, 4, 5);                                                         \
        _tile_loadd(6, second_point, 64);                                         \
        product(B, 4, 6);                                                         \
    }
TURN(even, 0, 1, 2, 3)
TURN(odd, 2, 3, 0, 1)

/* What the tests of a strip compare with: thresholds as tile_tests_int has them. */
static inline __attribute__((always_inline)) void set_tests(const kin_tile_job *job, int32_t row,
                                                            int32_t panel, strip *s, bool is_float)
{
    const kin_word *half_term = job->half_term + row;
    const kin_word *half = job->row_half + row;
    for (int side = 0; side < PANELS; side++) {
        const kin_word most = job->panel_half[panel + side];
        if (is_float) {
            const __m512 less = _mm512_max_ps(_mm512_loadu_ps(half), _mm512_set1_ps(most.f));
            _mm512_store_ps(s->test[side], _mm512_sub_ps(_mm512_loadu_ps(half_term), less));
        } else {
            const __m512i less =
                _mm512_max_epi32(_mm512_loadu_si512(half), _mm512_set1_epi32(most.i));
            const __m512i test = _mm512_sub_epi32(_mm512_loadu_si512(half_term), less);
            _mm512_store_si512(s->test[side],
                               _mm512_min_epi32(test, _mm512_set1_epi32(NO_INT_PASSES)));
        }
    }
    s->row = row;
    s->panel = panel;
}

/* Some steps of a strip. */
typedef struct turn {
    int32_t row;
    int32_t panel;
    int32_t first_step;
    int32_t steps;
    int32_t tests; /* rows a step */
    bool last;     /* of the strip's steps */
} turn;

/* What is on its way. */
typedef struct pipe {
    const kin_tile_job *job;
    strip strips[2]; /* that of an odd turn, and of an even one */
    kin_word *next;  /* where the tiles of the turn before are to be stored */
    bool odd;
    /* Of strips whose steps are not all taken. */
    kin_word sums[MOST_STRIPS * STRIP_WORDS] __attribute__((aligned(64)));
} pipe;

/* The two panels behind these come from memory meanwhile, some lines with each strip. */
static inline __attribute__((always_inline)) void fetch(const kin_tile_job *job, const turn *t)
{
    const int64_t lines = (int64_t)PANELS * job->groups;
    const int64_t share = (lines * ROWS + job->real_rows - 1) / job->real_rows;
    const int64_t first = t->row / ROWS * share;
    const uint32_t *next = job->panels + (t->panel + PANELS) * (lines * LINE_WORDS / PANELS);
    for (int64_t line = first; line < lines && line < first + share; line++) {
        __builtin_prefetch(next + line * LINE_WORDS, 0, 2);
    }
}

/* Products of a strip, beside them the store of the turn before and the tests of the strip whose
 * place this one takes. `sums` are its own from earlier steps, or for later ones. */
static inline __attribute__((always_inline)) void take(pipe *p, const turn *t, kin_word *sums,
                                                       bool odd, bool is_float)
{
    const kin_tile_job *job = p->job;
    strip *place = &p->strips[odd];
    const int64_t panel_words = (int64_t)job->groups * KIN_PANEL;
    const int64_t first = (int64_t)t->first_step * TILE_WORDS;
    const uint32_t *row = job->rows + (int64_t)t->row * job->groups + first;
    const uint32_t *point = job->panels + t->panel * panel_words + first;
    tests waiting = begin_tests(job, place, is_float);
    if (t->first_step == 0) {
        fetch(job, t);
    }
    (odd ? begin_odd : begin_even)(t->first_step == 0 ? NULL : sums);
    for (int32_t step = 0; step < t->steps; step++) {
        const int64_t at = (int64_t)step * TILE_WORDS;
        if (is_float) {
            (odd ? bf16_odd : bf16_even)(row + at, point + at, point + panel_words + at);
        } else {
            (odd ? s8_odd : s8_even)(row + at, point + at, point + panel_words + at);
        }
        if (step == 0) {
            (odd ? store_odd : store_even)(p->next);
        }
        test_rows(&waiting, t->tests, is_float);
    }
    end_tests(job, &waiting, is_float);
    place->row = NOTHING;
    if (t->last) {
        set_tests(job, t->row, t->panel, place, is_float);
    }
    p->next = t->last ? place->acc : sums;
}

static inline __attribute__((always_inline)) void test_strip(const kin_tile_job *job, strip *done,
                                                             bool is_float)
{
    tests t = begin_tests(job, done, is_float);
    test_rows(&t, ROWS, is_float);
    end_tests(job, &t, is_float);
}

/* Rows [first, last) against two panels. A sum that is loaded must have been stored: that of a
 * single strip is not, whose steps are all taken at once. */
static inline __attribute__((always_inline)) void take_rows(pipe *p, int32_t panel, int32_t first,
                                                            int32_t last, bool is_float)
{
    const int32_t steps = p->job->groups / STEP_GROUPS;
    const int32_t parts = last - first > ROWS ? (steps + MOST_STEPS - 1) / MOST_STEPS : 1;
    const int32_t part = (steps + parts - 1) / parts;
    for (int32_t step = 0; step < steps; step += part) {
        turn t = {.panel = panel, .first_step = step, .last = step + part >= steps};
        t.steps = t.last ? steps - step : part;
        t.tests = (ROWS + t.steps - 1) / t.steps;
        for (int32_t row = first; row < last; row += ROWS) {
            kin_word *sums = p->sums + (row - first) / ROWS * STRIP_WORDS;
            t.row = row;
            if (p->odd) {
                take(p, &t, sums, true, is_float);
            } else {
                take(p, &t, sums, false, is_float);
            }
            p->odd = !p->odd;
        }
    }
}

static inline __attribute__((always_inline)) void run(const kin_tile_job *job, bool is_float)
{
    pipe p;
    p.job = job;
    p.next = p.sums;
    p.odd = false;
    for (int i = 0; i < 2; i++) {
        p.strips[i].row = NOTHING;
        p.strips[i].panel = job->first_panel;
    }
    _tile_loadconfig(&eight_tiles);
    const int32_t last = job->first_panel + job->panel_count;
    const int32_t most = MOST_STRIPS * ROWS;
    for (int32_t panel = job->first_panel; panel < last; panel += PANELS) {
        for (int32_t row = 0; row < job->real_rows; row += most) {
            const int32_t end = job->real_rows - row < most ? job->real_rows : row + most;
            take_rows(&p, panel, row, end, is_float);
        }
    }
    if (p.odd) {
        store_odd(p.next);
    } else {
        store_even(p.next);
    }
    test_strip(job, &p.strips[p.odd], is_float);
    test_strip(job, &p.strips[!p.odd], is_float);
    _tile_release();
}

static void s8_run(const kin_tile_job *job)
{
    run(job, false);
}

static void bf16_run(const kin_tile_job *job)
{
    run(job, true);
}

/* Rows for the unit: for each 16 rows, step after step, a tile of 64 bytes of each. */
static void pack(const uint32_t *panels, int32_t groups, int32_t row_count, uint32_t flip,
                 uint32_t *rows)
{
    const __m512i flips = _mm512_set1_epi32((int32_t)flip);
    const int64_t tiles = (int64_t)row_count / ROWS * (groups / STEP_GROUPS);
    for (int64_t tile = 0; tile < tiles; tile++) {
        transpose_u32x16(panels + tile * TILE_WORDS, ROWS, flips, rows + tile * TILE_WORDS);
    }
}

static void s8_pack(const uint32_t *panels, int32_t groups, int32_t row_count, uint32_t *rows)
{
    pack(panels, groups, row_count, 0x80808080u, rows);
}

static void bf16_pack(const uint32_t *panels, int32_t groups, int32_t row_count, uint32_t *rows)
{
    pack(panels, groups, row_count, 0u, rows);
}

/* Pairs here and there fill no tile: they take the vector unit. A product of two bf16 is exact in
 * fp32, and sums of 32 chains are nearer than the unit's two. */
static inline __m512 dot_bf16(__m512 acc, __m512 row, __m512 point)
{
    const __m512i high = _mm512_set1_epi32((int32_t)0xffff0000u);
    const __m512i r = _mm512_castps_si512(row);
    const __m512i p = _mm512_castps_si512(point);
    acc = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(r, 16)),
                          _mm512_castsi512_ps(_mm512_slli_epi32(p, 16)), acc);
    return _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(r, high)),
                           _mm512_castsi512_ps(_mm512_and_si512(p, high)), acc);
}

#define TILE_NAME s8
#define vec __m512i
#define VEC_LOAD load_i32x16
#define VEC_SUMS sums_i32x16
#define VEC_PAIR pair_s8
#include "exact/exact_tile_lines.inc"
#undef TILE_NAME
#undef vec
#undef VEC_LOAD
#undef VEC_SUMS
#undef VEC_PAIR

#define TILE_NAME bf16
#define vec __m512
#define VEC_LOAD load_f32x16
#define VEC_SUMS sums_f32x16
#define VEC_PAIR dot_bf16
#include "exact/exact_tile_lines.inc"

const kin_tile_kernel kin_tile_s8_amx = {"s8 amx", KIN_TILE_S8, KIN_ISA_AMX, ROWS, STEP_GROUPS,
                                         s8_pack,  s8_run,      s8_lines,    0.125};
const kin_tile_kernel kin_tile_bf16_amx = {"bf16 amx", KIN_TILE_BF16, KIN_ISA_AMX,
                                           ROWS,       STEP_GROUPS,   bf16_pack,
                                           bf16_run,   bf16_lines,    0.125};
#endif
