/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support_fake_tree.h"

#include "host/host_cpu.h"
#include "metric/metric.h"
#include "support/support_fake_gpu.h"
#include "tree/tree_bound.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int32_t test_fake_tree_loses;

static const double *load(const kin_fused_rows *rows, int64_t row, double *values)
{
    const kin_rows plain = test_fake_rows(rows);
    const kin_distance distance = {.metric = rows->metric, .cols = rows->cols};
    return kin_metric_load(&distance, &plain, row, values).values;
}

static double *scratch_of(int32_t cols)
{
    return aligned_alloc(64, (size_t)(cols + 64) / 8 * 64);
}

static int measure(kin_gpu_stream *stream, const kin_tree_gpu_measure *job)
{
    double *scratch = scratch_of(job->rows.cols);
    (void)stream;
    for (int32_t c = 0; c < job->rows.cols; c++) {
        job->low[c] = INFINITY;
        job->high[c] = -INFINITY;
    }
    for (int64_t i = 0; i < job->count; i++) {
        const double *values = load(&job->rows, job->ids != NULL ? job->ids[i] : i, scratch);
        for (int32_t c = 0; c < job->rows.cols; c++) {
            job->low[c] = fmin(job->low[c], values[c]);
            job->high[c] = fmax(job->high[c], values[c]);
        }
    }
    free(scratch);
    return 0;
}

static int round_rows(kin_gpu_stream *stream, const kin_tree_gpu_round *job)
{
    const int32_t cols = job->rows.cols;
    double *scratch = scratch_of(cols);
    (void)stream;
    for (int64_t i = 0; i < job->count; i++) {
        const double *values = load(&job->rows, job->ids != NULL ? job->ids[i] : i, scratch);
        float *out = job->out + i * job->wide;
        double sum = 0.0;
        memset(out, 0, (size_t)job->wide * sizeof *out);
        for (int32_t c = 0; c < cols; c++) {
            double lost = 0.0;
            out[c] = kin_tree_round_value(values[c], job->shift[c], job->scale, &lost);
            sum = kin_tree_lost_add(job->norm, sum, lost);
        }
        job->lost[i] = kin_tree_lost_kept(kin_tree_lost_whole(job->norm, sum));
    }
    free(scratch);
    return 0;
}

/* Backwards, so that an order is not taken for its absence. */
static int order(kin_gpu_stream *stream, const kin_tree_gpu_order *job)
{
    (void)stream;
    *job->scratch_bytes = (uint64_t)job->count * sizeof(uint64_t);
    for (int64_t p = 0; job->scratch != NULL && p < job->count; p++) {
        job->order[p] = (uint32_t)(job->count - 1 - p);
    }
    return 0;
}

/* Points in the order of their numbers: positions, ids and what they lost are all that the walk
 * below reads. */
static int build(kin_gpu_stream *stream, const kin_tree_gpu_build *job)
{
    const kin_tree_gpu *tree = &job->tree;
    float *values = (float *)(uintptr_t)tree->values;
    float *lost = (float *)(uintptr_t)tree->lost;
    uint32_t *ids = (uint32_t *)(uintptr_t)tree->ids;
    (void)stream;
    *job->scratch_bytes = (uint64_t)tree->points * sizeof(uint64_t);
    if (job->scratch == NULL) {
        return 0;
    }
    lost[1] = 0.0F;
    for (int64_t p = 0; p < tree->blocks * KIN_TREE_LANES; p++) {
        float *to = values + p / KIN_TREE_LANES * KIN_TREE_LANES * tree->wide + p % KIN_TREE_LANES;
        const bool there = p < tree->points;
        ids[p] = !there ? KITH_ID_NONE : job->firsts != NULL ? job->firsts[p] : (uint32_t)p;
        for (int32_t c = 0; c < tree->wide; c++) {
            to[(int64_t)c * KIN_TREE_LANES] = there ? job->rows[p * tree->wide + c] : 0.0F;
        }
        lost[1] = there ? fmaxf(lost[1], job->row_lost[p]) : lost[1];
    }
    return 0;
}

/* ---- Walking: every point, no box ------------------------------------------------------------ */

static float value_of(const kin_tree_gpu *tree, int64_t position, const float *row)
{
    const float *from = tree->values + position / KIN_TREE_LANES * KIN_TREE_LANES * tree->wide +
                        position % KIN_TREE_LANES;
    float sum = 0.0F;
    for (int32_t c = 0; c < tree->wide; c++) {
        const float gap = from[(int64_t)c * KIN_TREE_LANES] - row[c];
        sum = tree->norm == KIN_NORM_TWO   ? fmaf(gap, gap, sum)
              : tree->norm == KIN_NORM_ONE ? sum + fabsf(gap)
                                           : fmaxf(sum, fabsf(gap));
    }
    return sum;
}

static int by_word(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a;
    const uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y ? 1 : 0;
}

static float value_in(uint64_t word)
{
    const uint32_t bits = (uint32_t)(word >> 32);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Sorted words of all points; returns how many the row needs. */
static int64_t needed(const kin_tree_gpu_walk *job, const float *row, float lost, uint64_t *words)
{
    const kin_tree_gpu *tree = &job->tree;
    int64_t count = 0;
    for (int64_t p = 0; p < tree->blocks * KIN_TREE_LANES; p++) {
        if (tree->ids[p] != KITH_ID_NONE) {
            const float value = value_of(tree, p, row);
            uint32_t bits;
            memcpy(&bits, &value, sizeof bits);
            words[count++] = (uint64_t)bits << 32 | (uint32_t)p;
        }
    }
    qsort(words, (size_t)count, sizeof *words, by_word);
    const float kth = value_in(words[job->lists.wanted - 1]);
    const float reach = kin_tree_reach_of_value(tree->norm, kth, tree->widen, (double)lost,
                                                (double)tree->most_lost, tree->floor);
    const float limit = kin_tree_limit(tree->norm, reach, tree->most_lost, tree->widen);
    int64_t last = job->lists.wanted;
    while (last < count && value_in(words[last]) <= limit) {
        last += 1;
    }
    return last;
}

/* The row of a place, and what it lost; NULL: nobody. */
static const float *row_at(const kin_tree_gpu_walk *job, int64_t place, float *room, float *lost)
{
    const kin_tree_gpu *tree = &job->tree;
    if (job->rows != NULL) {
        const int64_t query = job->order != NULL ? (int64_t)job->order[place] : place;
        *lost = job->row_lost[query];
        return job->rows + query * tree->wide;
    }
    const float *from = tree->values + place / KIN_TREE_LANES * KIN_TREE_LANES * tree->wide +
                        place % KIN_TREE_LANES;
    for (int32_t c = 0; c < tree->wide; c++) {
        room[c] = from[(int64_t)c * KIN_TREE_LANES];
    }
    *lost = tree->most_lost;
    return tree->ids[place] != KITH_ID_NONE ? room : NULL;
}

/* A list that shall lose something has the farthest points. */
static int walk(kin_gpu_stream *stream, const kin_tree_gpu_walk *job)
{
    const kin_tree_gpu_lists *lists = &job->lists;
    const kin_tree_gpu *tree = &job->tree;
    uint64_t *words = malloc((size_t)tree->blocks * KIN_TREE_LANES * sizeof *words);
    float *own = malloc((size_t)tree->wide * sizeof *own);
    (void)stream;
    for (int64_t p = job->place0; p < job->place0 + job->count; p++) {
        float lost = 0.0F;
        const float *row = row_at(job, p, own, &lost);
        const int64_t count = row != NULL ? needed(job, row, lost, words) : 0;
        const bool loses = count > lists->capacity ||
                           (row != NULL && p % 3 == 0 && lists->capacity <= test_fake_tree_loses);
        const int64_t kept = loses ? lists->wanted : count;
        const int64_t first = loses ? tree->points - kept : 0;
        for (int64_t i = 0; i < kept; i++) {
            lists->words[(p / KIN_TREE_GPU_PACKET * lists->capacity + i) * KIN_TREE_GPU_PACKET +
                         p % KIN_TREE_GPU_PACKET] = words[first + i];
        }
        lists->counts[p] = (int32_t)kept;
        lists->lost[p] = loses ? 1 : 0;
        job->met[0] += row != NULL ? (uint64_t)tree->points : 0;
        job->met[2] += loses ? 1 : 0;
    }
    free(own);
    free(words);
    return 0;
}

static int32_t walk_short(kin_gpu_stream *stream)
{
    enum { SHORT = 64 };
    (void)stream;
    return SHORT;
}

/* ---- Finishing ------------------------------------------------------------------------------- */

static int by_key(const void *a, const void *b)
{
    const kin_fused_pair *x = a;
    const kin_fused_pair *y = b;
    return x->key != y->key ? (x->key < y->key ? -1 : 1) : x->id < y->id ? -1 : 1;
}

static void finish_place(const kin_tree_gpu_finish *job, const kin_distance *distance, int64_t i,
                         kin_fused_pair *all, double *scratch)
{
    const int64_t place = job->place0 + i;
    const uint64_t *words =
        job->lists.words + place / KIN_TREE_GPU_PACKET * KIN_TREE_GPU_PACKET * job->lists.capacity +
        place % KIN_TREE_GPU_PACKET;
    const uint32_t row = job->order != NULL ? job->order[place] : (uint32_t)place;
    const int32_t count = row == KITH_ID_NONE ? 0 : job->lists.counts[place];
    const kin_rows corpus = test_fake_rows(&job->corpus);
    const kin_rows queries = test_fake_rows(&job->queries);
    for (int32_t c = 0; c < count; c++) {
        const kin_query query = kin_metric_load(distance, &queries, row, scratch);
        all[c].id = job->tree.ids[(uint32_t)words[(int64_t)c * KIN_TREE_GPU_PACKET]];
        kin_metric_keys(distance, &query, &corpus, &all[c].id, 0, 1, &all[c].key);
    }
    qsort(all, (size_t)count, sizeof *all, by_key);
    job->counts[i] = count < job->lists.wanted ? count : job->lists.wanted;
    memcpy(job->pairs + i * job->lists.wanted, all, (size_t)job->counts[i] * sizeof *all);
    *job->keys += (uint64_t)count;
}

static int finish(kin_gpu_stream *stream, const kin_tree_gpu_finish *job)
{
    kin_fused_pair *all = malloc((size_t)job->lists.capacity * sizeof *all);
    double *scratch = scratch_of(job->corpus.cols);
    /* Asked once: a virtual machine takes long to say what its processor can do. */
    const kin_distance distance = {
        .metric = job->corpus.metric, .cols = job->corpus.cols, .isa = kin_cpu_best()};
    (void)stream;
    for (int64_t i = 0; i < job->count; i++) {
        finish_place(job, &distance, i, all, scratch);
    }
    free(scratch);
    free(all);
    return 0;
}

const kin_tree_kernels test_fake_tree = {.measure = measure,
                                         .round = round_rows,
                                         .order = order,
                                         .build = build,
                                         .walk = walk,
                                         .walk_short = walk_short,
                                         .finish = finish};
