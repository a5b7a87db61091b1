/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Where rounds of short lists end before the wanted recall, lists of twice the length know
 * ways that these have forgotten. The points stay prepared and the graph stays on the device: a
 * list's words are the first of the longer one, all NEW, so that they meet again with more beside
 * them, and chance fills the rest.
 *
 *      a b c d          ->  a' b' c' d' r r r r        ': NEW again    r: drawn
 *
 * More candidates a round are dear (beyond 16 of each kind the cross-matching needs twice the
 * registers), and longer lists alone find more in the same time, so these come first.
 *
 * Memory. Both graphs while one is copied to the other.
 */
#include "base/base_mem.h"
#include "base/base_try.h"
#include "cascade/cascade_run.h"

enum { ALONE = 1 /* lengthenings that leave the candidates as they are */ };

int32_t kin_cascade_longest(int32_t length, int32_t lengthenings)
{
    int64_t longest = length;
    for (int32_t i = 0; i < lengthenings && longest < KIN_CASCADE_MOST_LIST; i++) {
        longest *= 2;
    }
    return (int32_t)kin_min_i64(longest, KIN_CASCADE_MOST_LIST);
}

static kith_status make_longer(const kin_cascade_run *run, kin_cascade_graph *graph)
{
    const uint64_t words = kin_size_mul((uint64_t)run->count, (uint64_t)graph->length);
    return kin_gpu_alloc(run->on.ctx, run->on.gpu, &graph->words, words, sizeof *graph->words,
                         "longer lists");
}

kith_status kin_cascade_lengthen(kin_cascade_run *run, int32_t times, bool *longer)
{
    kith_ctx *ctx = run->on.ctx;
    kin_cascade_graph next = {.points = run->count,
                              .length = kin_cascade_longest(run->graph.length, 1),
                              .first = run->graph.first,
                              .end = run->graph.end};
    uint64_t all_can = 0;
    *longer = next.length > run->graph.length && run->count - 1 > run->graph.length;
    const kith_status status = *longer ? make_longer(run, &next) : KITH_OK;
    if (status == KITH_E_DEVICE_MEMORY) {
        kin_forgive(ctx);
        *longer = false;
    } else {
        KIN_TRY(status);
    }
    KIN_TRY(kin_gpu_agree(run->on.gpu, *longer ? 1 : 0, &all_can));
    if (all_can == 0) {
        kin_gpu_free(run->on.gpu, next.words);
        *longer = false;
        return KITH_OK;
    }
    const kin_cascade_stretch job = {.from = run->graph, .to = next};
    const int error = run->kernels->stretch(run->on.stream, &job);
    kin_gpu_free(run->on.gpu, run->graph.words);
    run->graph = next; /* the run's to free, whatever comes */
    run->candidates += times > ALONE ? run->candidates / 2 : 0;
    KIN_TRY(kin_cascade_check(run, error, "making lists longer"));
    KIN_TRY(kin_cascade_fill_up(run, next.length, NULL, 0));
    const int32_t half = next.length / 2;
    run->evaluations += (double)run->count * (double)half;
    return kin_gpu_wait(ctx, run->on.gpu);
}
