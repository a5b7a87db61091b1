/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_errors.h"

#include "cli.h"
#include "cli_message.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

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

static void count_right(const double *predicted, const cli_labels *truth, cli_errors *errors)
{
    for (int64_t i = 0; i < truth->count; i++) {
        errors->right += predicted[i] == truth->values[i];
    }
}

static void measure_absolute(const double *predicted, const cli_labels *truth, cli_errors *errors)
{
    double sum = 0.0;
    double magnitudes = 0.0;
    double squares = 0.0;
    errors->relative = true;
    for (int64_t i = 0; i < truth->count; i++) {
        const double error = predicted[i] - truth->values[i];
        sum += error;
        magnitudes += fabs(error);
        squares += error * error;
        errors->relative = errors->relative && truth->values[i] > -1.0;
    }
    errors->bias = sum / (double)truth->count;
    errors->mae = magnitudes / (double)truth->count;
    errors->rmse = sqrt(squares / (double)truth->count);
}

/* scratch: as many numbers as there are labels. */
static void measure_relative(const double *predicted, const cli_labels *truth, double *scratch,
                             cli_errors *errors)
{
    double sum = 0.0;
    int64_t outliers = 0;
    for (int64_t i = 0; i < truth->count; i++) {
        scratch[i] = (predicted[i] - truth->values[i]) / (1.0 + truth->values[i]);
        sum += scratch[i];
        outliers += fabs(scratch[i]) > CLI_ERRORS_OUTLIER;
    }
    const double middle = median(scratch, truth->count);
    for (int64_t i = 0; i < truth->count; i++) {
        scratch[i] = fabs(scratch[i] - middle);
    }
    errors->bias_rel = sum / (double)truth->count;
    errors->nmad = normal_deviation * median(scratch, truth->count);
    errors->outliers = (double)outliers / (double)truth->count;
}

int cli_errors_measure(const double *predicted, const cli_labels *truth, bool votes,
                       cli_errors *errors)
{
    *errors = (cli_errors){.votes = votes, .rows = truth->count};
    if (votes) {
        count_right(predicted, truth, errors);
        return CLI_DONE;
    }
    measure_absolute(predicted, truth, errors);
    if (!errors->relative) {
        return CLI_DONE;
    }
    double *scratch = malloc((size_t)truth->count * sizeof *scratch);
    if (scratch == NULL) {
        return cli_fail(truth->path, "no memory to compare %" PRId64 " labels (give fewer)",
                        truth->count);
    }
    measure_relative(predicted, truth, scratch, errors);
    free(scratch);
    return CLI_DONE;
}

void cli_errors_print(const cli_errors *errors)
{
    if (errors->votes) {
        (void)printf("right: %" PRId64 " of %" PRId64 " (%.2f %%)\n", errors->right, errors->rows,
                     100.0 * (double)errors->right / (double)errors->rows);
        return;
    }
    (void)printf("error: MAE %.6g, RMSE %.6g, bias %.6g\n", errors->mae, errors->rmse,
                 errors->bias);
    if (errors->relative) {
        (void)printf("error / (1 + truth): bias %.6g, NMAD %.6g, above %.2f: %.2f %%\n",
                     errors->bias_rel, errors->nmad, CLI_ERRORS_OUTLIER, 100.0 * errors->outliers);
    }
}

void cli_errors_put(const cli_errors *errors, cli_json *json)
{
    cli_json_open(json, "errors");
    cli_json_int(json, "rows", errors->rows);
    if (errors->votes) {
        cli_json_int(json, "right", errors->right);
        cli_json_number(json, "accuracy", (double)errors->right / (double)errors->rows);
    } else {
        cli_json_number(json, "mae", errors->mae);
        cli_json_number(json, "rmse", errors->rmse);
        cli_json_number(json, "bias", errors->bias);
    }
    if (errors->relative) {
        cli_json_open(json, "relative");
        cli_json_number(json, "bias", errors->bias_rel);
        cli_json_number(json, "nmad", errors->nmad);
        cli_json_number(json, "outliers", errors->outliers);
        cli_json_number(json, "outliers_above", CLI_ERRORS_OUTLIER);
        cli_json_close(json);
    }
    cli_json_close(json);
}
