/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support_compare.h"
#include "support/support_calls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/support_answers.h"

#include <inttypes.h>
#include <stdio.h>

enum { MOST_PRINTED = 12 };

static int64_t rows_of(const test_job *job)
{
    switch (job->call) {
    case TEST_GRAPH:
        return job->points->rows;
    case TEST_BOTH:
        return job->points->rows + job->queries->rows;
    default:
        return job->queries->rows;
    }
}

static kith_status solve_both(kith_ctx *ctx, const test_job *job, const kith_search_params *params,
                              const kith_neighbors *out)
{
    kith_neighbors ab = *out;
    kith_neighbors ba = *out;
    const int64_t skipped = job->points->rows * job->k;
    ab.rows = job->points->rows;
    ba.rows = job->queries->rows;
    ba.ids += skipped;
    ba.distances += skipped;
    ba.distances64 += skipped;
    return kith_knn_both(ctx, job->points, job->queries, params, &ab, &ba);
}

static kith_status solve_prepared(kith_ctx *ctx, const test_job *job,
                                  const kith_search_params *params, const kith_neighbors *out)
{
    kith_index *corpus = NULL;
    kith_status status = test_index_create(ctx, job->points, params->metric, &corpus);
    if (status == KITH_OK) {
        status = kith_index_search(ctx, corpus, job->queries, params, out, NULL);
    }
    kith_index_free(corpus);
    return status;
}

kith_status test_job_solve(kith_ctx *ctx, const test_job *job, kith_neighbors *out)
{
    kith_search_params params = kith_search_params_default();
    params.metric = job->metric;
    params.k = job->k;
    params.flags = job->flags;
    params.exclude = job->exclude;
    params.pipeline = job->pipeline;
    params.select = job->select;
    params.sample = job->sample;
    params.batch = job->batch;
    params.leaf_buffer = job->leaf_buffer;
    params.tree_height = job->tree_height;
    params.method = job->method;
    *out = test_answer_make(rows_of(job), job->k);
    switch (job->call) {
    case TEST_GRAPH:
        return kith_graph(ctx, job->points, &params, out, NULL);
    case TEST_SEARCH:
        return kith_search(ctx, job->points, job->queries, &params, out, NULL);
    case TEST_BOTH:
        return solve_both(ctx, job, &params, out);
    default:
        return solve_prepared(ctx, job, &params, out);
    }
}

const char *test_job_text(const test_job *job, char *text, size_t bytes)
{
    static const char *const calls[] = {"graph", "search", "both", "prepared"};
    static const char *const pipelines[] = {"", ", matrix", ", hybrid", ", buffer_tree"};
    char asked[80] = "";
    if (job->call != TEST_GRAPH) {
        (void)snprintf(asked, sizeof asked, " asked with %" PRId64 " %s", job->queries->rows,
                       kith_dtype_name(job->queries->dtype));
    }
    (void)snprintf(text, bytes,
                   "%s %s, %s, %s %" PRId64 " x %" PRId32 "%s%s, k %" PRId64 ", flags %u%s%s",
                   calls[job->call], job->name, kith_metric_name(job->metric),
                   kith_dtype_name(job->points->dtype), job->points->rows, job->points->cols,
                   job->points->stride_bytes >
                           (int64_t)job->points->cols * kith_dtype_bytes(job->points->dtype)
                       ? " with gaps"
                       : "",
                   asked, job->k, (unsigned)job->flags, job->exclude != NULL ? ", exclude" : "",
                   pipelines[job->pipeline]);
    return text;
}

/* ---- Differences ---------------------------------------------------------------------------- */

static bool row_differs(const kith_neighbors *a, const kith_neighbors *b, int64_t row)
{
    const size_t at = (size_t)(row * a->k);
    const size_t k = (size_t)a->k;
    return memcmp(a->ids + at, b->ids + at, k * sizeof *a->ids) != 0 ||
           memcmp(a->distances + at, b->distances + at, k * sizeof *a->distances) != 0 ||
           memcmp(a->distances64 + at, b->distances64 + at, k * sizeof *a->distances64) != 0;
}

static void print_row(const kith_neighbors *wanted, const kith_neighbors *got, int64_t row)
{
    int64_t at = row * wanted->k;
    while (wanted->ids[at] == got->ids[at] &&
           memcmp(&wanted->distances[at], &got->distances[at], sizeof(float)) == 0 &&
           memcmp(&wanted->distances64[at], &got->distances64[at], sizeof(double)) == 0) {
        at += 1;
    }
    printf("    row %" PRId64 ", place %" PRId64 ": got id %" PRIu32
           " at %a = %.17g (%.9g), wanted "
           "id %" PRIu32 " at %a = %.17g (%.9g)\n",
           row, at - row * wanted->k, got->ids[at], got->distances64[at], got->distances64[at],
           (double)got->distances[at], wanted->ids[at], wanted->distances64[at],
           wanted->distances64[at], (double)wanted->distances[at]);
}

bool test_answers_differ(const char *what, const kith_neighbors *wanted, const kith_neighbors *got)
{
    static int printed;
    int64_t first = -1;
    int64_t rows = 0;
    assert_true(wanted->rows == got->rows && wanted->k == got->k);
    if (test_answers_equal(wanted, got)) {
        return false;
    }
    for (int64_t row = 0; row < wanted->rows; row++) {
        if (row_differs(wanted, got, row)) {
            first = first < 0 ? row : first;
            rows += 1;
        }
    }
    printed += 1;
    if (printed <= MOST_PRINTED) {
        printf("  DIFFERS in %" PRId64 " of %" PRId64 " rows: %s\n", rows, wanted->rows, what);
        print_row(wanted, got, first);
        (void)fflush(stdout);
    }
    return true;
}

static bool results_differ(kith_ctx *wanted, kith_status wanted_status, kith_ctx *got,
                           kith_status got_status, const char *what)
{
    static int printed;
    if (wanted_status == got_status &&
        (wanted_status == KITH_OK || strcmp(kith_ctx_detail(wanted), kith_ctx_detail(got)) == 0)) {
        return false;
    }
    printed += 1;
    if (printed <= MOST_PRINTED) {
        printf("  DIFFERS: %s\n    got %s '%s', wanted %s '%s'\n", what,
               kith_status_name(got_status), kith_ctx_detail(got), kith_status_name(wanted_status),
               kith_ctx_detail(wanted));
        (void)fflush(stdout);
    }
    return true;
}

/* A context that names a GPU must not have computed elsewhere. */
static bool ran_elsewhere(kith_ctx *ctx, const char *what)
{
    kith_report report = {.struct_size = sizeof report};
    assert_int_equal(kith_ctx_report(ctx, &report), KITH_OK);
    if (strncmp(report.backend, "cuda", 4) == 0) {
        return false;
    }
    printf("  DIFFERS: computed on '%s': %s\n", report.backend, what);
    return true;
}

void test_compare(kith_ctx *wanted, kith_ctx *got, const test_job *job, test_tally *tally)
{
    test_compare_fitting(wanted, got, job, false, tally);
}

void test_compare_fitting(kith_ctx *wanted, kith_ctx *got, const test_job *job, bool may_lack,
                          test_tally *tally)
{
    char text[320];
    kith_neighbors a;
    kith_neighbors b;
    test_job fused = *job;
    fused.pipeline = KITH_PIPELINE_FUSED;
    fused.select = KITH_SELECT_AUTO;
    fused.sample = 0;
    fused.batch = 0;
    const kith_status a_status = test_job_solve(wanted, &fused, &a);
    const kith_status b_status = test_job_solve(got, job, &b);
    test_job_text(job, text, sizeof text);
    tally->cases += 1;
    tally->refused += a_status != KITH_OK;
    if (may_lack && b_status == KITH_E_DEVICE_MEMORY) {
        tally->lacking += 1;
    } else if (results_differ(wanted, a_status, got, b_status, text) ||
               (a_status == KITH_OK &&
                (test_answers_differ(text, &a, &b) || ran_elsewhere(got, text)))) {
        tally->wrong += 1;
    }
    test_answer_free(&a);
    test_answer_free(&b);
}

void test_tally_end(const test_tally *tally, const char *what)
{
    if (tally->wrong != 0) {
        fail_msg("%s: %d of %d cases differ from the processor's", what, tally->wrong,
                 tally->cases);
    }
    printf("%s: %d cases are the processor's bytes\n", what, tally->cases);
    if (tally->refused != 0) {
        printf("  %d of them were refused, in the same words\n", tally->refused);
    }
    if (tally->lacking != 0) {
        printf("  %d of them did not fit into their budget\n", tally->lacking);
    }
    (void)fflush(stdout);
}
