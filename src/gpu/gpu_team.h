/* SPDX-License-Identifier: Apache-2.0
 * Several GPUs of one host that do one job, each in a thread of its own.
 *
 *   leader     the GPU of the context; the others are opened beside it, each with a context of its
 *              own for errors, reports and host threads
 *   member     one of them; `part` is its number among those that work, 0 .. parts - 1
 *   lockstep   all members run one driver and wait for each other where they exchange something
 *
 * An exchange is: show what I have -> meet -> copy from the others -> wait -> meet. Copies go over
 * the hardware between the GPUs where there is some (peer access), else through pinned host memory,
 * by the driver. Nobody writes into another one's memory, so there are no locks.
 *
 * Failure. A member that fails leaves; whoever waits for it is woken and leaves, too, and the job
 * ends with its status and its sentence. Within an exchange everybody comes to the second meeting,
 * whatever happened, so that no memory goes away that another one still reads. */
#ifndef KIN_GPU_TEAM_H
#define KIN_GPU_TEAM_H

#include "gpu/gpu.h"

enum { KIN_GPU_TEAM_MOST = 16 };

typedef struct kin_gpu_team kin_gpu_team;

/* Where a member stands while a job is in lockstep. */
typedef struct kin_gpu_seat {
    kin_gpu_team *team;
    int32_t part;
    int32_t parts;
} kin_gpu_seat;

/* The others of indices[] beside the leader, which is indices[0]: leader->team. All must be of one
 * model (KITH_E_ARGUMENT), since they must round alike. budget as of kin_gpu_open. */
kith_status kin_gpu_team_open(kith_ctx *ctx, kin_gpu *leader, const int32_t *indices, int32_t count,
                              uint64_t budget);

/* Members that work: those that did not fail. */
int32_t kin_gpu_team_count(const kin_gpu_team *team);
/* Whether jobs of so many rows a member are the team's: also where its leader is left out, and so
 * is nobody's but the others'. Not while the team is at work: a job inside its job is a member's.
 */
bool kin_gpu_team_takes(const kin_gpu *gpu, int64_t rows, int64_t rows_a_member);
/* Any of all, the leader being number 0, and how many. */
int32_t kin_gpu_team_size(const kin_gpu_team *team);
kin_gpu *kin_gpu_team_member(const kin_gpu_team *team, int32_t number);
/* Their names, "cuda:0,1,2", and the most that one of them held. */
void kin_gpu_team_name(const kin_gpu_team *team, char *text, size_t size);
uint64_t kin_gpu_team_peak(const kin_gpu_team *team);

/* What a member does; part 0 runs in the caller's thread, with the caller's context, and may ask
 * its progress function. */
typedef kith_status (*kin_gpu_member_fn)(void *arg, kith_ctx *ctx, kin_gpu *gpu, int32_t part,
                                         int32_t parts);
/* All members at once. The leader has been entered by the caller. A member whose device fails
 * (KITH_E_DEVICE) is left out for good, which is logged, and the job is begun again without it, as
 * long as one is left. Other failures are the job's. */
kith_status kin_gpu_team_run(kith_ctx *ctx, kin_gpu_team *team, bool lockstep, kin_gpu_member_fn fn,
                             void *arg);

/* ---- One thing on each ----------------------------------------------------------------------- */

/* What each GPU of a team gets, the context's memory with it, in lockstep until it breaks step. */
typedef struct kin_gpu_each {
    kith_status (*make)(void *arg, kith_ctx *ctx, kin_gpu *gpu, void **thing);
    void (*free)(void *thing);
    void *arg;
} kin_gpu_each;
/* things[KIN_GPU_TEAM_MOST], all NULL before: by the number of a member, which is 0 where there is
 * no team; NULL of one that is left out, which the leader must not be. All NULL on failure. Each
 * GPU is entered by then, the leader by the caller. */
kith_status kin_gpu_each_make(kith_ctx *ctx, kin_gpu *leader, const kin_gpu_each *each,
                              void **things);
void kin_gpu_each_free(kin_gpu *leader, void (*free_thing)(void *thing), void **things);

/* ---- In lockstep ----------------------------------------------------------------------------- */

static inline int32_t kin_gpu_part(const kin_gpu *gpu)
{
    return gpu->seat != NULL ? gpu->seat->part : 0;
}

static inline int32_t kin_gpu_parts(const kin_gpu *gpu)
{
    return gpu->seat != NULL ? gpu->seat->parts : 1;
}

/* Waits until all are here. `own` is how the caller's part went; the first failure of any comes
 * back to all. */
kith_status kin_gpu_meet(kin_gpu *gpu, kith_status own);
/* From here on this member works alone; so do all others from this place on. */
void kin_gpu_break_step(kin_gpu *gpu);
/* A place that the others may read between this meeting and the next one. */
void kin_gpu_show(kin_gpu *gpu, const void *what);
const void *kin_gpu_shown(const kin_gpu *gpu, int32_t part);

/* From the memory of another part, in the order of this one's stream. */
kith_status kin_gpu_copy_from(kith_ctx *ctx, kin_gpu *gpu, int32_t part, void *to, const void *from,
                              uint64_t bytes);

/* The least number that a member gives, to all. */
kith_status kin_gpu_agree(kin_gpu *gpu, uint64_t own, uint64_t *least);
/* The sum of what all members give, in their order, to all. */
kith_status kin_gpu_add_up(kin_gpu *gpu, double own, double *sum);
/* Items firsts[p] .. firsts[p + 1] - 1 of an array, which each member has at `base` of its own,
 * are made by part p: afterwards everybody has all of them. Waits. */
kith_status kin_gpu_gather(kith_ctx *ctx, kin_gpu *gpu, void *base, uint64_t item_bytes,
                           const int64_t *firsts);

/* So many items in ranges of nearly one size, each a multiple of `unit` but for the last:
 * firsts[0 .. parts]. */
void kin_gpu_divide(int64_t count, int64_t unit, int32_t parts, int64_t *firsts);

#endif
