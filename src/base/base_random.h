/* SPDX-License-Identifier: Apache-2.0
 * A small generator whose numbers are the same everywhere: SplitMix64 (Steele, Lea, Flood 2014). */
#ifndef KIN_BASE_RANDOM_H
#define KIN_BASE_RANDOM_H

#include <stdint.h>

static inline uint64_t kin_random_next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Uniform in [0, bound), bound >= 1: the high half of a 128-bit product. Its bias is below
 * bound / 2^64. */
static inline uint64_t kin_random_below(uint64_t *state, uint64_t bound)
{
    return (uint64_t)(((unsigned __int128)kin_random_next(state) * bound) >> 64);
}

#endif
