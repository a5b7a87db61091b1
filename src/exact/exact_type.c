/* SPDX-License-Identifier: Apache-2.0
 *
 * A cheap type screens fast and leaves candidates; a finer one screens slower and leaves few. Which
 * is better depends on the data, so the data is asked: a pilot of one tile of rows is screened
 * against the whole corpus, which costs a few thousandths of the job.
 */
#include "exact/exact_type.h"

#include "base/base_mem.h"
#include "base/base_random.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "exact/exact_order.h"
#include "exact/exact_screen.h"
#include "host/host_clock.h"

/* Unsigned panels of s8 add 128 sum x_i to a product, which fits up to S8_COLS (exact_tile.h). */
enum { PILOT_ROWS = KIN_BLOCK_STEP, PILOT_CORPUS = 8192, MORE_CANDIDATES = 40, S8_COLS = 16384 };

int kin_type_ladder(kin_isa isa, int32_t cols, const kin_tile_kernel *ladder[KIN_TYPE_LADDER])
{
    static const kin_tile_type cheap_to_fine[KIN_TYPE_LADDER] = {KIN_TILE_S8, KIN_TILE_BF16,
                                                                 KIN_TILE_S16, KIN_TILE_F32};
    const bool portable = isa == KIN_ISA_PORTABLE;
    int count = 0;
    int64_t last_steps = 0;
    for (int i = 0; i < KIN_TYPE_LADDER; i++) {
        const kin_tile_kernel *kernel = kin_tile_get(isa, cheap_to_fine[i]);
        if (kernel == NULL || (kernel->type == KIN_TILE_S8 && (portable || cols > S8_COLS))) {
            continue;
        }
        const int64_t groups = kin_ceil_div(cols, kin_tile_group_size(kernel->type));
        const int64_t steps = kin_ceil_div(groups, kernel->group_step);
        if (count > 0 && ladder[count - 1]->group_step == kernel->group_step &&
            steps <= last_steps) {
            count -= 1; /* as fast, and finer */
        }
        ladder[count++] = kernel;
        last_steps = steps;
    }
    return count;
}

const kin_tile_kernel *kin_type_integer(kin_isa isa)
{
    const kin_tile_kernel *kernel = isa == KIN_ISA_PORTABLE ? NULL : kin_tile_get(isa, KIN_TILE_S8);
    return kernel != NULL ? kernel : kin_tile_get(isa, KIN_TILE_S16);
}

bool kin_type_settled(int64_t points, int64_t k)
{
    return points < PILOT_CORPUS || k > points / 16;
}

/* A sample of the rows, and one thread's room for their lists. */
typedef struct trial {
    uint32_t *ids;
    kin_list_scratch scratch;
    int64_t capacity;
    int32_t cols;
    void *block;
} trial;

static void name_trial(kin_layout *layout, void *job)
{
    trial *t = job;
    t->ids = kin_layout_array(layout, PILOT_ROWS, sizeof *t->ids);
    kin_list_scratch_name(layout, t->capacity, t->cols, &t->scratch);
}

static trial trial_of(int64_t k, int32_t cols)
{
    return (trial){.capacity = kin_lists_capacity(k, PILOT_ROWS), .cols = cols};
}

void kin_type_try_plan(kin_layout *plan, const kin_set *set, int64_t k, int32_t threads)
{
    trial t = trial_of(k, set->frame->cols);
    kin_set rows = kin_set_shape(set->frame, PILOT_ROWS);
    kin_lists lists = kin_lists_shape(&rows, set, k);
    kin_screen screen = {
        .rows = &rows, .points = set, .row_lists = &lists, .block = kin_screen_block(set->frame)};
    const uint64_t before = kin_layout_mark(plan);
    kin_layout_block(plan, name_trial, &t);
    kin_set_plan(plan, &rows, threads);
    kin_lists_plan(plan, &lists);
    kin_screen_plan(plan, &screen, 1);
    kin_layout_back(plan, before);
}

static void choose_rows(const kin_prepared *prepared, uint32_t *ids)
{
    uint64_t state = 1;
    for (int i = 0; i < PILOT_ROWS; i++) {
        ids[i] = prepared->order[kin_random_below(&state, (uint64_t)prepared->groups.count)];
    }
}

/* Candidates that would get canonical keys at the end, and rows that would need them before. */
static bool judge(kin_lists *lists, const kin_screen *screen, kin_list_scratch *scratch)
{
    int64_t candidates = screen->keys_computed;
    int64_t reran = 0;
    for (int64_t row = 0; row < PILOT_ROWS; row++) {
        kin_lists_compact(lists, row, scratch);
        candidates += lists->counts[row];
        reran += lists->reran[row];
    }
    return candidates <= PILOT_ROWS * (lists->k + lists->k / 2 + MORE_CANDIDATES) &&
           reran * 100 <= PILOT_ROWS;
}

/* With one thread: how many candidates are left depends on the order in which blocks met, and the
 * type must not (approximate graphs are the same bytes with any number of threads). */
static kith_status run_alone(kith_ctx *ctx, kin_screen *screen)
{
    const int32_t threads = ctx->threads;
    ctx->threads = 1;
    const kith_status status = kin_screen_run(ctx, screen);
    ctx->threads = threads;
    return status;
}

kith_status kin_type_try(kith_ctx *ctx, const kin_prepared *prepared, int64_t k, bool *fine)
{
    *fine = true;
    if (kin_type_settled(prepared->groups.count, k)) {
        return KITH_OK;
    }
    trial t = trial_of(k, prepared->frame.cols);
    kin_set rows = {0};
    kin_lists lists = {0};
    kith_status status = KITH_OK;
    KIN_TRY(kin_layout_make(ctx, name_trial, &t, "sample rows", &t.block));
    choose_rows(prepared, t.ids);
    KIN_TRY_GOTO(status,
                 kin_set_make(ctx, &prepared->frame, &prepared->rows, t.ids, PILOT_ROWS, &rows),
                 done);
    KIN_TRY_GOTO(status,
                 kin_lists_make(ctx, &rows, &prepared->set, prepared->groups.weights, k, &lists),
                 done);
    kin_lists_begin_within(&lists, prepared->groups.next, prepared->within);
    kin_screen screen = {.rows = &rows,
                         .points = &prepared->set,
                         .row_lists = &lists,
                         .block = kin_screen_block(&prepared->frame)};
    KIN_TRY_GOTO(status, run_alone(ctx, &screen), done);
    *fine = judge(&lists, &screen, &t.scratch);
done:
    kin_lists_free(ctx, &lists);
    kin_set_free(ctx, &rows);
    kin_free(ctx, t.block);
    return status;
}

/* ---- The corpus ------------------------------------------------------------------------------ */

/* From the cheapest type up, until one is fine enough; the last one has to do. */
static kith_status round_in_best_type(kith_ctx *ctx, int64_t k, kin_prepared *prepared)
{
    const kin_tile_kernel *ladder[KIN_TYPE_LADDER];
    const int count = kin_type_ladder(ctx->isa, prepared->distance.cols, ladder);
    for (int i = 0; i < count; i++) {
        prepared->frame = kin_frame_make(&prepared->distance, ladder[i], false, &prepared->stats);
        KIN_TRY(kin_set_make(ctx, &prepared->frame, &prepared->rows, prepared->order,
                             prepared->groups.count, &prepared->set));
        bool fine = true;
        if (i + 1 < count) {
            KIN_TRY(kin_type_try(ctx, prepared, k, &fine));
        }
        if (fine) {
            break;
        }
        kin_set_free(ctx, &prepared->set);
    }
    return KITH_OK;
}

static kith_status round_integers(kith_ctx *ctx, kin_prepared *prepared)
{
    prepared->frame = kin_frame_make(&prepared->distance, kin_type_integer(ctx->isa), true, NULL);
    return kin_set_make(ctx, &prepared->frame, &prepared->rows, prepared->order,
                        prepared->groups.count, &prepared->set);
}

kith_status kin_prepare_set(kith_ctx *ctx, bool integer, int64_t k, kin_prepared *prepared)
{
    const int64_t start = kin_clock_ns();
    if (prepared->groups.count == 0) {
        return KITH_OK;
    }
    KIN_TRY(kin_order_make(ctx, &prepared->rows, &prepared->distance, prepared->groups.count,
                           prepared->order));
    if (integer) {
        KIN_TRY(round_integers(ctx, prepared));
    } else {
        KIN_TRY(kin_frame_measure(ctx, &prepared->distance, &prepared->rows, &prepared->stats));
        KIN_TRY(round_in_best_type(ctx, k, prepared));
    }
    prepared->seconds_prepare += kin_clock_since(start);
    return KITH_OK;
}

kith_status kin_prepare_corpus(kith_ctx *ctx, bool integer, int64_t k, kin_prepared *prepared)
{
    KIN_TRY(kin_prepare_set(ctx, integer, k, prepared));
    const int64_t start = kin_clock_ns();
    if (prepared->groups.count > 0) {
        KIN_TRY(kin_cover_make(ctx, &prepared->set, &prepared->cover));
    }
    prepared->seconds_prepare += kin_clock_since(start);
    return KITH_OK;
}

kith_status kin_prepare_corpus_for(kith_ctx *ctx, const kin_prepared *corpus,
                                   const kith_matrix *queries, int64_t k, kin_prepared *again,
                                   const kin_prepared **use)
{
    *use = corpus;
    const bool integer = kin_frame_is_integer(&corpus->distance, &corpus->rows.matrix, queries);
    if (integer || corpus->groups.count == 0 || corpus->frame.bound != KIN_BOUND_INTEGER) {
        return KITH_OK;
    }
    KIN_TRY(kin_prepare_rows(ctx, &corpus->rows.matrix, &corpus->distance, "corpus",
                             KIN_ROWS_CHECKED, again));
    *use = again;
    return kin_prepare_corpus(ctx, false, k, again);
}
