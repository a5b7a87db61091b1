/* SPDX-License-Identifier: Apache-2.0 */
#include "exact/exact_trial.h"

#include "base/base_mem.h"
#include "base/base_random.h"
#include "base/base_try.h"

enum { DRAWS = 8 };

static void name_trial(kin_layout *layout, void *job)
{
    kin_trial *t = job;
    t->ids = kin_layout_array(layout, KIN_TRIAL_ROWS, sizeof *t->ids);
    kin_list_scratch_name(layout, t->capacity, t->cols, &t->scratch);
}

static kin_trial trial_of(int64_t k, int32_t cols)
{
    return (kin_trial){.capacity = kin_lists_capacity(k, KIN_TRIAL_ROWS), .cols = cols};
}

void kin_trial_plan(kin_layout *plan, const kin_set *set, int64_t k, int32_t threads)
{
    kin_trial t = trial_of(k, set->frame->cols);
    kin_set rows = kin_set_shape(set->frame, KIN_TRIAL_ROWS);
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

void kin_trial_keep_plan(kin_layout *plan, const kin_set *set, int64_t k)
{
    kin_trial t = trial_of(k, set->frame->cols);
    kin_set rows = kin_set_shape(set->frame, KIN_TRIAL_ROWS);
    kin_lists lists = kin_lists_shape(&rows, set, k);
    kin_layout_block(plan, name_trial, &t);
    kin_set_plan(plan, &rows, 1);
    kin_lists_plan(plan, &lists);
}

/* Rows that are far are compared with all others whatever the type is: of few of them a trial
 * learns nothing. */
static void choose_rows(const kin_prepared *prepared, uint32_t *ids)
{
    const uint64_t count = (uint64_t)prepared->groups.count;
    uint64_t state = 1;
    for (int i = 0; i < KIN_TRIAL_ROWS; i++) {
        uint64_t place = kin_random_below(&state, count);
        for (int again = 0; again < DRAWS && !kin_set_proves(&prepared->set, (int64_t)place);
             again++) {
            place = kin_random_below(&state, count);
        }
        ids[i] = prepared->order[place];
    }
}

static kith_status run_alone(kith_ctx *ctx, kin_screen *screen)
{
    const int32_t threads = ctx->threads;
    ctx->threads = 1;
    const kith_status status = kin_screen_run(ctx, screen);
    ctx->threads = threads;
    return status;
}

kith_status kin_trial_make(kith_ctx *ctx, const kin_prepared *prepared, int64_t k, kin_trial *trial)
{
    kin_trial *t = trial;
    *t = trial_of(k, prepared->frame.cols);
    kith_status status = KITH_OK;
    KIN_TRY(kin_layout_make(ctx, name_trial, t, "sample rows", &t->block));
    choose_rows(prepared, t->ids);
    KIN_TRY_GOTO(
        status,
        kin_set_make(ctx, &prepared->frame, &prepared->rows, t->ids, KIN_TRIAL_ROWS, &t->rows),
        failed);
    KIN_TRY_GOTO(
        status,
        kin_lists_make(ctx, &t->rows, &prepared->set, prepared->groups.weights, k, &t->lists),
        failed);
    kin_lists_begin_within(&t->lists, prepared->groups.next, prepared->within);
    kin_screen screen = {.rows = &t->rows,
                         .points = &prepared->set,
                         .row_lists = &t->lists,
                         .block = kin_screen_block(&prepared->frame)};
    KIN_TRY_GOTO(status, run_alone(ctx, &screen), failed);
    for (int64_t row = 0; row < KIN_TRIAL_ROWS; row++) {
        kin_lists_compact(&t->lists, row, &t->scratch);
    }
    t->keys_computed = screen.keys_computed;
    return KITH_OK;
failed:
    kin_trial_free(ctx, t);
    return status;
}

void kin_trial_free(kith_ctx *ctx, kin_trial *trial)
{
    kin_lists_free(ctx, &trial->lists);
    kin_set_free(ctx, &trial->rows);
    kin_free(ctx, trial->block);
    memset(trial, 0, sizeof *trial);
}
