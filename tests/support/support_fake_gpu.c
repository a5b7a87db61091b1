/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support_fake_gpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_mem.h"
#include "fused/fused_kernels.h"
#include "host/host_cpu.h"
#include "metric/metric.h"
#include "support/support_fake_tree.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct kin_gpu_stream {
    int64_t unused;
};

test_fake_pretence test_fake;
atomic_int_fast64_t test_fake_copies;
const kin_gpu_stream *test_fake_followed_by;

static int64_t streams;
static int64_t events;
static int64_t blocks;
static int64_t pinned;

/* ---- Devices, memory, copies ----------------------------------------------------------------- */

static const char *error_text(int error)
{
    return error == TEST_BROKEN ? "broken on purpose" : "another error";
}

static int open_stream(int32_t index, void *foreign, kin_gpu_stream **out)
{
    (void)index;
    (void)foreign;
    *out = test_fake.no_stream ? NULL : calloc(1, sizeof **out);
    streams += *out != NULL ? 1 : 0;
    return *out != NULL ? 0 : TEST_BROKEN;
}

static void close_stream(kin_gpu_stream *stream)
{
    streams -= 1;
    free(stream);
}

static int enter(kin_gpu_stream *stream)
{
    (void)stream;
    return 0;
}

static int current(int32_t *index)
{
    *index = 0;
    return 0;
}

static int make_current(int32_t index)
{
    return index;
}

static int allocate(kin_gpu_stream *stream, uint64_t bytes, void **out)
{
    (void)stream;
    *out = malloc((size_t)bytes);
    blocks += 1;
    return *out != NULL ? 0 : KIN_GPU_ERROR_MEMORY;
}

static void release(kin_gpu_stream *stream, void *block)
{
    (void)stream;
    blocks -= 1;
    free(block);
}

static int free_bytes(kin_gpu_stream *stream, uint64_t *bytes)
{
    (void)stream;
    *bytes = UINT64_C(1) << 40;
    return 0;
}

static int allocate_pinned(uint64_t bytes, void **out)
{
    *out = test_fake.no_pinned ? NULL : malloc((size_t)bytes);
    pinned += *out != NULL ? 1 : 0;
    return *out != NULL ? 0 : KIN_GPU_ERROR_MEMORY;
}

static void release_pinned(void *block)
{
    pinned -= 1;
    free(block);
}

static int copy(kin_gpu_stream *stream, void *to, const void *from, uint64_t bytes)
{
    const struct timespec pause = {.tv_nsec = test_fake.copy_ns};
    const int64_t number = atomic_fetch_add(&test_fake_copies, 1) + 1;
    (void)stream;
    if (test_fake.copy_ns > 0) {
        (void)nanosleep(&pause, NULL);
    }
    if (test_fake.failing_copy != 0 && number >= test_fake.failing_copy) {
        return TEST_BROKEN;
    }
    memcpy(to, from, (size_t)bytes);
    return 0;
}

static int fill(kin_gpu_stream *stream, void *to, int byte, uint64_t bytes)
{
    (void)stream;
    memset(to, byte, (size_t)bytes);
    return 0;
}

static int event_make(void **event)
{
    *event = test_fake.no_event ? NULL : malloc(1);
    events += *event != NULL ? 1 : 0;
    return *event != NULL ? 0 : TEST_BROKEN;
}

static void event_free(void *event)
{
    events -= event != NULL ? 1 : 0;
    free(event);
}

static int event_record(kin_gpu_stream *stream, void *event)
{
    return stream != NULL && event != NULL ? 0 : TEST_BROKEN;
}

static int event_follow(kin_gpu_stream *stream, void *event)
{
    test_fake_followed_by = stream;
    return event != NULL ? 0 : TEST_BROKEN;
}

static int event_wait(void *event)
{
    return event != NULL ? 0 : TEST_BROKEN;
}

static int wait_all(kin_gpu_stream *stream)
{
    return stream != NULL ? 0 : TEST_BROKEN;
}

static int event_done(void *event, int32_t *done)
{
    *done = 1;
    return event_wait(event);
}

/* ---- Kernels --------------------------------------------------------------------------------- */

kin_rows test_fake_rows(const kin_fused_rows *rows)
{
    return (kin_rows){.matrix = {.data = rows->data,
                                 .rows = rows->rows,
                                 .cols = rows->cols,
                                 .dtype = rows->dtype,
                                 .stride_bytes = rows->stride_bytes},
                      .transforms = rows->transforms};
}

/* NaN in float64 rows is all that is looked for. */
static int check(kin_gpu_stream *stream, const kin_fused_check *job)
{
    const kin_fused_rows *rows = &job->rows;
    (void)stream;
    for (int64_t i = 0; rows->dtype == KITH_F64 && i < rows->rows; i++) {
        const double *row =
            (const double *)(const void *)((const char *)rows->data + i * rows->stride_bytes);
        for (int32_t c = 0; c < rows->cols; c++) {
            if (isnan(row[c])) {
                *job->bad = (uint64_t)(i * rows->cols + c);
                return 0;
            }
        }
    }
    return 0;
}

/* Each with all before it. */
static int group(kin_gpu_stream *stream, const kin_fused_group *job)
{
    const kin_fused_rows *rows = &job->rows;
    const size_t bytes = (size_t)rows->cols * (size_t)kith_dtype_bytes(rows->dtype);
    const char *data = rows->data;
    (void)stream;
    for (int64_t i = 0; i < rows->rows; i++) {
        int64_t first = 0;
        while (memcmp(data + first * rows->stride_bytes, data + i * rows->stride_bytes, bytes) !=
               0) {
            first += 1;
        }
        job->firsts[i] = (uint32_t)first;
        *job->distinct += first == i ? 1 : 0;
    }
    return 0;
}

static int keys(kin_gpu_stream *stream, const kin_fused_keys *job)
{
    const kin_rows queries = test_fake_rows(&job->queries);
    const kin_rows corpus = test_fake_rows(&job->corpus);
    const kin_distance distance = {
        .metric = job->corpus.metric, .cols = job->corpus.cols, .isa = kin_cpu_best()};
    double *values = aligned_alloc(64, (size_t)(job->corpus.cols + 64) / 8 * 64);
    (void)stream;
    for (int64_t i = 0; i < job->query_count; i++) {
        const int64_t row = job->query_ids != NULL ? job->query_ids[i] : job->query0 + i;
        const kin_query query = kin_metric_load(&distance, &queries, row, values);
        kin_metric_keys(&distance, &query, &corpus, NULL, job->corpus0, job->corpus_count,
                        job->keys + i * job->pitch);
    }
    free(values);
    return 0;
}

static bool comes_before(const kin_fused_pair *a, const kin_fused_pair *b)
{
    return a->key < b->key || (a->key == b->key && a->id < b->id);
}

static int best(kin_gpu_stream *stream, const kin_fused_best *job)
{
    (void)stream;
    for (int64_t i = 0; i < job->rows; i++) {
        kin_fused_pair *pairs = job->pairs + i * job->pairs_pitch;
        const kin_fused_pair *after = job->after != NULL ? job->after + i * job->after_pitch : NULL;
        for (int64_t j = 0; j < job->columns; j++) {
            const kin_fused_pair pair = {job->keys[i * job->pitch + j],
                                         (uint32_t)(job->corpus0 + j), 0};
            int32_t at = job->count[i];
            if ((after != NULL && !comes_before(after, &pair)) ||
                (at == job->k && !comes_before(&pair, &pairs[at - 1]))) {
                continue;
            }
            at -= at == job->k ? 1 : 0;
            job->count[i] = at + 1;
            for (; at > 0 && comes_before(&pair, &pairs[at - 1]); at--) {
                pairs[at] = pairs[at - 1];
            }
            pairs[at] = pair;
        }
    }
    return 0;
}

static void write_row(const kin_fused_write *job, int64_t i)
{
    const int64_t row = job->ids != NULL ? job->ids[job->row0 + i] : job->row0 + i;
    const kin_fused_pair *pairs = job->pairs + i * job->k;
    const int32_t count = job->count != NULL ? job->count[i] : job->k;
    uint32_t left_out = job->leaves_own_out != 0 ? (uint32_t)row : KITH_ID_NONE;
    left_out = job->left_out != NULL && row != KITH_ID_NONE ? job->left_out[row] : left_out;
    int64_t written = row == KITH_ID_NONE ? job->k_out : 0;
    for (int32_t at = 0; at < count && written < job->k_out; at++) {
        if (pairs[at].id == left_out) {
            continue;
        }
        const int64_t to = (row - job->out_row0) * job->k_out + written;
        const double distance = kin_metric_distance(job->metric, pairs[at].key);
        written += 1;
        if (job->out_ids != NULL) {
            job->out_ids[to] = pairs[at].id;
        }
        if (job->out_distances != NULL) {
            job->out_distances[to] = (float)distance;
        }
        if (job->out_distances64 != NULL) {
            job->out_distances64[to] = distance;
        }
    }
    *job->short_rows += written < job->k_out ? 1 : 0;
}

static int write_rows(kin_gpu_stream *stream, const kin_fused_write *job)
{
    (void)stream;
    for (int64_t i = 0; i < job->rows; i++) {
        write_row(job, i);
    }
    return 0;
}

/* ---- The tables ------------------------------------------------------------------------------ */

static const kin_gpu_ops ops = {.error_text = error_text,
                                .open = open_stream,
                                .close = close_stream,
                                .enter = enter,
                                .current = current,
                                .make_current = make_current,
                                .free_bytes = free_bytes,
                                .allocate = allocate,
                                .release = release,
                                .allocate_pinned = allocate_pinned,
                                .release_pinned = release_pinned,
                                .copy_in = copy,
                                .copy_out = copy,
                                .fill = fill,
                                .event_make = event_make,
                                .event_free = event_free,
                                .event_record = event_record,
                                .event_wait = event_wait,
                                .event_done = event_done,
                                .event_follow = event_follow,
                                .wait = wait_all};
static const kin_fused_kernels kernels = {
    .check = check, .group = group, .keys = keys, .best = best, .write = write_rows};
static const kin_gpu_module module = {.version = KIN_GPU_VERSION,
                                      .bytes = sizeof module,
                                      .ops = &ops,
                                      .fused = &kernels,
                                      .tree = &test_fake_tree};

kin_gpu *test_fake_gpu(kith_ctx *ctx, uint64_t budget)
{
    kin_gpu *gpu = NULL;
    memset(&test_fake, 0, sizeof test_fake);
    atomic_store(&test_fake_copies, 0);
    assert_int_equal(kin_alloc_zero(ctx, &gpu, 1, sizeof *gpu, "a GPU"), KITH_OK);
    gpu->module = &module;
    gpu->home = ctx;
    gpu->budget = budget;
    assert_int_equal(pthread_mutex_init(&gpu->lock, NULL), 0);
    assert_int_equal(ops.open(0, NULL, &gpu->stream), 0);
    return gpu;
}

void test_fake_gpu_is_empty(void)
{
    assert_int_equal(streams, 0);
    assert_int_equal(events, 0);
    assert_int_equal(blocks, 0);
    assert_int_equal(pinned, 0);
}
