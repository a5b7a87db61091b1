/* SPDX-License-Identifier: Apache-2.0
 * The reference device (tests/reference) for tests of what works with devices: all that is taken of
 * it is counted, copies are slow or fail at will, and launches can be stood before. */
#ifndef SUPPORT_REFERENCE_H
#define SUPPORT_REFERENCE_H

#include "gpu/gpu.h"
#include "graph/graph_kernels.h"
#include "screen/screen_kernels.h"
#include "tree/tree_kernels.h"

#include <stdatomic.h>

/* To be changed while no other thread works with the device. */
typedef struct test_reference_faults {
    int64_t copy_ns;      /* a copy takes so long */
    int64_t failing_copy; /* copies from this number on fail; 0: none */
    bool no_stream;
    bool no_pinned;
    bool no_event;
} test_reference_faults;
extern test_reference_faults test_faults;

/* What was asked of the device since it was opened, and the stream that waited last for another
 * one's event. */
typedef struct test_reference_counts {
    atomic_int_fast64_t copies;
    const kin_gpu_stream *_Atomic follower;
} test_reference_counts;
extern test_reference_counts test_counts;

/* Its tables, whose entries a test may put others into; kin_gpu_get_module() has those that do the
 * work. */
typedef struct test_reference_tables {
    kin_gpu_module module;
    kin_gpu_ops ops;
    kin_screen_gpu_kernels screen;
    kin_tree_kernels tree;
    kin_graph_gpu_kernels graph;
} test_reference_tables;
extern test_reference_tables test_tables;

/* From now on the process has so many reference devices and no GPU: before anything asks. */
void test_reference_use(int32_t devices);
/* One of one, with a budget in bytes; nothing fails. kin_gpu_close ends it. */
kin_gpu *test_reference_gpu(kith_ctx *ctx, uint64_t budget);
/* A context of two threads, and the last line that it or one of its members has logged. */
kith_ctx *test_reference_ctx(void);
extern char test_logged[256];
/* Some of them as a team that the first of `indices` leads, or one alone; nothing is logged yet. */
kin_gpu *test_reference_team(kith_ctx *ctx, const int32_t *indices, int32_t count, uint64_t budget);
/* For one that was opened otherwise: its tables are test_tables now, which have the entries that do
 * the work. */
void test_reference_watch(kin_gpu *gpu);
/* Fails the test where something was not given back. */
void test_reference_is_empty(void);

#endif
