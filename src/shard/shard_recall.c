/* SPDX-License-Identifier: Apache-2.0
 * The recall of an approximate graph from shards: rows of a sample are solved exactly against one
 * shard after another. What the lists of the sample have is noted while they are in memory. */
#include "shard/shard_job.h"

#include <float.h>
#include <math.h>

enum { USUAL_SAMPLE = 1000, USUAL_AT = 10 };

void kin_shard_sample_free(kin_shard_job *job)
{
    kin_free(job->ctx, job->sample.block);
    memset(&job->sample, 0, sizeof job->sample);
}

void kin_shard_sample_note(kin_shard_job *job, const kin_shard_part *part)
{
    kin_shard_sample *s = &job->sample;
    for (int64_t i = 0; i < s->count; i++) {
        const int64_t row = (int64_t)s->rows[i] - part->first;
        if (row >= 0 && row < part->rows) {
            memcpy(s->found + i * s->at, part->lists.keys + row * job->k,
                   (size_t)s->at * sizeof *s->found);
        }
    }
    s->noted[part->shard] = 1;
}

void kin_shard_sample_note_distances(kin_shard_job *job, int64_t at, const float *distances)
{
    kin_shard_sample *s = &job->sample;
    for (int64_t i = 0; i < s->at; i++) {
        s->found[at * s->at + i] = (double)distances[i];
    }
}

/* As the sample has it: keys, or of groups, whose files have no others, distances of the result. */
static double as_noted(const kin_shard_job *job, double key)
{
    float distance = 0.0F;
    if (!job->follows) {
        return key;
    }
    kin_shard_to_distances(job, &key, 1, &distance);
    return (double)distance;
}

static kith_status note_part(void *arg, const kin_shard_part *part)
{
    kin_shard_sample_note(arg, part);
    return KITH_OK;
}

/* ---- The truth ------------------------------------------------------------------------------ */

static bool is_before(double key, uint32_t id, double other, uint32_t other_id)
{
    return key < other || (key == other && id < other_id);
}

/* One neighbour into a list that ascends by (key, id), whatever came before. */
static void insert(kin_shard_sample *s, int64_t row, double key, uint32_t id)
{
    double *keys = s->truth + row * s->at;
    uint32_t *ids = s->truth_ids + row * s->at;
    int64_t i = s->at - 1;
    if (!is_before(key, id, keys[i], ids[i])) {
        return;
    }
    for (; i > 0 && is_before(key, id, keys[i - 1], ids[i - 1]); i--) {
        keys[i] = keys[i - 1];
        ids[i] = ids[i - 1];
    }
    keys[i] = key;
    ids[i] = id;
}

/* The sample against the rows of one shard, one more than `at` where the own row may be there. */
static kith_status solve_shard(kin_shard_job *job, const kin_shard_part *part,
                               const kith_matrix *queries, const kith_neighbors *room)
{
    kin_shard_sample *s = &job->sample;
    const kith_matrix rows = kin_shard_rows_of(job, part);
    kith_search_params params = kith_search_params_default();
    kith_neighbors near = *room;
    near.k = kin_min_i64(s->at + 1, part->rows);
    params.metric = job->descent.metric;
    params.k = near.k;
    KIN_TRY(kin_shard_note(job, kith_search(job->ctx, &rows, queries, &params, &near, NULL), part));
    for (int64_t i = 0; i < s->count; i++) {
        for (int64_t j = 0; j < near.k; j++) {
            const uint32_t id = (uint32_t)part->first + near.ids[i * near.k + j];
            const double distance = near.distances64[i * near.k + j];
            if (id != s->rows[i] || job->self) {
                insert(s, i, job->metric == KITH_INNER_PRODUCT ? -distance : distance, id);
            }
        }
    }
    return KITH_OK;
}

static kith_status solve_sample(kin_shard_job *job)
{
    kin_shard_sample *s = &job->sample;
    const kith_shard_team *team = job->params.team;
    const uint64_t entries = kin_size_mul((uint64_t)s->count, (uint64_t)s->at + 1);
    const char *what = "lists of the sample";
    kith_neighbors room = {.rows = s->count}; /* what they find in one shard */
    kith_matrix queries;
    KIN_HOLD(hold, job->ctx);
    KIN_TRY(kin_hold_rows(&hold, &job->points, s->rows, s->count, what, &queries));
    KIN_NEW(&hold, room.ids, entries, what);
    KIN_NEW(&hold, room.distances64, entries, what);
    for (int64_t i = 0; i < s->count * s->at; i++) {
        s->truth[i] = INFINITY;
        s->truth_ids[i] = s->rows[i / s->at];
    }
    for (int32_t shard = team != NULL ? team->worker : 0; shard < job->shards;
         shard += team != NULL ? team->workers : 1) {
        const kin_shard_part part = {.shard = shard,
                                     .first = kin_shard_first(job->points.rows, job->shards, shard),
                                     .rows = kin_shard_rows(job->points.rows, job->shards, shard)};
        KIN_TRY(solve_shard(job, &part, &queries, &room));
        kin_shard_return(job, part.first, part.rows);
    }
    return KITH_OK;
}

/* One worker's lists, as they are before others' are taken in. */
typedef struct told {
    double *keys;
    uint32_t *ids;
} told;

static kith_status make_told(kin_hold *hold, uint64_t entries, told *lists)
{
    KIN_NEW(hold, lists->keys, entries, "workers' lists");
    KIN_NEW(hold, lists->ids, entries, "workers' lists");
    return KITH_OK;
}

static kith_status take_from(kin_shard_job *job, int32_t worker, const told *own, const told *heard)
{
    const kith_shard_team *team = job->params.team;
    const int64_t entries = job->sample.count * job->sample.at;
    const uint64_t key_bytes = (uint64_t)entries * sizeof *own->keys;
    const uint64_t id_bytes = (uint64_t)entries * sizeof *own->ids;
    if (worker == team->worker) {
        KIN_TRY(kin_shard_tell_from(job->ctx, team, worker, own->keys, key_bytes));
        return kin_shard_tell_from(job->ctx, team, worker, own->ids, id_bytes);
    }
    KIN_TRY(kin_shard_tell_from(job->ctx, team, worker, heard->keys, key_bytes));
    KIN_TRY(kin_shard_tell_from(job->ctx, team, worker, heard->ids, id_bytes));
    for (int64_t i = 0; i < entries; i++) {
        insert(&job->sample, i / job->sample.at, heard->keys[i], heard->ids[i]);
    }
    return KITH_OK;
}

/* What each worker of a team has found in its shards, into the lists of all. */
static kith_status share_truth(kin_shard_job *job, kith_status status)
{
    const kin_shard_sample *s = &job->sample;
    const kith_shard_team *team = job->params.team;
    const uint64_t entries = (uint64_t)(s->count * s->at);
    told own = {0}; /* the worker's, and those that it hears of */
    told heard = {0};
    KIN_HOLD(hold, job->ctx);
    if (team == NULL) {
        return status;
    }
    KIN_THEN(status, make_told(&hold, entries, &own));
    KIN_THEN(status, make_told(&hold, entries, &heard));
    if (status == KITH_OK) {
        memcpy(own.keys, s->truth, (size_t)entries * sizeof *s->truth);
        memcpy(own.ids, s->truth_ids, (size_t)entries * sizeof *s->truth_ids);
    }
    KIN_KEEP(status, kin_shard_agree(job->ctx, team, status));
    for (int32_t i = 0; i < team->workers && status == KITH_OK; i++) {
        status = take_from(job, i, &own, &heard);
    }
    return status;
}

static void name_sample(kin_layout *layout, void *arg)
{
    kin_shard_job *job = arg;
    kin_shard_sample *s = &job->sample;
    const uint64_t entries = kin_size_mul((uint64_t)s->count, (uint64_t)s->at);
    s->noted = kin_layout_zeros(layout, (uint64_t)job->shards, 1);
    s->rows = kin_layout_array(layout, (uint64_t)s->count, sizeof *s->rows);
    s->found = kin_layout_array(layout, entries, sizeof *s->found);
    s->truth = kin_layout_array(layout, entries, sizeof *s->truth);
    s->truth_ids = kin_layout_array(layout, entries, sizeof *s->truth_ids);
}

kith_status kin_shard_sample_make(kin_shard_job *job)
{
    kin_shard_sample *s = &job->sample;
    const bool asks = kin_shard_may_follow(job); /* whether groups would do */
    const int64_t given = job->descent.sample;
    const int64_t wanted = given > 0 ? given : given == 0 || asks ? USUAL_SAMPLE : 0;
    s->told = given >= 0;
    s->count = kin_min_i64(wanted, job->points.rows);
    s->at = job->descent.recall_at != 0 ? job->descent.recall_at
                                        : kin_min_i64((int64_t)USUAL_AT, job->k);
    kith_status status =
        kin_layout_make(job->ctx, name_sample, job, "lists of the sample", &s->block);
    if (s->count == 0) {
        return status;
    }
    if (status == KITH_OK) {
        kin_recall_draw(job->points.rows, s->count, job->descent.seed + 1, s->rows);
        status = solve_sample(job);
    }
    return share_truth(job, status);
}

/* ---- The estimate --------------------------------------------------------------------------- */

/* A found neighbour counts when it is at most as far as the true K-th. */
void kin_shard_estimate(const kin_shard_job *job, kith_recall *recall)
{
    const kin_shard_sample *s = &job->sample;
    kin_recall_sums sums = {0};
    *recall = (kith_recall){.at = s->at};
    if (s->count == 0 || !s->told) {
        return;
    }
    for (int64_t i = 0; i < s->count; i++) {
        const double last = fmin(as_noted(job, s->truth[(i + 1) * s->at - 1]), DBL_MAX);
        kin_recall_add_row(&sums, s->found + i * s->at, s->at, last);
    }
    kin_recall_interval(&sums, s->count == job->points.rows, recall);
}

kith_status kin_shard_recall(kin_shard_job *job, kin_shard_run *run, kith_recall *recall,
                             bool *lost)
{
    const kin_shard_sample *s = &job->sample;
    *lost = false;
    bool all = job->params.team == NULL; /* or others merge into what was noted here */
    for (int32_t i = 0; i < job->shards; i++) {
        all = all && s->noted[i] != 0;
    }
    if (!all && s->count > 0 && s->told) {
        KIN_TRY(kin_shard_each(run, note_part, job, lost));
    }
    if (!*lost) {
        kin_shard_estimate(job, recall);
    }
    return KITH_OK;
}
