/* SPDX-License-Identifier: Apache-2.0
 * The reference device: a GPU module (gpu/gpu_module.h) whose devices are host memory and whose
 * launches are plain C, the shortest that does what the comment of each job says. With it every
 * driver of a GPU and every test in tests/gpu runs on a machine without one, under sanitizers, too.
 *
 * Work is done late: what a stream is given is kept until somebody waits for it, as a GPU may
 * do. A driver that reads a result too soon, or gives memory back or writes over it while work that
 * needs it has not been done, fails here in every run. Memory comes filled with 0xa5.
 *
 *   KITH_REFERENCE_BYTES    memory of each device (default 2 GiB)
 *   KITH_REFERENCE_DEVICES  how many there are (default 1)
 */
#ifndef REFERENCE_H
#define REFERENCE_H

#include "graph/graph_kernels.h"
#include "papers/papers_kernels.h"
#include "screen/screen_kernels.h"
#include "select/select_kernels.h"
#include "tree/tree_kernels.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* A job's body: all of its work, now. */
typedef void reference_body(const void *job);

/* Keeps a copy of the job, and calls the body when somebody waits for the stream. */
int reference_later(kin_gpu_stream *stream, reference_body *body, const void *job, size_t bytes);

/* The launch of a job whose body is a function NAME(const TYPE *). */
#define REFERENCE_LAUNCH(NAME, TYPE)                                   \
    static void NAME##_body(const void *job)                           \
    {                                                                  \
        NAME(job);                                                     \
    }                                                                  \
    static int NAME##_launch(kin_gpu_stream *stream, const TYPE *job)  \
    {                                                                  \
        return reference_later(stream, NAME##_body, job, sizeof *job); \
    }

/* Room for count elements of so many bytes that nothing is known of, aligned to 64; freed by free.
 * There is always some. */
void *reference_room(int64_t count, size_t bytes);

/* keys[i] = the canonical key of row `row` of the queries and row ids[i] of the corpus, or first +
 * i where ids is NULL (metric/metric.h: kin_metric_keys, whose bodies all have the same bytes). */
void reference_keys(const kin_screen_gpu_rows *queries, int64_t row,
                    const kin_screen_gpu_rows *corpus, const uint32_t *ids, int64_t first,
                    int64_t count, double *keys);

/* The body of the launch of that name. */
void reference_write(const kin_screen_gpu_write *job);

/* What a kernel takes for granted: where it does not hold, a driver is wrong, and the test ends. */
#define REFERENCE_MUST(condition)                                                          \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            fprintf(stderr, "%s:%d: a driver must: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                       \
        }                                                                                  \
    } while (false)

extern const kin_gpu_ops reference_ops;
extern const kin_screen_gpu_kernels reference_screen;
extern const kin_select_kernels reference_select[];
extern const kin_tree_kernels reference_tree;
extern const kin_graph_gpu_kernels reference_graph;
extern const kin_papers_buffer_kernels reference_buffers;
extern const kin_papers_kernels reference_papers;

#endif
