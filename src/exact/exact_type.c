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
#include "exact/exact_screen.h"

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

static kith_status pilot_rows(kith_ctx *ctx, const kin_prepared *prepared, uint32_t **ids)
{
    KIN_TRY(kin_alloc(ctx, ids, PILOT_ROWS, sizeof **ids, "sample rows"));
    uint64_t state = 1;
    for (int i = 0; i < PILOT_ROWS; i++) {
        (*ids)[i] = prepared->order[kin_random_below(&state, (uint64_t)prepared->groups.count)];
    }
    return KITH_OK;
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
    uint32_t *ids = NULL;
    kin_set rows = {0};
    kin_lists lists = {0};
    kin_list_scratch scratch = {0};
    kith_status status = KITH_OK;
    KIN_TRY_GOTO(status, pilot_rows(ctx, prepared, &ids), done);
    KIN_TRY_GOTO(
        status, kin_set_make(ctx, &prepared->frame, &prepared->rows, ids, PILOT_ROWS, &rows), done);
    KIN_TRY_GOTO(status,
                 kin_lists_make(ctx, &rows, &prepared->set, prepared->groups.weights, k, &lists),
                 done);
    kin_lists_begin_within(&lists, prepared->groups.next, prepared->within);
    KIN_TRY_GOTO(status, kin_list_scratch_make(ctx, &lists, prepared->frame.cols, &scratch), done);
    kin_screen screen = {.rows = &rows,
                         .points = &prepared->set,
                         .row_lists = &lists,
                         .block = kin_screen_block(&prepared->frame)};
    KIN_TRY_GOTO(status, run_alone(ctx, &screen), done);
    *fine = judge(&lists, &screen, &scratch);
done:
    kin_list_scratch_free(ctx, &scratch);
    kin_lists_free(ctx, &lists);
    kin_set_free(ctx, &rows);
    kin_free(ctx, ids);
    return status;
}
