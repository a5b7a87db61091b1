/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Halves have 11 bits for all of a point's distance to the mean. Where clusters are small
 * beside the distances between them (two far blobs), all points of one round to nearly the same
 * row, and costs of rounded rows are noise: the exact engine's bounds say so, but rounds have none.
 * So the lists of the start are looked at: if the wanted neighbours of many points are no farther
 * than a few times what rounding moved them, rounds compare rows as they are given, by canonical
 * keys.
 *
 * Costs of both kinds never stand in one list: the graph is filled anew. Half of each list is what
 * was there, the rest is drawn by chance: where all costs of a start are equal the lists of a block
 * are equal, too, and rounds would learn nothing from them.
 *
 * Whole numbers are exact. Products have no distance that rounding could be compared with.
 *
 * Memory. Half a graph of positions while it is filled, before rounds take theirs.
 */
#include "base/base_mem.h"
#include "base/base_try.h"
#include "cascade/cascade_run.h"

enum {
    PLACES = 64,     /* that are looked at, evenly spread, each with */
    NEIGHBOURS = 16, /* lists side by side: few copies */
    SAMPLED = PLACES * NEIGHBOURS,
    BATCH = 1 << 16 /* lists whose positions the host copies at a time */
};
/* Distances below so many times what rounding may do to them are not told apart. Rounding to bytes
 * was tried on these very points (fused_prepare.c) before they were taken, and they make rounds
 * fast. */
static const double TIMES_LOST = 4.0;
static const double TIMES_LOST_BYTES = 2.0;
static const double MOST_COARSE = 0.25; /* share of the lists */

/* ---- Looking --------------------------------------------------------------------------------- */

static double cost_of_order(kin_fused_type type, uint32_t order)
{
    if (type == KIN_FUSED_S8) {
        return (double)(int32_t)(order ^ 0x80000000u);
    }
    const uint32_t bits = (order >> 31) != 0 ? order & 0x7fffffffu : ~order;
    float cost;
    memcpy(&cost, &bits, sizeof cost);
    return (double)cost;
}

/* The other end of the pair is taken to be like this one: they are neighbours. */
static bool is_blurred(const kin_fused_frame *frame, uint64_t word, const kin_fused_facts *facts)
{
    if (word == KIN_DESCENT_EMPTY) {
        return false;
    }
    const kin_bound_row row = {.norm = (double)facts->norm, .lost = (double)facts->lost};
    const double times = frame->type == KIN_FUSED_S8 ? TIMES_LOST_BYTES : TIMES_LOST;
    const double blur = times * (row.lost + row.lost);
    return cost_of_order(frame->type, (uint32_t)(word >> 32)) <
           blur * blur + kin_bound_error(frame->kappa, row, row);
}

static kith_status count_blurred(const kin_cascade_run *run, uint64_t *words,
                                 kin_fused_facts *facts, int64_t *blurred)
{
    kith_ctx *ctx = run->on.ctx;
    kin_gpu *gpu = run->on.gpu;
    const kin_fused_set *set = &run->points.set;
    const int64_t length = run->graph.length;
    const int64_t last = kin_min_i64(run->wanted, length) - 1;
    *blurred = 0;
    for (int64_t place = 0; place < PLACES; place++) {
        const int64_t first = place * (run->count - NEIGHBOURS) / (PLACES - 1);
        KIN_TRY(kin_gpu_download(ctx, gpu, words, run->graph.words + first * length,
                                 (uint64_t)(NEIGHBOURS * length) * sizeof *words));
        KIN_TRY(kin_gpu_download(ctx, gpu, facts, set->facts + first, NEIGHBOURS * sizeof *facts));
        for (int64_t i = 0; i < NEIGHBOURS; i++) {
            *blurred += is_blurred(&set->frame, words[i * length + last], &facts[i]);
        }
    }
    return KITH_OK;
}

static kith_status look(const kin_cascade_run *run, bool *coarse)
{
    kith_ctx *ctx = run->on.ctx;
    uint64_t *words = NULL;
    kin_fused_facts facts[NEIGHBOURS];
    int64_t blurred = 0;
    KIN_TRY(kin_alloc(ctx, &words, (uint64_t)NEIGHBOURS * (uint64_t)run->graph.length,
                      sizeof *words, "lists that are looked at"));
    double all = 0.0;
    kith_status status = count_blurred(run, words, facts, &blurred);
    if (status == KITH_OK) {
        status = kin_gpu_add_up(run->on.gpu, (double)blurred, &all);
    }
    *coarse = all > MOST_COARSE * SAMPLED;
    kin_free(ctx, words);
    return status;
}

/* ---- Filling anew ---------------------------------------------------------------------------- */

/* What is copied by way of the host. */
typedef struct copying {
    uint64_t *words;     /* BATCH lists */
    uint32_t *positions; /* the first `kept` of each */
    uint32_t *given;     /* device: all of them */
    int64_t kept;
} copying;

static kith_status copy_positions(const kin_cascade_run *run, const copying *c)
{
    kith_ctx *ctx = run->on.ctx;
    kin_gpu *gpu = run->on.gpu;
    const int64_t length = run->graph.length;
    for (int64_t first = 0; first < run->count; first += BATCH) {
        const int64_t lists = kin_min_i64(BATCH, run->count - first);
        KIN_TRY(kin_gpu_download(ctx, gpu, c->words, run->graph.words + first * length,
                                 (uint64_t)(lists * length) * sizeof *c->words));
        for (int64_t i = 0; i < lists * c->kept; i++) {
            const uint64_t word = c->words[i / c->kept * length + i % c->kept];
            c->positions[i] = word == KIN_DESCENT_EMPTY ? UINT32_MAX : kin_descent_position(word);
        }
        KIN_TRY(kin_gpu_upload(ctx, gpu, c->given + first * c->kept, c->positions,
                               (uint64_t)(lists * c->kept) * sizeof *c->positions));
    }
    return KITH_OK;
}

static kith_status make_copying(const kin_cascade_run *run, copying *c)
{
    kith_ctx *ctx = run->on.ctx;
    const uint64_t lists = (uint64_t)kin_min_i64(BATCH, run->count);
    const char *what = "positions of the start";
    c->kept = kin_max_i64(1, run->graph.length / 2);
    KIN_TRY(kin_alloc(ctx, &c->words, lists * (uint64_t)run->graph.length, sizeof *c->words, what));
    KIN_TRY(kin_alloc(ctx, &c->positions, lists * (uint64_t)c->kept, sizeof *c->positions, what));
    return kin_gpu_alloc(ctx, run->on.gpu, &c->given,
                         kin_size_mul((uint64_t)run->count, (uint64_t)c->kept), sizeof *c->given,
                         what);
}

static kith_status fill_anew(kin_cascade_run *run, copying *c)
{
    const uint64_t words = (uint64_t)run->count * (uint64_t)run->graph.length;
    KIN_TRY(make_copying(run, c));
    KIN_TRY(copy_positions(run, c));
    run->points.set.rounded = NULL;
    KIN_TRY(kin_gpu_fill(run->on.ctx, run->on.gpu, run->graph.words, 0xff,
                         words * sizeof *run->graph.words));
    KIN_TRY(kin_cascade_fill_up(run, run->graph.length, c->given, (int32_t)c->kept));
    run->evaluations += (double)words;
    return kin_gpu_wait(run->on.ctx, run->on.gpu);
}

kith_status kin_cascade_refine(kin_cascade_run *run)
{
    const kin_fused_set *set = &run->points.set;
    bool coarse = false;
    if (set->rounded == NULL || set->frame.bound != KIN_BOUND_DISTANCE || run->count < NEIGHBOURS) {
        return KITH_OK;
    }
    KIN_TRY(look(run, &coarse));
    if (!coarse) {
        return KITH_OK;
    }
    copying c = {0};
    const kith_status status = fill_anew(run, &c);
    kin_gpu_free(run->on.gpu, c.given);
    kin_free(run->on.ctx, c.positions);
    kin_free(run->on.ctx, c.words);
    return status;
}
