/* SPDX-License-Identifier: Apache-2.0
 * Meetings in plain C: the reference of the others, and what runs where nothing better does.
 * Contract: graph_join.h. */
#include "base/base_size.h"
#include "graph/graph_join.h"
#include "screen/screen_tile_plain.h"

static inline void orders_int(uint32_t *to, vec product, uint32_t row_term, vec col_terms)
{
    for (int lane = 0; lane < 16; lane++) {
        const uint32_t cost = row_term + col_terms.lane[lane].u - 2 * product.lane[lane].u;
        to[lane] = kin_graph_order_of_int((int32_t)cost);
    }
}

static inline void orders_float(uint32_t *to, vec product, uint32_t row_term, vec col_terms)
{
    const kin_word term = {.u = row_term};
    for (int lane = 0; lane < 16; lane++) {
        const float cost = (term.f + col_terms.lane[lane].f) - 2.0F * product.lane[lane].f;
        to[lane] = kin_graph_order_of_float(cost);
    }
}

static inline void transpose_16x16(const uint32_t *from, int64_t wide, uint32_t flip, uint32_t *to)
{
    for (int64_t row = 0; row < 16; row++) {
        for (int64_t word = 0; word < 16; word++) {
            to[word * KIN_PANEL + row] = from[row * wide + word] ^ flip;
        }
    }
}

#define TILE_NAME s8
#include "graph/graph_join_body.inc"
#define TILE_NAME s16
#include "graph/graph_join_body.inc"
#define TILE_NAME f32
#include "graph/graph_join_body.inc"

/* ---- Who is nearest, and what is within limits ----------------------------------------------- */

/* What follows a product, in plain C: who is nearest in a join, which pairs are within their
 * limits, short lists in order. Contract: graph_join.h. */

static void clear(uint32_t *order, uint32_t *sample, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        order[i] = UINT32_MAX;
        sample[i] = 0;
    }
}

static void take_row(const uint32_t *costs, int64_t count, uint32_t *order, uint32_t *sample)
{
    for (int64_t j = 0; j < count; j++) {
        if (costs[j] < *order) {
            *order = costs[j];
            *sample = (uint32_t)j;
        }
    }
}

static void offer_row(const uint32_t *costs, int64_t count, int32_t row, uint32_t *order,
                      uint32_t *sample)
{
    for (int64_t j = 0; j < count; j++) {
        if (costs[j] < order[j]) {
            order[j] = costs[j];
            sample[j] = (uint32_t)row;
        }
    }
}

static void least_of(const uint32_t *orders, const uint32_t *back, int64_t stride,
                     int32_t new_count, int32_t count, const kin_graph_least *least)
{
    clear(least->row_order, least->row_sample, count);
    clear(least->new_order, least->new_sample, new_count);
    clear(least->old_order, least->old_sample, new_count);
    for (int32_t i = 0; i < count; i++) {
        const int64_t met = kin_min_i64(i, new_count);
        const bool is_new = i < new_count;
        take_row(orders + i * stride, met, &least->row_order[i], &least->row_sample[i]);
        offer_row(back + i * stride, met, i, is_new ? least->new_order : least->old_order,
                  is_new ? least->new_sample : least->old_sample);
    }
}

static int64_t hits_of(const kin_graph_orders *of, uint32_t *hits)
{
    int64_t count = 0;
    for (int64_t i = 0; i < of->rows; i++) {
        for (int64_t j = 0; j < of->cols; j++) {
            const uint32_t limit =
                of->row_limits[i] > of->col_limits[j] ? of->row_limits[i] : of->col_limits[j];
            hits[count] = (uint32_t)i << 16 | (uint32_t)j;
            count += of->orders[i * of->stride + j] <= limit;
        }
    }
    return count;
}

/* How far a word goes is hard to guess: where it stands is counted, not searched. */
void kin_graph_put_portable(uint64_t *words, int64_t length, uint64_t word)
{
    int64_t at = 0;
    for (int64_t i = 0; i < length; i++) {
        at += words[i] < word;
    }
    if (at == length || words[at] == word) {
        return;
    }
    for (; at < length; at++) {
        const uint64_t next = words[at];
        words[at] = word;
        word = next;
    }
}

const kin_graph_words kin_graph_words_portable = {least_of, hits_of, kin_graph_put_portable};
