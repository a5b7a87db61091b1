/* SPDX-License-Identifier: Apache-2.0
 * Tile kernels for AMX: 32 rows x 32 points in four accumulator tiles. Contract: exact_tile.h.
 *
 * Who holds what: tiles 0-3 accumulate (rows 0-15 and 16-31) x (points 0-15 and 16-31); tiles 4, 5
 * hold 64 bytes of 16 rows each, tiles 6, 7 sixteen groups of 16 points. A step is 4 loads and 4
 * products of 16 cycles; its loads take 32 cycles from L1, so the unit is fed as long as the points
 * stay near.
 *
 * Schedule: finished accumulators are stored and compared while the next 32 x 32 pairs are in the
 * unit; the comparisons are dealt out over the steps, since the processor cannot look further ahead
 * than a few hundred instructions:
 *
 *     tile unit    | products of block b     | products of block b+1   |
 *     vector unit  | comparisons of b-1      | comparisons of b        |
 *
 * s8: rows signed, points unsigned (tdpbsud). bf16: rounding and order of the unit are fixed
 * whatever MXCSR says; subnormals count as zero on both sides, and none are stored
 * (exact_round_body.inc). */
#if defined(__x86_64__)
#include "exact/exact_tile.h"
#include "exact/exact_tile_eight.h"
#include "exact/exact_tile_hit.h"
#include "exact/exact_tile_zmm.h"

enum { ROWS = 32, POINTS = 32, SIDE = 16, TILE_WORDS = 256, STEP_GROUPS = 16, LINES = 64 };

/* A finished block of 32 x 32 accumulators that waits for its comparisons. Line l holds the 16
 * accumulators of one row: rows 0-15 and points 0-15, then points 16-31, then rows 16-31. */
typedef struct finished {
    kin_word acc[LINES][SIDE] __attribute__((aligned(64)));
    kin_word test[LINES]; /* the job's, in the order of the lines */
    int32_t row;
    int32_t panel;
    uint32_t next_line; /* LINES when nothing is left */
} finished;

/* Lines of a finished block: 16 accumulators of one row each, to which the columns' starts are
 * added only here. (Accumulators that begin as starts need tile loads of stride 0, which took twice
 * as long as all else that a block of 128 components costs beside its products.) */
static inline __attribute__((always_inline)) void compare(const kin_tile_job *job, finished *done,
                                                          uint32_t lines, bool is_float)
{
    const kin_word *start = job->start + (int64_t)done->panel * KIN_PANEL;
    const uint32_t next = done->next_line;
    const uint32_t last = next + lines < LINES ? next + lines : LINES;
    for (uint32_t line = next; line < last; line++) {
        kin_word *acc = done->acc[line];
        const uint32_t side = line / SIDE % 2;
        uint32_t mask;
        if (is_float) {
            const __m512 sum =
                _mm512_add_ps(_mm512_load_ps(acc), _mm512_loadu_ps(start + side * SIDE));
            mask = _mm512_cmp_ps_mask(sum, _mm512_set1_ps(done->test[line].f), _CMP_NLT_UQ);
            if (__builtin_expect(mask != 0, 0)) {
                _mm512_store_ps(acc, sum);
            }
        } else {
            const __m512i sum =
                _mm512_add_epi32(_mm512_load_si512(acc), _mm512_loadu_si512(start + side * SIDE));
            mask = _mm512_cmpge_epi32_mask(sum, _mm512_set1_epi32(done->test[line].i));
            if (__builtin_expect(mask != 0, 0)) {
                _mm512_store_si512(acc, sum);
            }
        }
        if (__builtin_expect(mask != 0, 0)) {
            const int32_t row = done->row + (int32_t)(line / (2 * SIDE) * SIDE + line % SIDE);
            (is_float ? tile_hit_float : tile_hit_int)(job, row, done->panel + (int32_t)side, mask,
                                                       acc);
        }
    }
    done->next_line = last;
}

/* What a finished block needs to be compared later. */
static inline __attribute__((always_inline)) void finish(const kin_tile_job *job, int32_t row,
                                                         int32_t panel, finished *done)
{
    for (int part = 0; part < 4; part++) {
        const kin_word *test = job->test + part % 2 * job->row_count + row + part / 2 * SIDE;
        _mm512_storeu_si512(&done->test[part * SIDE], _mm512_loadu_si512(test));
    }
    done->row = row;
    done->panel = panel;
    done->next_line = 0;
}

static inline __attribute__((always_inline)) void products(const kin_tile_job *job, int32_t tile,
                                                           int32_t panel, finished *previous,
                                                           finished *next, bool is_float)
{
    const int32_t steps = job->groups / STEP_GROUPS;
    const int64_t panel_words = (int64_t)job->groups * KIN_PANEL;
    const uint32_t *row_words = job->rows + (int64_t)tile * 2 * steps * TILE_WORDS;
    const uint32_t *point_words = job->panels + panel * panel_words;
    const uint32_t lines = (uint32_t)((LINES + steps - 1) / steps);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int32_t step = 0; step < steps; step++) {
        const uint32_t *row = row_words + (int64_t)step * 2 * TILE_WORDS;
        const uint32_t *point = point_words + (int64_t)step * TILE_WORDS;
        _tile_loadd(4, row, 64);
        _tile_loadd(6, point, 64);
        if (is_float) {
            _tile_dpbf16ps(0, 4, 6);
            _tile_loadd(7, point + panel_words, 64);
            _tile_dpbf16ps(1, 4, 7);
            _tile_loadd(5, row + TILE_WORDS, 64);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        } else {
            _tile_dpbsud(0, 4, 6);
            _tile_loadd(7, point + panel_words, 64);
            _tile_dpbsud(1, 4, 7);
            _tile_loadd(5, row + TILE_WORDS, 64);
            _tile_dpbsud(2, 5, 6);
            _tile_dpbsud(3, 5, 7);
        }
        compare(job, previous, lines, is_float);
    }
    _tile_stored(0, next->acc[0], 64);
    _tile_stored(1, next->acc[SIDE], 64);
    _tile_stored(2, next->acc[2 * SIDE], 64);
    _tile_stored(3, next->acc[3 * SIDE], 64);
    finish(job, tile * ROWS, panel, next);
}

static inline __attribute__((always_inline)) void run(const kin_tile_job *job, bool is_float)
{
    finished blocks[2];
    for (int i = 0; i < 2; i++) {
        blocks[i].row = 0;
        blocks[i].panel = job->first_panel;
        blocks[i].next_line = LINES;
    }
    _tile_loadconfig(&eight_tiles);
    const int32_t last = job->first_panel + job->panel_count;
    for (int32_t panel = job->first_panel; panel < last; panel += 2) {
        if (is_float) {
            tile_tests_float(job, panel, 2);
        } else {
            tile_tests_int(job, panel, 2);
        }
        const int32_t tiles = job->row_count / ROWS;
        for (int32_t tile = 0; tile < tiles; tile++) {
            products(job, tile, panel, &blocks[(tile + 1) % 2], &blocks[tile % 2], is_float);
        }
        compare(job, &blocks[(tiles + 1) % 2], LINES, is_float); /* the tests change now */
    }
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

/* Rows for the unit: for each 32 rows, step after step, two tiles of 16 rows x 64 bytes. */
static void pack(const uint32_t *panels, int32_t groups, int32_t row_count, uint32_t flip,
                 uint32_t *rows)
{
    const int64_t steps = groups / STEP_GROUPS;
    const __m512i flips = _mm512_set1_epi32((int32_t)flip);
    for (int64_t side = 0; side < row_count / SIDE; side++) {
        const uint32_t *src = panels + side * steps * TILE_WORDS;
        uint32_t *dst = rows + (side / 2 * 2 * steps + side % 2) * TILE_WORDS;
        for (int64_t step = 0; step < steps; step++) {
            transpose_u32x16(src + step * TILE_WORDS, SIDE, flips, dst + 2 * step * TILE_WORDS);
        }
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
