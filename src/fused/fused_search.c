/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Whatever is asked becomes work for the screen (fused_stage.c) or for canonical keys of all
 * pairs (fused_direct.c), and is cut until it fits:
 *
 *      everything fits              one stripe of queries against the corpus
 *      queries or lists do not      stripes of queries, the corpus resident
 *      the corpus does not          chunks of the corpus, stripes of queries, lists merged
 *
 * A few queries against a corpus that is resident take a way of their own (fused_batch.c). Both
 * directions are two searches; one product for both would save a screen and two preparations.
 */
#include "fused/fused_search.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "fused/fused_batch.h"
#include "fused/fused_side.h"

/* ---- Corpora
 * -------------------------------------------------------------------------------------------- */

kith_status kin_fused_corpus_make(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *points,
                                  const kin_distance *distance, kith_dtype asked, int64_t k,
                                  const char *name, uint32_t place, kin_fused_corpus **out)
{
    kin_fused_corpus *corpus = NULL;
    *out = NULL;
    KIN_TRY(kin_alloc_zero(ctx, &corpus, 1, sizeof *corpus, "a corpus"));
    *corpus =
        (kin_fused_corpus){.gpu = gpu, .points = *points, .distance = *distance, .place = place};
    const kin_fused_device on = kin_fused_device_of(ctx, gpu);
    kith_status status = kin_fused_prepare_corpus(ctx, gpu, points, distance, asked, k, name, place,
                                                  &corpus->prepared);
    if (status == KITH_OK && corpus->prepared.set.points > 0) {
        status = kin_fused_worst_make(&on, &corpus->prepared.set, &corpus->worst);
    }
    if (status == KITH_OK && corpus->prepared.set.points > 0) {
        status = kin_fused_batch_prepare(ctx, corpus);
    }
    if (status != KITH_OK) {
        kin_fused_corpus_free(ctx, corpus);
        return status;
    }
    ctx->report.seconds_prepare +=
        corpus->prepared.seconds_prepare + corpus->prepared.seconds_upload;
    *out = corpus;
    return KITH_OK;
}

void kin_fused_corpus_free(kith_ctx *ctx, kin_fused_corpus *corpus)
{
    if (corpus == NULL) {
        return;
    }
    kin_fused_batch_free(corpus);
    kin_gpu_free(corpus->gpu, corpus->worst);
    kin_fused_prepared_free(ctx, corpus->gpu, &corpus->prepared);
    kin_free(ctx, corpus);
}

uint64_t kin_fused_corpus_bytes(const kin_fused_corpus *corpus)
{
    return kin_fused_prepared_bytes(&corpus->points, corpus->points.rows, &corpus->distance,
                                    corpus->points.dtype, corpus->place, true)
        .resident;
}

/* A corpus of bytes that waits for bytes, and is asked with something else, is prepared again from
 * the rows on the device. */
static kith_status corpus_for(kith_ctx *ctx, const kin_fused_corpus *corpus,
                              const kith_matrix *queries, int64_t k, kin_fused_corpus **again)
{
    *again = NULL;
    const kin_fused_set *set = &corpus->prepared.set;
    if (set->points == 0 || set->frame.bound != KIN_BOUND_INTEGER ||
        kin_frame_is_integer(&corpus->distance, &corpus->points, queries)) {
        return KITH_OK;
    }
    kith_matrix points = corpus->points;
    points.data = corpus->prepared.rows.data;
    points.stride_bytes = corpus->prepared.rows.stride_bytes;
    return kin_fused_corpus_make(ctx, corpus->gpu, &points, &corpus->distance, queries->dtype, k,
                                 "corpus", KIN_FUSED_DATA_ON_DEVICE, again);
}

kith_status kin_fused_corpus_search(kith_ctx *ctx, const kin_fused_corpus *corpus,
                                    const kith_matrix *queries, const kin_request *request,
                                    uint32_t place, const kith_neighbors *out)
{
    kin_fused_corpus *again = NULL;
    kin_fused_tally tally = {0};
    KIN_TRY(corpus_for(ctx, corpus, queries, request->k, &again));
    const kin_fused_corpus *use = again != NULL ? again : corpus;
    const bool screens = kin_fused_screens(request, corpus->points.rows, queries->rows);
    bool done = false;
    kith_status status = KITH_OK;
    if (screens) {
        status = kin_fused_batch_search(ctx, use, queries, request, place, out, &done);
    }
    if (status == KITH_OK && !done) {
        status = kin_fused_search_stripes(ctx, use, queries, request, place, out, &tally);
        if (status == KITH_OK && screens) {
            kin_fused_report(ctx, &use->prepared, &tally, queries->rows);
        }
    }
    kin_fused_corpus_free(ctx, again);
    return status;
}

/* ---- Search
 * ------------------------------------------------------------------------------------------------
 */

kith_status kin_fused_search(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *corpus,
                             const kith_matrix *queries, const kin_request *request, uint32_t place,
                             const kith_neighbors *out)
{
    kin_fused_corpus *resident = NULL;
    kith_status status = kin_fused_corpus_make(ctx, gpu, corpus, &request->distance, queries->dtype,
                                               request->k, "corpus", place, &resident);
    if (status == KITH_OK) {
        status = kin_fused_corpus_search(ctx, resident, queries, request, place, out);
    }
    kin_fused_corpus_free(ctx, resident);
    if (status != KITH_E_DEVICE_MEMORY) {
        return status;
    }
    kin_forgive(ctx);
    kin_gpu_trim(gpu);
    return kin_fused_search_chunks(ctx, gpu, corpus, queries, request, place, out);
}

kith_status kin_fused_both(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *a, const kith_matrix *b,
                           const kin_request *request, uint32_t place, const kith_neighbors *ab,
                           const kith_neighbors *ba)
{
    kin_request other = *request;
    other.k = ba->k;
    KIN_TRY(kin_fused_search(ctx, gpu, b, a, request, place, ab));
    return kin_fused_search(ctx, gpu, a, b, &other, place, ba);
}
