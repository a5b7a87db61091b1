/* SPDX-License-Identifier: Apache-2.0
 * Idea. Exact lists of a query depend on nothing but the query and the corpus, so that rows of
 * answers can stand side by side whoever has solved them. What has to be the same in all processes
 * is written as lines, and compared with those of the first one: files by what they hold, since
 * each machine may have its own copy. */

#include "cli_part.h"

#include "cli.h"
#include "cli_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- Which rows ------------------------------------------------------------------------------ */

/* Nobody has two more than another, and the first one has the most. */
static int64_t first_of(const cli_job *job, int32_t worker)
{
    const kith_matrix *divided = job->part.corpus != NULL ? job->part.corpus : job->part.all;
    const int64_t workers = job->args->team->shards.workers;
    return (divided->rows * worker + workers - 1) / workers; /* rows below 2^32 */
}

void cli_part_take(cli_job *job)
{
    cli_part *part = &job->part;
    if (job->args->team == NULL || job->queries.matrix == NULL) {
        return;
    }
    const int32_t worker = job->args->team->shards.worker;
    part->all = job->queries.matrix;
    part->corpus = job->args->team->divides_corpus ? job->corpus.matrix : NULL;
    const int64_t first = first_of(job, worker);
    const int64_t count = first_of(job, worker + 1) - first;
    if (part->corpus != NULL) {
        part->rows = *part->all;
        part->first_of_corpus = first;
        part->corpus_rows = cli_job_rows(part->corpus, first, count);
        job->corpus.matrix = &part->corpus_rows;
        return;
    }
    part->first = first;
    job->first_query = first;
    part->rows = cli_job_rows(part->all, first, count);
    job->queries.matrix = &part->rows;
    if (job->query_groups != NULL) {
        job->filter.query_groups = job->query_groups + part->first;
    }
}

void cli_part_return(cli_job *job)
{
    if (job->part.all != NULL) {
        job->queries.matrix = job->part.all;
    }
    if (job->part.corpus != NULL) {
        job->corpus.matrix = job->part.corpus;
    }
}

int64_t cli_part_room(const cli_job *job)
{
    return cli_part_leads(job) && job->part.all != NULL ? job->part.all->rows
                                                        : job->queries.matrix->rows;
}

void cli_part_plan(cli_job *job)
{
    if (job->part.all == NULL) {
        return;
    }
    const uint64_t others = (uint64_t)(cli_part_room(job) - job->queries.matrix->rows);
    const uint64_t entry = sizeof *job->forward.ids + sizeof *job->forward.distances;
    const uint64_t bytes = others * (uint64_t)(job->args->k * job->lists) * entry;
    job->plan.result_bytes += bytes;
    job->plan.peak_bytes += bytes;
}

/* ---- The same job ---------------------------------------------------------------------------- */

enum { SAID_BYTES = 2048, SAID_LINES = 16 };

/* Lines that are equal where jobs are, and the file that a line is about. */
typedef struct said {
    char text[SAID_LINES][SAID_BYTES / SAID_LINES];
    const char *files[SAID_LINES];
    int count;
} said;

static void say(said *s, const char *file, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void say(said *s, const char *file, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(s->text[s->count], sizeof s->text[0], format, args);
    va_end(args);
    s->files[s->count++] = file;
}

/* What a file holds: its values, by their checksum. */
static int say_values(cli_job *job, said *s, const char *what, const cli_points *points)
{
    kith_fingerprint print;
    if (points->matrix->data == NULL) {
        return CLI_DONE; /* no such file was given */
    }
    CLI_TRY(cli_claim_make(&job->session, points, &print));
    if (points->path == job->corpus.path) {
        job->points = print; /* the answer is of it */
    }
    say(s, points->path, "%s %" PRId64 " x %" PRId32 " %s, %016" PRIx64, what, print.rows,
        print.cols, kith_dtype_name(print.dtype), print.checksum);
    return CLI_DONE;
}

/* The same of numbers that were read, `bytes` a row. */
static int say_numbers(cli_job *job, said *s, const char *path, const void *data, int64_t rows,
                       int32_t bytes)
{
    const kith_matrix matrix = {.data = data, .rows = rows, .cols = bytes, .dtype = KITH_U8};
    const cli_points points = {.path = path, .matrix = &matrix};
    return say_values(job, s, "numbers", &points);
}

static int describe(cli_job *job, const cli_numbers *labels, said *s)
{
    const cli_args *args = job->args;
    const cli_points queries = {.path = job->queries.path, .matrix = job->part.all};
    cli_points corpus = {.path = job->corpus.path, .matrix = job->corpus.matrix};
    if (job->part.corpus != NULL) {
        corpus.matrix = job->part.corpus;
    }
    const int64_t rows = corpus.matrix->rows;
    say(s, NULL, "program kith %s (%s)", kith_version(), kith_commit());
    say(s, NULL, "k %" PRId64, args->k);
    say(s, NULL, "metric %d", (int)cli_job_metric(job));
    say(s, NULL, "radius %.17g", args->radius);
    say(s, NULL, "period %s", args->period != NULL ? args->period : "none");
    say(s, NULL, "rule %d", (int)job->filter.rule);
    say(s, NULL, "mode %d", (int)args->mode);
    say(s, NULL, "divided: %s", job->part.corpus != NULL ? "corpus" : "queries");
    CLI_TRY(say_values(job, s, "corpus", &corpus));
    CLI_TRY(say_values(job, s, "queries", &queries));
    CLI_TRY(say_numbers(job, s, args->allow, job->allow, rows / 8 + 1, 1));
    CLI_TRY(say_numbers(job, s, args->groups, job->groups, rows, (int32_t)sizeof *job->groups));
    CLI_TRY(say_numbers(job, s, args->query_groups, job->query_groups, queries.matrix->rows,
                        (int32_t)sizeof *job->query_groups));
    return labels == NULL ? CLI_DONE
                          : say_numbers(job, s, labels->points.path, labels->values, labels->count,
                                        (int32_t)sizeof *labels->values);
}

static int cut_off(void)
{
    return cli_fail(NULL, "the other workers cannot be reached (one has ended, see what it says)");
}

/* The lines of worker 0, and whether this process has the same. */
static int compare(const cli_team *team, const said *own)
{
    said first = {.count = 0};
    if (team->shards.worker == 0) {
        memcpy(first.text, own->text, sizeof first.text);
    }
    if (team->shards.combine(team->shards.arg, (unsigned char *)first.text, sizeof first.text) !=
        0) {
        return cut_off();
    }
    for (int i = 0; i < SAID_LINES; i++) {
        if (strcmp(first.text[i], own->text[i]) != 0) {
            return cli_fail(own->files[i],
                            "worker 0 has another job, it says '%s', this one '%s' (give all "
                            "workers the same program, files and parameters)",
                            first.text[i], own->text[i]);
        }
    }
    return CLI_DONE;
}

int cli_part_meet(cli_job *job, const cli_numbers *labels)
{
    const cli_team *team = job->args->team;
    said own;
    if (job->part.all == NULL) {
        return CLI_DONE;
    }
    memset(&own, 0, sizeof own);
    CLI_TRY(team->ready(team->shards.arg, describe(job, labels, &own)));
    return team->ready(team->shards.arg, compare(team, &own));
}

/* ---- One answer ------------------------------------------------------------------------------ */

/* Of items: rows of the queries, or one a worker. */
static int collect(const cli_job *job, void *data, uint64_t item_bytes, bool rows)
{
    const cli_team *team = job->args->team;
    uint64_t *ends = NULL;
    CLI_KEEP(ends, team->shards.workers + 1, NULL,
             "no memory for %" PRId32 " parts (free some memory)", team->shards.workers);
    for (int32_t i = 0; i <= team->shards.workers; i++) {
        ends[i] = (uint64_t)(rows ? first_of(job, i) : i) * item_bytes;
    }
    return team->collect(team->shards.arg, data, ends) == 0 ? CLI_DONE : cut_off();
}

int cli_part_collect(cli_job *job, void *table, uint64_t row_bytes)
{
    return job->part.all == NULL || job->part.corpus != NULL ? CLI_DONE
                                                             : collect(job, table, row_bytes, true);
}

/* ---- One report ------------------------------------------------------------------------------ */

/* What each process has to say. */
typedef struct account {
    kith_report report;
    int64_t rows;
    double seconds[3];
} account;

/* accounts: of all workers, this one's first. */
static int sum_up(cli_job *job, account *accounts)
{
    double *const seconds[] = {&job->seconds_read, &job->seconds_search, &job->seconds_work};
    accounts[0].report = job->report;
    accounts[0].rows = job->part.rows.rows;
    for (int i = 0; i < 3; i++) {
        accounts[0].seconds[i] = *seconds[i];
    }
    CLI_TRY(collect(job, accounts, sizeof *accounts, false));
    int64_t rows = accounts[0].rows;
    for (int32_t i = 1; i < job->args->team->shards.workers; i++) {
        if (accounts[i].rows > 0) { /* else nobody's, where this is not worker 0 */
            const double candidates = job->report.candidates;
            const double share = (double)accounts[i].rows / (double)(rows + accounts[i].rows);
            cli_job_add_report(&job->report, &accounts[i].report, share, false, &job->report);
            if (job->part.corpus != NULL) { /* each has computed some of every row's */
                job->report.candidates = candidates + accounts[i].report.candidates;
            }
            rows += accounts[i].rows;
        }
        for (int j = 0; j < 3; j++) {
            *seconds[j] = fmax(*seconds[j], accounts[i].seconds[j]);
        }
    }
    return CLI_DONE;
}

int cli_part_report(cli_job *job)
{
    if (job->part.all == NULL) {
        return CLI_DONE;
    }
    const int32_t workers = job->args->team->shards.workers;
    account *accounts = NULL;
    CLI_KEEP(accounts, workers, NULL, "no memory for %" PRId32 " reports (free some memory)",
             workers);
    const int code = sum_up(job, accounts);
    cli_part_return(job);
    return code;
}

void cli_part_tell(cli_report *r, const cli_job *job)
{
    if (job->part.all != NULL) {
        cli_tell_int(r, "ranks", job->args->team->shards.workers);
    }
}

/* ---- A corpus that is divided ----------------------------------------------------------------
 *
 * A search whose corpus is divided among processes: each finds the nearest of its own rows for all
 * queries, and the first one merges the lists.
 *
 * Idea. A row's k nearest are among the k nearest of each part. Lists are ascending by key, then by
 * id. The canonical distance is the key itself, or its negative (inner_product); but a euclidean
 * one is the root of it, in which different keys may be the same number: then the parts are asked
 * for squares, and roots are taken of what is merged. Parts are ascending by id, so that of equal
 * keys the first part's comes first. */

/* Lists of all parts that are brought together at a time. */
static const uint64_t merge_bytes = (uint64_t)64 << 20;

/* Lists of k of some queries, of one part, or of all part after part; empty at the end, where a
 * part has fewer rows. */
typedef struct lists {
    uint32_t *ids;
    double *distances;
} lists;

enum { ENTRY_BYTES = sizeof(uint32_t) + sizeof(double) };

static int allocate_lists(const cli_job *job, lists *l, uint64_t entries)
{
    l->ids = cli_keep(entries, sizeof *l->ids);
    l->distances = cli_keep(entries, sizeof *l->distances);
    CLI_PASS_IF(l->ids != NULL && l->distances != NULL, job->corpus.path,
                "no memory for %" PRIu64 " neighbours (take a smaller k)", entries);
}

/* The command's words for one part. */
static cli_args words_of_part(const cli_job *job)
{
    cli_args args = *job->args;
    args.k = args.k < job->part.corpus_rows.rows ? args.k : job->part.corpus_rows.rows;
    args.metric = cli_job_metric(job);
    if (args.metric == KITH_EUCLIDEAN) {
        args.metric = KITH_SQEUCLIDEAN;
    }
    return args;
}

/* ---- Before --------------------------------------------------------------------------------- */

static int plan_parts(cli_job *job)
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
    const uint64_t own = (uint64_t)job->queries.matrix->rows * (uint64_t)args->k * ENTRY_BYTES;
    const uint64_t all = own * (uint64_t)args->team->shards.workers;
    const uint64_t merged = all < merge_bytes ? all : merge_bytes;
    const uint64_t bytes = own + (args->team->shards.worker == 0 ? merged : 0);
    job->plan.result_bytes += bytes;
    job->plan.peak_bytes += bytes;
    return code;
}

/* ---- One part ------------------------------------------------------------------------------- */

/* Lists of `has` entries become lists of k. */
static void spread(lists *l, int64_t rows, int64_t has, int64_t k)
{
    for (int64_t row = rows - 1; row >= 0 && has < k; row--) {
        memmove(l->ids + row * k, l->ids + row * has, (size_t)has * sizeof *l->ids);
        memmove(l->distances + row * k, l->distances + row * has,
                (size_t)has * sizeof *l->distances);
        for (int64_t i = has; i < k; i++) {
            l->ids[row * k + i] = KITH_ID_NONE;
        }
    }
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
    CLI_TRY(cli_job_check(job, cli_job_search(job, job->queries.matrix, &params, &table)));
    for (int64_t i = 0; i < rows * words.k; i++) {
        own->ids[i] += (uint32_t)job->part.first_of_corpus;
    }
    spread(own, rows, words.k, args->k);
    return CLI_DONE;
}

/* ---- All parts ------------------------------------------------------------------------------ */

typedef struct merging {
    cli_job *job;
    lists own;      /* of all queries */
    lists all;      /* of some; NULL where this is not worker 0 */
    int64_t *taken; /* of each part's list */
    int64_t rows;   /* queries at a time */
    double sign;    /* times it a distance is a key, or as good as one */
} merging;

static int begin(merging *m)
{
    const cli_job *job = m->job;
    const int32_t workers = job->args->team->shards.workers;
    const uint64_t queries = (uint64_t)job->queries.matrix->rows;
    const uint64_t k = (uint64_t)job->args->k;
    const uint64_t row_bytes = (uint64_t)workers * k * ENTRY_BYTES;
    const uint64_t fit = row_bytes < merge_bytes ? merge_bytes / row_bytes : 1;
    m->rows = (int64_t)(fit < queries ? fit : queries);
    m->sign = cli_job_metric(job) == KITH_INNER_PRODUCT ? -1.0 : 1.0;
    CLI_TRY(allocate_lists(job, &m->own, queries * k));
    if (!cli_part_leads(job)) {
        return CLI_DONE;
    }
    CLI_KEEP(m->taken, workers, NULL, "no memory for %" PRId32 " parts (free some memory)",
             workers);
    return allocate_lists(job, &m->all, (uint64_t)m->rows * (uint64_t)workers * k);
}

/* A table of so many bytes, of each part. */
static int bring(const merging *m, void *own, void *all, uint64_t bytes)
{
    if (all != NULL) {
        memcpy(all, own, (size_t)bytes);
    }
    return collect(m->job, all != NULL ? all : own, bytes, false);
}

/* The next of a query's lists: its place among all, of which there are k and more. */
static int64_t take_nearest(const merging *m, int64_t rows, int64_t row)
{
    const int64_t k = m->job->args->k;
    int32_t nearest = -1;
    int64_t place = 0;
    for (int32_t i = 0; i < m->job->args->team->shards.workers; i++) {
        const int64_t at = (rows * i + row) * k + m->taken[i];
        if (m->taken[i] < k && m->all.ids[at] != KITH_ID_NONE &&
            (nearest < 0 || m->sign * m->all.distances[at] < m->sign * m->all.distances[place])) {
            nearest = i;
            place = at;
        }
    }
    if (nearest >= 0) {
        m->taken[nearest]++;
    }
    return place;
}

static void merge_rows(const merging *m, int64_t first, int64_t rows)
{
    const kith_neighbors *out = &m->job->forward;
    const bool root = cli_job_metric(m->job) == KITH_EUCLIDEAN;
    for (int64_t row = 0; row < rows; row++) {
        for (int32_t i = 0; i < m->job->args->team->shards.workers; i++) {
            m->taken[i] = 0;
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
    const int64_t k = m->job->args->k;
    for (int64_t first = 0; first < queries; first += m->rows) {
        const int64_t rows = queries - first < m->rows ? queries - first : m->rows;
        const uint64_t entries = (uint64_t)(rows * k);
        CLI_TRY(bring(m, m->own.ids + first * k, m->all.ids, entries * sizeof *m->own.ids));
        CLI_TRY(bring(m, m->own.distances + first * k, m->all.distances,
                      entries * sizeof *m->own.distances));
        if (cli_part_leads(m->job)) {
            merge_rows(m, first, rows);
        }
    }
    return CLI_DONE;
}

static int solve(cli_job *job)
{
    merging m = {.job = job};
    CLI_TRY(begin(&m));
    CLI_TRY(cli_part_leads(job) ? cli_job_allocate(job, &job->forward, job->queries.matrix->rows)
                                : CLI_DONE);
    CLI_TRY(search_part(job, &m.own));
    return merge_all(&m);
}

const cli_engine cli_engine_parts = {KITH_FILE_LISTS_OUT,  NULL, plan_parts, solve,
                                     cli_job_save_forward, NULL};
