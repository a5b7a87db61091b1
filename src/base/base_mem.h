/* SPDX-License-Identifier: Apache-2.0
 * Every block of host memory: from the context's allocator, 64-byte aligned, counted against the
 * memory limit. Nobody else calls malloc. */
#ifndef KIN_BASE_MEM_H
#define KIN_BASE_MEM_H

#include "base/base_ctx.h"
#include "base/base_try.h"

#include <string.h>

enum { KIN_MEM_ALIGNMENT = 64 };
/* Before the first member of what each thread has in an array for all of them: no two threads then
 * write to one line of the cache, which would go back and forth between their cores. */
#ifdef __cplusplus /* nvcc reads some of these headers */
#define KIN_APART alignas(KIN_MEM_ALIGNMENT)
#else
#define KIN_APART _Alignas(KIN_MEM_ALIGNMENT)
#endif

/* *out = count items of item_bytes; contents undefined. A count of 0 gives a valid block. Fails
 * with KITH_E_MEMORY, or KITH_E_LIMIT where the context's limit stands in the way; `what` names
 * the block in the message. *out is NULL then. Thread-safe. */
kith_status kin_alloc(kith_ctx *ctx, void *out, uint64_t count, uint64_t item_bytes,
                      const char *what);
/* The same, filled with zero bytes. */
kith_status kin_alloc_zero(kith_ctx *ctx, void *out, uint64_t count, uint64_t item_bytes,
                           const char *what);
/* A text of that format. */
kith_status kin_alloc_text(kith_ctx *ctx, char **out, const char *what, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Accepts NULL. */
void kin_free(kith_ctx *ctx, void *block);

/* ---- What a function holds --------------------------------------------------------------------
 * Blocks that are given back when the scope ends in which their hold was made, however it is left.
 * A job that lives longer has a hold of its own, which kin_hold_end empties; it is not copied.
 *
 *     KIN_HOLD(hold, ctx);
 *     KIN_NEW(&hold, rows, n, "rows");
 *     KIN_TRY(fill(rows));
 *     return use(rows); */
enum { KIN_HOLD_MOST = 16 };

typedef void kin_give_back(void *owner, void *block);

typedef struct kin_hold {
    kith_ctx *ctx;
    int count;
    struct {
        kin_give_back *give_back;
        void *owner;
        void *block;
    } held[KIN_HOLD_MOST];
} kin_hold;

#define KIN_HOLD(hold, context) \
    __attribute__((cleanup(kin_hold_end))) kin_hold hold = {.ctx = (context)}

/* Gives back what is held, the last first; the hold may be used again. Locals that it gives back,
 * or whose members, stand before it: they live longer. */
void kin_hold_end(kin_hold *hold);
/* Takes one thing more; NULL is nothing. */
void kin_hold_take(kin_hold *hold, kin_give_back *give_back, void *owner, void *block);
/* The same of a block of kin_alloc. */
void kin_hold_block(kin_hold *hold, void *block);
/* As kin_alloc. */
kith_status kin_hold_alloc(kin_hold *hold, void *out, uint64_t count, uint64_t item_bytes,
                           const char *what);
/* An array of `count` for this pointer, of zeros where the second asks for it; a failure is
 * returned. */
#define KIN_NEW(hold, pointer, count, what) \
    KIN_TRY(kin_hold_alloc((hold), &(pointer), (count), sizeof *(pointer), (what)))
#define KIN_NEW_ZERO(hold, pointer, count, what)                     \
    do {                                                             \
        KIN_NEW(hold, pointer, count, what);                         \
        memset((pointer), 0, (size_t)((count) * sizeof *(pointer))); \
    } while (0)

/* ---- Layouts --------------------------------------------------------------------------------
 *
 * What a job holds is said once, by a function that names its arrays in the order in which they
 * live. Run dry it gives their bytes, for a plan; run wet it carves them out of one block, which
 * one kin_free gives back. A plan that adds up the same functions is true by construction.
 *
 *     static void name_arrays(kin_layout *layout, void *job)
 *     {
 *         search *s = job;
 *         s->keys = kin_layout_array(layout, s->rows, sizeof *s->keys);
 *         s->marks = kin_layout_zeros(layout, s->rows, sizeof *s->marks);
 *     }
 *
 *     block   | keys ...... | pad | marks ... | pad |       every array begins at 64 bytes
 *
 * A function reads sizes from its job, the same in both runs, and writes pointers: NULL when it is
 * dry. What is inside an array of structs is named for each of them: kin_layout_item.
 *
 * Phases. A plan is a dry run over several blocks, of which some are gone before others come:
 * kin_layout_mark, what lives for a while, kin_layout_back. The peak is the largest sum.
 *
 * Checked builds (base_try.h) fill arrays with 0xa5 before they are zeroed or written, and put a
 * red zone behind each, which the address sanitizer watches, and which kin_free checks without it.
 *
 * Device memory. The same functions name arrays of a block on a GPU (gpu/gpu.h:
 * kin_gpu_layout_make), at 256 bytes each and never touched from here.
 */
typedef struct kin_layout {
    unsigned char *block; /* NULL: dry */
    uint64_t at;          /* bytes so far; UINT64_MAX where they do not fit in 64 bits */
    uint64_t peak;        /* the most that `at` was */
    bool on_device;       /* addresses that only copies and kernels may follow */
} kin_layout;

typedef void kin_layout_names(kin_layout *layout, void *job);

/* count items of item_bytes, aligned to 64 bytes; NULL when dry. Contents are undefined, or zeros.
 * An array of no items has an address, too: where NULL tells that there is none, it is not named.
 */
void *kin_layout_array(kin_layout *layout, uint64_t count, uint64_t item_bytes);
void *kin_layout_zeros(kin_layout *layout, uint64_t count, uint64_t item_bytes);

/* Item i of an array of structs, whose own arrays are named next; `spare` is a struct that takes
 * the pointers when there is no array, in a dry run. */
#define kin_layout_item(array, i, spare) ((array) != NULL ? &(array)[i] : (spare))

/* All arrays in one block, to be given back by kin_free(ctx, *block); *block is NULL where it
 * fails, and so are the pointers. `what`: in the message. */
kith_status kin_layout_make(kith_ctx *ctx, kin_layout_names *names, void *job, const char *what,
                            void **block);

/* The same for a hold, which gives it back. */
kith_status kin_hold_layout(kin_hold *hold, kin_layout_names *names, void *job, const char *what);

/* ---- Plans: dry runs over several blocks ----------------------------------------------------- */

/* What kin_layout_make takes for a job, and kin_alloc for one array. */
void kin_layout_block(kin_layout *plan, kin_layout_names *names, void *job);
void kin_layout_alone(kin_layout *plan, uint64_t count, uint64_t item_bytes);
/* The same block where it is gone before the next one comes. */
void kin_layout_passing(kin_layout *plan, kin_layout_names *names, void *job);

/* Where the plan stands; what was named since is gone. */
static inline uint64_t kin_layout_mark(const kin_layout *plan)
{
    return plan->at;
}

static inline void kin_layout_back(kin_layout *plan, uint64_t mark)
{
    plan->at = mark;
}

#endif
