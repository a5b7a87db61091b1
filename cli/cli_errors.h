/* SPDX-License-Identifier: Apache-2.0
 * How far predictions are from the truth. */
#ifndef CLI_ERRORS_H
#define CLI_ERRORS_H

#include "cli_json.h"
#include "cli_labels.h"

/* The share of |error| / (1 + truth) above this is what astronomers call outliers. */
#define CLI_ERRORS_OUTLIER 0.15

typedef struct cli_errors {
    bool votes;
    int64_t rows;
    int64_t right;   /* votes: predicted as it is */
    double mae;      /* numbers: mean of |error|, error = predicted - truth */
    double rmse;     /* root of the mean of its square */
    double bias;     /* its mean */
    bool relative;   /* every truth is above -1, as redshifts are, and the next three are there: */
    double bias_rel; /* of error / (1 + truth) the mean, */
    double nmad;     /*   1.4826 times the median of its distance from its median, */
    double outliers; /*   the share that is above CLI_ERRORS_OUTLIER in magnitude */
} cli_errors;

/* Exit code. votes: labels are classes. */
int cli_errors_measure(const double *predicted, const cli_labels *truth, bool votes,
                       cli_errors *errors);
void cli_errors_print(const cli_errors *errors);
/* As the member "errors". */
void cli_errors_put(const cli_errors *errors, cli_json *json);

#endif
