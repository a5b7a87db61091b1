/* SPDX-License-Identifier: Apache-2.0
 * The tile kernel for ARM's dot products of bytes of one sign. Contract: screen_tile.h.
 *
 * Points are bytes that are 128 too large, and rows are left so, too. What that adds to a product,
 * 128 times the sum of the point's bytes, is taken away from the start of its column, once for all
 * rows of a job: the loop has nothing but dot products. Sums are modulo 2^32, as the contract's
 * are. */
#if defined(__aarch64__)
#include "screen/screen_tile.h"
#include "screen/screen_tile_hit.h"
#include "screen/screen_tile_neon.h"

/* A job, and what sums of the panel at hand begin with. */
typedef struct moved_job {
    kin_tile_job job;
    kin_word start[KIN_PANEL];
} moved_job;

static void move_start(moved_job *moved, int32_t panel)
{
    const kin_tile_job *job = &moved->job;
    const uint32_t *points = job->panels + (int64_t)panel * job->groups * KIN_PANEL;
    for (int32_t v = 0; v < KIN_PANEL; v += TILE_LANES) {
        uint32x4_t sums = vdupq_n_u32(0);
        for (int32_t g = 0; g < job->groups; g++) {
            const uint32x4_t words = vld1q_u32(points + (int64_t)g * KIN_PANEL + v);
            sums = vdotq_u32(sums, vreinterpretq_u8_u32(words), vdupq_n_u8(1));
        }
        const int32x4_t start = load_i32x4(&job->start[(int64_t)panel * KIN_PANEL + v]);
        const int32x4_t offset = vreinterpretq_s32_u32(vshlq_n_u32(sums, 7));
        store_i32x4(&moved->start[v], vsubq_s32(start, offset));
    }
}

static inline int32x4_t dot_u8(int32x4_t acc, int32x4_t row, int32x4_t point)
{
    return vreinterpretq_s32_u32(vdotq_u32(vreinterpretq_u32_s32(acc), vreinterpretq_u8_s32(row),
                                           vreinterpretq_u8_s32(point)));
}

/* One point's sum is needed once: it is made on the way. */
static inline int32x4_t pair_u8(int32x4_t acc, int32x4_t row, int32x4_t point)
{
    const int32x4_t sums = dot_u8(vdupq_n_s32(0), vdupq_n_s32(0x01010101), point);
    return vsubq_s32(dot_u8(acc, row, point), vshlq_n_s32(sums, 7));
}

#define TILE_NAME u8
#define KIND_u8 i32x4
#define NUMBER_u8 int
#define FLIP_u8 0u
#define ROWS_u8 ROWS_s8
#define TILE_START(job, panel, v) (&((const moved_job *)(job))->start[(v)*TILE_LANES])
#include "screen/screen_tile_body.inc"

static void u8_run(const kin_tile_job *job)
{
    moved_job moved = {.job = *job};
    const int32_t last = job->first_panel + job->panel_count;
    for (int32_t panel = job->first_panel; panel < last; panel++) {
        tile_tests_int(job, panel, 1);
        move_start(&moved, panel);
        for (int32_t tile = 0; tile < job->row_count / ROWS_u8; tile++) {
            u8_tile(&moved.job, tile, panel, ROWS_u8);
        }
    }
}

const kin_tile_kernel kin_tile_s8_dotprod = {"s8 dotprod", KIN_TILE_S8, KIN_ISA_DOTPROD,
                                             ROWS_u8,      1,           u8_pack,
                                             u8_run,       u8_lines,    1.0,
                                             NULL,         NULL,        NULL,
                                             NULL,         NULL};
#endif
