/* SPDX-License-Identifier: Apache-2.0
 * What the pipelines of papers launch on a GPU beside what screen_kernels.h has: as there, every
 * launch is asynchronous and returns 0 or an error of the CUDA runtime. */
#ifndef KIN_PAPERS_KERNELS_H
#define KIN_PAPERS_KERNELS_H

#include "tree/tree_kernels.h"

#include <stdint.h>

/* What the buffer k-d tree is on both machines: where a traversal stands, and when buffers are
 * full. Source: papers_buffer_tree.c.
 *
 * A query at a leaf has passed one node a level, and has put off at most the other child of each
 * parent. So a leaf and a bit a level are the whole stack of its traversal:
 *
 *             1                 leaf     5
 *          2     3              put_off  level 2: its sibling, 4
 *        4   5                           level 1: the sibling of 2, which is 3 */

enum {
    KIN_BUFFERED_LOG = 22,   /* queries in all buffers: 2^22, as in the paper */
    KIN_LEAST_BUFFER = 16,   /* of a leaf, where nobody asks for less */
    KIN_BATCH_OF_BUFFER = 5, /* a batch is five buffers */
    KIN_PUT_OFF_ROOT = 1     /* of a query that has not begun: the root is yet to come */
};

/* Where a query is, and what it has put off. */
typedef struct kin_traversal {
    uint32_t leaf;    /* a node */
    uint32_t put_off; /* levels: the sibling of the node that it has passed there; 0: the root */
} kin_traversal;

/* The node that was put off last, which is so no more; put_off is not 0. */
KIN_HD uint32_t kin_traversal_up(kin_traversal *t, int32_t height, int32_t *level)
{
#ifdef __CUDA_ARCH__
    *level = 31 - __clz((int)t->put_off);
#else
    *level = 31 - __builtin_clz(t->put_off);
#endif
    t->put_off ^= 1u << *level;
    return *level == 0 ? 1 : (t->leaf >> (height - *level)) ^ 1;
}

/* From a node of a level it went down to a leaf below. */
KIN_HD void kin_traversal_down(kin_traversal *t, int32_t height, int32_t level, uint32_t leaf)
{
    t->leaf = leaf;
    t->put_off |= (2u << height) - (2u << level);
}

/* Queries that make a buffer full; leaf_buffer 0: the paper's B. */
KIN_HD int64_t kin_buffer_full(int32_t leaf_buffer, int32_t height)
{
    const int32_t log = KIN_BUFFERED_LOG - height;
    const int64_t usual = log > 0 ? (int64_t)1 << log : 0;
    return leaf_buffer != 0 ? leaf_buffer : usual > KIN_LEAST_BUFFER ? usual : KIN_LEAST_BUFFER;
}

/* Columns of a matrix of costs at even strides: sample[r * columns + j] is what stands in row r at
 * j count / columns. columns <= count, so that no column is taken twice. */
typedef struct kin_papers_sample {
    const uint32_t *matrix;
    int64_t rows;
    int64_t pitch;
    int64_t count;
    uint32_t *sample;
    int64_t columns;
} kin_papers_sample;

/* ---- BUFFER_TREE ----------------------------------------------------------------------------- */

/* A query of a chunk on its way: 32 bytes, a sector. `keep` and what follows: tree_list.cuh. */
typedef struct kin_papers_query {
    kin_traversal at;
    float keep; /* nodes and points above it are not needed; negative: it has stopped */
    float gain;
    float more;
    float dropped;
    int32_t count;
    int32_t squeezed_at;
} kin_papers_query;

/* Queries of one buffer that a warp compares with the points of their leaf. */
typedef struct kin_papers_packet {
    uint32_t leaf; /* counted from 0 */
    uint32_t count;
    int64_t first; /* in the ring, not yet reduced: below twice its length */
} kin_papers_packet;

/* Numbers that kernels count in. */
typedef struct kin_papers_counts {
    uint32_t waiting; /* queries in all buffers */
    uint32_t full;    /* 1: a buffer is half full */
    uint32_t placed;  /* of them, those whose places are known */
    uint32_t packets;
} kin_papers_counts;

/* One chunk of queries: places walk.place0 .. walk.place0 + walk.count, of which the numbers below
 * are 0 .. walk.count - 1. From begin to end how lists stand in walk.lists is the kernels' affair.
 */
typedef struct kin_papers_buffers {
    kin_tree_gpu_walk walk;
    kin_papers_query *queries;
    uint32_t *waits; /* who waits in any leaf, in the order of coming */
    uint32_t *slots; /* and which place in its buffer it has */
    uint32_t *ring;  /* the reinsert queue */
    int64_t length;  /* of the ring; waits and slots have as many */
    uint32_t *fill;  /* by leaf: how many wait */
    uint32_t *first; /* by leaf: where they begin among all who wait */
    kin_papers_packet *packets;
    kin_papers_counts *counts;
} kin_papers_buffers;

/* A batch that looks for its next leaves: `taken` queries from the ring, from place `head` on, then
 * `fresh` ones that have not begun, from number `begun` on. Who finds a leaf waits in its buffer,
 * who finds none is done. half: queries that make a buffer half full. */
typedef struct kin_papers_batch {
    kin_papers_buffers of;
    int64_t head;
    int64_t taken;
    int64_t begun;
    int64_t fresh;
    int64_t half;
} kin_papers_batch;

/* The buffers are emptied: the `count` queries that wait go into the ring from place `tail` on,
 * leaf by leaf, and are compared with their leaves. */
typedef struct kin_papers_emptying {
    kin_papers_buffers of;
    int64_t tail;
    int64_t count;
} kin_papers_emptying;

/* `count` queries of the ring, from place `head` on, each to its end. */
typedef struct kin_papers_rest {
    kin_papers_buffers of;
    int64_t head;
    int64_t count;
} kin_papers_rest;

/* At a place of the ring that may be past its end. */
KIN_HD int64_t kin_papers_ring(int64_t place, int64_t length)
{
    return place < length ? place : place - length;
}

typedef struct kin_papers_buffer_kernels {
    /* Empty lists and buffers, and every query before the root. */
    int (*begin)(kin_gpu_stream *stream, const kin_papers_buffers *job);
    int (*find)(kin_gpu_stream *stream, const kin_papers_batch *job);
    /* Clears the counts, too. */
    int (*empty)(kin_gpu_stream *stream, const kin_papers_emptying *job);
    int (*alone)(kin_gpu_stream *stream, const kin_papers_rest *job);
    /* Lists as the launch `walk` of tree_kernels.h leaves them. */
    int (*end)(kin_gpu_stream *stream, const kin_papers_buffers *job);
} kin_papers_buffer_kernels;

/* ---- The table ------------------------------------------------------------------------------- */

typedef struct kin_papers_kernels {
    int (*sample)(kin_gpu_stream *stream, const kin_papers_sample *job);
    const kin_papers_buffer_kernels *buffers;
} kin_papers_kernels;

#endif
