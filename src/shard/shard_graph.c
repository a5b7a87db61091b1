/* SPDX-License-Identifier: Apache-2.0
 * Graphs from shards: the folder, the steps, and the result in pieces. */
#include "shard/shard_job.h"

#include "host/host_clock.h"

#include <inttypes.h>
#include <stdio.h>

enum { JOB_BYTES = 1024 };

/* What one call holds. */
typedef struct sharded {
    kin_shard_job job;
    kith_ctx *disk;
    kin_shard_folder folder;
    kin_shard_run run;
    kin_shard_result result;
    char *text;            /* what the lists and the result depend on */
    double seconds_sample; /* solving it */
    double seconds_group;  /* finding groups */
    double seconds_result;
} sharded;

/* ---- Progress ------------------------------------------------------------------------------- */

/* The caller's function hears the step before the phase. */
static int tell(void *arg, const char *phase, double done, double total)
{
    kin_shard_job *job = arg;
    char text[2 * KIN_SHARD_PHASE];
    (void)snprintf(text, sizeof text, "%s%s%.64s", job->phase, job->phase[0] != '\0' ? ": " : "",
                   phase);
    return job->progress(job->progress_arg, text, done, total);
}

static void begin_progress(kin_shard_job *job)
{
    kith_ctx_params *params = &job->ctx->params;
    job->progress = params->progress;
    job->progress_arg = params->progress_arg;
    if (job->progress != NULL) {
        params->progress = tell;
        params->progress_arg = job;
    }
}

/* ---- Whether all of a team have the same job ------------------------------------------------- */

/* An exact graph has the same bytes wherever its parts are computed. A descent's depend on how a
 * device rounds: GPUs of one model do so alike. */
static kith_status name_device(const kin_shard_job *job, const char **name)
{
    kin_shard_need need;
    *name = "any device";
    if (!job->descends) {
        return KITH_OK;
    }
    KIN_TRY(kin_shard_needs(job, job->shards, &need));
    *name = need.gpu_bytes > 0 && job->ctx->gpu != NULL ? job->ctx->gpu->info.name : "cpu";
    return KITH_OK;
}

static kith_status compare_jobs(const kin_shard_job *job, const char *text)
{
    const kith_shard_team *team = job->params.team;
    const char *device = NULL;
    char *lines = NULL;
    kith_status status = name_device(job, &device);
    KIN_KEEP(status, kin_alloc_text(job->ctx, &lines, "a job's text",
                                    "program kith %s (%s)\nshards %d\nk %" PRId64
                                    "\nmetric %s\n%scomputes on %s\n",
                                    kith_version(), kith_commit(), (int)job->shards, job->k,
                                    kith_metric_name(job->metric), text, device));
    status = kin_shard_agree(job->ctx, team, status);
    KIN_THEN(status, kin_shard_compare(job->ctx, team, lines));
    kin_free(job->ctx, lines);
    return status;
}

/* ---- Opening -------------------------------------------------------------------------------- */

static void describe_descent(const kin_shard_job *job, char *text, size_t room)
{
    const kith_descent_params *p = &job->descent;
    (void)snprintf(text, room,
                   "seed %" PRIu64 "\nrecall %.17g at %" PRId64 " of %" PRId64 " rows\n"
                   "rounds %" PRId32 "\ncandidates %" PRId32 "\nlist %" PRId32 "\n"
                   "updates %" PRId32 "\ndelta %.17g\nstart %d %.17g\ngroups %016" PRIx64 "\n",
                   p->seed, p->recall, p->recall_at, p->sample, p->rounds, p->candidates, p->list,
                   p->all_updates, p->delta, (int)p->start, p->start_share,
                   job->follows ? job->groups.checksum : 0);
}

static kith_status describe(sharded *s)
{
    const kin_shard_job *job = &s->job;
    const char *given = job->params.job != NULL ? job->params.job : "";
    const bool ends = given[0] == '\0' || given[strlen(given) - 1] == '\n';
    char way[JOB_BYTES] = "";
    if (job->descends) {
        describe_descent(job, way, sizeof way);
    } else if (job->filters) {
        (void)snprintf(way, sizeof way, "rule %d\nfilter %016" PRIx64 "\n", (int)job->filter.rule,
                       kin_filter_sum(&job->filter, job->points.rows, job->points.rows));
    }
    return kin_alloc_text(
        job->ctx, &s->text, "a journal", "way %s\ncols %" PRId32 "\ntype %s\nself %d\n%s%s%s",
        job->descends ? "descent" : "exact", job->points.cols, kith_dtype_name(job->points.dtype),
        (int)job->self, way, given, ends ? "" : "\n");
}

static bool leads(const sharded *s)
{
    return kin_shard_leads(s->job.params.team);
}

/* The number of groups says nothing of pairs. */
static int32_t pairs_found(const sharded *s)
{
    const bool restart = s->job.params.restart != 0 && leads(s);
    return restart || (s->job.descends && s->folder.found_groups) ? 0 : s->folder.found;
}

/* shards: that worker 0 has chosen, for the others. */
static kith_status open_folder(sharded *s, const char *path, int32_t shards)
{
    kin_shard_job *job = &s->job;
    job->folder = &s->folder;
    KIN_TRY(kin_shard_folder_open(job->ctx, path, !leads(s), &s->folder));
    return kin_shard_choose(job, leads(s) ? pairs_found(s) : shards);
}

/* What an approximate graph's job depends on, the sample and groups. */
static kith_status prepare(sharded *s)
{
    kin_shard_job *job = &s->job;
    const int32_t found = job->params.restart != 0 ? 0 : s->folder.found;
    int64_t start = kin_clock_ns();
    if (!job->descends) {
        return KITH_OK;
    }
    KIN_TRY(kin_shard_sample_make(job));
    s->seconds_sample = kin_clock_since(start);
    start = kin_clock_ns();
    if (kin_shard_may_follow(job) && (found == 0 || s->folder.found_groups)) {
        KIN_TRY(kin_shard_group(job, job->params.shards != 0 ? job->params.shards : found));
    }
    s->seconds_group = kin_clock_since(start);
    kin_free(job->ctx, s->text);
    return describe(s);
}

static kith_status begin_job(sharded *s)
{
    const kin_shard_job *job = &s->job;
    const kin_shard_shape shape = {.job = s->text,
                                   .metric = job->metric,
                                   .shards = job->shards,
                                   .rows = job->points.rows,
                                   .sizes = job->groups.sizes,
                                   .k = job->k,
                                   .own = job->descends && !job->follows};
    return kin_shard_folder_begin(&s->folder, &shape, leads(s) && job->params.restart != 0);
}

/* Worker 0 before the others; the sample together, once it is known that all have one job. */
static kith_status open_together(sharded *s, const char *path)
{
    kith_ctx *ctx = s->job.ctx;
    const kith_shard_team *team = s->job.params.team;
    KIN_TRY(kin_shard_agree(ctx, team, leads(s) ? open_folder(s, path, 0) : KITH_OK));
    int32_t shards = s->job.shards;
    KIN_TRY(kin_shard_tell(ctx, team, &shards, sizeof shards));
    kith_status status = leads(s) ? KITH_OK : open_folder(s, path, shards);
    KIN_KEEP(status, describe(s));
    KIN_TRY(kin_shard_agree(ctx, team, status));
    KIN_TRY(team != NULL ? compare_jobs(&s->job, s->text) : KITH_OK);
    KIN_TRY(kin_shard_agree(ctx, team, prepare(s)));
    KIN_TRY(kin_shard_agree(ctx, team, leads(s) ? begin_job(s) : KITH_OK));
    return team == NULL ? KITH_OK
                        : kin_shard_join(&s->folder, team, leads(s) ? KITH_OK : begin_job(s));
}

static void name_found(kin_layout *layout, void *arg)
{
    kin_shard_job *job = arg;
    const int64_t rows = kin_ceil_div(job->points.rows, job->shards);
    const int64_t sides = kin_min_i64(KIN_SHARD_SIDES, job->shards);
    const uint64_t entries = kin_size_mul((uint64_t)(sides * rows), (uint64_t)job->k);
    job->found_ids = kin_layout_array(layout, entries, sizeof *job->found_ids);
    job->found_keys = kin_layout_array(layout, entries, sizeof *job->found_keys);
}

static kith_status make_tables(sharded *s)
{
    kin_shard_job *job = &s->job;
    const kin_bounds_sets sets = kin_shard_bounds_sets(job, job->shards);
    KIN_TRY(kin_shard_make_ctx(job->ctx, 1, &s->disk));
    KIN_TRY(kin_bounds_make(job->ctx, &sets, &job->bounds.bounds));
    if (!job->follows) {
        KIN_TRY(
            kin_layout_make(job->ctx, name_found, job, "what two shards find", &job->found_block));
    }
    KIN_TRY(kin_shard_run_make(job->ctx, s->disk, &s->folder, &s->run));
    s->run.points = &job->points;
    s->run.mapped = job->params.mapped != 0;
    job->between = kin_shard_result_look;
    job->between_arg = &s->result;
    s->run.engine = kin_shard_engine_of(job);
    return KITH_OK;
}

/* ---- Solving -------------------------------------------------------------------------------- */

/* Waiting for lists is counted for itself. */
static kith_status write_result(sharded *s, bool *lost)
{
    const int64_t start = kin_clock_ns();
    const double waited = s->run.seconds_wait;
    KIN_TRY(kin_progress_close(s->job.ctx));
    s->job.phase[0] = '\0';
    const kith_status status = kin_shard_result_write(&s->result, lost);
    s->seconds_result += kin_clock_since(start) - (s->run.seconds_wait - waited);
    return status;
}

/* Steps until all stand and no file of theirs is found to be damaged when it is read; by a team the
 * first worker reads what all have written. */
static kith_status solve(sharded *s)
{
    kith_ctx *ctx = s->job.ctx;
    const kith_shard_team *team = s->job.params.team;
    for (bool lost = true; lost;) {
        KIN_TRY(team != NULL ? kin_shard_run_rounds(&s->run, team) : kin_shard_run_steps(&s->run));
        KIN_TRY(kin_shard_agree(ctx, team, leads(s) ? write_result(s, &lost) : KITH_OK));
        KIN_TRY(kin_shard_tell(ctx, team, &lost, sizeof lost));
    }
    return KITH_OK;
}

/* ---- The call ------------------------------------------------------------------------------- */

static void fill_report(const sharded *s, double seconds, kith_shard_report *report)
{
    const kin_shard_bounds *bounds = &s->job.bounds;
    kith_shard_report own = {
        .shards = s->job.shards,
        .exact = !s->job.descends,
        .rebuilt = s->folder.lost,
        .steps = s->job.follows ? s->job.shards : kin_shard_steps(s->job.shards),
        .steps_stood = s->run.steps_stood,
        .seconds_total = seconds,
        .seconds_compute = s->seconds_sample + s->seconds_group + s->run.seconds_compute,
        .seconds_wait = s->run.seconds_wait + s->run.seconds_rows,
        .seconds_result = s->seconds_result,
        .bytes_read = s->folder.bytes_read,
        .bytes_written = s->folder.bytes_written,
        .peak_bytes = atomic_load(&s->job.ctx->peak_bytes),
        .gpu_peak_bytes = s->job.ctx->report.gpu_peak_bytes,
        .recall = s->result.recall,
        .groups = s->job.follows ? s->job.shards : 0,
        .groups_cover = s->job.groups.cover,
        .groups_wanted = s->job.groups.wanted,
        .groups_overlap = s->job.groups.overlap,
        .seconds_sample = s->seconds_sample,
        .seconds_group = s->seconds_group,
        .seconds_rows = s->run.seconds_rows,
        .seconds_check = s->job.seconds_check,
        .parts = kin_shard_result_parts(&s->result),
        .pairs_met = bounds->met,
        .pairs_skipped = bounds->skipped,
        .rows_skipped = bounds->rows > 0.0 ? bounds->left_out / bounds->rows : 0.0};
    if (!s->result.opening.started) { /* else a thread may be at it */
        own.points = s->result.meta.points;
    }
    if (s->folder.met != NULL) {
        own.steps_done = kin_shard_count_done(&s->folder);
    }
    kin_fill_room(report, &own, sizeof own);
}

static void release(sharded *s)
{
    kith_ctx *ctx = s->job.ctx;
    kin_shard_result_end(&s->result);
    (void)kin_shard_follow_end(&s->job);
    kin_shard_run_free(&s->run);
    kin_shard_folder_close(&s->folder);
    kin_bounds_free(s->job.ctx, &s->job.bounds.bounds);
    kin_shard_group_free(&s->job);
    kin_shard_sample_free(&s->job);
    kin_free(ctx, s->job.pair_rows);
    kin_free(ctx, s->job.found_block);
    kin_free(ctx, s->text);
    kith_ctx_free(s->disk);
}

static kith_status graph_shards(sharded *s, const char *folder)
{
    const kith_shard_team *team = s->job.params.team;
    KIN_TRY(open_together(s, folder));
    kith_status status = make_tables(s);
    if (status == KITH_OK && leads(s)) {
        s->result.job = &s->job;
        s->result.run = &s->run;
        s->result.text = s->text;
        status = kin_shard_result_begin(&s->result);
    }
    KIN_TRY(kin_shard_agree(s->job.ctx, team, status));
    begin_progress(&s->job);
    status = solve(s);
    (void)kin_progress_end(s->job.ctx, status);
    s->job.ctx->params.progress = s->job.progress;
    s->job.ctx->params.progress_arg = s->job.progress_arg;
    if (status == KITH_OK && s->job.params.keep == 0 && leads(s)) {
        kin_shard_folder_empty(&s->folder);
    }
    return status;
}

static kith_status run(kith_ctx *ctx, const kith_matrix *points, const kith_shard_params *params,
                       const char *folder, const char *path, kith_shard_report *report)
{
    sharded s = {.result = {.path = path}, .folder = {.file = -1, .journal = {.file = -1}}};
    const int64_t start = kin_clock_ns();
    KIN_TRY(kin_check_room(ctx, report, "report", "kith_shard_report"));
    KIN_REFUSE_IF(folder == NULL || path == NULL, ctx, folder == NULL ? "folder" : "path",
                  "is NULL (give a path)");
    kith_status status = kin_shard_check(ctx, points, params, &s.job);
    KIN_TRY(kin_shard_agree(ctx, s.job.params.team, status));
    status = graph_shards(&s, folder);
    if (report != NULL && s.job.shards > 0) {
        fill_report(&s, kin_clock_since(start), report);
    }
    ctx->report.exact = status != KITH_OK ? KITH_EXACTNESS_UNKNOWN
                        : s.job.descends  ? KITH_APPROXIMATE
                                          : KITH_CERTIFIED;
    release(&s);
    return status;
}

kith_status kith_graph_shards(kith_ctx *ctx, const kith_matrix *points,
                              const kith_shard_params *params, const char *folder, const char *path,
                              kith_shard_report *report)
{
    KIN_CALL(ctx, run(ctx, points, params, folder, path, report));
}
