/* SPDX-License-Identifier: Apache-2.0
 *
 * A cheap type screens fast and leaves candidates; a finer one screens slower and leaves few. Which
 * is better depends on the data, so the data is asked: a pilot of one tile of rows is screened
 * against the whole corpus, which costs a few thousandths of the job, of a small one hundredths.
 */
#include "screen/screen_corpus.h"

#include "base/base_random.h"
#include "base/base_size.h"
#include "host/host_clock.h"

/* Unsigned panels of s8 add 128 sum x_i to a product, which fits up to S8_COLS (screen_tile.h). */
enum {
    SMALL_CORPUS = 8192,
    PILOT_CORPUS = 2048,
    MORE_CANDIDATES = 40,
    S8_COLS = 16384,
    VAIN_PART = 8,
    SLACK_PART = 4
};

/* What a candidate takes, with those that pass on the way while limits fall, and a column of its
 * key, in words of kin_type_words. */
static const double CANDIDATE = 15000.0;
static const double CANDIDATE_COL = 8.0;
/* Of what k candidates take: less is not worth a pilot. */
static const double LITTLE = 0.25;

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
    return points < SMALL_CORPUS || k > points / 16;
}

static kith_status screen_trial(kith_ctx *ctx, const kin_prepared *prepared, kin_trial *t)
{
    kin_screen screen = {.row = {.set = &t->rows, .lists = &t->lists},
                         .point = {.set = &prepared->set},
                         .block = kin_screen_block(&prepared->frame)};
    const int32_t threads = ctx->threads;
    ctx->threads = 1;
    const kith_status status = kin_screen_run(ctx, &screen);
    ctx->threads = threads;
    KIN_TRY(status);
    for (int64_t row = 0; row < KIN_TRIAL_ROWS; row++) {
        kin_lists_compact(&t->lists, row, &t->scratch);
    }
    t->keys_computed = screen.keys_computed;
    return KITH_OK;
}

/* With reaches as costs of near rows will prove them, by what rows of this type have lost. */
static kith_status screen_again(kith_ctx *ctx, const kin_prepared *prepared, kin_trial *t)
{
    for (int64_t row = 0; row < KIN_TRIAL_ROWS; row++) {
        t->lists.reach[row] += 2.0 * kin_set_row(&t->rows, row).lost;
        t->lists.counts[row] = 0;
    }
    return screen_trial(ctx, prepared, t);
}

double kin_type_words(const kin_tile_kernel *kernel, int64_t cols)
{
    const int64_t groups =
        kin_round_up(kin_ceil_div(cols, kin_tile_group_size(kernel->type)), kernel->group_step);
    return (double)groups * kernel->word_cost;
}

static bool is_short(const kin_tile_kernel *kernel)
{
    return kernel->type == KIN_TILE_S8 || kernel->type == KIN_TILE_BF16;
}

bool kin_type_has_pilot(const kin_tile_kernel *kernel, int64_t points, int64_t k)
{
    return points >= PILOT_CORPUS && k <= points / 16 &&
           (points >= SMALL_CORPUS || is_short(kernel));
}

/* Rows without clusters leave several times k candidates in a short type, and limits that fall
 * late. */
int kin_type_first(const kin_tile_kernel *const *ladder, int64_t cols, int64_t points, int64_t k)
{
    int first = 0;
    for (; kin_type_settled(points, k) && is_short(ladder[first]); first++) {
        const double more =
            kin_type_words(ladder[first + 1], cols) - kin_type_words(ladder[first], cols);
        if (more * 0.5 * (double)points > LITTLE * (double)k * CANDIDATE) {
            break;
        }
    }
    return first;
}

/* Candidates of all rows that would get canonical keys, at the end or before. */
static int64_t candidates_of(const kin_trial *trial)
{
    int64_t candidates = trial->keys_computed;
    for (int64_t row = 0; row < KIN_TRIAL_ROWS; row++) {
        candidates += trial->lists.counts[row];
    }
    return candidates;
}

/* And rows that would need them before. A key of a candidate is some VAIN_PART times as dear as one
 * of a row that is read in turn. */
static kin_type_verdict judge(const kin_trial *trial)
{
    const kin_lists *lists = &trial->lists;
    const int64_t candidates = candidates_of(trial);
    int64_t reran = 0;
    for (int64_t row = 0; row < KIN_TRIAL_ROWS; row++) {
        reran += lists->reran[row];
    }
    if (candidates <= KIN_TRIAL_ROWS * (lists->k + lists->k / 2 + MORE_CANDIDATES) &&
        reran * 100 <= KIN_TRIAL_ROWS) {
        return KIN_TYPE_FINE;
    }
    return candidates / KIN_TRIAL_ROWS < lists->points->points / VAIN_PART ? KIN_TYPE_COARSE
                                                                           : KIN_TYPE_VAIN;
}

/* Of a trial with reaches: near rows meet first in a job, and leave hardly more candidates than
 * these. They must take little of the slack that lists of all points have, so that costs tighten
 * them, and less time than the words that the next type multiplies more. */
static bool pays(const kin_trial *trial, const kin_tile_kernel *next)
{
    const kin_lists *lists = &trial->lists;
    const kin_set *points = lists->points;
    const double cols = (double)points->frame->cols;
    const double more = (double)candidates_of(trial) / KIN_TRIAL_ROWS - (double)lists->k;
    const double slack = (double)(kin_lists_capacity(lists->k, points->points) - lists->k);
    const double words = kin_type_words(next, points->frame->cols) -
                         kin_type_words(points->frame->kernel, points->frame->cols);
    return more * SLACK_PART <= slack &&
           more * (CANDIDATE + CANDIDATE_COL * cols) <= 0.5 * (double)points->points * words;
}

kith_status kin_type_try(kith_ctx *ctx, const kin_prepared *prepared, int64_t k,
                         const kin_tile_kernel *next, kin_type_verdict *verdict)
{
    kin_trial trial;
    *verdict = KIN_TYPE_FINE;
    if (!kin_type_has_pilot(prepared->frame.kernel, prepared->groups.count, k)) {
        return KITH_OK;
    }
    KIN_TRY(kin_trial_make(ctx, prepared, k, &trial));
    kith_status status = KITH_OK;
    *verdict = judge(&trial);
    if (*verdict != KIN_TYPE_FINE && next != NULL && !prepared->by_cost &&
        prepared->frame.kernel->type == KIN_TILE_S8) {
        status = screen_again(ctx, prepared, &trial);
        *verdict = status == KITH_OK && pays(&trial, next) ? KIN_TYPE_FINE : *verdict;
    }
    kin_trial_free(ctx, &trial);
    return status;
}

/* ---- A trial --------------------------------------------------------------------------------- */

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
    kin_screen screen = {.row = {.set = &rows, .lists = &lists},
                         .point = {.set = set},
                         .block = kin_screen_block(set->frame)};
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

static kith_status make_trial(kith_ctx *ctx, const kin_prepared *prepared, int64_t k, kin_trial *t)
{
    *t = trial_of(k, prepared->frame.cols);
    KIN_TRY(kin_layout_make(ctx, name_trial, t, "sample rows", &t->block));
    choose_rows(prepared, t->ids);
    KIN_TRY(kin_set_make(ctx, kin_set_shape(&prepared->frame, KIN_TRIAL_ROWS), &prepared->rows,
                         t->ids, &t->rows));
    KIN_TRY(kin_lists_make(ctx, &t->rows, &prepared->set, prepared->groups.weights, k, &t->lists));
    kin_lists_begin_within(&t->lists, prepared->groups.next, prepared->within);
    return screen_trial(ctx, prepared, t);
}

kith_status kin_trial_make(kith_ctx *ctx, const kin_prepared *prepared, int64_t k, kin_trial *trial)
{
    const kith_status status = make_trial(ctx, prepared, k, trial);
    if (status != KITH_OK) {
        kin_trial_free(ctx, trial);
    }
    return status;
}

void kin_trial_free(kith_ctx *ctx, kin_trial *trial)
{
    kin_lists_free(ctx, &trial->lists);
    kin_set_free(ctx, &trial->rows);
    kin_free(ctx, trial->block);
    memset(trial, 0, sizeof *trial);
}
