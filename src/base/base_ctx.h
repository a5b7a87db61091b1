/* SPDX-License-Identifier: Apache-2.0
 * The context: who allocates, how much, on which instruction set, and what went wrong last. */
#ifndef KIN_BASE_CTX_H
#define KIN_BASE_CTX_H

#include "kith/kith.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* In rising order of what they need; a body may run where its own level is reached.
 * AVX2VNNI is not below AVX512: host/host_cpu.h says which contains which. */
typedef enum kin_isa {
    KIN_ISA_PORTABLE = 0,
    KIN_ISA_AVX2,
    KIN_ISA_AVX2VNNI,
    KIN_ISA_AVX512,
    KIN_ISA_AVX512VNNI,
    KIN_ISA_AMX,
    KIN_ISA_COUNT
} kin_isa;

typedef enum kin_device {
    KIN_DEVICE_AUTO = 0,
    KIN_DEVICE_CPU,
    KIN_DEVICE_CUDA /* and nothing else */
} kin_device;

enum { KIN_DETAIL_BYTES = 1024, KIN_MOST_DEVICES = 16, KIN_PHASES = 8 };

/* What the caller's progress function was told last of a phase. */
typedef struct kin_phase {
    const char *name;
    double done;
    double total;
} kin_phase;

struct kith_ctx {
    kith_ctx_params params;
    int32_t threads;
    kin_isa isa;
    kin_device device;
    int32_t device_index; /* CUDA: -1 is the first that can be used */
    int32_t device_count; /* CUDA: named, of which device_index is the first; -1: all there are */
    int32_t devices[KIN_MOST_DEVICES];
    struct kin_gpu *gpu; /* opened at first use by api/, NULL until then */
    kith_status setup;   /* why this context cannot compute, told by kin_ctx_begin */
    char setup_detail[KIN_DETAIL_BYTES];

    pthread_mutex_t lock; /* guards detail and failed while threads run */
    kith_status failed;   /* the status that detail explains */
    char detail[KIN_DETAIL_BYTES];

    atomic_uint_fast64_t held_bytes; /* what kin_alloc gave out and has not got back */
    atomic_uint_fast64_t peak_bytes;

    kith_report report;
    int64_t progress_ns;          /* when the caller's progress function ran last */
    kin_phase phases[KIN_PHASES]; /* of this call, in the order in which they began */
    int32_t phase_count;
};

/* Starts a public call: forgets the last error, checks that the context can compute. */
kith_status kin_ctx_begin(kith_ctx *ctx);

/* Records why, once a call (the first error wins), and gives back `status` so that
 * `return kin_fail(ctx, KITH_E_X, "...", ...)` reads as one sentence. Thread-safe. The text says
 * what, where, and what to do: "points.cols is 0, must be >= 1". */
kith_status kin_fail(kith_ctx *ctx, kith_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Forgets what kin_fail recorded in this call: something else was tried, and may do. */
void kin_forgive(kith_ctx *ctx);

/* One line to the caller's log function, if there is one. */
void kin_log(const kith_ctx *ctx, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
