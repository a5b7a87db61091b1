/* SPDX-License-Identifier: Apache-2.0
 * What many launches need: room for their own use, and canonical keys by their definition. */
#include "host/host_cpu.h"
#include "metric/metric.h"
#include "reference/reference.h"

#include <pthread.h>
#include <stdlib.h>

void *reference_room(int64_t count, size_t bytes)
{
    const size_t lanes = KIN_METRIC_LANES * sizeof(double);
    void *room = NULL;
    if (posix_memalign(&room, lanes, ((size_t)count + 1) * bytes) != 0) {
        abort(); /* a kernel needs no memory of the host */
    }
    return room;
}

static kin_rows rows_of(const kin_screen_gpu_rows *rows)
{
    return (kin_rows){.matrix = {.data = rows->data,
                                 .rows = rows->rows,
                                 .cols = rows->cols,
                                 .stride_bytes = rows->stride_bytes,
                                 .dtype = rows->dtype},
                      .transforms = rows->transforms};
}

/* Asked once: a virtual machine takes long to say what its processor can do. */
static pthread_once_t known = PTHREAD_ONCE_INIT;
static kin_isa best;

static void ask(void)
{
    best = kin_cpu_best();
}

void reference_keys(const kin_screen_gpu_rows *queries, int64_t row,
                    const kin_screen_gpu_rows *corpus, const uint32_t *ids, int64_t first,
                    int64_t count, double *keys)
{
    const kin_rows asked = rows_of(queries);
    const kin_rows rows = rows_of(corpus);
    (void)pthread_once(&known, ask);
    const kin_distance distance = {
        .metric = corpus->metric, .cols = corpus->cols, .isa = best, .period = corpus->period};
    double *values = reference_room(corpus->cols + KIN_METRIC_LANES, sizeof *values);
    const kin_query query = kin_metric_load(&distance, &asked, row, values);
    if (ids != NULL) {
        kin_metric_keys(&distance, &query, &rows, ids, count, keys);
    } else {
        kin_metric_keys_run(&distance, &query, &rows, first, count, keys);
    }
    free(values);
}
