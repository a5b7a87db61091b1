/* SPDX-License-Identifier: Apache-2.0 */
#include "exact/exact_answer.h"

#include "base/base_size.h"

#include <stdio.h>

bool kin_exact_job_screens(const kin_request *request)
{
    return request->pipeline == NULL && !request->compares && kin_is_screened(&request->distance);
}

void kin_exact_note_pipeline(kith_ctx *ctx, const kin_pipeline *pipeline)
{
    (void)snprintf(ctx->report.screen, sizeof ctx->report.screen, "%s", pipeline->name);
}

static const double DEGENERATE_KEY = 1.0;

void kin_answer_name(kin_layout *layout, kin_answer *answer)
{
    /* Degenerate rows are merged from behind: room for both lists. */
    answer->list =
        kin_layout_array(layout, kin_size_mul((uint64_t)answer->wanted, 2), sizeof *answer->list);
    answer->heap = kin_layout_array(layout, (uint64_t)answer->wanted, sizeof *answer->heap);
}

static void name_alone(kin_layout *layout, void *job)
{
    kin_answer_name(layout, job);
}

kith_status kin_answer_make(kith_ctx *ctx, const kin_groups *groups, kith_metric metric,
                            int64_t wanted, kin_answer *answer)
{
    *answer = (kin_answer){.groups = groups, .metric = metric, .wanted = wanted};
    return kin_layout_make(ctx, name_alone, answer, "the list of a row", &answer->block);
}

void kin_answer_free(kith_ctx *ctx, kin_answer *answer)
{
    kin_free(ctx, answer->block);
    memset(answer, 0, sizeof *answer);
}

static void append(kin_answer *answer, double key, uint32_t id)
{
    answer->list[answer->count++] = (kin_pair){key, id, 1};
}

static void sift_down(uint32_t *heap, int64_t count)
{
    const uint32_t moving = heap[0];
    int64_t at = 0;
    for (int64_t child = 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && heap[child + 1] < heap[child]) {
            child += 1;
        }
        if (heap[child] >= moving) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moving;
}

/* Groups at the same distance, by rising first: their ids merged in order. The firsts in rising
 * order are a heap already. No group beyond the wanted-th can give an id. */
static void append_tied(kin_answer *answer, const kin_pair *tied, int64_t count)
{
    const uint32_t *next = answer->groups->next;
    int64_t cursors = kin_min_i64(count, answer->wanted);
    for (int64_t i = 0; i < cursors; i++) {
        answer->heap[i] = tied[i].id;
    }
    while (cursors > 0 && answer->count < answer->wanted) {
        const uint32_t id = answer->heap[0];
        append(answer, tied[0].key, id);
        answer->heap[0] = next[id] != KITH_ID_NONE ? next[id] : answer->heap[--cursors];
        sift_down(answer->heap, cursors);
    }
}

/* At most `wanted` degenerate ids go behind the list; both are sorted; the first `wanted` of their
 * union are what sorting gives. */
static void add_degenerates(kin_answer *answer)
{
    const kin_groups *groups = answer->groups;
    if (groups->degenerate == 0 ||
        (answer->count == answer->wanted && answer->list[answer->count - 1].key < DEGENERATE_KEY)) {
        return;
    }
    for (int64_t i = 0; i < kin_min_i64(groups->degenerate, answer->wanted); i++) {
        append(answer, DEGENERATE_KEY, groups->degenerates[i]);
    }
    kin_select_sort_pairs(answer->list, answer->count);
    answer->count = kin_min_i64(answer->count, answer->wanted);
}

void kin_answer_expand(kin_answer *answer, const kin_pair *groups, int64_t count)
{
    answer->count = 0;
    if (answer->groups->next == NULL) {
        for (int64_t i = 0; i < count && answer->count < answer->wanted; i++) {
            append(answer, groups[i].key, groups[i].id);
        }
    } else {
        int64_t last = 0;
        for (int64_t i = 0; i < count && answer->count < answer->wanted; i = last) {
            for (last = i + 1; last < count && groups[last].key == groups[i].key; last++) {
            }
            append_tied(answer, groups + i, last - i);
        }
    }
    add_degenerates(answer);
}

void kin_answer_degenerate(kin_answer *answer)
{
    answer->count = 0;
    const int64_t count = kin_min_i64(answer->groups->rows, answer->wanted);
    for (int64_t i = 0; i < count; i++) {
        append(answer, DEGENERATE_KEY, (uint32_t)i);
    }
}

void kin_answer_put(const kith_neighbors *out, int64_t at, uint32_t id, double distance)
{
    if (out->ids != NULL) {
        out->ids[at] = id;
    }
    if (out->distances != NULL) {
        out->distances[at] = (float)distance;
    }
    if (out->distances64 != NULL) {
        out->distances64[at] = distance;
    }
}

bool kin_answer_write(const kin_answer *answer, uint32_t left_out, const kith_neighbors *out,
                      int64_t row)
{
    int64_t written = row * out->k;
    const int64_t last = written + out->k;
    for (int64_t i = 0; i < answer->count && written < last; i++) {
        const kin_pair *pair = &answer->list[i];
        if (pair->id != left_out) {
            kin_answer_put(out, written++, pair->id,
                           kin_metric_distance(answer->metric, pair->key));
        }
    }
    return written == last;
}

void kin_answer_empty(kith_metric metric, const kith_neighbors *out, int64_t first, int64_t last)
{
    const double far = metric == KITH_INNER_PRODUCT ? -INFINITY : INFINITY;
    for (int64_t i = first; i < last; i++) {
        kin_answer_put(out, i, KITH_ID_NONE, far);
    }
}

static uint32_t left_out(const kin_answer_target *target, uint32_t row)
{
    if (target->leaves_self_out) {
        return row;
    }
    return target->exclude != NULL ? target->exclude[row] : KITH_ID_NONE;
}

kith_status kin_answer_write_group(kith_ctx *ctx, const kin_answer_target *target,
                                   const kin_answer *answer, uint32_t first)
{
    for (uint32_t row = first; row != KITH_ID_NONE; row = kin_groups_next(target->groups, row)) {
        KIN_FAIL_IF(!kin_answer_write(answer, left_out(target, row), target->out, row) &&
                        !target->may_be_short,
                    ctx, KITH_E_INTERNAL, kin_at(NULL),
                    "row %lu has fewer than %lld neighbours (a bound is wrong; please "
                    "report it)",
                    (unsigned long)row, (long long)target->out->k);
    }
    return KITH_OK;
}

/* Degenerate rows all have the same list but for the id that is left out. */
void kin_answer_write_degenerates(const kin_answer_target *target, kin_answer *answer)
{
    kin_answer_degenerate(answer);
    for (int64_t i = 0; i < target->groups->degenerate; i++) {
        const uint32_t row = target->groups->degenerates[i];
        (void)kin_answer_write(answer, left_out(target, row), target->out, row);
    }
}
