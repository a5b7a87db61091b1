/* SPDX-License-Identifier: Apache-2.0
 * NN-Descent on the first GPU, and what its graphs are held to. */
#ifndef SUPPORT_CASCADE_H
#define SUPPORT_CASCADE_H

#include "cascade/cascade.h"

/* The engine on a device with a budget in bytes (0: the default), and the processor, which checks.
 */
typedef struct test_cascade {
    kith_ctx *ctx;
    kith_ctx *cpu;
    kin_gpu *gpu;
} test_cascade;

/* All of these end the test where something fails. */
test_cascade test_cascade_make(uint64_t budget);
void test_cascade_free(test_cascade *t);

kin_descent_request test_cascade_request(const kith_matrix *points, kith_metric metric, int64_t k);
/* The exact engine's graph. */
kith_neighbors test_cascade_truth(const kith_matrix *points, kith_metric metric, int64_t k,
                                  uint32_t flags);
/* A graph that is sound (support_mixture.h). */
kith_neighbors test_cascade_solve(test_cascade *t, const char *name, const kith_matrix *points,
                                  const kin_descent_request *request, kin_descent_outcome *outcome);
/* Its recall@10 (of a smaller k: recall@k), printed with what it took. */
double test_cascade_recall(test_cascade *t, const char *name, const kith_matrix *points,
                           const kin_descent_request *request);

#endif
