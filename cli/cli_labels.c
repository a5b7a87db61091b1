/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_labels.h"

#include "cli.h"
#include "cli_message.h"

#include <inttypes.h>
#include <stdlib.h>

/* False for types that labels do not come in. */
static bool widen(const kith_matrix *matrix, double *values)
{
    const char *data = matrix->data;
    for (int64_t row = 0; row < matrix->rows; row++, data += matrix->stride_bytes) {
        float narrow = 0.0F;
        switch (matrix->dtype) {
        case KITH_F64:
            memcpy(&values[row], data, sizeof values[row]);
            break;
        case KITH_F32:
            memcpy(&narrow, data, sizeof narrow);
            values[row] = (double)narrow;
            break;
        case KITH_U8:
            values[row] = (double)*(const unsigned char *)data;
            break;
        case KITH_I8:
            values[row] = (double)*(const signed char *)data;
            break;
        default:
            return false;
        }
    }
    return true;
}

static int check_shape(const kith_matrix *matrix, const char *path, const cli_points *of)
{
    if (matrix->cols != 1) {
        return cli_fail(path, "has %" PRId32 " columns, labels are one (give a file of one column)",
                        matrix->cols);
    }
    if (matrix->rows != of->matrix->rows) {
        return cli_fail(path,
                        "has %" PRId64 " labels, %s has %" PRId64 " rows (give one label for each "
                        "row)",
                        matrix->rows, of->path, of->matrix->rows);
    }
    return CLI_DONE;
}

static int copy(kith_matrix matrix, cli_labels *labels)
{
    if (matrix.stride_bytes == 0) {
        matrix.stride_bytes = kith_dtype_bytes(matrix.dtype);
    }
    labels->count = matrix.rows;
    labels->values = malloc((size_t)matrix.rows * sizeof *labels->values); /* rows below 2^32 */
    if (labels->values == NULL) {
        return cli_fail(labels->path, "no memory for %" PRId64 " labels (give fewer)", matrix.rows);
    }
    return widen(&matrix, labels->values)
               ? CLI_DONE
               : cli_fail(labels->path,
                          "holds %s, no type of labels (kith convert makes .csv of it)",
                          kith_dtype_name(matrix.dtype));
}

int cli_labels_read(cli_session *session, const char *path, const cli_points *of,
                    cli_labels *labels)
{
    cli_points points = {.path = path};
    labels->path = path;
    int code = cli_session_read_column(session, path, of->matrix->rows, &points);
    if (code == CLI_DONE) {
        code = check_shape(points.matrix, path, of);
    }
    if (code == CLI_DONE) {
        code = copy(*points.matrix, labels);
    }
    cli_points_close(&points);
    return code;
}

void cli_labels_free(cli_labels *labels)
{
    free(labels->values);
    labels->values = NULL;
}
