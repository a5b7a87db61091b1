/* SPDX-License-Identifier: Apache-2.0
 * Pairs within a radius by a plain loop, and jobs that are held against it. Included by tests. */
#ifndef SUPPORT_PAIRS_H
#define SUPPORT_PAIRS_H

#include "oracle/plain_knn.h"
#include "support/support_calls.h"
#include "support/support_shapes.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 160 };

typedef struct told {
    int64_t count;
    int64_t room;
    int64_t chunks;
    int64_t stop_after; /* chunks; 0: never */
    uint32_t *i;
    uint32_t *j;
    double *distances;
} told;

static inline told told_make(int64_t room)
{
    told t = {.room = room};
    t.i = malloc((size_t)(room + 1) * sizeof *t.i);
    t.j = malloc((size_t)(room + 1) * sizeof *t.j);
    t.distances = malloc((size_t)(room + 1) * sizeof *t.distances);
    assert_true(t.i != NULL && t.j != NULL && t.distances != NULL);
    return t;
}

static inline void told_free(told *t)
{
    free(t->distances);
    free(t->j);
    free(t->i);
}

static inline int take(void *arg, const kith_pairs *pairs, const double *distances)
{
    told *t = arg;
    assert_true(pairs->count > 0 && t->count + pairs->count <= t->room);
    memcpy(t->i + t->count, pairs->query_ids, (size_t)pairs->count * sizeof *t->i);
    memcpy(t->j + t->count, pairs->corpus_ids, (size_t)pairs->count * sizeof *t->j);
    memcpy(t->distances + t->count, distances, (size_t)pairs->count * sizeof *t->distances);
    t->count += pairs->count;
    t->chunks += 1;
    return t->chunks == t->stop_after;
}

/* ---- The oracle ----------------------------------------------------------------------------- */

typedef struct candidate {
    double key;
    uint32_t id;
} candidate;

static inline int compare(const void *a, const void *b)
{
    const candidate *x = a;
    const candidate *y = b;
    const int by_key = (x->key > y->key) - (x->key < y->key);
    return by_key != 0 ? by_key : (x->id > y->id) - (x->id < y->id);
}

static inline bool within(kith_metric metric, double distance, double radius)
{
    return metric == KITH_INNER_PRODUCT ? distance >= radius : distance <= radius;
}

static inline bool allows(const kith_filter *filter, bool one_set, uint32_t i, uint32_t j)
{
    if (filter == NULL) {
        return true;
    }
    const uint8_t *allow = filter->allow;
    const bool forbidden = allow != NULL && ((allow[j / 8] >> j % 8 & 1) == 0 ||
                                             (one_set && (allow[i / 8] >> i % 8 & 1) == 0));
    if (forbidden || filter->rule == KITH_RULE_NONE) {
        return !forbidden;
    }
    const int64_t own = one_set ? filter->groups[i] : filter->query_groups[i];
    return (own == filter->groups[j]) == (filter->rule == KITH_RULE_SAME);
}

static inline told brute(const kith_matrix *points, const kith_matrix *others,
                         const kith_pairs_params *params)
{
    const bool one = others == NULL;
    const kith_matrix *corpus = one ? points : others;
    const kith_metric metric = params->metric;
    told t = told_make(points->rows * corpus->rows);
    candidate *row = malloc((size_t)corpus->rows * sizeof *row);
    assert_non_null(row);
    for (int64_t i = 0; i < points->rows; i++) {
        int64_t count = 0;
        for (int64_t j = one ? i + 1 : 0; j < corpus->rows; j++) {
            const double key = oracle_key(metric, points, i, corpus, j);
            if (within(metric, oracle_distance(metric, key), params->radius) &&
                allows(params->filter, one, (uint32_t)i, (uint32_t)j)) {
                row[count++] = (candidate){key, (uint32_t)j};
            }
        }
        qsort(row, (size_t)count, sizeof *row, compare);
        for (int64_t c = 0; c < count; c++) {
            t.i[t.count] = (uint32_t)i;
            t.j[t.count] = row[c].id;
            t.distances[t.count++] = oracle_distance(metric, row[c].key);
        }
    }
    free(row);
    return t;
}

static inline void check_told(const told *wanted, const told *got, int64_t count)
{
    assert_int_equal(got->count, count);
    assert_true(count <= wanted->count);
    if (count > 0) {
        assert_memory_equal(got->i, wanted->i, (size_t)count * sizeof *got->i);
        assert_memory_equal(got->j, wanted->j, (size_t)count * sizeof *got->j);
        assert_memory_equal(got->distances, wanted->distances,
                            (size_t)count * sizeof *got->distances);
    }
}

/* ---- Jobs ----------------------------------------------------------------------------------- */

typedef struct input {
    test_rows points;
    test_rows others;
    kith_pairs_params params;
    told wanted[2]; /* of one set, of two */
} input;

static inline kith_dtype usual_dtype(kith_metric metric)
{
    return metric == KITH_SQEUCLIDEAN || metric == KITH_HAMMING ? KITH_U8 : KITH_F32;
}

/* The radius is the distance of a pair, to the last bit: a share of pairs is within. */
static inline double radius_at(kith_metric metric, const kith_matrix *points, double share)
{
    const int64_t rows = points->rows;
    candidate *all = malloc((size_t)(rows * rows) * sizeof *all);
    assert_non_null(all);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < rows; j++) {
            all[i * rows + j] = (candidate){oracle_key(metric, points, i, points, j), 0};
        }
    }
    qsort(all, (size_t)(rows * rows), sizeof *all, compare);
    const double key = all[(int64_t)(share * (double)(rows * rows - 1))].key;
    free(all);
    return oracle_distance(metric, key);
}

static inline input input_make(kith_metric metric, test_shape shape, int64_t rows, int32_t cols)
{
    uint64_t seed = (uint64_t)rows * 7 + (uint64_t)metric;
    input in = {.params = kith_pairs_params_default()};
    const bool nonnegative = metric == KITH_CHI2 || metric == KITH_KL || metric == KITH_JACCARD;
    in.points = test_rows_make(usual_dtype(metric), rows, cols, 4);
    in.others = test_rows_make(usual_dtype(metric), rows / 2 + 1, cols, 0);
    test_shape_fill(&in.points, shape, nonnegative, &seed);
    test_shape_fill(&in.others, shape, nonnegative, &seed);
    in.params.metric = metric;
    in.params.radius = radius_at(metric, &in.points.matrix, 0.08);
    in.params.take = take;
    in.wanted[0] = brute(&in.points.matrix, NULL, &in.params);
    in.wanted[1] = brute(&in.points.matrix, &in.others.matrix, &in.params);
    return in;
}

static inline void input_free(input *in)
{
    told_free(&in->wanted[1]);
    told_free(&in->wanted[0]);
    test_rows_free(&in->others);
    test_rows_free(&in->points);
}

static inline kith_status find(kith_ctx *ctx, const input *in, int two, kith_pairs_params params,
                               told *got, kith_pairs_report *report)
{
    *got = told_make(in->wanted[two].count);
    params.take_arg = got;
    *report = (kith_pairs_report){.struct_size = sizeof *report};
    return kith_pairs_find(ctx, &in->points.matrix, two ? &in->others.matrix : NULL, &params,
                           report);
}

#endif
