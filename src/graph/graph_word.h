/* SPDX-License-Identifier: Apache-2.0
 * An entry of a list of NN-Descent as one number, and the hashes by which samples are drawn. Read
 * by host and device compilers.
 *
 *   word    order of the cost << 32 | position << 1 | new
 *
 * Words of a list ascend, so that the nearest comes first; of two with one position the lower bit
 * alone may differ. `new`: the entry came since it was last sampled (the paper's NEW).
 *
 * Everything that is sampled or offered goes to a slot that a hash names, and of what meets in a
 * slot the least word stays. A minimum is the same in any order: so rounds need no locks, and give
 * the same bytes whatever the threads do. */
#ifndef KIN_GRAPH_WORD_H
#define KIN_GRAPH_WORD_H

#include "metric/metric_arith.h" /* KIN_HD */

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Behind every word: an empty place. */
#define KIN_GRAPH_EMPTY UINT64_MAX
/* Positions are below this. */
#define KIN_GRAPH_MOST_POINTS 0x7fffffffLL

KIN_HD uint64_t kin_graph_word(uint32_t order, uint32_t position, uint32_t is_new)
{
    return (uint64_t)order << 32 | (uint64_t)(position << 1) | is_new;
}

KIN_HD uint32_t kin_graph_position(uint64_t word)
{
    return (uint32_t)word >> 1;
}

KIN_HD uint32_t kin_graph_is_new(uint64_t word)
{
    return (uint32_t)word & 1u;
}

/* Costs that ascend as unsigned numbers. No cost is a NaN. */
KIN_HD uint32_t kin_graph_order_of_float(float cost)
{
    uint32_t bits;
    memcpy(&bits, &cost, sizeof bits);
    return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}

KIN_HD uint32_t kin_graph_order_of_int(int32_t cost)
{
    return (uint32_t)cost ^ 0x80000000u;
}

/* Which sets rows of a group belong to, where two are made one: one side of a split, or both. */
enum { KIN_GRAPH_BELOW = 1, KIN_GRAPH_BEHIND = 2 };

/* A mixer of 64 bits (SplitMix64). */
KIN_HD uint64_t kin_graph_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* A number of `salt` (seed, round, purpose) and a position. */
KIN_HD uint32_t kin_graph_hash(uint64_t salt, uint32_t position)
{
    return (uint32_t)(kin_graph_mix(salt + 0x9e3779b97f4a7c15u * ((uint64_t)position + 1)) >> 32);
}

/* A hash below `bound`. */
KIN_HD uint32_t kin_graph_slot(uint32_t hash, uint32_t bound)
{
    return (uint32_t)(((uint64_t)hash * bound) >> 32);
}

/* Rows of two sets: those below the split are one, the others the other. */
typedef struct kin_graph_split {
    int64_t split;
    int64_t rows;
} kin_graph_split;

KIN_HD bool kin_graph_is_across(int64_t split, int64_t row, int64_t other)
{
    return (row < split) != (other < split);
}

/* The row of the other set that is drawn for place `place` of the list of `position`, whose row is
 * `row`; where there are no more than `wanted`, all of them, one a place. UINT32_MAX: none. */
KIN_HD uint32_t kin_graph_row_across(kin_graph_split sets, uint64_t seed, uint32_t position,
                                     int64_t row, int32_t place, int32_t wanted)
{
    const bool below = row < sets.split;
    const int64_t first = below ? sets.split : 0;
    const int64_t others = below ? sets.rows - sets.split : sets.split;
    if (others <= wanted) {
        return place < others ? (uint32_t)(first + place) : UINT32_MAX;
    }
    const uint64_t salt = kin_graph_mix(seed + (uint64_t)place);
    return (uint32_t)first + kin_graph_slot(kin_graph_hash(salt, position), (uint32_t)others);
}

#endif
