/* SPDX-License-Identifier: Apache-2.0
 * A search whose corpus is divided among processes: each finds the nearest of its own rows for all
 * queries, and the first one merges the lists.
 *
 * Idea. A row's k nearest are among the k nearest of each part. Lists are ascending by key, then by
 * id. The canonical distance is the key itself, or its negative (inner_product); but a euclidean
 * one is the root of it, in which different keys may be the same number: then the parts are asked
 * for squares, and roots are taken of what is merged. Parts are ascending by id, so that of equal
 * keys the first part's comes first. */
#include "cli.h"
#include "cli_part.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lists of all parts that are brought together at a time. */
static const uint64_t merge_bytes = (uint64_t)64 << 20;

/* Lists of some queries, of one part, or of all side by side. */
typedef struct lists {
    uint32_t *ids;
    double *distances;
} lists;

static int allocate_lists(const cli_job *job, lists *l, uint64_t entries)
{
    const bool fits = entries > 0 && entries <= SIZE_MAX / sizeof *l->distances;
    l->ids = fits ? malloc(entries * sizeof *l->ids) : NULL;
    l->distances = fits ? malloc(entries * sizeof *l->distances) : NULL;
    CLI_PASS_IF(l->ids != NULL && l->distances != NULL, job->corpus.path,
                "no memory for %" PRIu64 " neighbours (take a smaller k)", entries);
}

static void free_lists(lists *l)
{
    free(l->ids);
    free(l->distances);
}

/* How many neighbours a list of a part has. */
static int64_t length_of(const cli_job *job, int32_t worker)
{
    const int64_t rows = cli_part_first(job, worker + 1) - cli_part_first(job, worker);
    return job->args->k < rows ? job->args->k : rows;
}

/* The command's words for one part. */
static cli_args words_of_part(const cli_job *job)
{
    cli_args args = *job->args;
    args.k = length_of(job, args.team->shards.worker);
    args.metric = cli_job_metric(job);
    if (args.metric == KITH_EUCLIDEAN) {
        args.metric = KITH_SQEUCLIDEAN;
    }
    return args;
}

/* ---- Before --------------------------------------------------------------------------------- */

static int plan(cli_job *job)
{
    const cli_args *args = job->args;
    const cli_args part = words_of_part(job);
    const int64_t rows = job->part.corpus->rows;
    CLI_TRY(cli_job_check_k(job->corpus.path, args->k, rows, "points"));
    if (part.metric == KITH_HAVERSINE) { /* two different keys may have one angle */
        return cli_fail("--divide", "is corpus, and haversine's parts cannot be merged by their "
                                    "distances (divide the queries)");
    }
    if (rows < args->team->shards.workers) {
        return cli_fail(job->corpus.path,
                        "has %" PRId64 " rows, for %" PRId32 " ranks (give fewer ranks)", rows,
                        args->team->shards.workers);
    }
    job->args = &part;
    const int code = cli_job_plan(job, job->corpus.matrix, job->queries.matrix);
    job->args = args;
    const uint64_t own = (uint64_t)job->queries.matrix->rows * (uint64_t)args->k *
                         (sizeof(uint32_t) + sizeof(double));
    const uint64_t all = own * (uint64_t)args->team->shards.workers;
    const uint64_t merged = all < merge_bytes ? all : merge_bytes;
    const uint64_t bytes = own + (args->team->shards.worker == 0 ? merged : 0);
    job->plan.result_bytes += bytes;
    job->plan.peak_bytes += bytes;
    return code;
}

/* ---- One part ------------------------------------------------------------------------------- */

/* The library counts rows from the part's first one. */
static int check(cli_job *job, kith_status status)
{
    char where[512];
    if (status == KITH_OK || job->part.first_of_corpus == 0 ||
        !cli_session_blames(&job->session, "corpus")) {
        return cli_job_check(job, status);
    }
    (void)snprintf(where, sizeof where, "%s, rows from %" PRId64 " on", job->corpus.path,
                   job->part.first_of_corpus);
    return cli_session_check(&job->session, status, where);
}

static int search_part(cli_job *job, lists *own)
{
    const cli_args *args = job->args;
    const cli_args words = words_of_part(job);
    const int64_t rows = job->queries.matrix->rows;
    const kith_neighbors table = {
        .ids = own->ids, .distances64 = own->distances, .rows = rows, .k = words.k};
    job->args = &words;
    const kith_search_params params = cli_job_params(job);
    job->args = args;
    CLI_TRY(check(job, kith_search(job->session.ctx, job->corpus.matrix, job->queries.matrix,
                                   &params, &table, NULL)));
    for (int64_t i = 0; own->ids != NULL && i < rows * words.k; i++) {
        own->ids[i] += (uint32_t)job->part.first_of_corpus;
    }
    return CLI_DONE;
}

/* ---- All parts ------------------------------------------------------------------------------ */

/* One part's lists of the queries that are merged. */
typedef struct side {
    int64_t length;
    int64_t before; /* lengths of the parts before it */
    int64_t taken;  /* of the list in work */
} side;

typedef struct merging {
    cli_job *job;
    lists own; /* of all queries */
    lists all; /* of some, part after part; NULL where this is not worker 0 */
    side *sides;
    uint64_t *ends;
    int64_t lengths; /* of all parts: at least k */
    int64_t rows;    /* queries at a time */
    double sign;     /* times it a distance is a key, or as good as one */
} merging;

static int begin(merging *m)
{
    const cli_team *team = m->job->args->team;
    const int32_t workers = team->shards.workers;
    const int64_t queries = m->job->queries.matrix->rows;
    m->sides = calloc((size_t)workers, sizeof *m->sides);
    m->ends = calloc((size_t)workers + 1, sizeof *m->ends);
    if (m->sides == NULL || m->ends == NULL) {
        return cli_fail(NULL, "no memory for %" PRId32 " parts (free some memory)", workers);
    }
    for (int32_t i = 0; i < workers; i++) {
        m->sides[i].length = length_of(m->job, i);
        m->sides[i].before = m->lengths;
        m->lengths += m->sides[i].length;
    }
    const uint64_t row_bytes = (uint64_t)m->lengths * (sizeof(uint32_t) + sizeof(double));
    const uint64_t fit = row_bytes > 0 && row_bytes < merge_bytes ? merge_bytes / row_bytes : 1;
    m->rows = fit < (uint64_t)queries ? (int64_t)fit : queries;
    m->sign = cli_job_metric(m->job) == KITH_INNER_PRODUCT ? -1.0 : 1.0;
    CLI_TRY(allocate_lists(m->job, &m->own,
                           (uint64_t)queries * (uint64_t)m->sides[team->shards.worker].length));
    return team->shards.worker != 0
               ? CLI_DONE
               : allocate_lists(m->job, &m->all, (uint64_t)m->rows * (uint64_t)m->lengths);
}

/* The table of some queries, which begins at row `first` of the own one. */
static int bring(merging *m, int64_t first, int64_t rows, bool ids)
{
    const cli_team *team = m->job->args->team;
    const int64_t length = m->sides[team->shards.worker].length;
    const uint64_t bytes = ids ? sizeof *m->own.ids : sizeof *m->own.distances;
    void *own =
        ids ? (void *)(m->own.ids + first * length) : (void *)(m->own.distances + first * length);
    void *all = ids ? (void *)m->all.ids : (void *)m->all.distances;
    for (int32_t i = 0; i < team->shards.workers; i++) {
        m->ends[i + 1] = m->ends[i] + (uint64_t)(rows * m->sides[i].length) * bytes;
    }
    if (all != NULL) {
        memcpy(all, own, (size_t)m->ends[1]);
        own = all;
    }
    return cli_part_gather(m->job, own, m->ends);
}

/* The next of a query's lists: its place among all. */
static int64_t take_nearest(merging *m, int64_t rows, int64_t row)
{
    side *nearest = NULL;
    int64_t place = 0;
    for (int32_t i = 0; i < m->job->args->team->shards.workers; i++) {
        side *s = &m->sides[i];
        const int64_t at = rows * s->before + row * s->length + s->taken;
        if (s->taken < s->length && (nearest == NULL || m->sign * m->all.distances[at] <
                                                            m->sign * m->all.distances[place])) {
            nearest = s;
            place = at;
        }
    }
    if (nearest != NULL) { /* k is at most the length of all */
        nearest->taken++;
    }
    return place;
}

static void merge_rows(merging *m, int64_t first, int64_t rows)
{
    const kith_neighbors *out = &m->job->forward;
    const bool root = cli_job_metric(m->job) == KITH_EUCLIDEAN;
    for (int64_t row = 0; row < rows; row++) {
        for (int32_t i = 0; i < m->job->args->team->shards.workers; i++) {
            m->sides[i].taken = 0;
        }
        for (int64_t slot = 0; slot < out->k; slot++) {
            const int64_t from = take_nearest(m, rows, row);
            const double distance = m->all.distances[from];
            out->ids[(first + row) * out->k + slot] = m->all.ids[from];
            out->distances[(first + row) * out->k + slot] =
                (float)(root ? sqrt(distance) : distance);
        }
    }
}

static int merge_all(merging *m)
{
    const int64_t queries = m->job->queries.matrix->rows;
    for (int64_t first = 0; first < queries; first += m->rows) {
        const int64_t rows = queries - first < m->rows ? queries - first : m->rows;
        CLI_TRY(bring(m, first, rows, true));
        CLI_TRY(bring(m, first, rows, false));
        if (m->all.distances != NULL && m->all.ids != NULL) {
            merge_rows(m, first, rows);
        }
    }
    return CLI_DONE;
}

static int search_and_merge(merging *m)
{
    CLI_TRY(begin(m));
    CLI_TRY(cli_part_leads(m->job)
                ? cli_job_allocate(m->job, &m->job->forward, m->job->queries.matrix->rows)
                : CLI_DONE);
    CLI_TRY(search_part(m->job, &m->own));
    return merge_all(m);
}

static int solve(cli_job *job)
{
    merging m = {.job = job};
    const int code = search_and_merge(&m);
    free_lists(&m.own);
    free_lists(&m.all);
    free(m.sides);
    free(m.ends);
    return code;
}

const cli_engine cli_engine_parts = {KITH_FILE_LISTS_OUT,  NULL, plan, solve,
                                     cli_job_save_forward, NULL};
