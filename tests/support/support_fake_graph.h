/* SPDX-License-Identifier: Apache-2.0
 * Kernels of NN-Descent, with those of support_fake_screen.h, on the device of support_fake_gpu.h,
 * in plain C. Everything that met is offered. */
#ifndef SUPPORT_FAKE_CASCADE_H
#define SUPPORT_FAKE_CASCADE_H

#include "gpu/gpu.h"
#include "graph/graph_kernels.h"

#include <stdatomic.h>
#include <stdbool.h>

/* Members of a team that have nothing count as the first one does: at the same time. */
typedef struct test_fake_graph_counts {
    atomic_int_fast64_t rounds;
    atomic_int_fast64_t given_fills; /* of given positions, by costs of rows as given */
    atomic_int_fast64_t related;     /* times that rows of a relative were made */
    int32_t
        short_lists; /* to be set: of so many lists one is handed over with one entry; 0: none */
} test_fake_graph_counts;
extern test_fake_graph_counts test_fake_graph;

/* A device of test_fake_gpu gets these kernels, for as long as it lives. */
void test_fake_graph_into(kin_gpu *gpu);

/* What a value becomes in a row of a relative, before the row gets its length, and whether it gets
 * one. */
double test_related_value(kin_graph_gpu_relation relation, double value);
bool test_relation_has_length(kin_graph_gpu_relation relation);

#endif
