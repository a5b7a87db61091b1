/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_ids.h"

#include "cli.h"
#include "cli_message.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* NaN for types that ids do not come in. */
static double value_at(const kith_matrix *m, int64_t row, int64_t col)
{
    const char *at =
        (const char *)m->data + row * m->stride_bytes + col * kith_dtype_bytes(m->dtype);
    double wide = NAN;
    float narrow = NAN;
    switch (m->dtype) {
    case KITH_F64:
        memcpy(&wide, at, sizeof wide);
        return wide;
    case KITH_F32:
        memcpy(&narrow, at, sizeof narrow);
        return (double)narrow;
    case KITH_U8:
        return (double)*(const unsigned char *)at;
    case KITH_I8:
        return (double)*(const signed char *)at;
    default:
        return wide;
    }
}

static int copy(const cli_points *points, const char *of, int64_t rows, cli_ids *ids)
{
    kith_matrix m = *points->matrix;
    m.stride_bytes =
        m.stride_bytes != 0 ? m.stride_bytes : (int64_t)m.cols * kith_dtype_bytes(m.dtype);
    ids->count = 0;
    ids->values = malloc((size_t)m.rows * (size_t)m.cols * sizeof *ids->values); /* below 2^54 */
    if (ids->values == NULL) {
        return cli_fail(points->path, "no memory for %" PRId64 " x %" PRId32 " ids (give fewer)",
                        m.rows, m.cols);
    }
    for (int64_t row = 0; row < m.rows; row++) {
        for (int64_t col = 0; col < m.cols; col++) {
            const double value = value_at(&m, row, col);
            if (!(value >= 0.0 && value < (double)rows && value == floor(value))) {
                return cli_fail(points->path,
                                "row %" PRId64 ", column %" PRId64 " holds %.17g, which is no row "
                                "of %s (give whole numbers from 0 to %" PRId64 ")",
                                row, col, value, of, rows - 1);
            }
            ids->values[ids->count++] = (uint32_t)value;
        }
    }
    return CLI_DONE;
}

int cli_ids_read(cli_session *session, const char *path, const char *of, int64_t rows, cli_ids *ids)
{
    cli_points points = {.path = path};
    int code = cli_session_read_column(session, path, 0, &points);
    if (code == CLI_DONE) {
        code = copy(&points, of, rows, ids);
    }
    cli_points_close(&points);
    return code;
}

void cli_ids_free(cli_ids *ids)
{
    free(ids->values);
    ids->values = NULL;
}
