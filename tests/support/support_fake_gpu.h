/* SPDX-License-Identifier: Apache-2.0
 * A device that is host memory, for tests of what works with devices: its copies are slow or fail
 * at will, everything that was taken is counted. Its kernels are those that metrics without a
 * screen and trees need, in plain C on the metrics' own keys. */
#ifndef SUPPORT_FAKE_GPU_H
#define SUPPORT_FAKE_GPU_H

#include "fused/fused_set.h"
#include "gpu/gpu.h"
#include "metric/metric.h"

#include <stdatomic.h>

enum { TEST_BROKEN = 700 /* the error that it gives */ };

/* What it pretends: to be changed while no other thread works with it. */
typedef struct test_fake_pretence {
    int64_t copy_ns;      /* a copy takes so long */
    int64_t failing_copy; /* copies from this number on fail; 0: none */
    bool no_stream;
    bool no_pinned;
    bool no_event;
} test_fake_pretence;
extern test_fake_pretence test_fake;
extern atomic_int_fast64_t test_fake_copies;
/* The stream that waits for another one's event, the last one to do so. */
extern const kin_gpu_stream *test_fake_followed_by;

/* Rows on the device as the host's functions take them. */
kin_rows test_fake_rows(const kin_fused_rows *rows);

/* A device with a budget in bytes; nothing is pretended. kin_gpu_close ends it. */
kin_gpu *test_fake_gpu(kith_ctx *ctx, uint64_t budget);
/* Fails the test where something was not given back. */
void test_fake_gpu_is_empty(void);

#endif
