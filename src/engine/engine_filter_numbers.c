/* SPDX-License-Identifier: Apache-2.0
 * What a filter allows: in lists within a radius, which are found without it, and counted; and
 * numbers of groups, as indices. */
#include "engine/engine_filter.h"

/* ---- Within a radius ------------------------------------------------------------------------- */

static void drop_lists(kith_ctx *ctx, kith_lists *lists)
{
    kin_free(ctx, lists->ids);
    kin_free(ctx, lists->distances);
    kin_free(ctx, lists->distances64);
    *lists = (kith_lists){.rows = lists->rows, .offsets = lists->offsets};
}

void kin_filter_ranges(const kith_filter *filter, const int64_t *numbers, bool counts,
                       kith_ranges *ranges)
{
    kith_lists *lists = &ranges->lists;
    int64_t kept = 0;
    int64_t from = 0;
    for (int64_t row = 0; row < lists->rows; row++) {
        const int64_t end = lists->offsets[row + 1];
        for (; from < end; from++) {
            if (kin_filter_admits(filter, numbers, row, lists->ids[from])) {
                lists->ids[kept] = lists->ids[from];
                lists->distances[kept] = lists->distances[from];
                lists->distances64[kept++] = lists->distances64[from];
            }
        }
        lists->offsets[row + 1] = kept;
    }
    if (counts) {
        drop_lists(ranges->ctx, lists);
    }
}

/* ---- Numbers of groups ----------------------------------------------------------------------- */

/* Groups have any numbers; whoever sorts by them wants them small. Small ones are a table of their
 * indices, others are sorted and searched for. */

kith_status kin_filter_refuse_number(kith_ctx *ctx, const char *name, int64_t row, int64_t number)
{
    return kin_fail_at(
        ctx, KITH_E_ARGUMENT, kin_at_row(name, row),
        "is %lld, must be at least 0 (a row that is in no group can be left out by allow)",
        (long long)number);
}

static kith_status fetch(kin_hold *hold, kin_gpu *gpu, int64_t rows, const int64_t **numbers)
{
    int64_t *copy = NULL;
    if (kin_gpu_index_of(*numbers) < 0) {
        return KITH_OK;
    }
    KIN_NEW(hold, copy, (uint64_t)rows, "numbers of groups");
    KIN_TRY(kin_gpu_download(hold->ctx, gpu, copy, *numbers, (uint64_t)rows * sizeof *copy));
    *numbers = copy;
    return KITH_OK;
}

kith_status kin_filter_fetch(kin_hold *hold, kin_gpu *gpu, kin_filter_job *job)
{
    if (!job->there) {
        return KITH_OK;
    }
    job->there = false;
    KIN_TRY(fetch(hold, gpu, job->corpus.rows, &job->filter.groups));
    return fetch(hold, gpu, job->queries.rows, &job->filter.query_groups);
}

/* ---- Numbers below `most` ------------------------------------------------------------------- */

static bool are_small(const int64_t *numbers, int64_t rows, int64_t most)
{
    int64_t largest = 0;
    for (int64_t i = 0; numbers != NULL && i < rows; i++) {
        largest = numbers[i] > largest ? numbers[i] : largest;
    }
    return largest < most;
}

static void mark_numbers(const int64_t *numbers, int64_t rows, uint64_t *marks)
{
    for (int64_t i = 0; numbers != NULL && i < rows; i++) {
        marks[numbers[i]] = 1;
    }
}

/* Marks become indices; how many there are. */
static int64_t settle_marks(uint64_t *marks, int64_t most)
{
    int64_t different = 0;
    for (int64_t i = 0; i < most; i++) {
        const uint64_t marked = marks[i];
        marks[i] = (uint64_t)different;
        different += (int64_t)marked;
    }
    return different;
}

/* ---- Any numbers ---------------------------------------------------------------------------- */

/* Numbers that stand in runs are one each: points often come group by group. */
static int64_t add_numbers(const int64_t *numbers, int64_t rows, uint64_t *words, int64_t count)
{
    for (int64_t i = 0; numbers != NULL && i < rows; i++) {
        if (i == 0 || numbers[i] != numbers[i - 1]) {
            words[count++] = (uint64_t)numbers[i];
        }
    }
    return count;
}

/* Sorted, each once; how many there are. */
static int64_t settle_numbers(uint64_t *words, int64_t count)
{
    int64_t different = 0;
    kin_select_sort_words(words, count);
    for (int64_t i = 0; i < count; i++) {
        if (i == 0 || words[i] != words[i - 1]) {
            words[different++] = words[i];
        }
    }
    return different;
}

/* ---- Indices --------------------------------------------------------------------------------- */

kith_status kin_filter_count_lists(kith_ctx *ctx, const kith_filter *filter, int64_t rows,
                                   int64_t *lists)
{
    uint64_t *words = NULL;
    *lists = 1;
    if (filter->rule != KITH_RULE_EACH) {
        return KITH_OK;
    }
    KIN_HOLD(hold, ctx);
    KIN_NEW_ZERO(&hold, words, (uint64_t)rows, "numbers of groups");
    if (are_small(filter->groups, rows, rows)) {
        mark_numbers(filter->groups, rows, words);
        *lists = settle_marks(words, rows);
    } else {
        *lists = settle_numbers(words, add_numbers(filter->groups, rows, words, 0));
    }
    return KITH_OK;
}

int64_t kin_filter_count_allowed(const kith_filter *filter, int64_t rows)
{
    int64_t count = 0;
    int64_t byte = 0;
    uint64_t word;
    if (filter->allow == NULL) {
        return rows;
    }
    for (; (byte + (int64_t)sizeof word) * 8 <= rows; byte += (int64_t)sizeof word) {
        memcpy(&word, filter->allow + byte, sizeof word);
        count += __builtin_popcountll(word);
    }
    for (int64_t row = byte * 8; row < rows; row++) {
        count += kin_filter_allows(filter, 0, (uint32_t)row);
    }
    return count;
}

bool kin_filter_allows_all(const kith_filter *filter, int64_t rows)
{
    return filter->rule == KITH_RULE_NONE && !kin_filter_has_bitmaps(filter) &&
           kin_filter_count_allowed(filter, rows) == rows;
}

/* The index of a number, which is there. */
static uint32_t index_of(const kin_filter_numbers *numbers, int64_t number)
{
    return (uint32_t)(numbers->table
                          ? (int64_t)numbers->number[number]
                          : kin_lower_u64(numbers->number, numbers->count, (uint64_t)number));
}

void kin_filter_index_numbers(const kin_filter_numbers *numbers, const int64_t *groups,
                              int64_t rows, uint32_t *index)
{
    for (int64_t i = 0; i < rows; i++) {
        const bool same = i > 0 && (groups == NULL || groups[i] == groups[i - 1]);
        index[i] = same ? index[i - 1] : groups == NULL ? 0 : index_of(numbers, groups[i]);
    }
}

void kin_filter_number(const kin_filter_job *job, kin_filter_numbers *numbers)
{
    const int64_t rows = job->corpus.rows;
    const int64_t queries = job->queries.rows;
    const bool asked = job->filter.rule != KITH_RULE_EACH && !job->graph;
    const int64_t *groups = job->filter.groups;
    const int64_t *others = asked ? job->filter.query_groups : NULL;
    numbers->table =
        are_small(groups, rows, numbers->most) && are_small(others, queries, numbers->most);
    if (groups == NULL) {
        numbers->count = 1;
    } else if (numbers->table) {
        mark_numbers(groups, rows, numbers->number);
        mark_numbers(others, queries, numbers->number);
        numbers->count = settle_marks(numbers->number, numbers->most);
    } else {
        const int64_t count = add_numbers(groups, rows, numbers->number, 0);
        numbers->count =
            settle_numbers(numbers->number, add_numbers(others, queries, numbers->number, count));
    }
}

void kin_filter_numbers_name(kin_layout *layout, void *job)
{
    kin_filter_numbers *numbers = job;
    numbers->number = kin_layout_zeros(layout, (uint64_t)numbers->most, sizeof *numbers->number);
}
