/* SPDX-License-Identifier: Apache-2.0
 * kNN models: the labels of each query's neighbours in a catalogue make one number. Queries are
 * taken in chunks, so that no lists of all of them are ever held. */
#include "cli.h"
#include "cli_output.h"
#include "cli_part.h"
#include "cli_stream.h"
#include "cli_work.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* ---- How far predictions are from the truth -------------------------------------------------- */

/* The share of |error| / (1 + truth) above this is what astronomers call outliers. */
static const double OUTLIER = 0.15;

typedef struct errors {
    bool votes;
    int64_t rows;
    int64_t right;   /* votes: predicted as it is */
    double mae;      /* numbers: mean of |error|, error = predicted - truth */
    double rmse;     /* root of the mean of its square */
    double bias;     /* its mean */
    bool relative;   /* every truth is above -1, as redshifts are, and the next three are there: */
    double bias_rel; /* of error / (1 + truth) the mean, */
    double nmad;     /*   1.4826 times the median of its distance from its median, */
    double outliers; /*   the share that is above OUTLIER in magnitude */
} errors;

/* Of a normal distribution, median deviation times this is the standard deviation. */
static const double normal_deviation = 1.4826;

static int compare(const void *a, const void *b)
{
    const double left = *(const double *)a;
    const double right = *(const double *)b;
    return (left > right) - (left < right);
}

/* Sorts the values. */
static double median(double *values, int64_t count)
{
    qsort(values, (size_t)count, sizeof *values, compare);
    return (values[(count - 1) / 2] + values[count / 2]) / 2.0;
}

static void count_right(const double *predicted, const cli_numbers *truth, errors *e)
{
    for (int64_t i = 0; i < truth->count; i++) {
        e->right += predicted[i] == truth->values[i];
    }
}

static void measure_absolute(const double *predicted, const cli_numbers *truth, errors *e)
{
    double sum = 0.0;
    double magnitudes = 0.0;
    double squares = 0.0;
    e->relative = true;
    for (int64_t i = 0; i < truth->count; i++) {
        const double error = predicted[i] - truth->values[i];
        sum += error;
        magnitudes += fabs(error);
        squares += error * error;
        e->relative = e->relative && truth->values[i] > -1.0;
    }
    e->bias = sum / (double)truth->count;
    e->mae = magnitudes / (double)truth->count;
    e->rmse = sqrt(squares / (double)truth->count);
}

/* scratch: as many numbers as there are labels. */
static void measure_relative(const double *predicted, const cli_numbers *truth, double *scratch,
                             errors *e)
{
    double sum = 0.0;
    int64_t outliers = 0;
    for (int64_t i = 0; i < truth->count; i++) {
        scratch[i] = (predicted[i] - truth->values[i]) / (1.0 + truth->values[i]);
        sum += scratch[i];
        outliers += fabs(scratch[i]) > OUTLIER;
    }
    const double middle = median(scratch, truth->count);
    for (int64_t i = 0; i < truth->count; i++) {
        scratch[i] = fabs(scratch[i] - middle);
    }
    e->bias_rel = sum / (double)truth->count;
    e->nmad = normal_deviation * median(scratch, truth->count);
    e->outliers = (double)outliers / (double)truth->count;
}

/* Exit code. votes: labels are classes. */
static int measure_errors(const double *predicted, const cli_numbers *truth, bool votes, errors *e)
{
    *e = (errors){.votes = votes, .rows = truth->count};
    if (votes) {
        count_right(predicted, truth, e);
        return CLI_DONE;
    }
    measure_absolute(predicted, truth, e);
    if (!e->relative) {
        return CLI_DONE;
    }
    double *scratch = NULL;
    CLI_KEEP(scratch, truth->count, truth->points.path,
             "no memory to compare %" PRId64 " labels (give fewer)", truth->count);
    measure_relative(predicted, truth, scratch, e);
    return CLI_DONE;
}

static void tell_errors(cli_report *r, const errors *e)
{
    cli_put_open(r, "errors", '{');
    if (e->votes) {
        const double share = (double)e->right / (double)e->rows;
        cli_tell(r, "right: {right} of {rows} ({accuracy:.2%})\n", INT("rows", e->rows),
                 INT("right", e->right), NUMBER("accuracy", share));
    } else {
        cli_tell(r, "error: MAE {mae:.6g}, RMSE {rmse:.6g}, bias {bias:.6g}\n",
                 INT("rows", e->rows), NUMBER("mae", e->mae), NUMBER("rmse", e->rmse),
                 NUMBER("bias", e->bias));
    }
    if (e->relative) {
        cli_tell_object(r, "relative",
                        "error / (1 + truth): bias {bias:.6g}, NMAD {nmad:.6g}, above "
                        "{outliers_above:.2f}: {outliers:.2%}\n",
                        NUMBER("bias", e->bias_rel), NUMBER("nmad", e->nmad),
                        NUMBER("outliers", e->outliers), NUMBER("outliers_above", OUTLIER));
    }
    cli_put_close(r, '}');
}

/* ---- The job --------------------------------------------------------------------------------- */

/* Lists of a chunk where --memory asks for no fewer: what a GPU makes of the catalogue anew for
 * each chunk (its tree) is then little beside the search. Below the least rows a chunk is not
 * divided. */
static const int64_t lists_bytes = (int64_t)512 << 20;
enum { LEAST_ROWS = 1024, CATALOGUE = 0, LABELS, QUERIES };

typedef struct predicting {
    cli_job job; /* its corpus is the catalogue, its plan that of a chunk */
    cli_numbers labels;
    cli_numbers truth;
    int64_t chunk_rows;
    double *out; /* one for each query */
    errors off;  /* from the truth */
} predicting;

/* Bytes of one neighbour in a list. */
static int64_t item_bytes(const cli_args *args)
{
    return (int64_t)sizeof(uint32_t) + (cli_weighs(args) ? (int64_t)sizeof(double) : 0);
}

static int64_t chunks(const predicting *p)
{
    return (p->job.queries.matrix->rows + p->chunk_rows - 1) / p->chunk_rows;
}

/* ---- Before: output, input, plan ------------------------------------------------------------ */

/* A prediction of no rows looks at the labels alone: their mistakes are told before the search. */
static int read_labels(predicting *p, const char *path, const cli_points *of, cli_numbers *labels)
{
    cli_session *session = &p->job.session;
    uint32_t id = 0;
    double distance = 0.0;
    const kith_neighbors nobody = {.ids = &id, .distances64 = &distance, .k = 1};
    kith_predict_params params = kith_predict_params_default();
    params.mode = p->job.args->mode;
    CLI_TRY(cli_column_read(session, path, of, labels));
    return cli_session_check(
        session, kith_predict(session->ctx, &nobody, labels->values, labels->count, &params, NULL),
        path);
}

static int read_all(cli_job *job)
{
    predicting *p = job->own;
    const cli_args *args = job->args;
    CLI_TRY(cli_job_read_corpus(job));
    CLI_TRY(cli_session_read(&job->session, args->paths[QUERIES], &job->queries));
    CLI_TRY(read_labels(p, args->paths[LABELS], &job->corpus, &p->labels));
    if (args->truth != NULL) {
        CLI_TRY(read_labels(p, args->truth, &job->queries, &p->truth));
    }
    cli_part_take(job);
    return CLI_DONE;
}

/* The lists, labels and predictions that are held here. */
static void add_held(cli_job *job)
{
    const predicting *p = job->own;
    const int64_t numbers = p->labels.count + p->truth.count + cli_part_room(job);
    const uint64_t held =
        (uint64_t)p->chunk_rows * (uint64_t)job->args->k * (uint64_t)item_bytes(job->args) +
        (uint64_t)numbers * sizeof(double);
    job->plan.peak_bytes += held - job->plan.result_bytes;
    job->plan.result_bytes = held;
}

static int plan(cli_job *job)
{
    predicting *p = job->own;
    if (cli_part_is_empty(job)) {
        return CLI_DONE;
    }
    CLI_TRY(cli_job_plan(job, job->corpus.matrix, job->queries.matrix));
    const int64_t most = lists_bytes / (item_bytes(job->args) * job->args->k); /* k below 2^32 */
    p->chunk_rows = most < LEAST_ROWS ? LEAST_ROWS : most;
    return cli_chunks_plan(job, &p->chunk_rows, LEAST_ROWS, add_held);
}

/* ---- The work ------------------------------------------------------------------------------- */

static int allocate(predicting *p)
{
    cli_job *job = &p->job;
    const uint64_t slots = (uint64_t)p->chunk_rows * (uint64_t)job->args->k;
    kith_neighbors *lists = &job->forward;
    lists->k = job->args->k;
    lists->ids = cli_keep(slots, sizeof *lists->ids);
    lists->distances64 = cli_weighs(job->args) ? cli_keep(slots, sizeof *lists->distances64) : NULL;
    p->out = cli_keep((uint64_t)cli_part_room(job), sizeof *p->out);
    CLI_PASS_IF(lists->ids != NULL && (lists->distances64 != NULL || !cli_weighs(job->args)) &&
                    p->out != NULL,
                job->queries.path,
                "no memory for lists of %" PRId64 " rows and %" PRId64 " predictions "
                "(take a smaller k)",
                p->chunk_rows, cli_part_room(job));
}

static int predict(predicting *p, int64_t first)
{
    cli_job *job = &p->job;
    kith_predict_params params = kith_predict_params_default();
    kith_status status = KITH_OK;
    params.mode = job->args->mode;
    CLI_TIMED(job->seconds_work,
              status = kith_predict(job->session.ctx, &job->forward, p->labels.values,
                                    p->labels.count, &params, p->out + first));
    return cli_job_check(job, status);
}

static int solve_chunks(predicting *p, cli_chunks *chunks)
{
    const int64_t rows = p->job.queries.matrix->rows;
    int code = CLI_DONE;
    cli_chunks_begin(chunks);
    while (chunks->first < rows && code == CLI_DONE) {
        const int64_t first = chunks->first;
        CLI_TIMED(p->job.seconds_search, code = cli_chunks_solve(chunks, &p->job.forward));
        CLI_THEN(code, predict(p, first));
    }
    return code;
}

static int solve_part(predicting *p)
{
    if (cli_part_is_empty(&p->job)) {
        return CLI_DONE;
    }
    CLI_TRY(allocate(p));
    cli_chunks chunks = {.job = &p->job, .rows = p->chunk_rows};
    const int code = solve_chunks(p, &chunks);
    cli_chunks_end(&chunks);
    return code;
}

static int solve(cli_job *job)
{
    predicting *p = job->own;
    CLI_TRY(cli_part_meet(job, &p->labels));
    CLI_TRY(solve_part(p));
    CLI_TRY(cli_part_collect(job, p->out, sizeof *p->out));
    CLI_TRY(cli_part_report(job));
    return cli_part_leads(job) && p->truth.values != NULL
               ? measure_errors(p->out, &p->truth, cli_votes(job->args), &p->off)
               : CLI_DONE;
}

/* What is written: doubles, but where the format has float32 alone, predictions rounded once.
 * Labels that were voted for are never rounded: the library refuses those that do not fit. */
static int take_output(const predicting *p, kith_matrix *matrix)
{
    const int64_t rows = p->job.queries.matrix->rows;
    const char *path = p->job.args->output;
    *matrix = (kith_matrix){.data = p->out, .rows = rows, .cols = 1, .dtype = KITH_F64};
    if (cli_votes(p->job.args) || !cli_output_ends(path, ".fbin")) {
        return CLI_DONE;
    }
    float *narrow = NULL;
    CLI_KEEP(narrow, rows, path, "no memory for %" PRId64 " predictions (write .npy)", rows);
    for (int64_t i = 0; i < rows; i++) {
        narrow[i] = (float)p->out[i];
    }
    matrix->data = narrow;
    matrix->dtype = KITH_F32;
    return CLI_DONE;
}

static int save(cli_job *job)
{
    kith_matrix matrix;
    if (job->args->output == NULL) {
        return CLI_DONE;
    }
    CLI_TRY(take_output(job->own, &matrix));
    return cli_points_save(&job->session, job->args->output, &matrix);
}

/* ---- What was done -------------------------------------------------------------------------- */

/* People are told with --verbose. */
static void tell_work(cli_report *r, const predicting *p)
{
    const cli_job *job = &p->job;
    const kith_report *report = &job->report;
    const kith_ctx_params *used = kith_ctx_get_params(job->session.ctx);
    cli_tell_more(r, report->gpu[0] != '\0' ? "device: {backend}, {gpu}\n" : "",
                  TEXT("screen", report->screen), TEXT("backend", report->backend),
                  TEXT("gpu", report->gpu[0] != '\0' ? report->gpu : NULL));
    cli_tell_more(r,
                  "search: {screen}, isa {isa}, threads {threads}, {chunks} chunk{s}\n"
                  "memory: planned {need~}\n",
                  TEXT(".screen", report->screen), TEXT("isa", used->isa),
                  INT("threads", used->threads), INT("chunks", chunks(p)),
                  TEXT(".s", chunks(p) == 1 ? "" : "s"), UINT(".need", job->need_bytes));
    cli_tell_peak(r, report->gpu_peak_bytes, job->need_bytes);
}

static void tell(cli_job *job)
{
    const predicting *p = job->own;
    const kith_matrix *catalogue = job->corpus.matrix;
    cli_report r = cli_report_begin(job->args);
    cli_say_matrix(&r, "catalogue", job->corpus.path, catalogue);
    cli_tell(&r, "labels: {labels}\nqueries: {file}, {queries}\n",
             TEXT(".labels", p->labels.points.path), TEXT(".file", job->queries.path),
             INT("n", catalogue->rows), INT("queries", job->queries.matrix->rows),
             INT("d", catalogue->cols), TEXT("dtype", kith_dtype_name(catalogue->dtype)));
    cli_tell_text(&r, "mode", cli_option_word(CLI_OPT_MODE, (int)job->args->mode));
    cli_tell_text(&r, "metric", kith_metric_name(cli_job_metric(job)));
    cli_tell_int(&r, "k", job->args->k);
    cli_part_tell(&r, job);
    tell_work(&r, p);
    if (p->truth.values != NULL) {
        tell_errors(&r, &p->off);
    }
    /* Of a search its preparation is a part. */
    cli_tell_seconds(&r, job->session.start, NUMBER("read", job->seconds_read),
                     NUMBER("search", job->seconds_search),
                     NUMBER("prepare", job->report.seconds_prepare),
                     NUMBER("predict", job->seconds_work), NUMBER("write", job->seconds_write));
    cli_tell_output(&r, job->args->output, "");
    cli_report_end(&r);
}

int cli_predict(const cli_args *args)
{
    const cli_work work = {.endings =
                               cli_votes(args) ? CLI_ENDINGS_CLASSES : CLI_ENDINGS_PREDICTION,
                           .read = read_all,
                           .plan = plan,
                           .tell_plan = cli_job_tell_plan,
                           .solve = solve,
                           .save = save,
                           .tell = tell};
    predicting p = {.job = {.args = args, .own = &p}};
    return cli_work_run(&p.job, &work);
}
