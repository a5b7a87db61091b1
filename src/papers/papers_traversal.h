/* SPDX-License-Identifier: Apache-2.0
 * What the buffer k-d tree is on both machines: where a traversal stands, and when buffers are
 * full. Source: papers_buffer_tree.c.
 *
 * A query at a leaf has passed one node a level, and has put off at most the other child of each
 * parent. So a leaf and a bit a level are the whole stack of its traversal:
 *
 *             1                 leaf     5
 *          2     3              put_off  level 2: its sibling, 4
 *        4   5                           level 1: the sibling of 2, which is 3
 */
#ifndef KIN_PAPERS_TRAVERSAL_H
#define KIN_PAPERS_TRAVERSAL_H

#include "metric/metric_arith.h"

#include <stdint.h>

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

#endif
