/* SPDX-License-Identifier: Apache-2.0
 * NN-Descent on the first GPU, and what its graphs are held to. */
#ifndef SUPPORT_CASCADE_H
#define SUPPORT_CASCADE_H

#include "graph/graph_gpu.h"

/* The engine on a device with a budget in bytes (0: the default), and the processor, which checks.
 */
typedef struct test_graph_gpu {
    kith_ctx *ctx;
    kith_ctx *cpu;
    kin_gpu *gpu;
} test_graph_gpu;

/* All of these end the test where something fails. */
test_graph_gpu test_graph_gpu_make(uint64_t budget);
void test_graph_gpu_free(test_graph_gpu *t);

kin_graph_request test_graph_gpu_request(const kith_matrix *points, kith_metric metric, int64_t k);
/* The exact engine's graph. */
kith_neighbors test_graph_gpu_truth(const kith_matrix *points, kith_metric metric, int64_t k,
                                    uint32_t flags);
/* A graph that is sound (support_mixture.h). */
kith_neighbors test_graph_gpu_solve(test_graph_gpu *t, const char *name, const kith_matrix *points,
                                    const kin_graph_request *request, kin_graph_outcome *outcome);
/* Its recall@10 (of a smaller k: recall@k), printed with what it took. */
double test_graph_gpu_recall(test_graph_gpu *t, const char *name, const kith_matrix *points,
                             const kin_graph_request *request);

#endif
