/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support_fake_screen.h"

#include "fused/fused_schedule.h"
#include "graph/graph_word.h"
#include "metric/metric.h"
#include "select/select_pairs.h"
#include "support/support_blank.h"
#include "support/support_fake_gpu.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

test_fake_plan_counts test_fake_plans;

/* ---- Counts, by the threads of a team -------------------------------------------------------- */

static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;

static void count_pair(bool near)
{
    pthread_mutex_lock(&counting);
    test_fake_plans.near_pairs += near ? 1 : 0;
    test_fake_plans.far_pairs += near ? 0 : 1;
    pthread_mutex_unlock(&counting);
}

static void count_loose(void)
{
    pthread_mutex_lock(&counting);
    test_fake_plans.loose += 1;
    if (test_fake_plans.most_loose < test_fake_plans.loose) {
        test_fake_plans.most_loose = test_fake_plans.loose;
    }
    pthread_mutex_unlock(&counting);
}

static void count_tightened(void)
{
    pthread_mutex_lock(&counting);
    test_fake_plans.loose = 0;
    pthread_mutex_unlock(&counting);
}

/* ---- Costs ----------------------------------------------------------------------------------- */

/* What stands in a rounded row: where the row as given is. */
typedef struct row_place {
    kin_fused_rows rows;
    uint32_t row;
} row_place;

double test_fake_value(const kin_fused_rows *rows, int64_t row, int32_t col)
{
    const char *data = (const char *)rows->data + row * rows->stride_bytes;
    if (rows->dtype == KITH_U8) {
        return (double)((const unsigned char *)data)[col];
    }
    float value;
    memcpy(&value, data + (size_t)col * sizeof value, sizeof value);
    return (double)value;
}

/* Sums of whole numbers are exact in float, too, up to what tests have. */
#define SUM(TYPE, STEP)                      \
    do {                                     \
        const TYPE *p = x;                   \
        const TYPE *q = y;                   \
        for (int32_t c = 0; c < cols; c++) { \
            const float u = (float)p[c];     \
            const float v = (float)q[c];     \
            sum += STEP;                     \
        }                                    \
    } while (0)
#define BY_TYPE(STEP)             \
    if (a->dtype == KITH_U8) {    \
        SUM(unsigned char, STEP); \
    } else {                      \
        SUM(float, STEP);         \
    }

double test_fake_cost(const kin_fused_rows *a, int64_t i, const kin_fused_rows *b, int64_t j)
{
    const void *x = (const char *)a->data + i * a->stride_bytes;
    const void *y = (const char *)b->data + j * b->stride_bytes;
    const int32_t cols = a->cols;
    float sum = 0.0F;
    if (a->metric == KITH_INNER_PRODUCT) {
        BY_TYPE(-2.0F * u * v)
    } else if (a->metric == KITH_MANHATTAN) {
        BY_TYPE(fabsf(u - v))
    } else {
        BY_TYPE((u - v) * (u - v))
    }
    return (double)sum;
}

uint32_t test_fake_order(bool integer, double cost)
{
    return integer ? kin_graph_order_of_int((int32_t)cost)
                   : kin_graph_order_of_float((float)cost + 0.0F);
}

static const row_place *place_of(const kin_fused_set *set, int64_t position)
{
    return (const row_place *)(const void *)(set->rounded + position * set->frame.row_bytes);
}

double test_fake_blurred(double cost)
{
    const double step = 4.0 * (double)test_fake_plans.lost * (double)test_fake_plans.lost;
    return step > 0.0 ? floor(cost / step) * step : cost;
}

static uint32_t order_in_sets(const kin_fused_set *a, int64_t i, const kin_fused_set *b, int64_t j)
{
    const row_place *x = place_of(a, i);
    const row_place *y = place_of(b, j);
    return test_fake_order(a->frame.type == KIN_FUSED_S8,
                           test_fake_blurred(test_fake_cost(&x->rows, x->row, &y->rows, y->row)));
}

double test_fake_key(const kin_fused_rows *a, int64_t i, const kin_fused_rows *b, int64_t j)
{
    const kin_rows queries = test_fake_rows(a);
    const kin_rows corpus = test_fake_rows(b);
    const kin_distance distance = {.metric = b->metric, .cols = b->cols, .isa = KIN_ISA_PORTABLE};
    double *values = aligned_alloc(64, (size_t)(b->cols + 64) / 8 * 64);
    const kin_query query = kin_metric_load(&distance, &queries, i, values);
    double key = 0.0;
    kin_metric_keys(&distance, &query, &corpus, NULL, j, 1, &key);
    free(values);
    return key;
}

/* ---- Preparation ----------------------------------------------------------------------------- */

static int measure(kin_gpu_stream *stream, const kin_fused_measure *job)
{
    (void)stream;
    test_blank_measure(job);
    return 0;
}

static int round_rows(kin_gpu_stream *stream, const kin_fused_round *job)
{
    (void)stream;
    test_blank_round(job);
    for (int64_t p = 0; p < job->points; p++) {
        const row_place place = {
            .rows = job->rows, .row = job->ids != NULL ? job->ids[p] : (uint32_t)(job->first + p)};
        memcpy(job->rounded + p * job->frame.row_bytes, &place, sizeof place);
        job->facts[p].lost = test_fake_plans.lost;
    }
    return 0;
}

/* Balls as large as can be: only who leaves them out skips. */
static int cover(kin_gpu_stream *stream, const kin_fused_cover *job)
{
    (void)stream;
    for (int64_t t = 0; t * KIN_FUSED_TILE < job->set.points; t++) {
        float *centre = job->centres + t * job->set.frame.cols;
        const int64_t first = t * KIN_FUSED_TILE;
        const int64_t last =
            first + KIN_FUSED_TILE < job->set.points ? first + KIN_FUSED_TILE : job->set.points;
        job->radii[t] = INFINITY;
        memset(centre, 0, (size_t)job->set.frame.cols * sizeof *centre);
        for (int64_t p = first; p < last; p++) {
            const row_place *place = place_of(&job->set, p);
            for (int32_t c = 0; c < job->set.frame.cols; c++) {
                centre[c] +=
                    (float)(test_fake_value(&place->rows, place->row, c) / (double)(last - first));
            }
        }
    }
    return 0;
}

static int sort(kin_gpu_stream *stream, const kin_fused_sort *job)
{
    (void)stream;
    if (job->nearest != NULL && job->scratch == NULL) {
        *job->scratch_bytes = (uint64_t)job->points * sizeof(uint64_t);
        return 0;
    }
    uint64_t *words = malloc((size_t)(job->points + 1) * sizeof *words);
    for (int64_t i = 0; i < job->points; i++) {
        const uint64_t cell = job->nearest != NULL ? (uint32_t)job->nearest[i] : 0;
        words[i] = cell << 32 | (job->ids != NULL ? job->ids[i] : (uint32_t)i);
    }
    kin_select_sort_words(words, job->points);
    for (int64_t i = 0; i < job->points; i++) {
        job->order[i] = (uint32_t)words[i];
    }
    for (int64_t m = 0; job->marks != NULL && m < kin_fused_sort_marks(job->points); m++) {
        const int64_t at = m * KIN_FUSED_TILE;
        job->marks[m] = (uint32_t)(words[at < job->points ? at : job->points - 1] >> 32);
    }
    free(words);
    return 0;
}

/* ---- The screen ------------------------------------------------------------------------------ */

/* The best of a list stay, sorted, each once. */
static void push(const kin_fused_lists *lists, int64_t row, uint64_t word)
{
    uint64_t *list = lists->words + row * lists->capacity;
    int32_t at = lists->counts[row];
    if (at == lists->capacity && word >= list[at - 1]) {
        return;
    }
    at -= at == lists->capacity ? 1 : 0;
    int32_t place = 0;
    for (int32_t end = at; place < end;) {
        const int32_t middle = (place + end) / 2;
        if (list[middle] < word) {
            place = middle + 1;
        } else {
            end = middle;
        }
    }
    if (place < at && list[place] == word) {
        return;
    }
    memmove(list + place + 1, list + place, (size_t)(at - place) * sizeof *list);
    list[place] = word;
    lists->counts[row] = at + 1;
}

static void meet(const kin_fused_screen *job, const kin_fused_unit *unit, uint32_t t, int64_t r,
                 int64_t c)
{
    const bool exists = c < job->cols.points;
    const uint32_t order = exists ? order_in_sets(&job->rows, r, &job->cols, c) : UINT32_MAX;
    if (job->mode == KIN_FUSED_MATRIX) {
        const int64_t first = (int64_t)unit->block * job->tiles_a_block;
        const int64_t tile = (int64_t)unit->first - first + t;
        job->matrix[r * job->pitch + tile * KIN_FUSED_TILE + c % KIN_FUSED_TILE] = order;
    } else if (exists && job->mode == KIN_FUSED_NEAREST) {
        const uint64_t word = (uint64_t)order << 32 | (uint64_t)c;
        job->nearest[r] = word < job->nearest[r] ? word : job->nearest[r];
    } else if (exists) {
        push(&job->row_lists, r, (uint64_t)order << 32 | (uint64_t)c);
        if (job->col_lists.words != NULL) {
            push(&job->col_lists, c, (uint64_t)order << 32 | (uint64_t)r);
        }
    }
}

static int screen(kin_gpu_stream *stream, const kin_fused_screen *job)
{
    (void)stream;
    if (job->mode == KIN_FUSED_LISTS && *job->unit_count > 0) {
        count_loose();
    }
    for (uint32_t u = 0; u < *job->unit_count; u++) {
        const kin_fused_unit *unit = &job->units[u];
        const int64_t row0 = (int64_t)unit->block * KIN_FUSED_BLOCK;
        for (uint32_t t = 0; t < unit->count; t++) {
            const int64_t col0 = (int64_t)job->tiles[unit->first + t] * KIN_FUSED_TILE;
            for (int64_t r = row0; r < row0 + KIN_FUSED_BLOCK && r < job->rows.points; r++) {
                for (int64_t c = col0; c < col0 + KIN_FUSED_TILE; c++) {
                    meet(job, unit, t, r, c);
                }
            }
        }
    }
    return 0;
}

static double kappa(kin_gpu_stream *stream, int32_t cols)
{
    (void)stream;
    (void)cols;
    return 0x1p-20;
}

static int kth(kin_gpu_stream *stream, const kin_fused_kth *job)
{
    (void)stream;
    (void)job;
    return 0;
}

static int gather(kin_gpu_stream *stream, const kin_fused_gather *job)
{
    (void)stream;
    for (int64_t i = 0; i < job->rows; i++) {
        const int64_t row = job->row0 + i;
        const uint32_t *tiles = job->tiles + row / KIN_FUSED_BLOCK * job->tiles_a_block;
        for (int64_t c = 0; c < job->count; c++) {
            const uint64_t order = job->matrix[i * job->pitch + c];
            const int64_t position =
                (int64_t)tiles[c / KIN_FUSED_TILE] * KIN_FUSED_TILE + c % KIN_FUSED_TILE;
            if (position < job->cols_set.points) {
                push(&job->lists, row, order << 32 | (uint64_t)position);
            }
        }
    }
    return 0;
}

/* Nobody's reach is known: all stay where they are. */
static int arrange(kin_gpu_stream *stream, const kin_fused_arrange *job)
{
    (void)stream;
    (void)job;
    return 0;
}

static int tighten(kin_gpu_stream *stream, const kin_fused_tighten *job)
{
    (void)stream;
    if (job->worst != NULL) {
        memset(job->worst, 0, (size_t)(job->set.padded / KIN_FUSED_TILE) * sizeof *job->worst);
    }
    if (job->lists.words != NULL) {
        count_tightened();
    }
    return 0;
}

/* ---- Plans ----------------------------------------------------------------------------------- */

double test_fake_square(const kin_fused_set *a, int64_t i, const kin_fused_set *b, int64_t j)
{
    double sum = 0.0;
    for (int32_t c = 0; c < a->frame.cols; c++) {
        const double x =
            (double)a->centres[i * a->frame.cols + c] - (double)b->centres[j * b->frame.cols + c];
        sum += x * x;
    }
    return sum;
}

static double reach_of(const kin_fused_set *set, const kin_fused_worst *worst, int64_t tile)
{
    return worst == NULL                           ? 0.0
           : set->frame.bound == KIN_BOUND_INTEGER ? sqrt((double)worst[tile].integer)
                                                   : (double)worst[tile].far;
}

/* Whether a tile is near to one of the block's two. */
static bool is_near(const kin_fused_plan *job, int64_t block, int64_t tile)
{
    if (job->rows.centres == NULL || job->cols.centres == NULL) {
        return true;
    }
    for (int64_t own = 2 * block; own < 2 * block + 2; own++) {
        if (own * KIN_FUSED_TILE >= job->rows.points) {
            continue;
        }
        const double reach = fmax(reach_of(&job->rows, job->row_worst, own),
                                  reach_of(&job->cols, job->col_worst, tile));
        const double radii = (double)job->rows.radii[own] + (double)job->cols.radii[tile];
        if (sqrt(test_fake_square(&job->rows, own, &job->cols, tile)) <= reach + radii) {
            return true;
        }
    }
    return false;
}

static void plan_block(const kin_fused_plan *job, int64_t block, int64_t blocks, int64_t col_tiles)
{
    const int64_t parts = job->parts > 1 ? job->parts : 1;
    const int64_t group = block / KIN_FUSED_PLAN_GROUP;
    const int64_t groups = (blocks + KIN_FUSED_PLAN_GROUP - 1) / KIN_FUSED_PLAN_GROUP;
    const int64_t begin = groups * job->part / parts;
    const bool is_planned = job->adjoining != 0
                                ? group >= begin && group < groups * (job->part + 1) / parts
                                : group % parts == job->part;
    const int64_t number = job->adjoining != 0 ? group - begin : group / parts;
    const int64_t own = number * KIN_FUSED_PLAN_GROUP + block % KIN_FUSED_PLAN_GROUP;
    const uint32_t slot = (uint32_t)own * job->tiles_a_block;
    const int64_t step = kin_sequence_step(col_tiles);
    const int64_t a_place = job->graph ? 2 : 1;
    uint32_t count = 0;
    if (!is_planned) {
        return;
    }
    for (int64_t q = job->first * a_place; q < job->last * a_place; q++) {
        const int64_t offset = q / a_place;
        const int64_t tile = job->graph ? (block + offset) % blocks * 2 + q % 2
                                        : kin_fused_sequence_tile(col_tiles, step, q);
        if (tile >= col_tiles || (job->graph && !kin_fused_takes(blocks, block, offset))) {
            continue;
        }
        const bool near = is_near(job, block, tile);
        job->met[near ? 0 : 1] += 1;
        count_pair(near);
        if (near) {
            job->tiles[slot + count++] = (uint32_t)tile;
        }
    }
    for (uint32_t first = 0; first < count; first += job->unit_tiles) {
        const uint32_t left = count - first;
        job->units[(*job->unit_count)++] = (kin_fused_unit){
            (uint32_t)block, slot + first, left < job->unit_tiles ? left : job->unit_tiles, 0};
    }
}

static int plan(kin_gpu_stream *stream, const kin_fused_plan *job)
{
    const int64_t blocks = job->rows.padded / KIN_FUSED_BLOCK;
    (void)stream;
    for (int64_t block = 0; block < blocks; block++) {
        plan_block(job, block, blocks, (job->cols.points + KIN_FUSED_TILE - 1) / KIN_FUSED_TILE);
    }
    return 0;
}

/* ---- A team's lists -------------------------------------------------------------------------- */

static int pack(kin_gpu_stream *stream, const kin_fused_pack *job)
{
    (void)stream;
    for (int32_t p = 0; p < job->parts; p++) {
        uint64_t *counts = job->counts + (ptrdiff_t)2 * p;
        for (int64_t row = job->firsts[p]; p != job->part && row < job->firsts[p + 1]; row++) {
            const uint64_t own = (uint64_t)job->lists.counts[row];
            const uint64_t place = counts[0];
            counts[0] += own;
            if (place + own > job->room) {
                counts[1] = place < counts[1] ? place : counts[1];
                continue;
            }
            for (uint64_t i = 0; i < own; i++) {
                const uint64_t to = (uint64_t)p * job->room + place + i;
                job->words[to] = job->lists.words[row * job->lists.capacity + (int64_t)i];
                job->rows[to] = (uint32_t)row;
            }
            job->lists.counts[row] = 0;
        }
    }
    return 0;
}

static int accept(kin_gpu_stream *stream, const kin_fused_accept *job)
{
    (void)stream;
    for (int64_t i = 0; i < job->count; i++) {
        push(&job->lists, job->rows[i], job->words[i]);
    }
    return 0;
}

static int rescore(kin_gpu_stream *stream, const kin_fused_rescore *job)
{
    const int32_t k = job->lists.k;
    kin_pair *pairs = malloc((size_t)job->lists.capacity * sizeof *pairs);
    (void)stream;
    for (int64_t i = 0; i < job->rows; i++) {
        const int64_t position = job->row0 + i;
        const uint64_t *list = job->lists.words + position * job->lists.capacity;
        const int32_t count = job->lists.counts[position];
        for (int32_t j = 0; j < count; j++) {
            const uint32_t id = job->cols_set.ids[(uint32_t)list[j]];
            pairs[j] = (kin_pair){
                test_fake_key(&job->set_rows, job->set.ids[position], &job->cols_rows, id), id, 0};
        }
        kin_select_sort_pairs(pairs, count);
        job->count[i] = count < k ? count : k;
        memcpy(job->pairs + i * k, pairs, (size_t)job->count[i] * sizeof *pairs);
    }
    free(pairs);
    return 0;
}

/* ---- The table ------------------------------------------------------------------------------- */

void test_fake_screen_into(kin_fused_kernels *kernels)
{
    kernels->measure = measure;
    kernels->round = round_rows;
    kernels->cover = cover;
    kernels->sort = sort;
    kernels->screen = screen;
    kernels->kappa = kappa;
    kernels->kth = kth;
    kernels->gather = gather;
    kernels->tighten = tighten;
    kernels->arrange = arrange;
    kernels->plan = plan;
    kernels->pack = pack;
    kernels->accept = accept;
    kernels->rescore = rescore;
    memset(&test_fake_plans, 0, sizeof test_fake_plans);
}
