/* SPDX-License-Identifier: Apache-2.0
 * Rows that come and go, and a tree that is kept up with them (tree/tree.h). */
#ifndef SUPPORT_KEPT_H
#define SUPPORT_KEPT_H

#include "support/support_faulty.h"
#include "tree/tree.h"

#include <stdbool.h>

enum { TEST_KEPT_ROWS = 12000 }; /* at most */

typedef struct test_kept {
    kith_ctx *ctx;
    kith_metric metric;
    kith_dtype dtype;
    int32_t cols;
    size_t row_bytes;
    unsigned char *data;
    int64_t rows;
    kin_prepared corpus;
    kin_tree tree;
    uint64_t seed;
    int64_t looks;
    int64_t made_again;
    test_faulty *faulty; /* its allocations fail in kin_tree_remove; NULL: nobody's */
} test_kept;

/* What the rows that are added look like. */
typedef enum test_coming {
    COMING_ANYWHERE = 0,
    COMING_CLUSTERED, /* beside each other */
    COMING_SORTED,    /* each farther along the first axis than all before */
    COMING_COPIES,    /* of rows that are there */
    COMING_EQUAL,     /* one new row, again and again */
    COMING_GRID,      /* few values: most rows have equals, components tie at splits */
    COMING_FAR,       /* 2^70 from the others */
    COMING_TWICE,     /* a few in one place, many in another nearby */
    COMING_COUNT
} test_coming;

/* Takes the context. */
test_kept test_kept_make(kith_ctx *ctx, kith_dtype dtype, kith_metric metric, int32_t cols,
                         test_coming what, int64_t rows, bool roomy);
void test_kept_free(test_kept *k);

/* A number in [0, count). */
int64_t test_kept_below(test_kept *k, int64_t count);
void test_kept_add(test_kept *k, test_coming what, int64_t count);
/* The first half of it: the rows are there, *after describes them, the tree knows nothing. */
void test_kept_append(test_kept *k, test_coming what, int64_t count, kin_prepared *after);
/* gone: by row; at least one row stays. */
void test_kept_remove(test_kept *k, const uint8_t *gone);
/* So many, or all but one. */
void test_kept_remove_some(test_kept *k, int64_t count);
/* The lowest of each group of several equal rows. */
void test_kept_remove_firsts(test_kept *k);
void test_kept_remove_all_but(test_kept *k, int64_t row);

/* The tree is whole, and a search in it gives the bytes of the exact engine. */
void test_kept_look(test_kept *k);

/* All bytes of two trees. A copy is freed by its own function. */
bool test_trees_equal(const kin_tree *a, const kin_tree *b);
kin_tree test_tree_copy(const kin_tree *tree);
void test_tree_copy_free(kin_tree *copy);

#endif
