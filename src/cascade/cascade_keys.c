/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Some pairs of rows get canonical keys from the kernel that gives them to lists: a graph of
 * as many points as there are pairs, whose lists have one entry.
 */
#include "base/base_mem.h"
#include "base/base_try.h"
#include "cascade/cascade_run.h"

enum {
    PAIRS = KIN_CASCADE_PAIRS, /* at a time */
    LENGTH = KIN_CASCADE_PAIR_LIST
};

/* Device memory of a batch of pairs, and what goes there. */
typedef struct batch {
    uint32_t *host_ids; /* rows `from`, then rows `to` */
    uint64_t *host_words;
    uint32_t *host_controls;
    double *host_keys;
    uint32_t *ids;
    uint64_t *words;
    uint32_t *controls;
    double *keys;
    uint32_t *entries;
} batch;

static void free_batch(const kin_cascade_run *run, batch *b)
{
    kith_ctx *ctx = run->on.ctx;
    kin_gpu *gpu = run->on.gpu;
    kin_gpu_free(gpu, b->entries);
    kin_gpu_free(gpu, b->keys);
    kin_gpu_free(gpu, b->controls);
    kin_gpu_free(gpu, b->words);
    kin_gpu_free(gpu, b->ids);
    kin_free(ctx, b->host_keys);
    kin_free(ctx, b->host_controls);
    kin_free(ctx, b->host_words);
    kin_free(ctx, b->host_ids);
}

static kith_status make_batch(const kin_cascade_run *run, uint64_t most, batch *b)
{
    kith_ctx *ctx = run->on.ctx;
    kin_gpu *gpu = run->on.gpu;
    const char *what = "keys of some pairs";
    KIN_TRY(kin_alloc(ctx, &b->host_ids, 2 * most, sizeof *b->host_ids, what));
    KIN_TRY(kin_alloc(ctx, &b->host_words, most * LENGTH, sizeof *b->host_words, what));
    KIN_TRY(kin_alloc(ctx, &b->host_controls, most, sizeof *b->host_controls, what));
    KIN_TRY(kin_alloc(ctx, &b->host_keys, most * LENGTH, sizeof *b->host_keys, what));
    KIN_TRY(kin_gpu_alloc(ctx, gpu, &b->ids, 2 * most, sizeof *b->ids, what));
    KIN_TRY(kin_gpu_alloc(ctx, gpu, &b->words, most * LENGTH, sizeof *b->words, what));
    KIN_TRY(kin_gpu_alloc(ctx, gpu, &b->controls, most, sizeof *b->controls, what));
    KIN_TRY(kin_gpu_alloc(ctx, gpu, &b->keys, most * LENGTH, sizeof *b->keys, what));
    return kin_gpu_alloc(ctx, gpu, &b->entries, most * LENGTH, sizeof *b->entries, what);
}

static kith_status run_batch(const kin_cascade_run *run, const batch *b, const uint32_t *from,
                             const uint32_t *to, int64_t count, double *keys)
{
    kith_ctx *ctx = run->on.ctx;
    kin_gpu *gpu = run->on.gpu;
    const uint64_t n = (uint64_t)count;
    for (int64_t i = 0; i < count; i++) {
        b->host_ids[i] = from[i];
        b->host_ids[count + i] = to[i];
        b->host_controls[i] = (uint32_t)i;
        b->host_words[i * LENGTH] = kin_descent_word(0, (uint32_t)(count + i), 0);
        for (int j = 1; j < LENGTH; j++) {
            b->host_words[i * LENGTH + j] = KIN_DESCENT_EMPTY;
        }
    }
    KIN_TRY(kin_gpu_upload(ctx, gpu, b->ids, b->host_ids, 2 * n * sizeof *b->ids));
    KIN_TRY(kin_gpu_upload(ctx, gpu, b->words, b->host_words, n * LENGTH * sizeof *b->words));
    KIN_TRY(kin_gpu_upload(ctx, gpu, b->controls, b->host_controls, n * sizeof *b->controls));
    const kin_cascade_keys job = {.rows = run->corpus->prepared.rows,
                                  .ids = b->ids,
                                  .graph = {.points = count, .length = LENGTH, .words = b->words},
                                  .controls = b->controls,
                                  .control_count = count,
                                  .keys = b->keys,
                                  .entries = b->entries};
    KIN_TRY(kin_cascade_check(run, run->kernels->keys(run->on.stream, &job), "computing keys"));
    KIN_TRY(kin_gpu_download(ctx, gpu, b->host_keys, b->keys, n * LENGTH * sizeof *b->keys));
    for (int64_t i = 0; i < count; i++) {
        keys[i] = b->host_keys[i * LENGTH];
    }
    return KITH_OK;
}

kith_status kin_cascade_pair_keys(const kin_cascade_run *run, const uint32_t *from,
                                  const uint32_t *to, int64_t count, double *keys)
{
    batch b = {0};
    kith_status status = make_batch(run, (uint64_t)kin_min_i64(PAIRS, kin_max_i64(count, 1)), &b);
    for (int64_t first = 0; status == KITH_OK && first < count; first += PAIRS) {
        status = run_batch(run, &b, from + first, to + first, kin_min_i64(PAIRS, count - first),
                           keys + first);
    }
    free_batch(run, &b);
    return status;
}

kith_status kin_cascade_own_keys(const kin_cascade_run *run, const uint32_t *rows, int64_t count,
                                 double *keys)
{
    const kith_metric metric = run->corpus->prepared.rows.metric;
    if (kin_metric_get_traits(metric)->screen != KIN_SCREEN_DISTANCE) {
        return kin_cascade_pair_keys(run, rows, rows, count, keys);
    }
    for (int64_t i = 0; i < count; i++) {
        keys[i] = 0.0; /* of a difference of equal rows */
    }
    return KITH_OK;
}
