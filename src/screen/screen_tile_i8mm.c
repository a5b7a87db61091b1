/* SPDX-License-Identifier: Apache-2.0
 * The tile kernel for ARM's products of matrices of bytes. Contract: screen_tile.h.
 *
 *     usmmla    2 points x 8 bytes, times 2 rows x 8 bytes: 4 sums of 8 products each
 *
 *     sums of points p, p + 1 and rows r, r + 1, in a register:     p.r   p.r+1   p+1.r   p+1.r+1
 *
 * Twice the products of a dot product an instruction. Eight bytes of a point are words of two
 * groups, which a panel has apart: zip brings them together, once for six rows. Rows are packed in
 * pairs, two groups at a time. */
#if defined(__aarch64__)
#include "screen/screen_tile.h"
#include "screen/screen_tile_hit.h"
#include "screen/screen_tile_neon.h"

#define TILE_NAME s8

enum {
    ROW_PAIRS = TILE_ROWS / 2,
    POINT_PAIRS = KIN_PANEL / 2,
    GROUP_STEP = 2,
    STEP_WORDS = TILE_ROWS * GROUP_STEP
};

static inline int32x4_t multiply(int32x4_t acc, int32x4_t points, int32x4_t rows)
{
    return vusmmlaq_s32(acc, vreinterpretq_u8_s32(points), vreinterpretq_s8_s32(rows));
}

/* What passed of a row whose sums are these. */
static inline void test_row(const kin_tile_job *job, int32_t row, int32_t panel,
                            const int32x4_t *sums)
{
    const uint32_t mask = pass_i32x4(sums, splat_i32x4(&job->test[row]));
    if (__builtin_expect(mask != 0, 0)) {
        kin_word spilled[KIN_PANEL];
        for (int v = 0; v < TILE_VECTORS; v++) {
            store_i32x4(&spilled[v * TILE_LANES], sums[v]);
        }
        tile_hit_int(job, row, panel, mask, spilled);
    }
}

static inline void s8_tile(const kin_tile_job *job, int32_t tile, int32_t panel)
{
    const uint32_t *rows = job->rows + (int64_t)tile * job->groups * TILE_ROWS;
    const uint32_t *points = job->panels + (int64_t)panel * job->groups * KIN_PANEL;
    int32x4_t acc[ROW_PAIRS][POINT_PAIRS];
#pragma GCC unroll 16
    for (int v = 0; v < TILE_VECTORS; v++) {
        const int32x4_t start = load_i32x4(&job->start[panel * KIN_PANEL + v * TILE_LANES]);
#pragma GCC unroll 16
        for (int r = 0; r < ROW_PAIRS; r++) {
            acc[r][2 * v] = vzip1q_s32(start, start);
            acc[r][2 * v + 1] = vzip2q_s32(start, start);
        }
    }
    for (int32_t g = 0; g < job->groups; g += GROUP_STEP) {
        int32x4_t row[ROW_PAIRS];
#pragma GCC unroll 16
        for (int r = 0; r < ROW_PAIRS; r++) {
            row[r] = load_i32x4(rows + r * TILE_LANES);
        }
#pragma GCC unroll 16
        for (int v = 0; v < TILE_VECTORS; v++) {
            const int32x4_t even = load_i32x4(points + v * TILE_LANES);
            const int32x4_t odd = load_i32x4(points + KIN_PANEL + v * TILE_LANES);
            __asm__("" : : : "memory"); /* else gcc loads all of them first, and spills sums */
            const int32x4_t first = vzip1q_s32(even, odd);
            const int32x4_t second = vzip2q_s32(even, odd);
#pragma GCC unroll 16
            for (int r = 0; r < ROW_PAIRS; r++) {
                acc[r][2 * v] = multiply(acc[r][2 * v], first, row[r]);
                acc[r][2 * v + 1] = multiply(acc[r][2 * v + 1], second, row[r]);
            }
        }
        rows += STEP_WORDS;
        points += GROUP_STEP * KIN_PANEL;
    }
#pragma GCC unroll 16
    for (int r = 0; r < ROW_PAIRS; r++) {
        int32x4_t upper[TILE_VECTORS];
        int32x4_t lower[TILE_VECTORS];
#pragma GCC unroll 16
        for (int v = 0; v < TILE_VECTORS; v++) {
            upper[v] = vuzp1q_s32(acc[r][2 * v], acc[r][2 * v + 1]);
            lower[v] = vuzp2q_s32(acc[r][2 * v], acc[r][2 * v + 1]);
        }
        test_row(job, tile * TILE_ROWS + 2 * r, panel, upper);
        test_row(job, tile * TILE_ROWS + 2 * r + 1, panel, lower);
    }
}

static void s8_run(const kin_tile_job *job)
{
    const int32_t last = job->first_panel + job->panel_count;
    for (int32_t panel = job->first_panel; panel < last; panel++) {
        tile_tests_int(job, panel, 1);
        for (int32_t tile = 0; tile < job->row_count / TILE_ROWS; tile++) {
            s8_tile(job, tile, panel);
        }
    }
}

/* Two groups of a row are neighbours, then come those of the next row. */
static void s8_pack(const uint32_t *panels, int32_t groups, int32_t row_count, uint32_t *rows)
{
    for (int32_t row = 0; row < row_count; row++) {
        const uint32_t *from =
            panels + (int64_t)(row / KIN_PANEL) * groups * KIN_PANEL + row % KIN_PANEL;
        uint32_t *to =
            rows + (int64_t)(row / TILE_ROWS) * groups * TILE_ROWS + row % TILE_ROWS * GROUP_STEP;
        for (int32_t g = 0; g < groups; g++) {
            to[(int64_t)(g / GROUP_STEP) * STEP_WORDS + g % GROUP_STEP] =
                from[(int64_t)g * KIN_PANEL] ^ 0x80808080u;
        }
    }
}

static inline int32x4_t pair_s8(int32x4_t acc, int32x4_t row, int32x4_t point)
{
    return dot_s8(acc, veorq_s32(row, vdupq_n_s32((int32_t)0x80808080u)), point);
}

#include "screen/screen_tile_lines.inc"

const kin_tile_kernel kin_tile_s8_i8mm = {
    "s8 i8mm", KIN_TILE_S8, KIN_ISA_I8MM, TILE_ROWS, GROUP_STEP, s8_pack, s8_run,
    s8_lines,  0.5,         NULL,         NULL,      NULL,       NULL,    NULL};
#endif
