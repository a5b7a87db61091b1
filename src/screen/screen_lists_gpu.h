/* SPDX-License-Identifier: Apache-2.0
 * Sets and candidate lists in device memory: their making, their parts, and one GPU's share of a
 * screen that a team does (gpu/gpu.h): what it has for the rows of the others, and what it
 * gets for its own.
 *
 *   rows    each part owns a range of positions, firsts[part] .. firsts[part + 1] - 1
 *   pairs   each part screens those that kin_screen_gpu_plan deals to it, whoever owns their rows
 *
 * After a stage every list is where its owner is, complete, as if one GPU had screened everything;
 * so it is tightened there, and its reach is what one GPU would have found. */
#ifndef KIN_SCREEN_LISTS_GPU_H
#define KIN_SCREEN_LISTS_GPU_H

#include "gpu/gpu.h"
#include "screen/screen_kernels.h"

/* What the launches of a device share. */
typedef struct kin_screen_gpu_device {
    kith_ctx *ctx;
    kin_gpu *gpu;
    const kin_screen_gpu_kernels *kernels;
    kin_gpu_stream *stream;
} kin_screen_gpu_device;

static inline kin_screen_gpu_device kin_screen_gpu_device_of(kith_ctx *ctx, kin_gpu *gpu)
{
    return (kin_screen_gpu_device){ctx, gpu, gpu->module->screen, gpu->stream};
}

/* The status of a launch, or of another function of the module. */
static inline kith_status kin_screen_gpu_launched(const kin_screen_gpu_device *on, int error,
                                                  const char *what)
{
    return kin_gpu_check(on->ctx, on->gpu, error, what);
}

/* A launch of the screen's table. on is read twice. */
#define KIN_SCREEN_LAUNCH(on, name, job, what) \
    kin_screen_gpu_launched(on, (on)->kernels->name((on)->stream, job), what)

/* A launch of another room's table: of whoever has `on` and `kernels`. */
#define KIN_ROOM_LAUNCH(who, name, job, what) \
    kin_screen_gpu_launched(&(who)->on, (who)->kernels->name((who)->on.stream, job), what)

/* ---- Sets ------------------------------------------------------------------------------------ */

/* Positions [first, first + count) of a set; first a multiple of KIN_SCREEN_GPU_BLOCK. */
kin_screen_gpu_set kin_screen_gpu_set_part(const kin_screen_gpu_set *set, int64_t first,
                                           int64_t count);
/* Starts that a kernel has written, for a set whose worst row is known; unless they are above what
 * they should be for more than a few columns, or single rows lose much, which would cost more than
 * starts save. */
void kin_screen_gpu_set_start(kin_screen_gpu_set *set, const unsigned char *starts,
                              const kin_screen_gpu_starts *found);
/* Norms and losses of the tiles of a set, for one-sided screens. */
kith_status kin_screen_gpu_worst_find(const kin_screen_gpu_device *on,
                                      const kin_screen_gpu_set *set, kin_screen_gpu_worst *worst);

/* Some rows of a matrix as a set of their own, rounded into memory that is ours. */
typedef struct kin_screen_gpu_chosen {
    /* of kin_screen_gpu_chosen_of; with ids before it is named: they are borrowed */
    kin_screen_gpu_set set;
    void *block;
    unsigned char *rounded;
    kin_screen_gpu_facts *facts;
    kin_screen_gpu_word *half;
    uint32_t *ids;
    float *worst; /* norm, lost */
} kin_screen_gpu_chosen;

/* So many rows, nothing allocated. */
kin_screen_gpu_chosen kin_screen_gpu_chosen_of(const kin_screen_gpu_frame *frame, int64_t count);
void kin_screen_gpu_chosen_name(kin_layout *layout, void *chosen);
/* A block of their own, *worst cleared; kin_gpu_free gives chosen->block back. */
kith_status kin_screen_gpu_chosen_make(const kin_screen_gpu_device *on,
                                       kin_screen_gpu_chosen *chosen);
/* Rows set.ids of a matrix; what is worst of them joins *chosen->worst. */
kith_status kin_screen_gpu_chosen_round(const kin_screen_gpu_device *on,
                                        const kin_screen_gpu_rows *rows,
                                        const kin_screen_gpu_chosen *chosen);
/* The worst of them, for set.worst. Waits. */
kith_status kin_screen_gpu_chosen_see(const kin_screen_gpu_device *on,
                                      kin_screen_gpu_chosen *chosen);

/* ---- Lists ----------------------------------------------------------------------------------- */

/* A row without a reach: the bytes 0x7f make a double of 10^306, whose limits keep everything. */
enum { KIN_SCREEN_GPU_NO_REACH_BYTE = 0x7f };

/* Lists whose rows, k and capacity are set. words stand first. */
void kin_screen_gpu_lists_name(kin_layout *layout, void *lists);
/* Empty, without reach. */
kith_status kin_screen_gpu_lists_clear(const kin_screen_gpu_device *on,
                                       const kin_screen_gpu_set *set,
                                       const kin_screen_gpu_lists *lists);
/* Lists of k candidates for all rows of a set, empty, without reach, in a block of their own. */
kith_status kin_screen_gpu_lists_make(const kin_screen_gpu_device *on,
                                      const kin_screen_gpu_set *set, int64_t k, int32_t capacity,
                                      kin_screen_gpu_lists *lists);
void kin_screen_gpu_lists_free(const kin_screen_gpu_device *on, kin_screen_gpu_lists *lists);
/* The lists of a range of positions, first a multiple of KIN_SCREEN_GPU_BLOCK. */
kin_screen_gpu_lists kin_screen_gpu_lists_part(const kin_screen_gpu_lists *lists, int64_t first,
                                               int64_t rows);

/* ---- A team's -------------------------------------------------------------------------------- */

typedef struct kin_screen_gpu_share {
    int32_t part;
    int32_t parts; /* 0: there is no team */
    int64_t firsts[KIN_SCREEN_GPU_MOST_PARTS + 1];
    uint64_t room;   /* words that go to a part at a time */
    uint64_t *words; /* device: parts x room */
    uint32_t *rows;
    uint64_t *got_words; /* device: room */
    uint32_t *got_rows;
    uint64_t *counts; /* device: 2 a part */
} kin_screen_gpu_share;

/* Nothing where the GPU is not in lockstep with others. scope: what all have agreed on, since what
 * one packs the others must have room for. Nothing is allocated. */
kin_screen_gpu_share kin_screen_gpu_share_of(const kin_gpu *gpu, int64_t points, int32_t capacity,
                                             uint64_t scope);
void kin_screen_gpu_share_name(kin_layout *layout, void *share);
/* Device memory that it takes in a team of so many, of so much room. */
uint64_t kin_screen_gpu_share_bytes(int64_t points, int32_t parts, int32_t capacity, uint64_t room);

static inline int64_t kin_screen_gpu_share_first(const kin_screen_gpu_share *share)
{
    return share->firsts[share->part];
}

static inline int64_t kin_screen_gpu_share_count(const kin_screen_gpu_share *share)
{
    return share->firsts[share->part + 1] - share->firsts[share->part];
}

/* Lists of all rows -> to their owners, empty elsewhere. whole: an overflowed list counts, but
 * nothing of it is wanted. */
kith_status kin_screen_gpu_share_lists(const kin_screen_gpu_device *on, kin_screen_gpu_share *share,
                                       const kin_screen_gpu_lists *lists, int64_t points,
                                       bool whole);
/* Reach of all rows, from their owners. */
kith_status kin_screen_gpu_share_reach(const kin_screen_gpu_device *on,
                                       const kin_screen_gpu_share *share,
                                       const kin_screen_gpu_lists *lists);

#endif
