/* SPDX-License-Identifier: Apache-2.0
 * --allow, --groups and --query-groups: columns of numbers, read like labels, become a filter of
 * the library. */
#include "cli.h"
#include "cli_job.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

static const double MOST_NUMBER = 9007199254740992.0; /* doubles tell whole numbers apart to here */

/* Whole numbers from 0 to `most`, one for each row of `of`. */
static int read_numbers(cli_job *job, const char *path, const cli_points *of, double most,
                        int64_t **numbers)
{
    cli_labels labels = {0};
    int code = cli_labels_read(&job->session, path, of, &labels);
    *numbers = code == CLI_DONE ? malloc((size_t)labels.count * sizeof **numbers) : NULL;
    if (code == CLI_DONE && *numbers == NULL) {
        code = cli_fail(path, "no memory for %" PRId64 " numbers (free some memory)", labels.count);
    }
    for (int64_t i = 0; *numbers != NULL && code == CLI_DONE && i < labels.count; i++) {
        const double value = labels.values[i];
        if (!(value >= 0.0 && value <= most && value == floor(value))) {
            code =
                cli_fail(path,
                         "row %" PRId64
                         " is %.17g, which has no meaning here (give whole numbers from 0 to %.0f)",
                         i, value, most);
        }
        (*numbers)[i] = code == CLI_DONE ? (int64_t)value : 0;
    }
    cli_labels_free(&labels);
    return code;
}

static int read_bitmap(cli_job *job, const char *path)
{
    const int64_t rows = job->corpus.matrix->rows;
    int64_t *numbers = NULL;
    int code = read_numbers(job, path, &job->corpus, 1.0, &numbers);
    uint8_t *bits = code == CLI_DONE ? calloc((size_t)rows / 8 + 1, 1) : NULL;
    if (code == CLI_DONE && bits == NULL) {
        code = cli_fail(path, "no memory for %" PRId64 " bits (free some memory)", rows);
    }
    for (int64_t i = 0; bits != NULL && numbers != NULL && i < rows; i++) {
        bits[i / 8] |= (uint8_t)(numbers[i] << i % 8);
    }
    free(numbers);
    job->allow = bits;
    return code;
}

static int compare_numbers(const void *a, const void *b)
{
    const int64_t *x = a;
    const int64_t *y = b;
    return (*x > *y) - (*x < *y);
}

/* How many different groups there are. */
static int count_groups(cli_job *job)
{
    const int64_t rows = job->corpus.matrix->rows;
    int64_t *sorted = malloc((size_t)rows * sizeof *sorted);
    CLI_FAIL_IF(sorted == NULL, job->args->groups, "no memory to count groups (free some memory)");
    for (int64_t i = 0; i < rows; i++) {
        sorted[i] = job->groups[i];
    }
    qsort(sorted, (size_t)rows, sizeof *sorted, compare_numbers);
    job->lists = 1;
    for (int64_t i = 1; i < rows; i++) {
        job->lists += sorted[i] != sorted[i - 1];
    }
    free(sorted);
    return CLI_DONE;
}

int cli_period_make(const cli_args *args, int32_t cols, double **period)
{
    int32_t count = 0;
    *period = NULL;
    if (args->period == NULL) {
        return CLI_DONE;
    }
    double *lengths = cli_keep((uint64_t)cols, sizeof *lengths);
    CLI_FAIL_IF(lengths == NULL, "--period", "no memory for it (free some memory)");
    for (const char *at = args->period; at != NULL; count++) {
        double length = 0.0;
        (void)cli_value_length(at, &at, &length);
        if (count < cols) {
            lengths[count] = length;
        }
    }
    for (int32_t col = 1; count == 1 && col < cols; col++) {
        lengths[col] = lengths[0];
    }
    CLI_FAIL_IF(count != 1 && count != cols, "--period",
                "has %d lengths and the points have %d columns (give one, or one for each)",
                (int)count, (int)cols);
    bool any = false;
    for (int32_t col = 0; col < cols; col++) {
        any |= lengths[col] > 0.0;
    }
    *period = any ? lengths : NULL; /* 0 is none */
    return CLI_DONE;
}

int cli_filter_read(cli_job *job)
{
    const cli_args *args = job->args;
    job->lists = 1;
    if (!cli_is_filtered(args)) {
        return CLI_DONE;
    }
    job->filter = kith_filter_default();
    if (args->allow != NULL) {
        CLI_TRY(read_bitmap(job, args->allow));
    }
    if (args->groups != NULL) {
        job->filter.rule = args->rule != KITH_RULE_NONE ? args->rule : KITH_RULE_SAME;
        CLI_TRY(read_numbers(job, args->groups, &job->corpus, MOST_NUMBER, &job->groups));
    }
    if (args->query_groups != NULL) {
        CLI_TRY(
            read_numbers(job, args->query_groups, &job->queries, MOST_NUMBER, &job->query_groups));
    }
    job->filter.allow = job->allow;
    job->filter.groups = job->groups;
    job->filter.query_groups = job->query_groups;
    return job->filter.rule == KITH_RULE_EACH ? count_groups(job) : CLI_DONE;
}

void cli_filter_free(cli_job *job)
{
    free(job->query_groups);
    free(job->groups);
    free(job->allow);
}
