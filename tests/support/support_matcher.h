/* SPDX-License-Identifier: Apache-2.0
 * A matcher by itself, in a block of its own. */
#ifndef TEST_SUPPORT_MATCHER_H
#define TEST_SUPPORT_MATCHER_H

#include "graph/graph_join.h"

typedef struct test_matcher {
    const kin_graph_points *points;
    int32_t most_new;
    int32_t most_old;
    kin_graph_join *matcher;
    void *block;
} test_matcher;

static inline void test_matcher_name(kin_layout *layout, void *job)
{
    const test_matcher *m = job;
    kin_graph_join_name(layout, m->points, m->most_new, m->most_old, m->matcher);
}

/* The block to free, or NULL. */
static inline void *test_matcher_make(kith_ctx *ctx, const kin_graph_points *points,
                                      int32_t most_new, int32_t most_old, kin_graph_join *matcher)
{
    test_matcher m = {points, most_new, most_old, matcher, NULL};
    (void)kin_layout_make(ctx, test_matcher_name, &m, "a matcher", &m.block);
    return m.block;
}

#endif
