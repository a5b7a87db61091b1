/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. The exact engine's screen, cut short: seeds (a block's own surroundings), then stages that
 * meet near tiles alone (fused_stage.h: near). Its lists become the graph. Sets without balls have
 * their seeds alone. Metrics that have no screen, and who asks for it, begin with lists that are
 * drawn by chance; a graph that is given comes first into its lists.
 *
 * Memory. Lists with the room that the exact engine gives them, less where that does not fit; what
 * runs out of memory is begun again in a narrower scope. Lists are gone before the rounds begin.
 */
#include "cascade/cascade_run.h"

#include "base/base_mem.h"
#include "base/base_try.h"
#include "cascade/cascade_need.h"

kin_descent_start kin_cascade_start_of(const kin_cascade_run *run)
{
    const kin_descent_start asked = run->request->start;
    if (asked == KIN_DESCENT_START_GRAPH || asked == KIN_DESCENT_START_RANDOM) {
        return asked;
    }
    return run->screened ? KIN_DESCENT_START_SCREEN : KIN_DESCENT_START_RANDOM;
}

static kith_status make_graph(kin_cascade_run *run)
{
    kin_cascade_graph *graph = &run->graph;
    return kin_gpu_alloc(run->on.ctx, run->on.gpu, &graph->words,
                         kin_size_mul((uint64_t)run->count, (uint64_t)graph->length),
                         sizeof *graph->words, "the graph");
}

static kith_status make_empty_graph(kin_cascade_run *run)
{
    KIN_TRY(make_graph(run));
    const uint64_t words = (uint64_t)run->count * (uint64_t)run->graph.length;
    return kin_gpu_fill(run->on.ctx, run->on.gpu, run->graph.words, 0xff,
                        words * sizeof *run->graph.words);
}

kith_status kin_cascade_fill_up(kin_cascade_run *run, int32_t wanted, const uint32_t *given,
                                int32_t given_length)
{
    const kin_cascade_fill job = {.points = run->points,
                                  .graph = run->graph,
                                  .wanted = wanted,
                                  .given = given,
                                  .given_length = given_length,
                                  .seed = run->request->seed};
    return kin_cascade_check(run, run->kernels->fill(run->on.stream, &job), "filling lists");
}

/* ---- The screen ------------------------------------------------------------------------------ */

/* What tells near tiles from others. */
typedef struct nearness {
    kin_fused_worst *worst;
    float *radii;
} nearness;

static kith_status find_near(const kin_cascade_run *run, nearness *near)
{
    kith_ctx *ctx = run->on.ctx;
    kin_gpu *gpu = run->on.gpu;
    const kin_fused_set *set = &run->points.set;
    const int64_t tiles = set->padded / KIN_FUSED_TILE;
    const uint64_t bytes = (uint64_t)tiles * sizeof *near->radii;
    KIN_TRY(kin_gpu_alloc(ctx, gpu, &near->worst, (uint64_t)tiles, sizeof *near->worst,
                          "how far near tiles are"));
    KIN_TRY(kin_gpu_alloc(ctx, gpu, &near->radii, bytes, 1, "how far near tiles are"));
    KIN_TRY(kin_gpu_fill(ctx, gpu, near->worst, 0, (uint64_t)tiles * sizeof *near->worst));
    KIN_TRY(kin_gpu_fill(ctx, gpu, near->radii, 0, bytes));
    const int64_t count =
        kin_max_i64(1, (int64_t)(run->request->share * (double)kin_fused_tiles_of(set->points)));
    const kin_cascade_near job = {.set = *set, .count = count, .worst = near->worst};
    return kin_cascade_check(run, run->kernels->near_tiles(run->on.stream, &job),
                             "finding near tiles");
}

static kith_status run_screen(kin_cascade_run *run, kin_fused_work *work, nearness *near)
{
    if (!kin_fused_work_has_stages(work) || work->rows.centres == NULL) {
        return kin_fused_work_seed(work);
    }
    KIN_TRY(find_near(run, near));
    work->near = near->worst;
    work->points_radii = near->radii;
    return kin_fused_work_run(work);
}

static kith_status adopt(const kin_cascade_run *run, const kin_fused_work *work)
{
    const kin_cascade_adopt job = {
        .lists = work->lists, .type = work->rows.frame.type, .graph = run->graph};
    return kin_cascade_check(run, run->kernels->adopt(run->on.stream, &job), "lists of the start");
}

static kith_status start_by_screen(kin_cascade_run *run)
{
    const int64_t k = kin_min_i64(kin_cascade_start_k(run->request), run->count);
    kin_fused_work work = {.on = run->on,
                           .rows = run->points.set,
                           .cols = run->points.set,
                           .graph = true,
                           .cut_short = true,
                           .col_worst = run->corpus->worst};
    nearness near = {0};
    kin_fused_tally tally = {0};
    kith_status status = KITH_OK;
    KIN_TRY(kin_fused_work_make(&work, k,
                                kin_cascade_capacity(run->count, k, kin_gpu_scope(run->on.gpu))));
    KIN_TRY_GOTO(status, run_screen(run, &work, &near), done);
    KIN_TRY_GOTO(status, make_graph(run), done);
    KIN_TRY_GOTO(status, adopt(run, &work), done);
    KIN_TRY_GOTO(status, kin_fused_work_tally(&work, &tally), done);
    run->evaluations += (tally.pairs - tally.skipped) * (double)(KIN_FUSED_BLOCK * KIN_FUSED_TILE);
done:
    kin_gpu_free(run->on.gpu, near.radii);
    kin_gpu_free(run->on.gpu, near.worst);
    kin_fused_work_free(&work);
    KIN_TRY(status);
    return kin_cascade_fill_up(run, run->graph.length, NULL, 0);
}

/* ---- A graph that is given ------------------------------------------------------------------- */

/* places[row]: the position that stands for it, or UINT32_MAX. */
static kith_status places_of_rows(const kin_cascade_run *run, const uint32_t *ids, uint32_t *places)
{
    const kin_groups *groups = run->groups;
    for (int64_t row = 0; row < run->rows; row++) {
        places[row] = UINT32_MAX;
    }
    for (int64_t p = 0; p < run->count; p++) {
        uint32_t row = ids[p];
        while (row != KITH_ID_NONE) { /* all of its group */
            places[row] = (uint32_t)p;
            row = groups->next != NULL ? groups->next[row] : KITH_ID_NONE;
        }
    }
    return KITH_OK;
}

/* The init graph's ids in host memory: `copy` where they are on the device. */
static kith_status read_init(const kin_cascade_run *run, uint32_t **copy)
{
    const kith_neighbors *init = run->request->init;
    const uint64_t cells = kin_size_mul((uint64_t)init->rows, (uint64_t)init->k);
    if ((run->place & KIN_FUSED_DATA_ON_DEVICE) == 0) {
        return KITH_OK;
    }
    KIN_TRY(kin_alloc(run->on.ctx, copy, cells, sizeof **copy, "the graph to begin with"));
    return kin_gpu_download(run->on.ctx, run->on.gpu, *copy, init->ids, cells * sizeof **copy);
}

/* given: count x length. */
static void give_positions(const kin_cascade_run *run, const uint32_t *init, const uint32_t *ids,
                           const uint32_t *places, int32_t length, uint32_t *given)
{
    const int64_t pitch = run->request->init->k;
    for (int64_t p = 0; p < run->count; p++) {
        const uint32_t *list = init + (int64_t)ids[p] * pitch;
        for (int32_t j = 0; j < length; j++) {
            const uint32_t row = list[j];
            const uint32_t place = row < run->rows ? places[row] : UINT32_MAX;
            given[p * length + j] = place == (uint32_t)p ? UINT32_MAX : place;
        }
    }
}

static kith_status upload_given(const kin_cascade_run *run, int32_t length, uint32_t **device)
{
    kith_ctx *ctx = run->on.ctx;
    const uint64_t cells = kin_size_mul((uint64_t)run->count, (uint64_t)length);
    uint32_t *copy = NULL;
    uint32_t *ids = NULL;
    uint32_t *places = NULL;
    uint32_t *given = NULL;
    kith_status status = KITH_OK;
    KIN_TRY_GOTO(status, read_init(run, &copy), done);
    KIN_TRY_GOTO(status,
                 kin_alloc(ctx, &ids, (uint64_t)run->count, sizeof *ids, "the order of the points"),
                 done);
    KIN_TRY_GOTO(
        status,
        kin_alloc(ctx, &places, (uint64_t)run->rows, sizeof *places, "the order of the points"),
        done);
    KIN_TRY_GOTO(status, kin_alloc(ctx, &given, cells, sizeof *given, "the graph to begin with"),
                 done);
    KIN_TRY_GOTO(status,
                 kin_gpu_download(ctx, run->on.gpu, ids, run->points.set.ids,
                                  (uint64_t)run->count * sizeof *ids),
                 done);
    KIN_TRY_GOTO(status, places_of_rows(run, ids, places), done);
    give_positions(run, copy != NULL ? copy : run->request->init->ids, ids, places, length, given);
    KIN_TRY_GOTO(
        status,
        kin_gpu_alloc(ctx, run->on.gpu, device, cells, sizeof **device, "the graph to begin with"),
        done);
    status = kin_gpu_upload(ctx, run->on.gpu, *device, given, cells * sizeof **device);
done:
    kin_free(ctx, given);
    kin_free(ctx, places);
    kin_free(ctx, ids);
    kin_free(ctx, copy);
    return status;
}

static kith_status start_by_graph(kin_cascade_run *run)
{
    const int32_t length = (int32_t)kin_min_i64(run->request->init->k, run->graph.length);
    uint32_t *given = NULL;
    KIN_TRY(make_empty_graph(run));
    kith_status status = upload_given(run, length, &given);
    if (status == KITH_OK) {
        status = kin_cascade_fill_up(run, run->graph.length, given, length);
    }
    kin_gpu_free(run->on.gpu, given);
    return status;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static kith_status begin(kin_cascade_run *run, kin_descent_start start)
{
    run->evaluations = 0.0;
    if (start == KIN_DESCENT_START_SCREEN) {
        KIN_TRY(start_by_screen(run));
    } else {
        run->evaluations = (double)run->count * (double)run->graph.length;
        if (start == KIN_DESCENT_START_GRAPH) {
            KIN_TRY(start_by_graph(run));
        } else {
            KIN_TRY(make_empty_graph(run));
            KIN_TRY(kin_cascade_fill_up(run, run->graph.length, NULL, 0));
        }
    }
    return kin_gpu_wait(run->on.ctx, run->on.gpu);
}

kith_status kin_cascade_begin(kin_cascade_run *run, kin_descent_start start)
{
    kith_status status = KITH_OK;
    do {
        status = begin(run, start);
        if (status != KITH_OK) {
            kin_gpu_free(run->on.gpu, run->graph.words);
            run->graph.words = NULL;
        }
    } while (kin_fused_again(run->on.ctx, run->on.gpu, status));
    return status;
}
