/* SPDX-License-Identifier: Apache-2.0
 * The life of an index on a GPU, whatever its method: searched by several threads at once, and
 * made, changed, searched and saved while memory fails. */
#ifndef TEST_SUPPORT_LIFE_H
#define TEST_SUPPORT_LIFE_H

#include "kith/kith.h"

#include <stdbool.h>

/* One search of an index, which `arg` describes. */
typedef kith_status test_life_ask(kith_ctx *ctx, const kith_index *index, const void *arg,
                                  const kith_neighbors *out);

typedef struct test_life {
    const kith_matrix *points;
    const kith_index_params *made;
    kith_matrix more; /* is added, and its first row removed */
    test_life_ask *ask;
    const void *arg;
    const kith_neighbors *wanted; /* of `ask` */
    bool changes_nothing;         /* what is added and removed: then as wanted, too */
    long most;                    /* allocations of it are fewer */
} test_life;

/* Each of some threads searches `index` some times, in a context of its own: all get `wanted`. */
void test_life_by_threads(const test_life *life, const kith_index *index);

/* With each allocation of host memory failing once, up to the first life in which none does: how
 * many there were. The index is saved to `path`. */
long test_life_with_faults(const test_life *life, const char *path);

#endif
