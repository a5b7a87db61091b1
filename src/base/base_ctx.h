/* SPDX-License-Identifier: Apache-2.0
 * The context: who allocates, how much, on which instruction set, and what went wrong last. */
#ifndef KIN_BASE_CTX_H
#define KIN_BASE_CTX_H

#include "base/base_isa.h"
#include "kith/kith.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef enum kin_device {
    KIN_DEVICE_AUTO = 0,
    KIN_DEVICE_CPU,
    KIN_DEVICE_CUDA /* and nothing else */
} kin_device;

enum { KIN_MOST_DEVICES = 16, KIN_PHASES = 8 };

/* What the caller's progress function was told last of a phase. */
typedef struct kin_phase {
    const char *name;
    double done;
    double total;
} kin_phase;

/* ---- What went wrong ------------------------------------------------------------------------
 * A failure is fields: a status, the place (an argument and one of its members, a row, a column, a
 * file) and the reason. The sentence is made of them once; nobody takes it apart again.
 * "points[17, 3] is NaN (remove or replace it)" is the argument points, row 17, column 3, and the
 * reason behind them; "g.npz: is empty (make it again)" is a file and its reason. */
enum { KIN_DETAIL_BYTES = 1024, KIN_NAME_BYTES = 32, KIN_FILE_BYTES = 4096 };

/* Strings are copied when the failure is recorded. A place has an argument or a file or neither. */
typedef struct kin_place {
    const char *argument; /* as the header names it; NULL: none */
    const char *member;   /* of the struct that the argument is; NULL: the argument itself */
    const char *file;     /* NULL: none */
    const char *folder;   /* that the file is named from; NULL: file is the whole path */
    int64_t row;          /* < 0: none; counted from 0 */
    int64_t column;
} kin_place;

static inline kin_place kin_at(const char *argument)
{
    return (kin_place){.argument = argument, .row = -1, .column = -1};
}

static inline kin_place kin_at_member(const char *argument, const char *member)
{
    return (kin_place){.argument = argument, .member = member, .row = -1, .column = -1};
}

static inline kin_place kin_at_row(const char *argument, int64_t row)
{
    return (kin_place){.argument = argument, .row = row, .column = -1};
}

static inline kin_place kin_at_cell(const char *argument, int64_t row, int64_t column)
{
    return (kin_place){.argument = argument, .row = row, .column = column};
}

static inline kin_place kin_at_file(const char *path)
{
    return (kin_place){.file = path, .row = -1, .column = -1};
}

static inline kin_place kin_at_file_in(const char *folder, const char *file)
{
    return (kin_place){.file = file, .folder = folder, .row = -1, .column = -1};
}

/* The sentence of a file names its rows and columns in its own words, lines for example. */
static inline kin_place kin_at_file_cell(const char *path, int64_t row, int64_t column)
{
    return (kin_place){.file = path, .row = row, .column = column};
}

enum { KIN_NO_TASK = -1 };

typedef struct kin_failure {
    kith_status status; /* KITH_OK: there is none */
    int64_t task;       /* of a region of threads, or KIN_NO_TASK */
    int64_t row;
    int64_t column;
    char argument[KIN_FILE_BYTES]; /* rows of a file are called by its path */
    char member[KIN_NAME_BYTES];
    char file[KIN_FILE_BYTES];
    char reason[KIN_DETAIL_BYTES];
    char detail[KIN_DETAIL_BYTES]; /* the whole sentence */
} kin_failure;

/* ---- The context --------------------------------------------------------------------------- */

struct kith_ctx {
    kith_ctx_params params;
    int32_t threads;
    kin_isa isa;
    kin_device device;
    int32_t device_index; /* CUDA: -1 is the first that can be used */
    int32_t device_count; /* CUDA: named, of which device_index is the first; -1: all there are */
    int32_t devices[KIN_MOST_DEVICES];
    struct kin_gpu *gpu; /* opened at first use by api/, NULL until then */
    kith_matrix coming;  /* rows of the next call of one job (shard_truth.c), which a GPU may fetch
                            beside this one (kin_gpu_ahead_promise); data NULL: none are known */
    kin_failure setup;   /* why this context cannot compute, told by kin_ctx_begin */

    pthread_mutex_t lock; /* guards failure while threads run */
    kin_failure failure;  /* of the last call */

    atomic_uint_fast64_t held_bytes; /* what kin_alloc gave out and has not got back */
    atomic_uint_fast64_t peak_bytes;

    kith_report report;           /* of the innermost call (engine_call.h) */
    int32_t calls;                /* that have begun and not ended, one inside the other */
    int64_t progress_ns;          /* when the caller's progress function ran last */
    kin_phase phases[KIN_PHASES]; /* of this call, in the order in which they began */
    int32_t phase_count;
    const char *progress_part; /* phases are told as the beginning of this one, if it is not NULL */
};

/* A context of zeros with these parameters, from their allocator, which is not counted for it; NULL
 * where there is no memory. Its maker says what it computes on. */
kith_ctx *kin_ctx_new(const kith_ctx_params *params);
/* Accepts NULL. What it opened is closed already. */
void kin_ctx_delete(kith_ctx *ctx);

/* Starts a public call: forgets the last error, checks that the context can compute. */
kith_status kin_ctx_begin(kith_ctx *ctx);

/* Records why, once a call (the first error wins), and gives back `status` so that
 * `return kin_fail_at(ctx, KITH_E_X, kin_at("k"), "is %d, must be ...", ...)` reads as one
 * sentence. Thread-safe. The reason says what is wrong, with the values, and what to do. */
kith_status kin_fail_at(kith_ctx *ctx, kith_status status, kin_place place, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The same where no argument and no file is to blame: the reason is the sentence. */
kith_status kin_fail(kith_ctx *ctx, kith_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The failure of another context becomes this one's, with its place. Where that one recorded none,
 * the status alone is. */
kith_status kin_fail_like(kith_ctx *ctx, kith_status status, const kith_ctx *other);

/* What failed in rows of `argument` that begin at row `first` of what the caller knows as `name`:
 * the place is counted from the caller's first row. */
void kin_failure_shift(kith_ctx *ctx, const char *argument, const char *name, int64_t first);

/* Between pieces of work that run at the same time the one with the lowest number is told of, not
 * the fastest, so that the same mistake has the same sentence with any number of threads. Sets the
 * number of the piece that this thread works on (KIN_NO_TASK: none) and returns the one before. */
int64_t kin_task_enter(int64_t task);
/* The end of a region: what it recorded is told of, whatever comes later. */
void kin_failure_settle(kith_ctx *ctx);

/* Forgets what was recorded in this call: something else was tried, and may do. */
void kin_forgive(kith_ctx *ctx);

/* One line to the caller's log function, if there is one. */
void kin_log(const kith_ctx *ctx, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
