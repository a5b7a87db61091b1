/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A chunk of rows is asked for all neighbours within the radius that stand behind them, by
 * whatever engine and device a radius search takes. Where all rows are one chunk each unordered
 * pair is compared once, as in a graph; so they are asked where counts alone are wanted, and where
 * by a sample all pairs will find room.
 *
 *      rows i          base ... first ... last |      of two sets: all of the others
 *      against         base .................... n
 *                      \_ dropped __/
 *
 * Cost. The rows from base on are prepared once for all chunks, and again from the present chunk on
 * when half of them lie before it: some 2/3 of all ordered pairs are compared, for at most twice
 * the preparation of all rows; the last chunk is a graph of its own. Where a tree may answer each
 * chunk prepares the rows from its first one on, with eight chunks for 9/16 of the pairs; where it
 * did answer, the next chunk has all rows that are left, as far as its pairs find room.
 *
 * A file goes on where it was left, so that no chunk of one is to take many minutes.
 *
 * Memory. A chunk has room for a number of neighbours. Where there are more, or memory runs out,
 * what was found is forgotten and half of its rows are asked; one row alone takes what it needs.
 * The next chunk has as many rows as will fill half of the room at the rate of the last one.
 *
 * Why it is right. A canonical distance is that of its pair, whatever else is compared with, and
 * ids keep their order in a view: no chunk can change a pair or its place. */
#include "engine/engine_exact.h"

#include "engine/engine_filter.h"
#include "exact/exact_answer_gpu.h"
#include "file/file_stream.h"
#include "host/host_threads.h"
#include "recall/recall.h"

#include <string.h>

/* Of a chunk: hits and lists (exact_search.h), ids of i. */
enum { PAIR_BYTES = 36, LEAST_PAIRS = 4096, MOST_PAIRS = 1 << 22 };
enum { PARTS = 8, LEAST_ROWS = 2048, MOST_GROWTH = 8, USUAL_SAMPLE = 1000, SAMPLE_SHARE = 64 };
static const double MOST_SECONDS = 300.0; /* of a file's chunk, by careful rates */

/* ---- Chunks --------------------------------------------------------------------------------- */

typedef struct run {
    kith_ctx *ctx;
    const kin_pairs_job *job;
    kith_pairs_report *report;
    kin_components components;
    int64_t first; /* row of the chunk */
    int64_t rows;  /* of the chunk */
    int64_t room;  /* pairs */
    int64_t base;  /* row with which the corpus begins */
    bool keeps;    /* the corpus may be prepared for all chunks */
    kin_radius_job radius;
    bool by_tree; /* the last chunk was answered by the tree */
    bool stopped;
} run;

static int64_t room_of(const kith_ctx *ctx, const kin_pairs_job *job)
{
    const uint64_t limit = ctx->params.memory_limit;
    const uint64_t held = atomic_load(&ctx->held_bytes);
    if (job->params.chunk_pairs > 0) {
        return job->params.chunk_pairs;
    }
    if (limit == 0) {
        return MOST_PAIRS;
    }
    const int64_t fit = limit > held ? (int64_t)((limit - held) / 2 / PAIR_BYTES) : 0;
    return kin_max_i64(LEAST_PAIRS, kin_min_i64(fit, MOST_PAIRS));
}

/* ---- One chunk ------------------------------------------------------------------------------ */

static kin_radius_job radius_of(const kin_pairs_job *job, const kith_matrix *queries,
                                kith_matrix corpus)
{
    return (kin_radius_job){
        .corpus = corpus,
        .queries = queries,
        .request = {.distance = job->distance, .radius = job->params.radius, .count_only = true},
        .method = job->params.method};
}

static kith_status search(kith_ctx *ctx, const kin_radius_job *job, kith_ranges *ranges)
{
    KIN_CALL(ctx, kin_engine_radius(ctx, job, ranges));
}

static kith_status keep(kith_ctx *ctx, kin_radius_job *job)
{
    KIN_CALL(ctx, kin_engine_radius_keep(ctx, job, &job->kept));
}

static bool is_kept(const run *r)
{
    return r->radius.kept.resident != NULL || r->radius.kept.prepared != NULL;
}

/* What the chunk is asked against: of one set begun anew where half of it lies behind, and for all
 * rows that are left, which are a graph. */
static kith_status set_corpus(run *r)
{
    const kith_matrix *others = &r->job->others;
    const int64_t first = r->job->one_set ? r->first : 0;
    const bool is_graph = first > r->base && r->rows >= others->rows - first;
    if (is_kept(r) && !is_graph && 2 * (first - r->base) <= others->rows - r->base) {
        return KITH_OK;
    }
    kin_engine_radius_drop(r->ctx, &r->radius.kept);
    r->base = first;
    r->radius = radius_of(r->job, r->job->one_set ? NULL : &r->job->points,
                          kin_matrix_part(others, first, others->rows - first));
    if (r->keeps) {
        KIN_TRY(keep(r->ctx, &r->radius));
        r->keeps = is_kept(r);
    }
    return KITH_OK;
}

static kith_status ask(run *r, kith_ranges *ranges)
{
    const kith_matrix queries = kin_matrix_part(&r->job->points, r->first, r->rows);
    kin_radius_job radius = r->radius;
    radius.queries = r->job->one_set && r->rows == radius.corpus.rows ? NULL : &queries;
    radius.request.later_alone = r->job->one_set;
    radius.request.own_row = r->first - r->base;
    radius.request.count_only = false;
    radius.request.most = r->rows > 1 ? r->room : 0;
    kin_call call;
    KIN_TRY(kin_call_begin(r->ctx, &call));
    const kith_status status = kin_call_end(&call, kin_engine_radius(r->ctx, &radius, ranges));
    r->by_tree = strcmp(call.report.screen, "tree") == 0;
    if (r->radius.kept.resident != NULL && strcmp(call.report.backend, "cpu") == 0) {
        kin_engine_radius_drop(r->ctx, &r->radius.kept); /* of a GPU that was left */
    }
    return status;
}

/* Half of the rows, as often as there is no room for what they find. */
static kith_status ask_what_fits(run *r, kith_ranges *ranges)
{
    kith_status status = ask(r, ranges);
    while ((status == KITH_E_LIMIT || status == KITH_E_MEMORY) && r->rows > 1) {
        kin_ranges_clear(r->ctx, ranges);
        kin_forgive(r->ctx);
        r->rows /= 2;
        r->report->divided += 1;
        status = ask(r, ranges);
    }
    return status;
}

static bool is_pair(const kin_pairs_job *job, uint32_t i, uint32_t j)
{
    const kith_filter *filter = &job->filter;
    const int64_t *numbers = job->one_set ? filter->groups : filter->query_groups;
    return !job->filters || (kin_filter_admits(filter, numbers, i, j) &&
                             (!job->one_set || kin_filter_allows(filter, j, i)));
}

/* The lists become pairs, in their place; i: room for the ids of rows. How many. */
static int64_t settle(run *r, const kith_lists *lists, uint32_t *i)
{
    const uint32_t moved = (uint32_t)r->base;
    const int64_t limit = r->job->params.limit;
    int64_t count = 0;
    for (int64_t row = 0; row < lists->rows; row++) {
        const uint32_t id = (uint32_t)(r->first + row);
        for (int64_t at = lists->offsets[row]; at < lists->offsets[row + 1]; at++) {
            const uint32_t other = lists->ids[at] + moved;
            if (!is_pair(r->job, id, other)) {
                continue;
            }
            if (limit > 0 && r->report->count + count == limit) {
                r->stopped = true;
                r->report->next_row = id;
                return count;
            }
            i[count] = id;
            lists->ids[count] = other;
            lists->distances64[count++] = lists->distances64[at];
        }
    }
    r->report->next_row = r->first + lists->rows;
    return count;
}

/* To all who ask for pairs but the file. */
static kith_status hand_over(run *r, const kith_pairs *pairs, const double *distances)
{
    const kith_pairs_params *params = &r->job->params;
    KIN_TRY(kin_components_add(r->ctx, &r->components, pairs));
    r->report->chunks += 1;
    r->report->largest_chunk = kin_max_i64(r->report->largest_chunk, pairs->count);
    if (params->take != NULL && pairs->count > 0 &&
        params->take(params->take_arg, pairs, distances) != 0) {
        r->stopped = true;
    }
    return KITH_OK;
}

static kith_status tell(run *r, const kith_lists *lists)
{
    const int64_t entries = lists->offsets[lists->rows];
    uint32_t *i = NULL;
    KIN_HOLD(hold, r->ctx);
    KIN_NEW(&hold, i, (uint64_t)entries, "pairs");
    const int64_t count = settle(r, lists, i);
    const kith_pairs pairs = {.count = count, .query_ids = i, .corpus_ids = lists->ids};
    if (r->job->file != NULL) {
        KIN_TRY(kin_pairs_file_put(r->job->file, &pairs, lists->distances64, r->report->next_row));
    }
    r->report->count += count;
    return hand_over(r, &pairs, lists->distances64);
}

/* What an earlier run of the job has left in the file is told first. */
static kith_status tell_again(run *r)
{
    kin_pairs_file *file = r->job->file;
    kith_status status = KITH_OK;
    for (bool more = file != NULL; more && status == KITH_OK && !r->stopped;) {
        kin_pairs_room chunk;
        status = kin_pairs_file_again(file, &chunk, &more);
        if (status == KITH_OK && more) {
            const kith_pairs pairs = {
                .count = chunk.count, .query_ids = chunk.i, .corpus_ids = chunk.j};
            r->report->count += chunk.count;
            r->report->resumed += chunk.count;
            r->first = r->report->next_row = file->next_row;
            status = hand_over(r, &pairs, chunk.distances);
        }
        kin_pairs_room_free(r->ctx, &chunk);
    }
    return status;
}

/* ---- The plan ------------------------------------------------------------------------------- */

/* Counts of the sample's rows among the others; of one set without themselves: who is within the
 * radius of itself, a graph of the sample tells, with and without. */
typedef struct counted {
    kith_ranges among;
    kith_ranges with;
    kith_ranges without;
} counted;

static kith_status count_sample(kith_ctx *ctx, const kin_pairs_job *job, const kith_matrix *sample,
                                const kin_radius_kept *kept, counted *c)
{
    kin_radius_job radius = radius_of(job, sample, job->others);
    radius.kept = *kept;
    KIN_TRY(search(ctx, &radius, &c->among));
    if (!job->one_set) {
        return KITH_OK;
    }
    radius = radius_of(job, NULL, *sample);
    KIN_TRY(search(ctx, &radius, &c->with));
    radius.request.leaves_self_out = true;
    return search(ctx, &radius, &c->without);
}

static int64_t count_of(const kith_ranges *ranges, int64_t row)
{
    const int64_t *offsets = ranges->lists.offsets;
    return offsets != NULL ? offsets[row + 1] - offsets[row] : 0;
}

/* Of the sum over rows, as if one row more had been seen that had one neighbour more: where no row
 * has any, the interval is no point. */
static void estimate(const kin_pairs_job *job, const counted *c, kith_pairs_plan *plan)
{
    const double rows = (double)plan->sample;
    const double all = (double)job->points.rows;
    double sum = 0.0;
    double squares = 0.0;
    for (int64_t i = 0; i < plan->sample; i++) {
        const int64_t count =
            count_of(&c->among, i) - count_of(&c->with, i) + count_of(&c->without, i);
        plan->most_of_a_row = kin_max_i64(plan->most_of_a_row, count);
        sum += (double)count;
        squares += (double)count * (double)count;
    }
    const double times = all / rows / (job->one_set ? 2.0 : 1.0);
    const double spread = fmax(0.0, squares - sum * sum / rows) + 1.0;
    const double left = (all - rows) / all;
    const double half = 1.96 * sqrt(spread * rows / fmax(1.0, rows - 1.0) * left);
    plan->pairs = sum * times;
    plan->low = fmax(0.0, sum - half) * times;
    plan->high = (sum + half) * times;
}

/* kept: of the others. */
static void give_counted(void *ctx, void *of)
{
    counted *c = of;
    kin_ranges_clear(ctx, &c->without);
    kin_ranges_clear(ctx, &c->with);
    kin_ranges_clear(ctx, &c->among);
}

static kith_status plan_pairs(kith_ctx *ctx, const kin_pairs_job *job, const kin_radius_kept *kept,
                              kith_pairs_plan *plan)
{
    const kith_matrix *points = &job->points;
    const int64_t wanted = job->params.sample > 0 ? job->params.sample : USUAL_SAMPLE;
    uint32_t *ids = NULL;
    kith_matrix sample;
    counted c = {0};
    KIN_HOLD(hold, ctx);
    kin_hold_take(&hold, give_counted, ctx, &c);
    plan->sample = kin_min_i64(wanted, points->rows);
    plan->chunk_bytes = kin_size_mul((uint64_t)room_of(ctx, job), PAIR_BYTES);
    KIN_NEW(&hold, ids, (uint64_t)plan->sample, "a sample");
    kin_recall_draw(points->rows, plan->sample, job->params.seed, ids);
    KIN_TRY(kin_hold_rows(&hold, points, ids, plan->sample, "a sample", &sample));
    KIN_TRY(count_sample(ctx, job, &sample, kept, &c));
    estimate(job, &c, plan);
    return KITH_OK;
}

kith_status kin_engine_pairs_plan(kith_ctx *ctx, const kin_pairs_job *job, kith_pairs_plan *plan)
{
    const kin_radius_kept none = {.resident = NULL};
    return plan_pairs(ctx, job, &none, plan);
}

/* ---- All chunks ----------------------------------------------------------------------------- */

/* Rows that a chunk may have. */
static int64_t most_rows(const run *r)
{
    const kin_pairs_job *job = r->job;
    const int64_t rows = job->points.rows;
    const kin_device_seconds all = kin_device_seconds_of_pairs(
        r->ctx, &job->distance, (double)rows * (double)job->others.rows);
    const double share = MOST_SECONDS / (r->radius.kept.resident != NULL ? all.gpu : all.cpu);
    double most = (double)rows;
    if (job->file != NULL && !r->by_tree && share < 1.0) {
        most *= share;
    }
    if (job->one_set && !r->by_tree && !is_kept(r)) {
        most = fmin(most, (double)kin_ceil_div(rows, PARTS));
    }
    return kin_min_i64(rows, kin_max_i64(LEAST_ROWS, (int64_t)most));
}

/* Of one set whose corpus is kept: all rows that are left, if their pairs will find room by a
 * sample of them; else as many as will fill half of it, where a row has twice the pairs of the mean
 * since all others are still behind it. A distance of the caller's is asked for pairs alone, and
 * where there is no memory for a sample its rows are divided as they come. */
static kith_status foresee(const run *r, int64_t *rows)
{
    kin_pairs_job left = *r->job;
    kith_pairs_plan plan = {.struct_size = sizeof plan};
    const int64_t limit = r->job->params.limit;
    const double room = (double)(limit > 0 ? kin_min_i64(r->room, limit) : r->room);
    *rows = r->radius.corpus.rows;
    if ((double)*rows * (double)(*rows - 1) / 2.0 <= room) {
        return KITH_OK;
    }
    left.points = left.others = r->radius.corpus;
    left.params.sample = kin_max_i64(1, kin_min_i64(USUAL_SAMPLE, *rows / SAMPLE_SHARE));
    r->ctx->progress_part = "sample"; /* phases of a part would say that the job is nearly done */
    const kith_status status = r->job->distance.metric == KITH_CUSTOM
                                   ? KITH_E_LIMIT
                                   : plan_pairs(r->ctx, &left, &r->radius.kept, &plan);
    r->ctx->progress_part = NULL;
    if (status == KITH_E_LIMIT || status == KITH_E_MEMORY) {
        kin_forgive(r->ctx);
        *rows = kin_ceil_div(*rows, PARTS);
        return KITH_OK;
    }
    if (status == KITH_OK && plan.high > room) {
        *rows = kin_max_i64(1, (int64_t)((double)*rows * (room / 4.0 / plan.high)));
    }
    return status;
}

static kith_status first_rows(run *r)
{
    const kin_pairs_job *job = r->job;
    r->rows = job->params.chunk_rows > 0 ? job->params.chunk_rows : job->points.rows;
    KIN_TRY(set_corpus(r));
    if (job->params.chunk_rows == 0) {
        if (job->one_set && is_kept(r)) {
            KIN_TRY(foresee(r, &r->rows));
        }
        r->rows = kin_min_i64(r->rows, most_rows(r));
    }
    return KITH_OK;
}

/* Rows of the next chunk, by what the last one found. */
static int64_t grow(const run *r, int64_t found)
{
    const double rate = (double)r->room / 2.0 / (double)kin_max_i64(found, 1);
    const double wanted = (double)r->rows * (rate < MOST_GROWTH ? rate : MOST_GROWTH);
    const int64_t most = most_rows(r);
    return kin_max_i64(1, wanted < (double)most ? (int64_t)wanted : most);
}

static kith_status run_chunk(run *r)
{
    kith_ranges ranges = {0};
    KIN_TRY(set_corpus(r));
    kith_status status = ask_what_fits(r, &ranges);
    const int64_t rows = r->rows;
    if (status == KITH_OK) {
        const int64_t found = ranges.lists.offsets[rows];
        status = tell(r, &ranges.lists);
        r->rows = grow(r, found);
    }
    kin_ranges_clear(r->ctx, &ranges);
    r->first += rows;
    r->report->chunk_rows = r->rows;
    return status;
}

static kith_status run_all(run *r)
{
    const int64_t rows = r->job->points.rows;
    KIN_TRY(tell_again(r));
    if (r->first < rows && !r->stopped) {
        KIN_TRY(first_rows(r));
    }
    while (r->first < rows && !r->stopped) {
        r->rows = kin_min_i64(r->rows, rows - r->first);
        KIN_TRY(run_chunk(r));
    }
    r->report->complete = !r->stopped;
    return KITH_OK;
}

/* ---- Counts alone --------------------------------------------------------------------------- */

static bool counts_alone(const kin_pairs_job *job)
{
    const kith_pairs_params *params = &job->params;
    return job->file == NULL && params->take == NULL && params->labels == NULL &&
           params->kept == NULL && params->limit == 0 && !job->filters;
}

/* No lists are held: all rows are one chunk. */
static kith_status count_all(run *r)
{
    const kin_pairs_job *job = r->job;
    const int64_t left = job->points.rows - r->first;
    const kith_matrix queries = kin_matrix_part(&job->points, r->first, left);
    kin_radius_job radius =
        radius_of(job, job->one_set ? NULL : &queries, job->one_set ? queries : job->others);
    kith_ranges ranges = {0};
    radius.request.later_alone = job->one_set;
    const kith_status status = left > 0 ? search(r->ctx, &radius, &ranges) : KITH_OK;
    if (status == KITH_OK) {
        r->report->count += left > 0 ? ranges.lists.offsets[left] : 0;
        r->report->chunks += left > 0;
        r->report->next_row = job->points.rows;
        r->report->complete = 1;
    }
    kin_ranges_clear(r->ctx, &ranges);
    return status;
}

kith_status kin_engine_pairs(kith_ctx *ctx, const kin_pairs_job *job, kith_pairs_report *report)
{
    run r = {
        .ctx = ctx, .job = job, .report = report, .first = job->params.first_row, .keeps = true};
    r.report->next_row = r.first;
    KIN_TRY(kin_components_begin(ctx, job, &r.components));
    r.room = room_of(ctx, job);
    const kith_status status = counts_alone(job) ? count_all(&r) : run_all(&r);
    kin_engine_radius_drop(ctx, &r.radius.kept);
    kin_components_end(ctx, &r.components);
    return status;
}
