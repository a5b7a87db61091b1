/* SPDX-License-Identifier: Apache-2.0
 * Tree or all pairs: before there is a tree, after a small one, and when a few packets have been
 * through the one that will answer. */
#ifndef KIN_TREE_CHOOSE_H
#define KIN_TREE_CHOOSE_H

#include "exact/exact_request.h"
#include "tree/tree.h"

/* Packets that tell, spread over all of them. */
enum { KIN_TREE_PILOT = 16 };

typedef enum kin_tree_chance {
    KIN_TREE_NO_CHANCE,
    KIN_TREE_UNCERTAIN, /* a small tree says whether to build */
    KIN_TREE_LIKELY,    /* building costs little beside all pairs, or the tree can hardly lose */
} kin_tree_chance;

kin_tree_chance kin_tree_chance_of(const kith_matrix *corpus, int64_t queries, bool graph,
                                   const kin_request *request);
/* What a small tree says of the whole one, or the shapes alone. */
typedef enum kin_tree_verdict {
    KIN_TREE_DECLINE,
    KIN_TREE_TRY,  /* build it, and let a few packets decide */
    KIN_TREE_TAKE, /* it wins by far: build it, and keep to it */
} kin_tree_verdict;

/* There is a chance. */
bool kin_tree_worth_trying(const kith_matrix *corpus, int64_t queries, bool graph,
                           const kin_request *request);

/* A canonical key; a tree; all pairs of a search, what is done before included where they are
 * screened. */
double kin_tree_key_ns(int32_t cols);
double kin_tree_build_ns(int64_t points, int32_t cols);
double kin_tree_screen_ns(const kin_request *request, int64_t points, int64_t queries);

/* Points, and queries, of the small tree: as many as cost little beside all pairs. */
int64_t kin_tree_sample_of(const kith_matrix *corpus, int64_t queries, bool graph,
                           const kin_request *request);
/* Whether the tree can not lose, however much of it queries look at. */
bool kin_tree_cannot_lose(const kith_matrix *corpus, int64_t queries, bool graph,
                          const kin_request *request);
/* What a small tree of `sample` points says: a query looked at `pairs` of them. */
kin_tree_verdict kin_tree_judge(double pairs, double sample, const kith_matrix *corpus,
                                int64_t queries, bool graph, const kin_request *request);
/* The tree stands. share: of all pairs, that packets looked at. */
bool kin_tree_wins(double share, int64_t points, int64_t queries, bool graph,
                   const kin_request *request);

#endif
