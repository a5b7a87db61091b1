/* SPDX-License-Identifier: Apache-2.0
 * A GPU as drivers see it: memory within a budget, copies, errors as status and sentence. Knows no
 * algorithm.
 *
 * Device pointer: an address that only copies and kernels may follow. Budget: the caller's limit,
 * or what is free less a margin; allocations beyond it fail with KITH_E_DEVICE_MEMORY, which
 * drivers answer with smaller batches (and with kin_forgive, so that the sentence of the first try
 * is not the last word). One thread works with a kin_gpu at a time: api/ holds it locked while a
 * call works with it (kin_gpu_enter). */
#ifndef KIN_GPU_GPU_H
#define KIN_GPU_GPU_H

#include "base/base_ctx.h"
#include "base/base_mem.h"
#include "base/base_size.h"
#include "gpu/gpu_module.h"

/* Where the caller's arrays lie: bits of `place`. Matrices and outputs of one call lie together. */
enum {
    KIN_GPU_DATA_ON_DEVICE = 1u << 0,
    KIN_GPU_OUT_ON_DEVICE = 1u << 1,
    KIN_GPU_ENQUEUE = 1u << 2 /* with both: nobody waits, where that can be (exact_batch_gpu.c) */
};

/* Uploads that were begun ahead, the time that they took, and how much of it somebody waited for.
 */
typedef struct kin_gpu_ahead_tally {
    int64_t uploads;
    int64_t copying_ns;
    int64_t waiting_ns;
} kin_gpu_ahead_tally;

typedef struct kin_gpu {
    const kin_gpu_module *module;
    kin_gpu_stream *stream;
    int32_t index;
    kin_gpu_info info;
    uint64_t budget; /* bytes */
    uint64_t given;  /* the budget that it was opened with */
    uint64_t held;   /* bytes that drivers hold of it */
    uint64_t peak;
    int32_t narrowed;            /* times, by kin_gpu_narrow, of this job */
    struct kin_gpu_cache *cache; /* every block, released ones waiting to be used again: cudaMalloc
                                    is slow, and cudaFree waits for the device */
    struct kin_gpu_staging *staging; /* pinned memory for copies; NULL until the first one */
    struct kin_gpu_ahead *ahead;     /* uploads beside work (gpu.h); NULL until the first */
    bool ahead_off;                  /* for comparison: hints are not taken */
    kin_gpu_ahead_tally ahead_tally; /* since it was opened */
    void *followed; /* an event in a caller's stream or in ours (kin_gpu_follow, kin_gpu_lead); NULL
                       until the first */
    bool enqueued;  /* the call that works with it has given work that nobody waits for */
    struct kin_gpu_team *team; /* the one that it leads, where there are several (gpu.h); it
                                  is closed with it */
    int32_t number;            /* in its team, where it never changes; of the leader 0 */
    struct kin_gpu_seat *seat; /* in a team's lockstep; NULL: it works alone */
    kith_ctx *home;            /* pays for host memory */
    pthread_mutex_t lock;
    int32_t found; /* the device that was the thread's before kin_gpu_enter */
} kin_gpu;

/* Why no GPU can be used, one line: NULL where one can. Opens the module once a process, from the
 * path that KITH_CUDA_MODULE names, else from beside libkith.so, else by the loader. Thread-safe.
 */
const char *kin_gpu_reason(void);
/* The module; NULL where there is a reason. */
const kin_gpu_module *kin_gpu_get_module(void);
/* Devices that the driver shows, usable or not; 0 where the module or the driver is missing. */
int32_t kin_gpu_count(void);
/* The device whose memory an address is of; -1: none that the driver knows. */
int32_t kin_gpu_index_of(const void *address);
/* false: the driver would not say. */
bool kin_gpu_describe(int32_t index, kin_gpu_info *info);
/* New enough for the kernels. */
bool kin_gpu_usable(const kin_gpu_info *info);
/* Its family: ten times the compute capability, 90 for H100 and H200. */
int32_t kin_gpu_chip(const kin_gpu_info *info);
/* The first usable device; -1 where there is a reason. */
int32_t kin_gpu_first(void);

/* Opens a device. foreign_stream: the caller's cudaStream_t, or NULL. budget 0: what is free, less
 * a margin for the driver and for others. KITH_E_UNSUPPORTED (no module, driver, device, too old),
 * KITH_E_DEVICE, KITH_E_ARGUMENT (no such index). The context pays for host memory and must outlive
 * it. */
kith_status kin_gpu_open(kith_ctx *ctx, int32_t index, uint64_t budget, kin_gpu **out);
/* Gives everything back, cached blocks too. Accepts NULL. */
void kin_gpu_close(kith_ctx *ctx, kin_gpu *gpu);

/* Locks it for the calling thread, and makes it that thread's device until kin_gpu_leave. */
void kin_gpu_enter(kin_gpu *gpu);
void kin_gpu_leave(kin_gpu *gpu);

/* *out: count * item_bytes of device memory, 256-byte aligned, contents undefined. `what` names the
 * block in the message. */
kith_status kin_gpu_alloc(kith_ctx *ctx, kin_gpu *gpu, void *out, uint64_t count,
                          uint64_t item_bytes, const char *what);
/* Accepts NULL. The block may be used again by later work of the stream at once. */
void kin_gpu_free(kin_gpu *gpu, void *address);
/* All arrays that a layout names, in one block that one kin_gpu_free gives back; where it fails,
 * *out and the pointers are NULL. Where no array has an item there is no block, and they are, too.
 * `what`: in the message. */
kith_status kin_gpu_layout_make(kith_ctx *ctx, kin_gpu *gpu, kin_layout_names *names, void *job,
                                const char *what, void **out);
/* A hold (base_mem.h) gives the block back. */
void kin_gpu_hold_take(kin_hold *hold, kin_gpu *gpu, void *address);
/* Both for a hold. */
kith_status kin_gpu_hold_alloc(kin_hold *hold, kin_gpu *gpu, void *out, uint64_t bytes,
                               const char *what);
kith_status kin_gpu_hold_layout(kin_hold *hold, kin_gpu *gpu, kin_layout_names *names, void *job,
                                const char *what);
#define KIN_GPU_NEW(hold, gpu, pointer, count, what)      \
    KIN_TRY(kin_gpu_hold_alloc((hold), (gpu), &(pointer), \
                               kin_size_mul((count), sizeof *(pointer)), (what)))
/* The same in pinned host memory, which copies read at once, and which kernels write, over the bus,
 * in less time than a copy takes to begin; they wait long for what they read there. There is one
 * such block, which is the caller's until the next call of this; *block is NULL, and nothing named,
 * where it has not as many bytes. */
enum { KIN_GPU_MAPPED_BYTES = 2 << 20 };
kith_status kin_gpu_layout_mapped(kith_ctx *ctx, kin_gpu *gpu, kin_layout_names *names, void *job,
                                  void **block);
/* From that block; it must not change before the copy is made. */
kith_status kin_gpu_send_mapped(kith_ctx *ctx, kin_gpu *gpu, void *to, const void *from,
                                uint64_t bytes);
/* KIN_GPU_NOTES numbers in such memory, all bits set until work that nobody waits for leaves word
 * there: who has waited reads them, and sets them again. */
enum { KIN_GPU_NOTES = 8 };
kith_status kin_gpu_notes(kith_ctx *ctx, kin_gpu *gpu, uint64_t **notes);
/* A number, on its way to a word of such memory: *there has it when an event behind it has come,
 * and until the next one is fetched. The host never writes that word, so that a number for which
 * nobody waits any more, as work was stopped, spoils nothing. */
kith_status kin_gpu_fetch_count(kith_ctx *ctx, kin_gpu *gpu, const uint64_t *count,
                                uint64_t **there);
/* What that block is asked for with, from a dry run: for plans. */
uint64_t kin_gpu_layout_bytes(kin_layout_names *names, void *job);
/* What a block that is asked for with so many bytes takes of a budget: whole pages. */
uint64_t kin_gpu_block_bytes(uint64_t bytes);
/* Bytes that an allocation may still take. */
uint64_t kin_gpu_room(const kin_gpu *gpu);
/* Gives released blocks back to the device. */
void kin_gpu_trim(kin_gpu *gpu);

/* What parts that adapt to the device plan with: the room, a quarter of it after each
 * kin_gpu_narrow, nothing at last. */
uint64_t kin_gpu_scope(const kin_gpu *gpu);
/* For a job that ran out of memory and is taken again: narrows the scope, and from now on no block
 * is larger than what was asked for makes it. false: the scope was nothing already. */
bool kin_gpu_narrow(kin_gpu *gpu);

/* `from` may be changed when this returns. Large copies go through pinned memory, in pieces, by all
 * threads of ctx, the host's copying overlapped with the device's. */
kith_status kin_gpu_upload(kith_ctx *ctx, kin_gpu *gpu, void *to, const void *from, uint64_t bytes);
/* Rows in host memory, stride_bytes apart; on the device they are contiguous. */
typedef struct kin_gpu_rows {
    const void *from;
    int64_t count;
    int64_t row_bytes;
    int64_t stride_bytes;
} kin_gpu_rows;

/* Rows first .. first + count of a matrix there. */
static inline kin_gpu_rows kin_gpu_rows_of(const kith_matrix *m, int64_t first, int64_t count)
{
    return (kin_gpu_rows){.from = (const char *)m->data + first * m->stride_bytes,
                          .count = count,
                          .row_bytes = (int64_t)m->cols * kith_dtype_bytes(m->dtype),
                          .stride_bytes = m->stride_bytes};
}

/* Some of them. */
static inline kin_gpu_rows kin_gpu_rows_part(const kin_gpu_rows *rows, int64_t first, int64_t count)
{
    kin_gpu_rows part = *rows;
    part.from = (const char *)rows->from + first * rows->stride_bytes;
    part.count = count;
    return part;
}

kith_status kin_gpu_upload_rows(kith_ctx *ctx, kin_gpu *gpu, void *to, const kin_gpu_rows *rows);
/* Waits for all work before it; `to` is complete when this returns. */
kith_status kin_gpu_download(kith_ctx *ctx, kin_gpu *gpu, void *to, const void *from,
                             uint64_t bytes);
/* Rows in device memory, which may stand apart, become rows in host memory, one behind the other.
 * *copy: the caller's to free, also on failure. */
kith_status kin_gpu_fetch_rows(kith_ctx *ctx, kin_gpu *gpu, kith_matrix *rows, void **copy);
kith_status kin_gpu_fill(kith_ctx *ctx, kin_gpu *gpu, void *to, int byte, uint64_t bytes);
/* Within the device, on the stream. */
kith_status kin_gpu_copy(kith_ctx *ctx, kin_gpu *gpu, void *to, const void *from, uint64_t bytes);
/* Later work waits for what the caller's cudaStream_t holds now. */
kith_status kin_gpu_follow(kith_ctx *ctx, kin_gpu *gpu, void *foreign_stream);
/* What the caller's cudaStream_t is given from now on waits for all work before it. */
kith_status kin_gpu_lead(kith_ctx *ctx, kin_gpu *gpu, void *foreign_stream);
/* Waits for all work and tells its error. */
kith_status kin_gpu_wait(kith_ctx *ctx, kin_gpu *gpu);

/* The status of what a function of the module returned; `what` was being done. Thread-safe. */
kith_status kin_gpu_check(kith_ctx *ctx, const kin_gpu *gpu, int error, const char *what);

/* ---- What the files of this room make and end of each other ---------------------------------- */

/* kin_gpu_close without its team. */
void kin_gpu_close_one(kith_ctx *ctx, kin_gpu *gpu);
/* Releases every block, used or not, and the table of them. */
void kin_gpu_cache_end(kin_gpu *gpu);
/* Nothing works on the device for now: a pool of the caller's gets what is idle. */
void kin_gpu_cache_rest(kin_gpu *gpu);
/* Pinned slots and events for copies; again: nothing. A thread other than the one that works with
 * the kin_gpu may copy only after it. */
kith_status kin_gpu_staging_make(kith_ctx *ctx, kin_gpu *gpu);
/* Waits for nothing: the stream is idle. */
void kin_gpu_staging_end(kin_gpu *gpu);

/* ---- Rows that are wanted next (gpu_ahead.c) ------------------------------------------------- */

/* Rows that are wanted next are brought to the device while it computes.
 *
 *   begin   a hint: a thread of its own starts to copy. Device memory is taken now, in the caller's
 *           thread and within the budget. Where there is no room, no thread or no pinned memory,
 *           nothing happens: whoever takes the rows then uploads them himself
 *   take    the block with these very rows, complete; it is the caller's now
 *   end     what was not taken is given up: threads are joined, blocks are free again
 *
 * Whoever begins ends, before the rows' owner may touch them, in failure too. All of it by the one
 * thread that works with the kin_gpu; the rows are only read, and only between begin and take or
 * end. */

/* So many uploads at a time, of values and ids of four parts; a hint beyond them is not taken. */
enum { KIN_GPU_AHEAD_MOST = 8 };

/* Whether hints are taken at all: not in a scope that was narrowed (kin_gpu_narrow). */
bool kin_gpu_ahead_wanted(const kin_gpu *gpu);
/* Nothing has failed in this call so far: what fails here is forgotten (kin_forgive). Rows that
 * are under way are not begun with again. together: uploads that the caller has under way at once;
 * they and the caller divide the threads. */
void kin_gpu_ahead_begin(kith_ctx *ctx, kin_gpu *gpu, const kin_gpu_rows *rows, int32_t together);
/* *block: the rows on the device, which later work of the stream may read; kin_gpu_free gives them
 * back. NULL: nobody has begun with these. Waits, asking the progress function; tells the error
 * that the copy met. */
kith_status kin_gpu_ahead_take(kith_ctx *ctx, kin_gpu *gpu, const kin_gpu_rows *rows, void *block);
/* Whether there was something to give up: memory is free now that was not. */
bool kin_gpu_ahead_end(kin_gpu *gpu);

/* For the next call of the same job: begins with rows that kin_gpu_ahead_leave, with which a call
 * ends in place of kin_gpu_ahead_end, lets go on. Not by a team, and of what is free a fourth at
 * most. Whoever promises ends, too. */
void kin_gpu_ahead_promise(kith_ctx *ctx, kin_gpu *gpu, const kin_gpu_rows *rows);
void kin_gpu_ahead_leave(kin_gpu *gpu);

/* The same rows wherever they come from: ahead, else uploaded now, by a team in lockstep a part
 * each. What is in *block after a failure is the caller's, too. */
kith_status kin_gpu_bring(kith_ctx *ctx, kin_gpu *gpu, const kin_gpu_rows *rows, void **block);

/* ---- Answers behind (gpu_ahead.c) ------------------------------------------------------------ */

/* What is copied to host memory, and from where. */
typedef struct kin_gpu_fetch {
    void *to;
    const void *from;
    uint64_t bytes;
} kin_gpu_fetch;
enum { KIN_GPU_FETCHES = 3 };
typedef struct kin_gpu_fetches {
    kin_gpu_fetch parts[KIN_GPU_FETCHES];
    int32_t count;
} kin_gpu_fetches;
/* Now. Waits. */
kith_status kin_gpu_fetch_all(kith_ctx *ctx, kin_gpu *gpu, const kin_gpu_fetches *fetches);

/* What stands in `block` once the work so far is done goes to the host, by a thread of its own,
 * while later work is computed; then, on failure too, the block is free. Nothing may be fetched at
 * all. Waits for what it was called with before, as kin_gpu_behind_end. Where there is no thread or
 * no pinned memory, it is fetched now. Whoever begins ends, before anybody reads or frees what is
 * written to; kin_gpu_ahead_end frees the block, too. */
kith_status kin_gpu_behind_begin(kith_ctx *ctx, kin_gpu *gpu, const kin_gpu_fetches *fetches,
                                 void *block);
/* Waits, asking the progress function; tells the error that the copy met. wanted false: the job has
 * failed, so that the rest stays and nobody is asked or told. */
kith_status kin_gpu_behind_end(kith_ctx *ctx, kin_gpu *gpu, bool wanted);

/* For kin_gpu_close. */
void kin_gpu_ahead_close(kin_gpu *gpu);

/* ---- Several GPUs of one host ---------------------------------------------------------------- */

/* Several GPUs of one host that do one job, each in a thread of its own.
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
