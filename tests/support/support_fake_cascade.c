/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support_fake_cascade.h"

#include "fused/fused_kernels.h"
#include "fused/fused_schedule.h"
#include "select/select_pairs.h"
#include "support/support_fake_gpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

test_fake_cascade_counts test_fake_cascade;

/* ---- Costs ----------------------------------------------------------------------------------- */

/* What stands in a rounded row: where the row as given is. */
typedef struct row_place {
    kin_fused_rows rows;
    uint32_t row;
} row_place;

static double component(const kin_fused_rows *rows, int64_t row, int32_t col)
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

static double cost_of(const kin_fused_rows *a, int64_t i, const kin_fused_rows *b, int64_t j)
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

static uint32_t order_of(bool integer, double cost)
{
    return integer ? kin_descent_order_of_int((int32_t)cost)
                   : kin_descent_order_of_float((float)cost + 0.0F);
}

static const row_place *place_of(const kin_fused_set *set, int64_t position)
{
    return (const row_place *)(const void *)(set->rounded + position * set->frame.row_bytes);
}

static uint32_t order_in_sets(const kin_fused_set *a, int64_t i, const kin_fused_set *b, int64_t j)
{
    const row_place *x = place_of(a, i);
    const row_place *y = place_of(b, j);
    return order_of(a->frame.type == KIN_FUSED_S8, cost_of(&x->rows, x->row, &y->rows, y->row));
}

static double key_of(const kin_fused_rows *a, int64_t i, const kin_fused_rows *b, int64_t j)
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
    memset(job->mean, 0, (size_t)job->rows.cols * sizeof(double));
    job->largest[0] = 1.0;
    job->largest[1] = (double)job->rows.cols;
    return 0;
}

static int round_rows(kin_gpu_stream *stream, const kin_fused_round *job)
{
    (void)stream;
    memset(job->rounded, 0, (size_t)job->padded * (size_t)job->frame.row_bytes);
    memset(job->facts, 0, (size_t)job->padded * sizeof *job->facts);
    memset(job->half, 0, (size_t)job->padded * sizeof *job->half);
    for (int64_t p = 0; p < job->points; p++) {
        const row_place place = {
            .rows = job->rows, .row = job->ids != NULL ? job->ids[p] : (uint32_t)(job->first + p)};
        memcpy(job->rounded + p * job->frame.row_bytes, &place, sizeof place);
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
                    (float)(component(&place->rows, place->row, c) / (double)(last - first));
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
    return 0;
}

/* ---- Plans ----------------------------------------------------------------------------------- */

static double square_of(const kin_fused_set *a, int64_t i, const kin_fused_set *b, int64_t j)
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
        if (sqrt(square_of(&job->rows, own, &job->cols, tile)) <= reach + radii) {
            return true;
        }
    }
    return false;
}

static void plan_block(const kin_fused_plan *job, int64_t block, int64_t blocks, int64_t col_tiles)
{
    const uint32_t slot = (uint32_t)block * job->tiles_a_block;
    const int64_t step = kin_fused_sequence_step(col_tiles);
    const int64_t a_place = job->graph ? 2 : 1;
    uint32_t count = 0;
    for (int64_t q = job->first * a_place; q < job->last * a_place; q++) {
        const int64_t offset = q / a_place;
        const int64_t tile = job->graph ? (block + offset) % blocks * 2 + q % 2
                                        : kin_fused_sequence_tile(col_tiles, step, q);
        if (tile >= col_tiles || (job->graph && !kin_fused_takes(blocks, block, offset))) {
            continue;
        }
        const bool near = is_near(job, block, tile);
        job->met[near ? 0 : 1] += 1;
        test_fake_cascade.near_pairs += near ? 1 : 0;
        test_fake_cascade.far_pairs += near ? 0 : 1;
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
                key_of(&job->set_rows, job->set.ids[position], &job->cols_rows, id), id, 0};
        }
        kin_select_sort_pairs(pairs, count);
        job->count[i] = count < k ? count : k;
        memcpy(job->pairs + i * k, pairs, (size_t)job->count[i] * sizeof *pairs);
    }
    free(pairs);
    return 0;
}

/* ---- Descent: start and end ------------------------------------------------------------------ */

static int near_tiles(kin_gpu_stream *stream, const kin_cascade_near *job)
{
    const kin_fused_set *set = &job->set;
    const int64_t tiles = (set->points + KIN_FUSED_TILE - 1) / KIN_FUSED_TILE;
    uint64_t *words = malloc((size_t)tiles * sizeof *words);
    (void)stream;
    for (int64_t i = 0; i < tiles; i++) {
        int64_t count = 0;
        for (int64_t j = 0; j < tiles; j++) {
            if (j != i) {
                words[count++] =
                    kin_descent_order_of_float((float)(square_of(set, i, set, j) * 1.0001));
            }
        }
        kin_select_sort_words(words, count);
        const int64_t wanted = job->count < count ? job->count : count;
        const uint32_t bits = (uint32_t)words[wanted - 1] & 0x7fffffffu;
        float square;
        memcpy(&square, &bits, sizeof square);
        job->worst[i] = (kin_fused_worst){.far = sqrtf(square), .integer = (int32_t)ceilf(square)};
    }
    free(words);
    return 0;
}

static int adopt(kin_gpu_stream *stream, const kin_cascade_adopt *job)
{
    (void)stream;
    for (int64_t p = 0; p < job->graph.points; p++) {
        const uint64_t *from = job->lists.words + p * job->lists.capacity;
        uint64_t *to = job->graph.words + p * job->graph.length;
        int32_t count = 0;
        for (int32_t j = 0; j < job->lists.counts[p] && count < job->graph.length; j++) {
            if ((uint32_t)from[j] != (uint32_t)p) {
                to[count++] = kin_descent_word((uint32_t)(from[j] >> 32), (uint32_t)from[j], 1);
            }
        }
        for (; count < job->graph.length; count++) {
            to[count] = KIN_DESCENT_EMPTY;
        }
    }
    return 0;
}

static int hand(kin_gpu_stream *stream, const kin_cascade_hand *job)
{
    const int32_t cut = test_fake_cascade.short_lists;
    (void)stream;
    for (int64_t p = 0; p < job->graph.points; p++) {
        const uint64_t *from = job->graph.words + p * job->graph.length;
        uint64_t *to = job->lists.words + p * job->lists.capacity;
        int32_t count = 0;
        while (count < job->graph.length && from[count] != KIN_DESCENT_EMPTY) {
            to[count] = from[count] >> 32 << 32 | kin_descent_position(from[count]);
            count += 1;
        }
        job->lists.counts[p] = cut != 0 && p % cut == 0 ? 1 : count;
    }
    return 0;
}

static int list_keys(kin_gpu_stream *stream, const kin_cascade_keys *job)
{
    const int32_t length = job->graph.length;
    (void)stream;
    for (int64_t i = 0; i < job->control_count; i++) {
        const uint32_t own = job->controls[i];
        for (int32_t j = 0; j < length; j++) {
            const uint64_t word = job->graph.words[(int64_t)own * length + j];
            const bool exists = word != KIN_DESCENT_EMPTY;
            const uint32_t id = exists ? job->ids[kin_descent_position(word)] : KITH_ID_NONE;
            job->entries[i * length + j] = id;
            job->keys[i * length + j] =
                exists ? key_of(&job->rows, job->ids[own], &job->rows, id) : INFINITY;
        }
    }
    return 0;
}

/* ---- Descent: rounds ------------------------------------------------------------------------- */

/* A word enters a sorted list, unless its position is there. */
static bool enter(uint64_t *list, int32_t length, uint64_t word)
{
    if (word >= list[length - 1]) {
        return false;
    }
    for (int32_t j = 0; j < length && list[j] != KIN_DESCENT_EMPTY; j++) {
        if (kin_descent_position(list[j]) == kin_descent_position(word)) {
            return false;
        }
    }
    int32_t at = length - 1;
    for (; at > 0 && list[at - 1] > word; at--) {
        list[at] = list[at - 1];
    }
    list[at] = word;
    return true;
}

static uint32_t order_of_points(const kin_cascade_points *points, uint32_t i, uint32_t j)
{
    const bool integer = points->set.rounded != NULL && points->set.frame.type == KIN_FUSED_S8;
    return order_of(integer,
                    cost_of(&points->rows, points->set.ids[i], &points->rows, points->set.ids[j]));
}

static int fill(kin_gpu_stream *stream, const kin_cascade_fill *job)
{
    const int32_t length = job->graph.length;
    (void)stream;
    for (uint32_t p = 0; p < job->graph.points; p++) {
        uint64_t *list = job->graph.words + (int64_t)p * length;
        int32_t count = 0;
        while (count < length && list[count] != KIN_DESCENT_EMPTY) {
            count += 1;
        }
        for (int32_t j = 0; job->given != NULL && j < job->given_length && count < job->wanted;
             j++) {
            const uint32_t other = job->given[(int64_t)p * job->given_length + j];
            if (other != UINT32_MAX && other != p) {
                count += enter(list, length,
                               kin_descent_word(order_of_points(&job->points, p, other), other, 1));
            }
        }
        for (int32_t place = count; place < job->wanted; place++) {
            const uint32_t hash = kin_descent_hash(kin_descent_mix(job->seed + (uint64_t)place), p);
            const uint32_t other = kin_descent_slot(hash, (uint32_t)job->graph.points);
            if (other != p) {
                (void)enter(list, length,
                            kin_descent_word(order_of_points(&job->points, p, other), other, 1));
            }
        }
    }
    return 0;
}

static void least(uint64_t *slot, uint64_t word)
{
    *slot = word < *slot ? word : *slot;
}

static int sample(kin_gpu_stream *stream, const kin_cascade_sample *job)
{
    const kin_cascade_samples *s = &job->samples;
    const int32_t width = s->forward + s->reverse;
    (void)stream;
    test_fake_cascade.rounds += 1;
    for (int64_t p = 0; p < job->graph.points; p++) {
        const uint32_t hash = kin_descent_hash(job->salt, (uint32_t)p);
        uint64_t *list = job->graph.words + p * job->graph.length;
        s->new_counts[p] = 0;
        s->old_counts[p] = 0;
        for (int32_t j = 0; j < job->graph.length && list[j] != KIN_DESCENT_EMPTY; j++) {
            const bool is_new = kin_descent_is_new(list[j]) != 0;
            int32_t *count = is_new ? &s->new_counts[p] : &s->old_counts[p];
            const uint32_t other = kin_descent_position(list[j]);
            if (*count == s->forward) {
                continue;
            }
            (is_new ? s->new_ids : s->old_ids)[p * width + (*count)++] = other;
            least(&(is_new ? s->new_slots
                           : s->old_slots)[(int64_t)other * s->reverse +
                                           kin_descent_slot(hash, (uint32_t)s->reverse)],
                  (uint64_t)hash << 32 | (uint64_t)p);
            list[j] &= ~(uint64_t)1;
        }
    }
    return 0;
}

static bool holds(const uint32_t *ids, int32_t count, uint32_t id)
{
    for (int32_t i = 0; i < count; i++) {
        if (ids[i] == id) {
            return true;
        }
    }
    return false;
}

static int collect(kin_gpu_stream *stream, const kin_cascade_sample *job)
{
    const kin_cascade_samples *s = &job->samples;
    const int32_t width = s->forward + s->reverse;
    (void)stream;
    for (int64_t p = 0; p < job->graph.points; p++) {
        uint32_t *news = s->new_ids + p * width;
        uint32_t *olds = s->old_ids + p * width;
        for (int32_t i = 0; i < s->reverse; i++) {
            const uint32_t other = (uint32_t)s->new_slots[p * s->reverse + i];
            if (other != UINT32_MAX && !holds(news, s->new_counts[p], other)) {
                news[s->new_counts[p]++] = other;
            }
        }
        const int32_t before = s->old_counts[p];
        s->old_counts[p] = 0;
        for (int32_t i = 0; i < before + s->reverse; i++) {
            const uint32_t other =
                i < before ? olds[i] : (uint32_t)s->old_slots[p * s->reverse + i - before];
            if (other != UINT32_MAX && !holds(news, s->new_counts[p], other) &&
                !holds(olds, s->old_counts[p], other)) {
                olds[s->old_counts[p]++] = other;
            }
        }
    }
    return 0;
}

static void offer(const kin_cascade_join *job, uint32_t to, uint32_t other, uint32_t order)
{
    const uint64_t word = kin_descent_word(order, other, 1);
    if (to != other && word < job->graph.words[((int64_t)to + 1) * job->graph.length - 1]) {
        least(&job->offers[(int64_t)to * KIN_CASCADE_SLOTS + other % KIN_CASCADE_SLOTS], word);
    }
}

/* All that met is offered: slots keep the least. */
static int join(kin_gpu_stream *stream, const kin_cascade_join *job)
{
    const kin_cascade_samples *s = &job->samples;
    const int32_t width = s->forward + s->reverse;
    (void)stream;
    for (int64_t p = 0; p < job->graph.points; p++) {
        const uint32_t *news = s->new_ids + p * width;
        const uint32_t *olds = s->old_ids + p * width;
        for (int32_t i = 0; i < s->new_counts[p]; i++) {
            for (int32_t j = i + 1; j < s->new_counts[p] + s->old_counts[p]; j++) {
                const uint32_t other = j < s->new_counts[p] ? news[j] : olds[j - s->new_counts[p]];
                const uint32_t order = order_of_points(&job->points, news[i], other);
                offer(job, news[i], other, order);
                offer(job, other, news[i], order);
                *job->evaluations += 1;
            }
        }
    }
    return 0;
}

static int merge(kin_gpu_stream *stream, const kin_cascade_merge *job)
{
    (void)stream;
    for (int64_t i = 0; i < job->graph.points * KIN_CASCADE_SLOTS; i++) {
        uint64_t *list = job->graph.words + i / KIN_CASCADE_SLOTS * job->graph.length;
        if (job->offers[i] != KIN_DESCENT_EMPTY) {
            *job->updates += enter(list, job->graph.length, job->offers[i]);
        }
        job->offers[i] = KIN_DESCENT_EMPTY;
    }
    return 0;
}

/* ---- The tables ------------------------------------------------------------------------------ */

static int copy_within(kin_gpu_stream *stream, void *to, const void *from, uint64_t bytes)
{
    (void)stream;
    memcpy(to, from, (size_t)bytes);
    return 0;
}

static const kin_cascade_kernels cascade = {.near_tiles = near_tiles,
                                            .adopt = adopt,
                                            .fill = fill,
                                            .sample = sample,
                                            .collect = collect,
                                            .join = join,
                                            .merge = merge,
                                            .keys = list_keys,
                                            .hand = hand};

void test_fake_cascade_into(kin_gpu *gpu)
{
    static kin_gpu_ops ops;
    static kin_fused_kernels fused;
    static kin_gpu_module module;
    ops = *gpu->module->ops;
    ops.copy_within = copy_within;
    fused = *gpu->module->fused;
    fused.measure = measure;
    fused.round = round_rows;
    fused.cover = cover;
    fused.sort = sort;
    fused.screen = screen;
    fused.kappa = kappa;
    fused.kth = kth;
    fused.gather = gather;
    fused.tighten = tighten;
    fused.arrange = arrange;
    fused.plan = plan;
    fused.rescore = rescore;
    module = *gpu->module;
    module.ops = &ops;
    module.fused = &fused;
    module.cascade = &cascade;
    gpu->module = &module;
    memset(&test_fake_cascade, 0, sizeof test_fake_cascade);
}
