/* SPDX-License-Identifier: Apache-2.0
 *
 * The ways of published work that kith is compared with, each as its paper has it. They go through
 * the calls of kith.h (kith_select, kith_graph, kith_search ...) and give the same bytes
 * as kith's own; `auto` takes none of them. Who has nothing to compare needs nothing of this file.
 *
 * On the command line they have the same names: kith select --select NAME, and kith graph or kith
 * search --tune pipeline=NAME,select=NAME. */
#ifndef KITH_KITH_PAPERS_H
#define KITH_KITH_PAPERS_H

#include "kith/kith.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Methods of selection -------------------------------------------------------------------- */

/* NAME, number, name, and which switches of kith_select_params a method has. */
#define KITH_PAPERS_SELECT_MAP(X)                                                               \
    /* a sorted queue that is inserted into */                                                  \
    X(INSERTION, 4, insertion, KITH_SWITCH_QUEUE)                                               \
    /* a binary heap with the worst on top */                                                   \
    X(HEAP, 5, heap, KITH_SWITCH_QUEUE)                                                         \
    /* sorted levels of m, m, 2m, 4m ..., merged when needed */                                 \
    X(MERGE_QUEUE, 6, merge_queue, KITH_SWITCH_QUEUE | KITH_SWITCH_ALIGNED | KITH_SWITCH_MERGE) \
    /* truncated bitonic sort */                                                                \
    X(BITONIC, 7, bitonic, 0)                                                                   \
    /* prune by a sample's k-th, then a min-max heap */                                         \
    X(THRESHOLD_HEAP, 8, threshold_heap, KITH_SWITCH_SAMPLE)
#define KITH_PAPERS_SELECT_NUMBER(NAME, number, name, switches) KITH_SELECT_##NAME = number,
enum { KITH_PAPERS_SELECT_MAP(KITH_PAPERS_SELECT_NUMBER) };

enum {
    KITH_SWITCH_QUEUE = 1u << 0,   /* buffer and buffer_size; and group, the hierarchical partition:
                                      each node above this many below it, 2, 4 or 8 (0 = without) */
    KITH_SWITCH_ALIGNED = 1u << 1, /* KITH_SELECT_ALIGNED */
    KITH_SWITCH_SAMPLE = 1u << 2,  /* sample: this many times k, 1 .. 1024; 0 = 8 */
    KITH_SWITCH_MERGE = 1u << 3    /* level, and KITH_SELECT_MERGE_PATH */
};

/* kith_select_params.flags */
enum {
    KITH_SELECT_ALIGNED = 1u << 2,   /* a merge of one row is made by its whole warp */
    KITH_SELECT_MERGE_PATH = 1u << 3 /* levels are merged word by word, not by a network */
};

/* kith_select_params.level, the m of the merge queue, and .buffer_size, candidates that wait: what
 * 0 stands for, and the limits. Both are powers of two. */
enum {
    KITH_QUEUE_LEVEL = 8,
    KITH_QUEUE_LEVEL_LEAST = 4,
    KITH_QUEUE_LEVEL_MOST = 64,
    KITH_QUEUE_BUFFER = 16,
    KITH_QUEUE_BUFFER_LEAST = 8,
    KITH_QUEUE_BUFFER_MOST = 64
};

/* kith_select_params.buffer: how a queue gets its candidates. */
enum {
    KITH_BUFFER_NONE = 0,  /* one by one */
    KITH_BUFFER_PLAIN = 1, /* a small buffer a row, emptied when it is full */
    KITH_BUFFER_FULL = 2,  /* one full buffer makes all rows of a warp empty theirs together */
    KITH_BUFFER_SORTED = 3 /* and it is sorted first, so that the smallest tighten the threshold */
};

/* ---- Pipelines ------------------------------------------------------------------------------- */

/* kith_search_params.pipeline. MATRIX: distances are written in batches, and the k smallest
 * selected by kith_search_params.select. HYBRID: a GPU keeps of each row what is within the k-th of
 * a sample (kith_search_params.sample times k columns, 1 .. 1024; 0 = 32 k or a 16th of the
 * columns, whichever is more); the processor selects from it while the GPU is at the next rows, and
 * leaves as many rows to the GPU as it takes to end together. kith_search_params.batch queries at
 * most are a batch, 1 .. 2^22, made whole blocks of 256: what fits into a quarter of the free
 * device memory; 0: what fits into 1 GiB. Where there is no GPU, KITH_E_UNSUPPORTED. Both are
 * for distances that are a product, on a GPU with k up to 2,048; all others are computed as without
 * them, which kith_report.screen tells ("direct"). BUFFER_TREE: the buffer k-d tree with its
 * buffers, on the processor or a GPU, for the metrics that have a tree: each leaf collects the
 * numbers of queries, up to kith_search_params.leaf_buffer, all buffers are emptied when one of
 * them is half full, and the queries go on to their next leaves from there. Queries are taken five
 * buffers at a time; on a GPU at least 2^18, where leaf_buffer is 0, and a buffer may grow past its
 * length within such a batch. A GPU has it up to 32 columns and k = 1,024: where one was named, and
 * beyond that, in both directions at once and of a prepared corpus KITH_E_UNSUPPORTED. */
#define KITH_PAPERS_PIPELINE_MAP(X) \
    X(MATRIX, 1, matrix)            \
    X(HYBRID, 2, hybrid)            \
    X(BUFFER_TREE, 3, buffer_tree)
#define KITH_PAPERS_PIPELINE_NUMBER(NAME, number, name) KITH_PIPELINE_##NAME = number,
enum { KITH_PAPERS_PIPELINE_MAP(KITH_PAPERS_PIPELINE_NUMBER) };

/* How many there are, kith's own among them: their numbers are 0 to one less. */
#define KITH_PAPERS_ONE(...) +1
enum {
    KITH_SELECT_METHOD_COUNT =
        1 KITH_SELECT_MAP(KITH_PAPERS_ONE) KITH_PAPERS_SELECT_MAP(KITH_PAPERS_ONE),
    KITH_PIPELINE_COUNT = 1 KITH_PAPERS_PIPELINE_MAP(KITH_PAPERS_ONE)
};

/* ---- Without what kith saves ----------------------------------------------------------------- */

/* kith_search_params.flags */
enum {
    KITH_NO_SYMMETRY = 1u << 1, /* graph: compute every pair twice */
    KITH_NO_SKIP = 1u << 2      /* screen every pair in full: skip no tiles by their bounds,
                                   and no pairs by fewer columns of theirs */
};

#ifdef __cplusplus
}
#endif
#endif
