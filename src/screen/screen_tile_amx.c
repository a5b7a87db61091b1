/* SPDX-License-Identifier: Apache-2.0
 * Tile kernels for AMX: 16 rows x 32 points in two accumulator tiles. Contract: screen_tile.h.
 * The file is long because its three ways of passing rows share a pipe that registers hold.
 *
 * Few steps (RESIDENT_STEPS: 128 bytes a row). Tiles 4 to 7 hold two steps of two panels while rows
 * pass through tile 3: of two tiles of products only two are loaded, where the unit would wait for
 * six. Three accumulators: two take products while the third, and then one of them, is stored.
 *
 * Many steps. Tiles 0 to 3 accumulate 32 rows x 32 points; tiles 4, 5 hold 64 bytes of 16 rows
 * each, tiles 6, 7 sixteen groups of 16 points. A step is 4 loads and 4 products of 16 cycles. The
 * points stay in the first level; rows pass from the second, past the first (stream): else they
 * would drive the points out.
 *
 * Schedule: a store waits for the last product of its tile, and a test for the store. So the
 * products of one strip of rows run beside the stores of the strip before and the tests of the one
 * before that:
 *
 *     tile unit    | products of strip s     | products of strip s+1   |
 *     stores       | strip s-1               | strip s                 |
 *     vector unit  | tests of s-2            | tests of s-1            |
 *
 * Of many steps a tile is stored right before its first product of the next strip, which the other
 * three leave time for, and tested beside the steps behind, over which tests are dealt out: the
 * processor cannot look further ahead than a few hundred instructions.
 *
 * The test of a tile is one comparison: of each point, the largest of what 16 rows have above their
 * own thresholds. A tile that passes is told by no branch, which would be foreseen badly and empty
 * the unit: it stays in its place, and others are stored behind it (lane). Pairs are told apart
 * when some such tiles have gathered.
 *
 * Long rows: two panels must stay in the first level while rows pass. So of many steps MOST_STEPS
 * are taken for some rows, whose sums wait in memory, before the next.
 *
 * s8: rows signed, points unsigned (tdpbsud). bf16: rounding and order of the unit are fixed
 * whatever MXCSR says; subnormals count as zero on both sides, and none are stored
 * (screen_round_body.inc). */
#if defined(__x86_64__)
#include "screen/screen_tile_hit.h"
#include "screen/screen_tile_x86.h"

enum {
    ROWS = 16,
    PANELS = 2,
    TILE_WORDS = 256,
    STEP_GROUPS = 16,
    RESIDENT_STEPS = 2,
    MOST_STEPS = 16,
    LANES = 2 * PANELS,
    STRIP_WORDS = LANES * TILE_WORDS,
    MOST_STRIPS = 8, /* whose sums wait */
    MOST_KEPT = KIN_TILE_KEPT / TILE_WORDS / LANES,
    LINE_WORDS = 16
};

/* Above all accumulators of integers, by less than 32 bits hold. */
enum { NO_INT_PASSES = 1 << 30, NOTHING = -1 };

/* Of a tile of 16 rows x 16 points that waits for its test. */
typedef struct place {
    kin_word test[ROWS] __attribute__((aligned(64))); /* as of tile_tests_int */
    int32_t row;
    int32_t panel;
    kin_word unused[TILE_WORDS - 2 * LINE_WORDS];
} place;

/* A lane is one side of every second strip of 16 rows: its tiles of which some pair passed, and the
 * one that waits. Tile i of a lane has place i * LANES + lane. Stores to one lane may look to loads
 * of another as if they were to the same address, of which the last 12 bits are compared: each lane
 * has a quarter of them. */
typedef struct pipe {
    const kin_tile_job *job;
    int32_t kept[LANES];
    kin_word *next[LANES]; /* where the tiles of the turn before are to be stored */
    bool odd;
    int32_t phase;
    kin_word acc[MOST_KEPT * LANES][TILE_WORDS] __attribute__((aligned(4096)));
    place places[MOST_KEPT * LANES];
    /* Of strips whose steps are not all taken. */
    kin_word sums[MOST_STRIPS * STRIP_WORDS];
} pipe;

static inline __attribute__((always_inline)) int64_t waiting(const pipe *p, int32_t lane)
{
    return (int64_t)p->kept[lane] * LANES + lane;
}

/* Of 16 points, the largest of acc - test (integers), or of acc + start - test (floats: as exact a
 * comparison as that of the two, where acc - test would be rounded another way). */
typedef union surplus {
    __m512i i;
    __m512 f;
} surplus;

/* ---- Tests ----------------------------------------------------------------------------------- */

/* Of 16 points, as kin_limit_set has them; panel_half, where points are not collected. */
static inline __attribute__((always_inline)) surplus halves_of_points(const kin_tile_job *job,
                                                                      int32_t panel, bool is_float)
{
    if (job->col_log == NULL) {
        return (surplus){.i = _mm512_set1_epi32(job->panel_half[panel].i)};
    }
    const surplus limit = {.i = _mm512_loadu_si512(job->col_limit + (int64_t)panel * KIN_PANEL)};
    if (is_float) {
        return (surplus){.f = _mm512_mul_ps(limit.f, _mm512_set1_ps(0.5F))};
    }
    const __m512i odd = _mm512_and_si512(limit.i, _mm512_set1_epi32(1));
    return (surplus){.i = _mm512_add_epi32(_mm512_srai_epi32(limit.i, 1), odd)};
}

/* Each pair by the larger limit of its own two ends. Which rows have one that passes is told
 * without branches, since where one does others do, in no order that could be foreseen. */
static inline __attribute__((always_inline)) void
take_hits(const kin_tile_job *job, const place *done, kin_word *products, bool is_float)
{
    const int32_t col = done->panel * KIN_PANEL;
    const kin_word *half_term = job->half_term + done->row;
    const kin_word *half = job->row_half + done->row;
    const surplus start = {.i = _mm512_loadu_si512(job->start + col)};
    const surplus most = halves_of_points(job, done->panel, is_float);
    __mmask16 masks[ROWS];
    uint32_t rows = 0;
    for (int32_t r = 0; r < ROWS; r++) {
        kin_word *acc = products + r * KIN_PANEL;
        if (is_float) {
            const __m512 sum = _mm512_add_ps(_mm512_load_ps(acc), start.f);
            const __m512 less = _mm512_max_ps(_mm512_set1_ps(half[r].f), most.f);
            const __m512 test = _mm512_sub_ps(_mm512_set1_ps(half_term[r].f), less);
            masks[r] = _mm512_cmp_ps_mask(sum, test, _CMP_NLT_UQ);
            _mm512_store_ps(acc, sum);
        } else {
            const __m512i sum = _mm512_add_epi32(_mm512_load_si512(acc), start.i);
            const __m512i less = _mm512_max_epi32(_mm512_set1_epi32(half[r].i), most.i);
            const __m512i test = _mm512_sub_epi32(_mm512_set1_epi32(half_term[r].i), less);
            masks[r] = _mm512_cmpge_epi32_mask(sum, test);
            _mm512_store_si512(acc, sum);
        }
        rows |= (uint32_t)(masks[r] != 0) << r;
    }
    for (; rows != 0; rows &= rows - 1) {
        const int32_t r = __builtin_ctz(rows);
        (is_float ? tile_hit_float : tile_hit_int)(job, done->row + r, done->panel, masks[r],
                                                   products + r * KIN_PANEL);
    }
}

/* Not inlined, so that the loops around keep their registers. */
static __attribute__((noinline)) void take_kept(pipe *p, int32_t lane, bool is_float)
{
    for (int64_t i = lane; i < waiting(p, lane); i += LANES) {
        take_hits(p->job, &p->places[i], p->acc[i], is_float);
    }
    p->kept[lane] = 0;
}

/* One row more: what it has above its threshold. A NaN is no surplus, and no pair with one
 * survives.
 */
static inline __attribute__((always_inline)) surplus
surplus_of(const kin_word *acc, const kin_word *test, surplus start, surplus most, bool is_float)
{
    if (is_float) {
        const __m512 sum = _mm512_add_ps(start.f, _mm512_load_ps(acc));
        return (surplus){.f = _mm512_max_ps(_mm512_sub_ps(sum, _mm512_set1_ps(test->f)), most.f)};
    }
    const __m512i over = _mm512_sub_epi32(_mm512_load_si512(acc), _mm512_set1_epi32(test->i));
    return (surplus){.i = _mm512_max_epi32(over, most.i)};
}

/* A tile of which some pair passed stays where it is, without a branch: where the next of its lane
 * is stored depends on it. A lane that is full is taken. */
static inline __attribute__((always_inline)) void settle(pipe *p, int32_t lane, surplus start,
                                                         surplus most, bool is_float)
{
    const __m512i least = _mm512_sub_epi32(_mm512_setzero_si512(), start.i);
    const __mmask16 passed = is_float ? _mm512_cmp_ps_mask(most.f, _mm512_setzero_ps(), _CMP_GE_OQ)
                                      : _mm512_cmpge_epi32_mask(most.i, least);
    p->kept[lane] += (passed != 0) & (p->places[waiting(p, lane)].row != NOTHING);
    if (__builtin_expect(p->kept[lane] == MOST_KEPT, 0)) {
        take_kept(p, lane, is_float);
    }
}

static inline __attribute__((always_inline)) surplus start_of(const kin_tile_job *job,
                                                              const place *t)
{
    return (surplus){.i = _mm512_loadu_si512(job->start + (int64_t)t->panel * KIN_PANEL)};
}

static inline __attribute__((always_inline)) surplus no_surplus(bool is_float)
{
    return is_float ? (surplus){.f = _mm512_set1_ps(-INFINITY)}
                    : (surplus){.i = _mm512_set1_epi32(INT32_MIN)};
}

static inline __attribute__((always_inline)) void test_tile(pipe *p, int32_t lane, bool is_float)
{
    const int64_t at = waiting(p, lane);
    const surplus start = start_of(p->job, &p->places[at]);
    surplus most = no_surplus(is_float);
#pragma GCC unroll 16
    for (int32_t r = 0; r < ROWS; r++) {
        most =
            surplus_of(p->acc[at] + r * KIN_PANEL, &p->places[at].test[r], start, most, is_float);
    }
    settle(p, lane, start, most, is_float);
}

/* What the test of a tile compares with: thresholds as tile_tests_int has them. */
static inline __attribute__((always_inline)) void set_test(const kin_tile_job *job, int32_t row,
                                                           int32_t panel, place *t, bool is_float)
{
    const kin_word *half_term = job->half_term + row;
    const kin_word *half = job->row_half + row;
    const kin_word most = job->panel_half[panel];
    if (is_float) {
        const __m512 less = _mm512_max_ps(_mm512_loadu_ps(half), _mm512_set1_ps(most.f));
        _mm512_store_ps(t->test, _mm512_sub_ps(_mm512_loadu_ps(half_term), less));
    } else {
        const __m512i less = _mm512_max_epi32(_mm512_loadu_si512(half), _mm512_set1_epi32(most.i));
        const __m512i test = _mm512_sub_epi32(_mm512_loadu_si512(half_term), less);
        _mm512_store_si512(t->test, _mm512_min_epi32(test, _mm512_set1_epi32(NO_INT_PASSES)));
    }
}

/* 16 rows of the turn are those that wait in two lanes, or, `sums`, do not yet: their tiles are
 * stored there. */
static inline __attribute__((always_inline)) void
end_turn(pipe *p, int32_t lane, int32_t row, int32_t panel, kin_word *sums, bool is_float)
{
#pragma GCC unroll 2
    for (int side = 0; side < PANELS; side++) {
        const int64_t at = waiting(p, lane + side);
        place *wait = &p->places[at];
        set_test(p->job, row, panel + side, wait, is_float);
        wait->row = sums == NULL ? row : NOTHING;
        wait->panel = panel + side;
        p->next[lane + side] = sums == NULL ? p->acc[at] : sums + side * TILE_WORDS;
    }
}

/* The two panels behind these come from memory meanwhile, `share` lines with each strip. */
static inline __attribute__((always_inline)) void fetch(const kin_tile_job *job, int32_t panel,
                                                        int32_t strip, int64_t share)
{
    const int64_t lines = (int64_t)PANELS * job->groups;
    const int64_t first = strip * share;
    const uint32_t *next = job->panels + (panel + PANELS) * (lines * LINE_WORDS / PANELS);
    for (int64_t line = first; line < lines && line < first + share; line++) {
        __builtin_prefetch(next + line * LINE_WORDS, 0, 2);
    }
}

static inline int64_t fetch_share(const kin_tile_job *job, int32_t strips)
{
    return (int64_t)PANELS * job->groups / (strips > 0 ? strips : 1) + 1;
}

/* ---- Products of few steps ------------------------------------------------------------------- */

/* Tiles 4 and 5 hold two steps of a panel, 6 and 7 of the next: only rows are loaded. X and Y take
 * the products; Y and Z are those of the strip before. */
#define RESIDENT(type, product, phase, X, Y, Z)                                 \
    static inline __attribute__((always_inline)) void type##_resident_##phase(  \
        const uint32_t *row, bool two_steps, kin_word *first, kin_word *second) \
    {                                                                           \
        _tile_loadd(3, row, 64);                                                \
        _tile_zero(X);                                                          \
        product(X, 3, 4);                                                       \
        _tile_stored(Y, first, 64);                                             \
        _tile_zero(Y);                                                          \
        product(Y, 3, 6);                                                       \
        if (two_steps) {                                                        \
            _tile_loadd(3, row + TILE_WORDS, 64);                               \
            product(X, 3, 5);                                                   \
            product(Y, 3, 7);                                                   \
        }                                                                       \
        _tile_stored(Z, second, 64);                                            \
    }
#define RESIDENT_TURNS(type, product)   \
    RESIDENT(type, product, 0, 0, 1, 2) \
    RESIDENT(type, product, 1, 2, 0, 1) \
    RESIDENT(type, product, 2, 1, 2, 0)
RESIDENT_TURNS(s8, _tile_dpbsud)
RESIDENT_TURNS(bf16, _tile_dpbf16ps)

static inline __attribute__((always_inline)) void take_resident(pipe *p, const uint32_t *row,
                                                                bool two_steps, bool is_float)
{
    kin_word *const *next = p->next + PANELS * !p->odd;
    if (p->phase == 0) {
        (is_float ? bf16_resident_0 : s8_resident_0)(row, two_steps, next[0], next[1]);
    } else if (p->phase == 1) {
        (is_float ? bf16_resident_1 : s8_resident_1)(row, two_steps, next[0], next[1]);
    } else {
        (is_float ? bf16_resident_2 : s8_resident_2)(row, two_steps, next[0], next[1]);
    }
    p->phase = p->phase == 2 ? 0 : p->phase + 1;
}

static inline __attribute__((always_inline)) void
take_panels_resident(pipe *p, int32_t panel, bool two_steps, bool is_float)
{
    const kin_tile_job *job = p->job;
    const int64_t panel_words = (int64_t)job->groups * KIN_PANEL;
    const uint32_t *point = job->panels + panel * panel_words;
    const int64_t share = fetch_share(job, (job->real_rows + ROWS - 1) / ROWS);
    _tile_loadd(4, point, 64);
    _tile_loadd(6, point + panel_words, 64);
    if (two_steps) {
        _tile_loadd(5, point + TILE_WORDS, 64);
        _tile_loadd(7, point + panel_words + TILE_WORDS, 64);
    }
    for (int32_t row = 0; row < job->real_rows; row += ROWS) {
        fetch(job, panel, row / ROWS, share);
        take_resident(p, job->rows + (int64_t)row * job->groups, two_steps, is_float);
#pragma GCC unroll 2
        for (int side = 0; side < PANELS; side++) {
            test_tile(p, PANELS * p->odd + side, is_float);
        }
        end_turn(p, PANELS * p->odd, row, panel, NULL, is_float);
        p->odd = !p->odd;
    }
}

/* ---- Products of many steps ------------------------------------------------------------------ */

/* The first step of a strip, whose sums of earlier steps there may be, and one behind it. Lane and
 * tile have one number. */
#define BEGIN(tile)                                      \
    _tile_stored(tile, p->next[tile], 64);               \
    if (sums == NULL) {                                  \
        _tile_zero(tile);                                \
    } else {                                             \
        _tile_loadd(tile, sums + (tile)*TILE_WORDS, 64); \
    }
#define GO_ON(tile) (void)p, (void)sums;
#define STEP(name, BEGIN, product)                                                            \
    static inline __attribute__((always_inline)) void name(                                   \
        const pipe *p, const kin_word *sums, const uint32_t *row, const uint32_t *second_row, \
        const uint32_t *point, int64_t panel_words)                                           \
    {                                                                                         \
        _tile_stream_loadd(4, row, 64);                                                       \
        _tile_loadd(6, point, 64);                                                            \
        BEGIN(0)                                                                              \
        product(0, 4, 6);                                                                     \
        _tile_loadd(7, point + panel_words, 64);                                              \
        BEGIN(1)                                                                              \
        product(1, 4, 7);                                                                     \
        _tile_stream_loadd(5, second_row, 64);                                                \
        BEGIN(2)                                                                              \
        product(2, 5, 6);                                                                     \
        BEGIN(3)                                                                              \
        product(3, 5, 7);                                                                     \
    }
STEP(s8_first, BEGIN, _tile_dpbsud)
STEP(s8_next, GO_ON, _tile_dpbsud)
STEP(bf16_first, BEGIN, _tile_dpbf16ps)
STEP(bf16_next, GO_ON, _tile_dpbf16ps)

/* Some steps of two panels. */
typedef struct turn {
    int32_t panel;
    int32_t first_step;
    int32_t steps;
    int32_t tests; /* rows a step */
    bool last;     /* of the strip's steps */
} turn;

/* Products of a strip of twice 16 rows, beside them the stores and then the tests of the strip
 * before. `sums` are its own from earlier steps, or for later ones. Where it has but 16 rows, they
 * are multiplied twice. */
static inline __attribute__((always_inline)) void
take(pipe *p, const turn *t, int32_t row_at, int32_t second_at, kin_word *sums, bool is_float)
{
    const kin_tile_job *job = p->job;
    const int64_t panel_words = (int64_t)job->groups * KIN_PANEL;
    const int64_t first = (int64_t)t->first_step * TILE_WORDS;
    const uint32_t *row = job->rows + (int64_t)row_at * job->groups + first;
    const uint32_t *second_row = job->rows + (int64_t)second_at * job->groups + first;
    const uint32_t *point = job->panels + t->panel * panel_words + first;
    const kin_word *before = t->first_step == 0 ? NULL : sums;
    int64_t done[LANES];
    surplus start[LANES];
    surplus most[LANES];
#pragma GCC unroll 4
    for (int lane = 0; lane < LANES; lane++) {
        done[lane] = waiting(p, lane);
        start[lane] = start_of(job, &p->places[done[lane]]);
        most[lane] = no_surplus(is_float);
    }
    (is_float ? bf16_first : s8_first)(p, before, row, second_row, point, panel_words);
    int32_t tested = 0;
    for (int32_t step = 1; step < t->steps; step++) {
        row += TILE_WORDS;
        second_row += TILE_WORDS;
        point += TILE_WORDS;
        (is_float ? bf16_next : s8_next)(p, before, row, second_row, point, panel_words);
        const int32_t end = tested + t->tests < ROWS ? tested + t->tests : ROWS;
        for (; tested < end; tested++) {
#pragma GCC unroll 4
            for (int lane = 0; lane < LANES; lane++) {
                most[lane] = surplus_of(p->acc[done[lane]] + tested * KIN_PANEL,
                                        &p->places[done[lane]].test[tested], start[lane],
                                        most[lane], is_float);
            }
        }
    }
#pragma GCC unroll 4
    for (int lane = 0; lane < LANES; lane++) {
        settle(p, lane, start[lane], most[lane], is_float);
    }
    end_turn(p, 0, row_at, t->panel, t->last ? NULL : sums, is_float);
    end_turn(p, PANELS, second_at, t->panel,
             t->last && second_at != row_at ? NULL : sums + PANELS * TILE_WORDS, is_float);
}

/* The 16 rows at `row` or the next behind them that are multiplied, or where the rows end. */
static inline int32_t next_rows(const kin_tile_job *job, int32_t panel, int32_t row)
{
    if (job->strips == NULL || row >= job->real_rows) {
        return row;
    }
    const uint64_t left = job->strips[panel / PANELS] >> ((job->first_row + row) / ROWS);
    return left == 0 ? job->real_rows : row + ROWS * __builtin_ctzll(left);
}

static int32_t strips_of(const kin_tile_job *job, int32_t panel)
{
    int32_t count = 0;
    for (int32_t row = next_rows(job, panel, 0); row < job->real_rows;
         row = next_rows(job, panel, row + ROWS)) {
        count += 1;
    }
    return (count + 1) / 2;
}

static inline __attribute__((always_inline)) void take_panels(pipe *p, int32_t panel, bool is_float)
{
    enum { MOST_ROWS = 2 * MOST_STRIPS };
    const int32_t end = p->job->real_rows;
    const int32_t steps = p->job->groups / STEP_GROUPS;
    const int32_t parts = (steps + MOST_STEPS - 1) / MOST_STEPS;
    const int64_t share = fetch_share(p->job, strips_of(p->job, panel));
    int32_t strip = 0;
    for (int32_t row = next_rows(p->job, panel, 0); row < end;) {
        int32_t rows[MOST_ROWS];
        int32_t count = 0;
        for (; count < MOST_ROWS && row < end; row = next_rows(p->job, panel, row + ROWS)) {
            rows[count++] = row;
        }
        for (int32_t part = 0; part < parts; part++) {
            turn t = {
                .panel = panel, .first_step = steps * part / parts, .last = part + 1 == parts};
            t.steps = steps * (part + 1) / parts - t.first_step;
            t.tests = (ROWS + t.steps - 2) / (t.steps - 1);
            for (int32_t i = 0; i < count; i += 2) {
                if (part == 0) {
                    fetch(p->job, panel, strip++, share);
                }
                take(p, &t, rows[i], rows[i + 1 < count ? i + 1 : i], p->sums + i / 2 * STRIP_WORDS,
                     is_float);
            }
        }
    }
}

/* ---- A job ----------------------------------------------------------------------------------- */

static void begin(pipe *p, const kin_tile_job *job)
{
    p->job = job;
    p->odd = false;
    p->phase = 0;
    for (int lane = 0; lane < LANES; lane++) {
        p->next[lane] = p->sums + lane * TILE_WORDS;
        p->kept[lane] = 0;
        p->places[lane].row = NOTHING;
        p->places[lane].panel = job->first_panel;
    }
    _tile_loadconfig(&eight_tiles);
}

/* What waits in tiles is stored by the step of one more strip, whose products are nobody's. */
static inline __attribute__((always_inline)) void end(pipe *p, bool resident, bool is_float)
{
    if (resident) {
        take_resident(p, p->job->rows, false, is_float);
    } else {
        (is_float ? bf16_first : s8_first)(p, NULL, p->job->rows, p->job->rows, p->job->panels, 0);
    }
    for (int32_t lane = 0; lane < LANES; lane++) {
        test_tile(p, lane, is_float);
        take_kept(p, lane, is_float);
    }
    _tile_release();
}

static inline bool has_enough(const kin_tile_job *job)
{
    return job->taken != NULL && (job->row_log->count > job->enough ||
                                  (job->col_log != NULL && job->col_log->count > job->enough));
}

static inline __attribute__((always_inline)) void run(const kin_tile_job *job, bool is_float)
{
    pipe p;
    begin(&p, job);
    const int32_t steps = job->groups / STEP_GROUPS;
    const int32_t last = job->first_panel + job->panel_count;
    int32_t panel = job->first_panel;
    for (; panel < last && (panel == job->first_panel || !has_enough(job)); panel += PANELS) {
        if (steps == 1) {
            take_panels_resident(&p, panel, false, is_float);
        } else if (steps == RESIDENT_STEPS) {
            take_panels_resident(&p, panel, true, is_float);
        } else {
            take_panels(&p, panel, is_float);
        }
    }
    end(&p, steps <= RESIDENT_STEPS, is_float);
    if (job->taken != NULL) {
        *job->taken = panel - job->first_panel;
    }
}

static void s8_run(const kin_tile_job *job)
{
    run(job, false);
}

static void bf16_run(const kin_tile_job *job)
{
    run(job, true);
}

/* ---- A gate ---------------------------------------------------------------------------------- */

/* Whether a pair of the tile passes for either end: of each point the largest of what 16 rows have
 * above their own thresholds, and above those that a row without a limit would have. */
static inline __attribute__((always_inline)) void gate_tile(const pipe *p, int32_t lane,
                                                            uint64_t *strips)
{
    const kin_tile_job *job = p->job;
    const place *done = &p->places[lane];
    if (done->row == NOTHING) {
        return;
    }
    const kin_word *own = job->test + done->row;
    const kin_word *term = own + job->row_count;
    surplus most = no_surplus(false);
    surplus open = no_surplus(false);
#pragma GCC unroll 16
    for (int32_t r = 0; r < ROWS; r++) {
        const kin_word *acc = p->acc[lane] + r * KIN_PANEL;
        most = surplus_of(acc, own + r, most, most, false);
        open = surplus_of(acc, term + r, open, open, false);
    }
    const __m512i half = halves_of_points(job, done->panel, false).i;
    const __m512i best = _mm512_max_epi32(most.i, _mm512_add_epi32(open.i, half));
    const __m512i least = _mm512_sub_epi32(_mm512_setzero_si512(), start_of(job, done).i);
    const uint64_t passed = _mm512_cmpge_epi32_mask(best, least) != 0;
    strips[done->panel / PANELS] |= passed << (job->first_row + done->row) / ROWS;
}

static void set_gate_tests(const kin_tile_job *job)
{
    const __m512i none = _mm512_set1_epi32(NO_INT_PASSES);
    for (int32_t row = 0; row < job->row_count; row += ROWS) {
        const __m512i term = _mm512_loadu_si512(job->half_term + row);
        const __m512i test = _mm512_sub_epi32(term, _mm512_loadu_si512(job->row_half + row));
        _mm512_storeu_si512(job->test + row, _mm512_min_epi32(test, none));
        _mm512_storeu_si512(job->test + job->row_count + row, _mm512_min_epi32(term, none));
    }
}

/* As rows pass resident panels, and no tile is kept. */
static void s8_gate(const kin_tile_job *job, uint64_t *strips)
{
    pipe p;
    begin(&p, job);
    set_gate_tests(job);
    for (int32_t lane = 0; lane < LANES; lane++) {
        p.next[lane] = p.acc[lane];
    }
    for (int32_t panel = job->first_panel; panel < job->first_panel + job->panel_count;
         panel += PANELS) {
        const uint32_t *point = job->panels + (int64_t)panel * TILE_WORDS;
        _tile_loadd(4, point, 64);
        _tile_loadd(6, point + TILE_WORDS, 64);
        strips[panel / PANELS] = 0;
        for (int32_t row = 0; row < job->real_rows; row += ROWS) {
            take_resident(&p, job->rows + (int64_t)row * STEP_GROUPS, false, false);
#pragma GCC unroll 2
            for (int32_t side = 0; side < PANELS; side++) {
                const int32_t lane = PANELS * p.odd + side;
                gate_tile(&p, lane, strips);
                p.places[lane].row = row;
                p.places[lane].panel = panel + side;
            }
            p.odd = !p.odd;
        }
    }
    take_resident(&p, job->rows, false, false);
    for (int32_t lane = 0; lane < LANES; lane++) {
        gate_tile(&p, lane, strips);
    }
    _tile_release();
}

/* Twice 16 rows at a time; where there are but 16 more, those twice. */
static void s8_multiply(const kin_tile_job *job, kin_word *products)
{
    const int64_t panel_words = (int64_t)job->groups * KIN_PANEL;
    _tile_loadconfig(&eight_tiles);
    for (int32_t row_at = 0; row_at < job->row_count; row_at += 2 * ROWS) {
        const int32_t second_at = row_at + ROWS < job->row_count ? row_at + ROWS : row_at;
        const uint32_t *row = job->rows + (int64_t)row_at * job->groups;
        const uint32_t *second_row = job->rows + (int64_t)second_at * job->groups;
        const uint32_t *point = job->panels + job->first_panel * panel_words;
        kin_word *next = products + (int64_t)job->row_count * KIN_PANEL;
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        for (int32_t at = 0; at < job->groups / STEP_GROUPS * TILE_WORDS; at += TILE_WORDS) {
            s8_next(NULL, NULL, row + at, second_row + at, point + at, panel_words);
        }
        _tile_stored(0, products + row_at * KIN_PANEL, 64);
        _tile_stored(1, next + row_at * KIN_PANEL, 64);
        _tile_stored(2, products + second_at * KIN_PANEL, 64);
        _tile_stored(3, next + second_at * KIN_PANEL, 64);
    }
    _tile_release();
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
static inline __m512 pair_bf16(__m512 acc, __m512 row, __m512 point)
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
#include "screen/screen_tile_lines.inc"
#undef TILE_NAME

#define TILE_NAME bf16
#define KIND_bf16 FLOATS
#include "screen/screen_tile_lines.inc"

const kin_tile_kernel kin_tile_s8_amx = {.name = "s8 amx",
                                         .type = KIN_TILE_S8,
                                         .isa = KIN_ISA_AMX,
                                         .tile_rows = ROWS,
                                         .group_step = STEP_GROUPS,
                                         .pack = s8_pack,
                                         .run = s8_run,
                                         .lines = s8_lines,
                                         .word_cost = 0.125,
                                         .gate = s8_gate,
                                         .multiply = s8_multiply};
const kin_tile_kernel kin_tile_bf16_amx = {.name = "bf16 amx",
                                           .type = KIN_TILE_BF16,
                                           .isa = KIN_ISA_AMX,
                                           .tile_rows = ROWS,
                                           .group_step = STEP_GROUPS,
                                           .pack = bf16_pack,
                                           .run = bf16_run,
                                           .lines = bf16_lines,
                                           .word_cost = 0.125};
#endif
