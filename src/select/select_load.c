/* SPDX-License-Identifier: Apache-2.0
 *
 * Values and ids of a run as words. Contract: select.h.
 *
 * Sixteen places at a time through small arrays of their own: memory of any alignment is copied in,
 * nothing can alias, and every loop has a fixed count, which is what lets a compiler use vectors at
 * -O2. Type and direction are constants of each instance.
 */
#include "select/select.h"

enum { LANES = 16 };

#define LOAD_INLINE static inline __attribute__((always_inline))

/* kin_bits32_of_f16 without its loop: the leading bit of a subnormal is found by a subtraction that
 * is exact and has no subnormal in it. */
LOAD_INLINE uint32_t half_bits(uint16_t half)
{
    const uint32_t tiny = 0x38800000u; /* 2^-14, the smallest normal binary16 */
    const uint32_t rest = (uint32_t)(half & 0x7fffu) << 13;
    const uint32_t beside = tiny | rest;
    float above;
    float base;
    memcpy(&above, &beside, sizeof above);
    memcpy(&base, &tiny, sizeof base);
    const float difference = above - base;
    uint32_t small;
    memcpy(&small, &difference, sizeof small);
    const uint32_t is_small = 0u - (uint32_t)(rest < 0x00800000u);
    const uint32_t is_top = 0u - (uint32_t)(rest >= 0x0f800000u); /* infinity, NaN */
    const uint32_t normal = (rest + 0x38000000u) | (is_top & 0x7f800000u);
    const uint32_t magnitude = (is_small & small & 0x7fffffffu) | (~is_small & normal);
    return magnitude | (uint32_t)(half & 0x8000u) << 16;
}

LOAD_INLINE void load_ids(const kin_run *run, int64_t at, int64_t count, uint32_t ids[LANES])
{
    if (run->ids != NULL) {
        memcpy(ids, (const char *)run->ids + 4 * at, 4 * (size_t)count);
    } else {
        const uint32_t first = (uint32_t)(run->first + at);
        for (uint32_t lane = 0; lane < LANES; lane++) {
            ids[lane] = first + lane;
        }
    }
}

/* count <= LANES places. */
LOAD_INLINE void load_chunk64(const kin_run *run, kin_select_type dtype, bool largest, int64_t at,
                              int64_t count, kin_word64 *words)
{
    uint32_t bits[LANES] = {0};
    if (dtype == KIN_SELECT_F32) {
        memcpy(bits, run->values + 4 * at, 4 * (size_t)count);
    } else {
        uint16_t halves[LANES] = {0};
        memcpy(halves, run->values + 2 * at, 2 * (size_t)count);
        for (int lane = 0; lane < LANES; lane++) {
            bits[lane] =
                dtype == KIN_SELECT_F16 ? half_bits(halves[lane]) : (uint32_t)halves[lane] << 16;
        }
    }
    uint32_t ids[LANES] = {0};
    load_ids(run, at, count, ids);
    uint32_t keys[LANES];
    for (int lane = 0; lane < LANES; lane++) {
        keys[lane] = kin_key32(bits[lane], largest);
    }
    uint64_t made[LANES];
    for (int lane = 0; lane < LANES; lane++) {
        made[lane] = kin_word64_make(keys[lane], ids[lane]);
    }
    memcpy(words, made, sizeof made[0] * (size_t)count);
}

LOAD_INLINE void load_all64(const kin_run *run, kin_select_type dtype, bool largest, int64_t at,
                            int64_t count, kin_word64 *words)
{
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        load_chunk64(run, dtype, largest, at + i, LANES, words + i);
    }
    if (i < count) {
        load_chunk64(run, dtype, largest, at + i, count - i, words + i);
    }
}

LOAD_INLINE void load_typed64(const kin_run *run, kin_select_type dtype, int64_t at, int64_t count,
                              kin_word64 *words)
{
    if (run->largest) {
        load_all64(run, dtype, true, at, count, words);
    } else {
        load_all64(run, dtype, false, at, count, words);
    }
}

void kin_select_load64(const kin_run *run, int64_t at, int64_t count, kin_word64 *words)
{
    switch (run->dtype) {
    case KIN_SELECT_F16:
        load_typed64(run, KIN_SELECT_F16, at, count, words);
        break;
    case KIN_SELECT_BF16:
        load_typed64(run, KIN_SELECT_BF16, at, count, words);
        break;
    default:
        load_typed64(run, KIN_SELECT_F32, at, count, words);
        break;
    }
}

LOAD_INLINE void load_all128(const kin_run *run, bool largest, int64_t at, int64_t count,
                             kin_word128 *words)
{
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits;
        memcpy(&bits, run->values + 8 * (at + i), sizeof bits);
        uint32_t id = (uint32_t)(run->first + at + i);
        if (run->ids != NULL) {
            memcpy(&id, (const char *)run->ids + 4 * (at + i), sizeof id);
        }
        words[i] = kin_word128_make(kin_key64(bits, largest), id);
    }
}

void kin_select_load128(const kin_run *run, int64_t at, int64_t count, kin_word128 *words)
{
    if (run->largest) {
        load_all128(run, true, at, count, words);
    } else {
        load_all128(run, false, at, count, words);
    }
}
