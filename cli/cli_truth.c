/* SPDX-License-Identifier: Apache-2.0
 * kith truth: exact neighbours in a corpus of several files that may be larger than memory, with
 * ties and a certificate; and the same held against that certificate. Of a runbook a truth for
 * each search, over the rows that are there then. */
#include "cli.h"
#include "cli_output.h"
#include "cli_runbook.h"
#include "cli_work.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SAME_BYTES = 512, HEAD_BYTES = 256 };

typedef struct truth {
    cli_job job;        /* corpus: all files, as one matrix of that many rows, which nobody reads */
    const char *file;   /* that is verified; NULL: one is made */
    const char *corpus; /* as it was given; NULL: the certificate names the files */
    const char *queries;
    char *names;        /* the corpus, cut at its commas */
    int32_t count;      /* of files */
    const char **paths; /* of these, then of the queries */
    cli_points *points;
    kith_matrix *matrices;
    kith_matrix whole;
    char *same;
    kith_truth_params params;
    kith_truth_report report;
    int64_t done; /* rows, when we were told last */
    cli_runbook book;
    uint8_t *alive; /* rows that are there */
    char *head;     /* of the journal: which job it is */
    bool *finished; /* by step */
    FILE *journal;
    char *journal_path;
    char *step_path; /* of the search at work */
    int64_t stood;   /* searches that were done before */
} truth;

/* The file that is made or verified; of a runbook the folder. */
static const char *output_of(const truth *t)
{
    return t->file != NULL ? t->file : t->job.args->output;
}

/* Blamed on the file that the library complains about. */
static int check(truth *t, kith_status status)
{
    cli_session *session = &t->job.session;
    const char *where = t->step_path != NULL ? t->step_path : output_of(t);
    const char *file = t->paths != NULL ? t->paths[t->report.matrix] : where;
    const char *queries = t->paths != NULL ? t->paths[t->count] : where;
    return cli_session_check_files(session, status, where, {"corpus", file, 0}, {"k", file, 0},
                                   {"queries", queries, 0});
}

/* ---- Before --------------------------------------------------------------------------------- */

/* A comma may be in a name: what is there as a whole is one file. */
static int split(truth *t)
{
    static const char no_names[] = "no memory for names of files (give fewer)";
    const size_t bytes = strlen(t->corpus) + 1;
    size_t most = 1;
    for (const char *at = t->corpus; *at != '\0'; at++) {
        most += *at == ',';
    }
    t->names = cli_keep(bytes, 1);
    t->paths = cli_keep(most + 1, sizeof *t->paths);
    t->points = cli_keep(most + 1, sizeof *t->points);
    t->matrices = cli_keep(most + 1, sizeof *t->matrices);
    CLI_KEEP(t->same, (most + 1) * SAME_BYTES, t->corpus, no_names);
    CLI_FAIL_IF(t->names == NULL || t->paths == NULL || t->points == NULL || t->matrices == NULL,
                t->corpus, no_names);
    memcpy(t->names, t->corpus, bytes);
    const char *cut = access(t->corpus, F_OK) == 0 ? "" : ",";
    char *rest = NULL;
    for (char *name = strtok_r(t->names, cut, &rest); name != NULL;
         name = strtok_r(NULL, cut, &rest)) {
        t->paths[t->count++] = name;
    }
    t->paths[t->count] = t->queries;
    CLI_PASS_IF(t->count > 0, t->corpus, "names no file (give CORPUS[,CORPUS...])");
}

/* ann-benchmarks' file: its train is the corpus, its test the queries. */
static int take_benchmark(truth *t)
{
    const char *path = t->job.args->paths[0];
    const size_t bytes = strlen(path) + sizeof ":train";
    char *names = NULL;
    CLI_KEEP(names, 2 * bytes, path, "no memory for its name (free some memory)");
    (void)snprintf(names, bytes, "%s:train", path);
    (void)snprintf(names + bytes, bytes, "%s:test", path);
    t->corpus = names;
    t->queries = names + bytes;
    return CLI_DONE;
}

static int check_outputs(const truth *t)
{
    const cli_args *args = t->job.args;
    const bool within = cli_given(args, CLI_OPT_RADIUS);
    const cli_output outputs[] = {{args->output, within ? CLI_ENDINGS_RANGES : CLI_ENDINGS_TRUTH},
                                  {args->ties, CLI_ENDINGS_MAP}};
    const char *const filters[] = {args->allow, args->groups, args->query_groups};
    CLI_TRY(cli_output_check_all(outputs, 2, t->paths, t->count + 1));
    return cli_output_check_all(outputs, 2, filters, 3);
}

/* Names of files, and whether they can be written; of a runbook it is a folder. */
static int begin(cli_job *job)
{
    truth *t = job->own;
    const cli_args *args = job->args;
    if (t->file == NULL && args->path_count == 1) {
        CLI_TRY(take_benchmark(t));
    }
    if (args->runbook != NULL) {
        CLI_TRY(cli_runbook_read(args->runbook, &t->book));
    }
    CLI_TRY(t->corpus != NULL ? split(t) : CLI_DONE);
    return t->corpus != NULL && args->runbook == NULL ? check_outputs(t) : CLI_DONE;
}

/* What the answer depends on, when it goes on: queries and filters are compared by the library. */
static int describe(truth *t)
{
    for (int32_t i = 0; i < t->count; i++) {
        CLI_TRY(cli_same_file("corpus", t->paths[i], t->same, (size_t)(i + 1) * SAME_BYTES));
    }
    return CLI_DONE;
}

static int open_files(truth *t)
{
    cli_job *job = &t->job;
    t->params.mapped = 1;
    for (int32_t i = 0; i <= t->count; i++) {
        CLI_TRY(cli_session_read(&job->session, t->paths[i], &t->points[i]));
        CLI_TRY(i == 0 ? CLI_DONE
                       : cli_points_check_like(t->paths[0], t->points[0].matrix, t->paths[i],
                                               t->points[i].matrix, false));
        t->matrices[i] = *t->points[i].matrix;
        if (i < t->count) {
            t->whole.rows += t->matrices[i].rows;
            t->params.mapped &= kith_points_get_source(t->points[i].handle)->mapped != 0;
        }
    }
    t->whole.cols = t->matrices[0].cols;
    t->whole.dtype = t->matrices[0].dtype;
    job->corpus = (cli_points){.path = t->corpus, .matrix = &t->whole};
    job->queries = (cli_points){.path = t->paths[t->count], .matrix = &t->matrices[t->count]};
    return cli_filter_read(job);
}

/* Told of each part; the next one is taken for as large. */
static int show(void *arg, int64_t rows)
{
    truth *t = arg;
    const double all = (double)t->whole.rows;
    const int64_t left = t->whole.rows - rows;
    const int64_t next = rows - t->done < left ? rows - t->done : left;
    cli_progress_part(&t->job.session.progress, (double)rows / all, (double)next / all);
    t->done = rows;
    return cli_signal_came();
}

static int read_all(cli_job *job)
{
    truth *t = job->own;
    const cli_args *args = job->args;
    kith_truth_params *p = &t->params;
    *p = kith_truth_params_default();
    p->task = t->file != NULL ? KITH_TRUTH_VERIFY : KITH_TRUTH_FIND;
    p->metric = args->metric;
    p->k = args->k;
    p->flags = cli_given(args, CLI_OPT_RADIUS) ? (uint32_t)KITH_WITHIN_RADIUS : 0;
    p->radius = args->radius;
    p->method = args->method;
    p->filter = cli_is_filtered(args) ? &t->job.filter : NULL;
    p->path = output_of(t);
    p->ties_path = args->ties;
    p->names = t->paths;
    p->job = t->same;
    p->restart = cli_given(args, CLI_OPT_RESTART);
    p->take = show;
    p->take_arg = t;
    p->sample = !cli_given(args, CLI_OPT_SAMPLE) ? 0 : args->sample == 0 ? -1 : args->sample;
    p->seed = args->seed;
    CLI_TRY(describe(t));
    return t->corpus != NULL ? open_files(t) : CLI_DONE;
}

/* ---- What was done -------------------------------------------------------------------------- */

static void tell_counts(cli_report *r, const kith_truth_report *told)
{
    if (told->within != 0) {
        cli_tell(r, "found: {found,} rows within the radius, at most {most_found,} of one query\n",
                 NUMBER("radius", told->radius), INT("found", told->found),
                 INT("most_found", told->most_found));
    } else {
        cli_tell(r,
                 "ties: {tied,} of {queries,} queries have {tied_beyond,} rows beyond the list as "
                 "near as the k-th\n",
                 INT("k", told->k), INT("full", told->full), INT("tied", told->tied),
                 INT("tied_beyond", told->tied_beyond), INT("most_ties", told->most_ties),
                 INT(".queries", told->queries));
    }
    cli_put(r, TEXT("metric", kith_metric_name(told->metric)), INT("n", told->rows),
            INT("queries", told->queries), INT("files", told->files));
}

static void tell_work(cli_report *r, const kith_truth_report *told)
{
    if (told->resumed > 0) {
        cli_tell(r, "resumed: {resumed,} rows stood already\n", INT(".resumed", told->resumed));
    }
    cli_tell_more(r, "parts: {parts}\n", INT("parts", told->parts), INT("resumed", told->resumed));
    cli_tell_more(r, told->within == 0 ? "ties: counted pair by pair {recounted} times\n" : "",
                  INT("recounted", told->recounted));
    cli_tell_more(r, "method: {screen}, device {backend}\n", TEXT("screen", told->screen),
                  TEXT("backend", told->backend));
}

static void tell_truth(const truth *t)
{
    const kith_truth_report *told = &t->report;
    const kith_report *of = &t->job.report;
    cli_report r = cli_report_begin(t->job.args);
    cli_tell(&r, "corpus: {corpus}, {rows,} rows in {files} file{s}\n",
             TEXT(".corpus", t->corpus != NULL ? t->corpus : "as the certificate names it"),
             INT(".rows", told->rows), INT(".files", told->files),
             TEXT(".s", told->files > 1 ? "s" : ""));
    cli_tell(&r,
             told->within != 0 ? "truth: all within {radius:.6g} of {queries,} queries, {metric}\n"
                               : "truth: the {k,} nearest of {queries,} queries, {metric}\n",
             NUMBER(".radius", told->radius), INT(".k", told->k), INT(".queries", told->queries),
             TEXT(".metric", kith_metric_name(told->metric)));
    tell_counts(&r, told);
    if (t->file != NULL) {
        cli_tell(&r,
                 "verified: {verified} and its points are as its certificate says, {sample} "
                 "queries computed anew\n",
                 TEXT("verified", t->file), INT("sample", told->sample));
    } else {
        tell_work(&r, told);
    }
    cli_tell_peak(&r, of->gpu_peak_bytes, 0);
    cli_tell_seconds(&r, t->job.session.start, NUMBER("read", t->job.seconds_read),
                     NUMBER("check", of->seconds_check), NUMBER("prepare", of->seconds_prepare),
                     NUMBER("screen", of->seconds_screen), NUMBER("rescore", of->seconds_rescore),
                     NUMBER("search", told->seconds_search), NUMBER("wait", told->seconds_wait),
                     NUMBER("merge", told->seconds_merge), NUMBER("write", told->seconds_write),
                     NUMBER("truth", t->job.seconds_work));
    if (t->file == NULL) {
        cli_tell_output(&r, t->job.args->output, "");
    }
    cli_report_end(&r);
}

/* ---- One call -------------------------------------------------------------------------------- */

static int call(truth *t)
{
    cli_session *session = &t->job.session;
    const bool named = t->corpus == NULL;
    kith_status status = KITH_OK;
    t->report.struct_size = (uint32_t)sizeof t->report;
    session->silent = true;
    CLI_TIMED(t->job.seconds_work,
              status = kith_truth(session->ctx, named ? NULL : t->matrices, t->count,
                                  named ? NULL : &t->matrices[t->count], &t->params, &t->report));
    const int code = check(t, status);
    if (code == CLI_INTERRUPTED) {
        (void)cli_fail(NULL,
                       "interrupted (%" PRId64 " of %" PRId64 " rows are done; the same "
                       "command goes on there)",
                       t->done > t->report.resumed ? t->done : t->report.resumed, t->report.rows);
    }
    return code != CLI_DONE ? code : check(t, kith_ctx_report(session->ctx, &t->job.report));
}

/* ---- A runbook -------------------------------------------------------------------------------

 * The folder has stepN.gtK for each search, and while the job is at work runbook.partial: lines of
 * text that say which job it is, then a line for each search that is done. */

static int begin_folder(truth *t)
{
    const char *folder = output_of(t);
    struct stat info;
    const size_t bytes = strlen(folder) + 64;
    static const char no_names[] = "no memory for its names (free some memory)";
    CLI_KEEP(t->step_path, bytes, folder, no_names);
    CLI_KEEP(t->journal_path, bytes, folder, no_names);
    CLI_KEEP(t->alive, t->whole.rows / 8 + 1, folder, no_names);
    CLI_KEEP(t->finished, t->book.count, folder, no_names);
    (void)snprintf(t->step_path, bytes, "%s", folder);
    (void)snprintf(t->journal_path, bytes, "%s/runbook.partial", folder);
    CLI_FAIL_IF(t->file == NULL && mkdir(folder, 0777) != 0 && errno != EEXIST, folder,
                "cannot be made: %s (check the path)", strerror(errno));
    CLI_FAIL_IF(stat(folder, &info) != 0 || !S_ISDIR(info.st_mode), folder,
                "is no folder (of a runbook each search has a file: name a folder)");
    return CLI_DONE;
}

/* What all searches depend on. */
static int make_head(truth *t)
{
    const cli_args *args = t->job.args;
    const char *columns = args->columns != NULL ? args->columns : "all";
    const size_t room = strlen(t->same) + strlen(columns) + 4 * SAME_BYTES + HEAD_BYTES;
    CLI_KEEP(t->head, room, args->output, "no memory for its journal (free some memory)");
    (void)snprintf(t->head, room,
                   "kith %s\nk %" PRId64 ", %s, rule %d, header %d, delimiter %d, columns %s\n%s",
                   kith_version(), args->k, kith_metric_name(args->metric), (int)args->rule,
                   (int)args->header, (int)args->delimiter, columns, t->same);
    CLI_TRY(cli_same_file("queries", t->queries, t->head, room));
    CLI_TRY(cli_same_file("runbook", t->book.path, t->head, room));
    CLI_TRY(cli_same_file("groups", args->groups, t->head, room));
    return cli_same_file("groups", args->query_groups, t->head, room);
}

static void name_step(const truth *t, int64_t step)
{
    (void)sprintf(t->step_path, "%s/step%" PRId64 ".gt%" PRId64, output_of(t), step, t->params.k);
}

/* Of each line behind the head; a last one without its end was not written whole. */
static void take_lines(truth *t, const char *at)
{
    for (const char *end = strchr(at, '\n'); end != NULL; end = strchr(at, '\n')) {
        int64_t step = 0;
        if (sscanf(at, "step %" SCNd64, &step) == 1 && step >= 1 && step <= t->book.count) {
            name_step(t, step);
            t->finished[step - 1] = access(t->step_path, F_OK) == 0;
        }
        at = end + 1;
    }
}

static int read_journal(truth *t)
{
    char *text = NULL;
    size_t room = 0;
    FILE *file = cli_given(t->job.args, CLI_OPT_RESTART) ? NULL : fopen(t->journal_path, "rb");
    if (file == NULL) {
        return CLI_DONE;
    }
    const ssize_t bytes = getdelim(&text, &room, '\0', file);
    const size_t head = strlen(t->head);
    const bool begun = bytes > 0 && (size_t)bytes >= head;
    const bool ours = bytes <= 0 || memcmp(text, t->head, begun ? head : (size_t)bytes) == 0;
    (void)fclose(file);
    if (ours && begun) {
        take_lines(t, text + head);
    }
    free(text);
    return ours ? CLI_DONE
                : cli_fail(t->journal_path,
                           "is of another job: corpus, queries, runbook or options were others (to "
                           "begin anew add --restart, or remove it)");
}

static int note(const truth *t, int64_t step)
{
    const bool put = t->journal != NULL && fprintf(t->journal, "step %" PRId64 "\n", step) > 0 &&
                     fflush(t->journal) == 0 && fsync(fileno(t->journal)) == 0;
    return put ? CLI_DONE
               : cli_fail(t->journal_path, "cannot be written: %s (check the folder)",
                          strerror(errno));
}

static int begin_journal(truth *t)
{
    CLI_TRY(make_head(t));
    CLI_TRY(read_journal(t));
    t->journal = fopen(t->journal_path, "wb");
    CLI_FAIL_IF(t->journal == NULL || fputs(t->head, t->journal) < 0, t->journal_path,
                "cannot be written: %s (check the folder)", strerror(errno));
    for (int64_t i = 0; i < t->book.count; i++) {
        CLI_TRY(t->finished[i] ? note(t, i + 1) : CLI_DONE);
    }
    return fflush(t->journal) == 0 ? CLI_DONE
                                   : cli_fail(t->journal_path, "cannot be written (check the "
                                                               "folder)");
}

static int run_search(truth *t, int64_t step)
{
    if (t->finished[step - 1]) {
        t->stood += 1;
        return CLI_DONE;
    }
    name_step(t, step);
    t->params.path = t->step_path;
    t->done = 0;
    CLI_TRY(call(t));
    return t->file != NULL ? CLI_DONE : note(t, step);
}

static int run_book(truth *t)
{
    CLI_TRY(cli_runbook_check(&t->book, t->whole.rows));
    CLI_TRY(begin_folder(t));
    CLI_TRY(t->file != NULL ? CLI_DONE : begin_journal(t));
    if (!cli_is_filtered(t->job.args)) {
        t->job.filter = kith_filter_default();
    }
    t->job.filter.allow = t->alive;
    t->params.filter = &t->job.filter;
    t->params.format = KITH_FORMAT_KNN;
    for (int64_t i = 0; i < t->book.count; i++) {
        const cli_step_of *step = &t->book.steps[i];
        cli_runbook_apply(step, t->alive);
        CLI_TRY(step->operation == CLI_STEP_SEARCH ? run_search(t, i + 1) : CLI_DONE);
    }
    if (t->file == NULL) {
        (void)unlink(t->journal_path);
    }
    return CLI_DONE;
}

static void tell_book(const truth *t)
{
    const cli_runbook *book = &t->book;
    cli_report r = cli_report_begin(t->job.args);
    cli_tell(&r,
             "corpus: {corpus}, {n,} rows\nrunbook: {book}, {steps,} steps, {searches,} searches\n",
             TEXT(".corpus", t->corpus), INT(".n", t->whole.rows), TEXT(".book", book->path),
             INT(".steps", book->count), INT(".searches", book->searches));
    if (t->file != NULL) {
        cli_tell(&r, "verified: {verified} and its points are as its certificates say\n",
                 TEXT("verified", t->file), INT("sample", t->report.sample));
    }
    cli_tell(&r,
             t->file == NULL && t->stood > 0 ? "resumed: {resumed,} searches were done already\n"
                                             : "",
             TEXT("metric", kith_metric_name(t->report.metric)), INT("n", t->whole.rows),
             INT("files", t->count), INT("steps", book->count), INT("searches", book->searches),
             INT("resumed", t->stood));
    cli_tell_seconds(&r, t->job.session.start, NUMBER("read", t->job.seconds_read));
    if (t->file == NULL) {
        cli_tell_output(&r, t->job.args->output, "");
    }
    cli_report_end(&r);
}

/* ---- The command ---------------------------------------------------------------------------- */

static int solve(cli_job *job)
{
    truth *t = job->own;
    const int code = job->args->runbook != NULL ? run_book(t) : call(t);
    if (t->journal != NULL) {
        (void)fclose(t->journal);
    }
    return code;
}

static void tell(cli_job *job)
{
    const truth *t = job->own;
    if (job->args->runbook != NULL) {
        tell_book(t);
    } else {
        tell_truth(t);
    }
}

int cli_truth(const cli_args *args)
{
    static const cli_work work = {.check = begin, .read = read_all, .solve = solve, .tell = tell};
    truth t = {.job = {.args = args, .own = &t}};
    t.file = cli_verifies_truth(args) ? args->paths[0] : NULL;
    t.corpus = t.file == NULL ? args->paths[0] : args->path_count == 3 ? args->paths[1] : NULL;
    t.queries = args->paths[args->path_count - 1];
    return cli_work_run(&t.job, &work);
}
