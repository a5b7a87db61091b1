/* SPDX-License-Identifier: Apache-2.0
 * Canonical keys, and what callers get of them: by their definition (metric/metric.h). */
#include "metric/metric.h"
#include "reference/reference_screen.h"
#include "select/select_word.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Candidates of a row that a block of threads sorts at a time. */
enum { PLACES = 8192 };

/* The key that an exact cost is. */
static double key_of_word(uint64_t word, kith_metric metric)
{
    const double cost = cost_of(KIN_SCREEN_GPU_S8, (uint32_t)(word >> 32));
    return metric == KITH_INNER_PRODUCT ? cost / 2 : cost;
}

/* ---- Groups ---------------------------------------------------------------------------------- */

static void body_number(const kin_screen_gpu_number *job)
{
    *job->found = (kin_screen_gpu_numbers){0};
    for (int64_t i = job->rows - 1; i >= 0; i--) {
        const int64_t number = job->numbers[i];
        job->of[i] = (uint32_t)number;
        if (number < 0) {
            job->found->refused = (uint64_t)(job->rows - i);
        } else if ((uint64_t)number > job->found->largest) {
            job->found->largest = (uint64_t)number;
        }
    }
}

REFERENCE_SCREEN(number)

/* The last row of a group first: any order is right. */
static void body_regroup(const kin_screen_gpu_regroup *job)
{
    memset(job->begin, 0, ((size_t)job->groups + 1) * sizeof *job->begin);
    for (int turn = 0; turn < 2; turn++) {
        for (int64_t row = 0; row < job->rows; row++) {
            if (job->words != NULL && (job->words[row / 32] >> row % 32 & 1) == 0) {
                continue;
            }
            const uint32_t group = job->of[row];
            if (turn == 0) {
                job->begin[group] += 1;
                continue;
            }
            const uint32_t to = --job->next[group + 1];
            job->order[to] = (uint32_t)row;
            if (job->owners != NULL) {
                job->owners[to] = group;
            }
        }
        uint32_t sum = 0;
        for (int64_t group = 0; turn == 0 && group <= job->groups; group++) {
            const uint32_t own = job->begin[group];
            job->begin[group] = job->next[group] = sum;
            sum += own;
        }
    }
}

REFERENCE_SCREEN(regroup)

static void body_spread(const kin_screen_gpu_spread *job)
{
    for (int64_t p = 0; p < job->blocks * KIN_SCREEN_GPU_BLOCK; p++) {
        job->ids[p] = kin_screen_gpu_spread_id(job, p);
    }
}

REFERENCE_SCREEN(spread)

static void body_few(const kin_screen_gpu_few *job)
{
    for (int64_t i = 0; i < job->queries; i++) {
        job->ids[i] = job->spans[job->owners[i]].count < job->least ? job->asked[i] : KITH_ID_NONE;
    }
}

REFERENCE_SCREEN(few)

/* The last of them first: any order is right. */
static void body_lost(const kin_screen_gpu_lost *job)
{
    for (int64_t p = job->points - 1; p >= 0; p--) {
        if (job->lost[p] == 0) {
            continue;
        }
        if (job->ids != NULL) {
            job->ids[*job->count] = job->of != NULL ? job->of[p] : (uint32_t)p;
        }
        if (job->ids != NULL && job->owners != NULL) {
            job->owners[*job->count] = job->seats[p / KIN_SCREEN_GPU_BLOCK].group;
        }
        *job->count += 1;
    }
}

REFERENCE_SCREEN(lost)

static void body_spans(const kin_screen_gpu_spans *job)
{
    *job->totals = (kin_screen_gpu_span_totals){0};
    for (int64_t group = 0; group < job->groups; group++) {
        const kin_screen_gpu_span span = kin_screen_gpu_span_of(job, group);
        const uint64_t queries = job->query_begin[group + 1] - job->query_begin[group];
        job->spans[group] = span;
        if (queries > 0 && span.count > 0) {
            job->totals->pairs += queries * span.count;
            job->totals->used += 1;
            job->totals->longest =
                span.count > job->totals->longest ? span.count : job->totals->longest;
        }
    }
}

REFERENCE_SCREEN(spans)

/* ---- Lists ----------------------------------------------------------------------------------- */

/* Candidates of one row, with room for as many as a list has. */
typedef struct candidates {
    uint32_t *ids;
    double *keys;
    kin_pair *pairs;
} candidates;

static candidates make_candidates(int64_t room)
{
    return (candidates){.ids = reference_room(room, sizeof(uint32_t)),
                        .keys = reference_room(room, sizeof(double)),
                        .pairs = reference_room(room, sizeof(kin_pair))};
}

static void free_candidates(candidates *c)
{
    free(c->ids);
    free(c->keys);
    free(c->pairs);
}

/* Ids and keys of a span. */
static int32_t find_span(const candidates *c, const kin_screen_gpu_rescore *job, int64_t position)
{
    const kin_screen_gpu_span *span = &job->spans[job->owners[position]];
    for (uint32_t j = 0; j < span->count; j++) {
        c->ids[j] = job->listed[span->first + j + (j < span->before ? 0 : span->gap)];
    }
    reference_keys(&job->set_rows, job->set.ids[position], &job->cols_rows, c->ids, 0, span->count,
                   c->keys);
    return (int32_t)span->count;
}

/* Ids and keys of `count` words. */
static void find_keys(const candidates *c, const kin_screen_gpu_set *cols,
                      const kin_screen_gpu_rows *queries, int64_t row,
                      const kin_screen_gpu_rows *corpus, const uint64_t *words, int64_t count)
{
    for (int64_t j = 0; j < count; j++) {
        c->ids[j] = cols->ids[(uint32_t)words[j]];
        c->keys[j] = key_of_word(words[j], corpus->metric);
    }
    int64_t from = 0; /* of a run of candidates that are somebody */
    for (int64_t j = 0; j <= count && cols->frame.bound != KIN_BOUND_INTEGER; j++) {
        if (j == count || c->ids[j] == KITH_ID_NONE) {
            reference_keys(queries, row, corpus, c->ids + from, 0, j - from, c->keys + from);
            from = j + 1;
        }
        if (j < count && c->ids[j] == KITH_ID_NONE) {
            c->keys[j] = INFINITY;
        }
    }
}

static int32_t find_list(const candidates *c, const kin_screen_gpu_rescore *job, int64_t position)
{
    const kin_screen_gpu_lists *lists = &job->lists;
    const int32_t pushed = lists->counts[position];
    const int32_t count = pushed < lists->capacity ? pushed : lists->capacity;
    find_keys(c, &job->cols_set, &job->set_rows, job->set.ids[position], &job->cols_rows,
              lists->words + position * lists->capacity, count);
    return count;
}

static void sort_pairs(const candidates *c, int32_t count)
{
    for (int32_t j = 0; j < count; j++) {
        c->pairs[j] = (kin_pair){c->keys[j], c->ids[j], 0};
    }
    kin_select_sort_pairs(c->pairs, count);
}

static void hand_over(const kin_screen_gpu_unsorted *all, int64_t i, const candidates *c,
                      int32_t count)
{
    for (int64_t j = 0; j < all->pitch; j++) {
        all->keys[i * all->pitch + j] = j < count ? c->keys[j] : INFINITY;
        all->ids[i * all->pitch + j] = j < count ? c->ids[j] : KITH_ID_NONE;
    }
}

static void body_rescore(const kin_screen_gpu_rescore *job)
{
    const kin_screen_gpu_lists *lists = &job->lists;
    candidates c = make_candidates(lists->capacity);
    for (int64_t i = 0; i < job->rows; i++) {
        const int64_t position = job->row0 + i;
        const int32_t count = job->set.ids[position] == KITH_ID_NONE ? 0
                              : job->spans != NULL                   ? find_span(&c, job, position)
                                                                     : find_list(&c, job, position);
        job->count[i] = count < lists->k ? count : lists->k;
        if (job->all.keys != NULL) {
            hand_over(&job->all, i, &c, count);
        } else {
            sort_pairs(&c, count);
        }
        for (int32_t j = 0; job->all.keys == NULL && j < job->count[i]; j++) {
            job->pairs[i * lists->k + j] = (kin_screen_gpu_pair){c.pairs[j].key, c.pairs[j].id, 0};
        }
        if (job->keys != NULL && job->set.frame.bound != KIN_BOUND_INTEGER) {
            *job->keys += (uint64_t)count;
        }
    }
    free_candidates(&c);
}

static void rescore_body(const void *job)
{
    body_rescore(job);
}

int reference_screen_rescore(kin_gpu_stream *stream, const kin_screen_gpu_rescore *job)
{
    enum { SHORT = 128 }; /* places that are not a block's */
    const bool sorts = job->lists.k < PLACES || job->lists.capacity <= PLACES;
    if (job->all.keys != NULL ? job->lists.capacity <= SHORT : !sorts) {
        return REFERENCE_INVALID;
    }
    const int status = reference_later(stream, rescore_body, job, sizeof *job);
    return status != 0 || job->answers.rows == 0 ? status
                                                 : reference_screen_write(stream, &job->answers);
}

static void body_hits(const kin_screen_gpu_hits *job)
{
    candidates c = make_candidates(job->lists.capacity);
    for (int64_t i = 0; i < job->rows; i++) {
        const int64_t position = job->row0 + i;
        const int64_t count = job->places[i + 1] - job->places[i];
        const uint32_t query = job->set.ids[position];
        find_keys(&c, &job->cols_set, &job->set_rows, query, &job->cols_rows,
                  job->lists.words + position * job->lists.capacity, count);
        for (int64_t j = 0; j < count; j++) {
            job->hits[job->places[i] + j] = (kin_screen_gpu_hit){c.keys[j], query, c.ids[j]};
        }
    }
    free_candidates(&c);
}

REFERENCE_SCREEN(hits)

/* ---- Answers --------------------------------------------------------------------------------- */

/* The places that one pair takes, of an output row. */
static void write_pair(const kin_screen_gpu_write *job, int64_t to, const kin_screen_gpu_pair *pair)
{
    const double distance = kin_metric_distance(job->metric, pair->key);
    if (job->out_ids != NULL) {
        job->out_ids[to] = pair->id;
    }
    if (job->out_distances != NULL) {
        job->out_distances[to] = (float)distance;
    }
    if (job->out_distances64 != NULL) {
        job->out_distances64[to] = distance;
    }
}

void reference_write(const kin_screen_gpu_write *job)
{
    for (int64_t i = 0; i < job->rows; i++) {
        const int64_t position = job->row0 + i;
        const int64_t row = job->ids != NULL ? (int64_t)job->ids[position] : position;
        if (row == (int64_t)KITH_ID_NONE) {
            continue;
        }
        uint32_t left_out = job->leaves_own_out != 0 ? (uint32_t)row : KITH_ID_NONE;
        left_out = job->left_out != NULL ? job->left_out[row] : left_out;
        const int32_t count = job->count != NULL && job->count[i] < job->k ? job->count[i] : job->k;
        int64_t written = 0;
        for (int32_t j = 0; j < count && written < job->k_out; j++) {
            const kin_screen_gpu_pair *pair = &job->pairs[i * job->k + j];
            if (pair->id != left_out) {
                write_pair(job, (row - job->out_row0) * job->k_out + written, pair);
                written += 1;
            }
        }
        if (written < job->k_out && job->short_rows != NULL) {
            *job->short_rows += 1;
        }
        const kin_screen_gpu_pair nothing = {INFINITY, KITH_ID_NONE, 0};
        for (; job->fills != 0 && written < job->k_out; written++) {
            write_pair(job, (row - job->out_row0) * job->k_out + written, &nothing);
        }
    }
}

static void body_write(const kin_screen_gpu_write *job)
{
    reference_write(job);
}

REFERENCE_SCREEN(write)

/* ---- What nobody waits for ------------------------------------------------------------------- */

/* All rows of the corpus, for row i. */
static void rescue_row(const kin_screen_gpu_rescue *job, int64_t i, const candidates *c)
{
    const kin_screen_gpu_rescore *done = &job->done;
    const int32_t k = done->lists.k;
    kin_screen_gpu_write answers = done->answers;
    reference_keys(&done->set_rows, done->set.ids[i], &done->cols_rows, done->listed, 0,
                   job->points, c->keys);
    for (int64_t j = 0; j < job->points; j++) {
        c->pairs[j] = (kin_pair){c->keys[j], done->listed[j], 0};
    }
    kin_select_sort_pairs(c->pairs, job->points);
    for (int32_t j = 0; j < k; j++) {
        done->pairs[i * k + j] = (kin_screen_gpu_pair){c->pairs[j].key, c->pairs[j].id, 0};
    }
    done->count[i] = k;
    answers.row0 = i;
    answers.rows = 1;
    answers.pairs += i * k;
    reference_write(&answers);
}

static void body_rescue(const kin_screen_gpu_rescue *job)
{
    const kin_screen_gpu_rescore *done = &job->done;
    const kin_screen_gpu_write *answers = &done->answers;
    const kin_screen_gpu_pair nothing = {NAN, KITH_ID_NONE, 0};
    candidates c = make_candidates(job->points);
    for (int64_t i = 0; i < done->rows; i++) {
        if (job->marks[i] != 0) {
            for (int64_t j = 0; j < answers->k_out; j++) {
                write_pair(answers, i * answers->k_out + j, &nothing);
            }
        } else if (job->told[i] < 0 || (job->degenerate != NULL && job->degenerate[i] != 0)) {
            rescue_row(job, i, &c);
        } else if (done->count[i] < done->lists.k) {
            *job->few = 0;
        }
    }
    free_candidates(&c);
}

REFERENCE_SCREEN(rescue)

/* ---- All pairs ------------------------------------------------------------------------------- */

static void body_keys(const kin_screen_gpu_keys *job)
{
    for (int64_t i = 0; i < job->query_count; i++) {
        const int64_t row = job->query_ids != NULL ? (int64_t)job->query_ids[i] : job->query0 + i;
        reference_keys(&job->queries, row, &job->corpus, NULL, job->corpus0, job->corpus_count,
                       job->keys + i * job->pitch);
    }
}

REFERENCE_SCREEN(keys)

static kin_pair pair_of(const kin_screen_gpu_pair *pair)
{
    return (kin_pair){pair->key, pair->id, 0};
}

/* The first k of a row's list and of its keys; pairs: room for 2 k. */
static int32_t best_of(const kin_screen_gpu_best *job, int64_t row, kin_pair *pairs)
{
    int32_t count = job->count[row];
    bool full = count == job->k;
    for (int32_t i = 0; i < count; i++) {
        pairs[i] = pair_of(&job->pairs[row * job->pairs_pitch + i]);
    }
    for (int64_t c = 0; c < job->columns; c++) {
        const kin_pair pair = {job->keys[row * job->pitch + c], (uint32_t)(job->corpus0 + c), 0};
        const kin_pair after =
            job->after != NULL ? pair_of(&job->after[row * job->after_pitch]) : pair;
        if ((job->after != NULL && !kin_pair_less(&after, &pair)) ||
            (full && !kin_pair_less(&pair, &pairs[job->k - 1]))) {
            continue;
        }
        pairs[count++] = pair;
        if (count == 2 * job->k) {
            kin_select_sort_pairs(pairs, count);
            count = job->k;
            full = true;
        }
    }
    kin_select_sort_pairs(pairs, count);
    return count < job->k ? count : job->k;
}

static void body_best(const kin_screen_gpu_best *job)
{
    kin_pair *pairs = reference_room(2 * (int64_t)job->k, sizeof *pairs);
    for (int64_t row = 0; row < job->rows; row++) {
        job->count[row] = best_of(job, row, pairs);
        for (int32_t i = 0; i < job->count[row]; i++) {
            job->pairs[row * job->pairs_pitch + i] =
                (kin_screen_gpu_pair){pairs[i].key, pairs[i].id, 0};
        }
    }
    free(pairs);
}

static void best_body(const void *job)
{
    body_best(job);
}

int reference_screen_best(kin_gpu_stream *stream, const kin_screen_gpu_best *job)
{
    return job->k <= KIN_SCREEN_GPU_PASS_K ? reference_later(stream, best_body, job, sizeof *job)
                                           : REFERENCE_INVALID;
}

static void body_join(const kin_screen_gpu_join *job)
{
    for (int64_t i = 0; i < job->count; i++) {
        job->pairs[i] = (kin_screen_gpu_pair){.key = job->keys[i], .id = job->ids[i]};
    }
}

REFERENCE_SCREEN(join)

static void body_within(const kin_screen_gpu_within *job)
{
    for (int64_t row = 0; row < job->rows; row++) {
        for (int64_t c = 0; c < job->columns; c++) {
            const double key = job->keys[row * job->pitch + c];
            if (key <= job->most[row]) {
                const uint64_t place = (*job->count)++;
                if (place < (uint64_t)job->room) {
                    job->hits[place] = (kin_screen_gpu_hit){key, job->query0 + (uint32_t)row,
                                                            job->corpus0 + (uint32_t)c};
                }
            }
        }
    }
}

REFERENCE_SCREEN(within)
