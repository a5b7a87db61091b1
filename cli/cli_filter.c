/* SPDX-License-Identifier: Apache-2.0
 * --allow, --groups and --query-groups: columns of numbers, read like labels, become a filter of
 * the library. */
#include "cli.h"
#include "cli_job.h"

#include <inttypes.h>
#include <stdlib.h>

static const double MOST_NUMBER = 9007199254740992.0; /* doubles tell whole numbers apart to here */

/* Whole numbers from 0 to `most`, one for each row of `of`. */
static int read_numbers(cli_job *job, const char *path, const cli_points *of, double most,
                        cli_numbers *numbers)
{
    CLI_TRY(cli_column_read(&job->session, path, of, numbers));
    const int64_t wrong = cli_numbers_check(numbers, most);
    CLI_PASS_IF(wrong == numbers->count, path,
                "row %" PRId64 " is %.17g, which has no meaning here (give whole numbers from "
                "0 to %.0f)",
                wrong, numbers->values[wrong], most);
}

static int read_bitmap(cli_job *job, const char *path)
{
    cli_numbers allowed;
    CLI_TRY(read_numbers(job, path, &job->corpus, 1.0, &allowed));
    CLI_KEEP(job->allow, allowed.count / 8 + 1, path,
             "no memory for %" PRId64 " bits (free some memory)", allowed.count);
    for (int64_t i = 0; i < allowed.count; i++) {
        job->allow[i / 8] |= (uint8_t)((unsigned)allowed.values[i] << i % 8);
    }
    cli_points_close(&job->session, &allowed.points);
    return CLI_DONE;
}

static int read_groups(cli_job *job, const char *path, const cli_points *of, int64_t **groups)
{
    cli_numbers given;
    CLI_TRY(read_numbers(job, path, of, MOST_NUMBER, &given));
    CLI_KEEP(*groups, given.count, path, "no memory for %" PRId64 " numbers (free some memory)",
             given.count);
    for (int64_t i = 0; i < given.count; i++) {
        (*groups)[i] = (int64_t)given.values[i];
    }
    cli_points_close(&job->session, &given.points);
    return CLI_DONE;
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
    bool any = false;
    double *lengths = NULL;
    *period = NULL;
    if (args->period == NULL) {
        return CLI_DONE;
    }
    CLI_KEEP(lengths, cols, "--period", "no memory for it (free some memory)");
    for (const char *at = args->period; at != NULL; count++) {
        double length = 0.0;
        (void)cli_value_length(at, &at, &length);
        for (int32_t col = count; col < (count == 0 ? cols : count + 1) && col < cols; col++) {
            lengths[col] = length; /* the first one is that of all, until others come */
        }
        any |= length > 0.0;
    }
    CLI_FAIL_IF(count != 1 && count != cols, "--period",
                "has %d lengths and the points have %d columns (give one, or one for each)",
                (int)count, (int)cols);
    *period = any ? lengths : NULL; /* 0 is none */
    return CLI_DONE;
}

int cli_filter_read(cli_job *job)
{
    const cli_args *args = job->args;
    if (!cli_is_filtered(args)) {
        return CLI_DONE;
    }
    job->filter = kith_filter_default();
    if (args->allow != NULL) {
        CLI_TRY(read_bitmap(job, args->allow));
    }
    if (args->groups != NULL) {
        job->filter.rule = args->rule != KITH_RULE_NONE ? args->rule : KITH_RULE_SAME;
        CLI_TRY(read_groups(job, args->groups, &job->corpus, &job->groups));
    }
    if (args->query_groups != NULL) {
        CLI_TRY(read_groups(job, args->query_groups, &job->queries, &job->query_groups));
    }
    job->filter.allow = job->allow;
    job->filter.groups = job->groups;
    job->filter.query_groups = job->query_groups;
    return job->filter.rule == KITH_RULE_EACH ? count_groups(job) : CLI_DONE;
}
