/* SPDX-License-Identifier: Apache-2.0
 * A value and its id as one unsigned number, so that every method of selection, on the processor
 * and on a GPU, moves and compares plain numbers and knows neither types nor directions.
 *
 *   key    order-preserving: smaller key = earlier in the answer. 0 and -0 have one key, every NaN
 *          has the greatest. "largest" complements the keys of numbers, so NaN stays last.
 *   word   key above id: float32, float16, bfloat16 -> 32 + 32 bits, float64 -> 64 + 64 bits (the
 *          upper half of the id is 0). Words of one row differ unless ids were given twice.
 *   worst  all bits set, (NaN, KITH_ID_NONE): nothing comes behind it, so it marks empty places.
 */
#ifndef KIN_SELECT_WORD_H
#define KIN_SELECT_WORD_H

#include "kith/kith.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__CUDACC__)
#define KIN_SELECT_HD static __host__ __device__ __forceinline__
#else
#define KIN_SELECT_HD static inline __attribute__((always_inline))
#endif

typedef uint64_t kin_word64;
__extension__ typedef unsigned __int128 kin_word128;

/* What can be selected from: the float types of the library, by their numbers there, and KEYS:
 * 32-bit unsigned numbers that are keys as they stand, such as the costs that the screen of a GPU
 * writes. The smallest come first; UINT32_MAX is the worst there is. */
typedef enum kin_select_type {
    KIN_SELECT_F32 = KITH_F32,
    KIN_SELECT_F64 = KITH_F64,
    KIN_SELECT_F16 = KITH_F16,
    KIN_SELECT_BF16 = KITH_BF16,
    KIN_SELECT_KEYS = 64
} kin_select_type;

/* Of a value. */
KIN_SELECT_HD int32_t kin_select_type_bytes(kin_select_type type)
{
    return type == KIN_SELECT_F64 ? 8 : type == KIN_SELECT_F32 || type == KIN_SELECT_KEYS ? 4 : 2;
}

#define KIN_WORD64_WORST UINT64_MAX
#define KIN_WORD128_WORST (~(kin_word128)0)

/* ---- Keys of bit patterns ------------------------------------------------------------------- */

/* A float32, given as its bits. */
KIN_SELECT_HD uint32_t kin_key32(uint32_t bits, bool largest)
{
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return UINT32_MAX;
    }
    const uint32_t number = bits == 0x80000000u ? 0 : bits;
    const uint32_t up = (number >> 31) != 0 ? ~number : number | 0x80000000u;
    return largest ? ~up : up;
}

KIN_SELECT_HD uint32_t kin_key32_bits(uint32_t key, bool largest)
{
    if (key == UINT32_MAX) {
        return 0x7fc00000u;
    }
    const uint32_t up = largest ? ~key : key;
    return (up >> 31) != 0 ? up & 0x7fffffffu : ~up;
}

/* A float64, given as its bits. */
KIN_SELECT_HD uint64_t kin_key64(uint64_t bits, bool largest)
{
    if ((bits & 0x7fffffffffffffffu) > 0x7ff0000000000000u) {
        return UINT64_MAX;
    }
    const uint64_t number = bits == 0x8000000000000000u ? 0 : bits;
    const uint64_t up = (number >> 63) != 0 ? ~number : number | 0x8000000000000000u;
    return largest ? ~up : up;
}

KIN_SELECT_HD uint64_t kin_key64_bits(uint64_t key, bool largest)
{
    if (key == UINT64_MAX) {
        return 0x7ff8000000000000u;
    }
    const uint64_t up = largest ? ~key : key;
    return (up >> 63) != 0 ? up & 0x7fffffffffffffffu : ~up;
}

/* The float32 of a binary16, exactly, as bits; NaN stays NaN. */
KIN_SELECT_HD uint32_t kin_bits32_of_f16(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    const uint32_t exponent = (half >> 10) & 31u;
    uint32_t fraction = half & 1023u;
    if (exponent == 31) {
        return sign | 0x7f800000u | fraction << 13;
    }
    if (exponent != 0) {
        return sign | (exponent + 112) << 23 | fraction << 13;
    }
    if (fraction == 0) {
        return sign;
    }
    uint32_t shift = 0; /* a subnormal: its leading bit becomes the hidden one */
    while ((fraction & 1024u) == 0) {
        fraction <<= 1;
        shift += 1;
    }
    return sign | (113 - shift) << 23 | (fraction & 1023u) << 13;
}

/* And back; for values that kin_bits32_of_f16 gives. */
KIN_SELECT_HD uint16_t kin_f16_of_bits32(uint32_t bits)
{
    const uint32_t sign = bits >> 16 & 0x8000u;
    const uint32_t exponent = bits >> 23 & 255u;
    const uint32_t fraction = bits & 0x7fffffu;
    if (exponent == 255) {
        return (uint16_t)(sign | 0x7c00u | fraction >> 13);
    }
    if (exponent > 112) {
        return (uint16_t)(sign | (exponent - 112) << 10 | fraction >> 13);
    }
    const uint32_t subnormal = exponent == 0 ? 0 : (fraction | 0x800000u) >> (126 - exponent);
    return (uint16_t)(sign | subnormal);
}

/* ---- Words ---------------------------------------------------------------------------------- */

KIN_SELECT_HD kin_word64 kin_word64_make(uint32_t key, uint32_t id)
{
    return (uint64_t)key << 32 | id;
}

KIN_SELECT_HD kin_word128 kin_word128_make(uint64_t key, uint32_t id)
{
    return (kin_word128)key << 64 | id;
}

/* 8, or 16 for float64. */
KIN_SELECT_HD int32_t kin_word_bytes(kin_select_type dtype)
{
    return dtype == KIN_SELECT_F64 ? 16 : 8;
}

/* ---- What a word stood for, written to place `at` of an array of the dtype ------------------- */

KIN_SELECT_HD void kin_word64_value(kin_word64 word, kin_select_type dtype, bool largest,
                                    void *values, int64_t at)
{
    const uint32_t key = (uint32_t)(word >> 32);
    const uint32_t bits = dtype == KIN_SELECT_KEYS ? key : kin_key32_bits(key, largest);
    if (dtype == KIN_SELECT_F32 || dtype == KIN_SELECT_KEYS) {
        memcpy((char *)values + 4 * at, &bits, 4);
    } else {
        const uint16_t half =
            dtype == KIN_SELECT_F16 ? kin_f16_of_bits32(bits) : (uint16_t)(bits >> 16);
        memcpy((char *)values + 2 * at, &half, 2);
    }
}

KIN_SELECT_HD void kin_word128_value(kin_word128 word, bool largest, void *values, int64_t at)
{
    const uint64_t bits = kin_key64_bits((uint64_t)(word >> 64), largest);
    memcpy((char *)values + 8 * at, &bits, 8);
}

/* ---- Small lists (select_words.c) ------------------------------------------------------------ */

/* Order (key, id) pairs, find the k-th of words. They know nothing of distances. */

/* One candidate with its canonical key. Ordered by (key, id); keys are never NaN. */
typedef struct kin_pair {
    double key;
    uint32_t id;
    uint32_t weight; /* how many ids this one stands for; at least 1 */
} kin_pair;

static inline int kin_pair_less(const kin_pair *a, const kin_pair *b)
{
    return a->key < b->key || (a->key == b->key && a->id < b->id);
}

/* Into an ascending list of *count pairs that keeps `wanted` of them; false: it comes behind all.
 */
static inline bool kin_pair_insert(kin_pair *list, int64_t wanted, int64_t *count, kin_pair pair)
{
    if (*count == wanted && !kin_pair_less(&pair, &list[wanted - 1])) {
        return false;
    }
    int64_t at = *count < wanted ? *count : wanted - 1;
    *count = at + 1;
    for (; at > 0 && kin_pair_less(&pair, &list[at - 1]); at--) {
        list[at] = list[at - 1];
    }
    list[at] = pair;
    return true;
}

/* Ascending by (key, id). n log n at worst, in place, not stable (the order is total). */
void kin_select_sort_pairs(kin_pair *pairs, int64_t count);

/* The same for plain words. */
void kin_select_sort_words(uint64_t *words, int64_t count);
void kin_select_sort_words128(kin_word128 *words, int64_t count);

/* A number that at least k of the values do not exceed, not far above the k-th of them; they are
 * KIN_SELECT_BOUND_MOST or more, and 1 <= k <= KIN_SELECT_BOUND_MOST. Of values with NaN among them
 * it is any number. */
enum { KIN_SELECT_BOUND_MOST = 32 };
double kin_select_bound(const double *values, int64_t count, int64_t k);

/* Reorders words so that words[k] is what sorting would put there, smaller ones before it and
 * larger ones behind. 0 <= k < count. Linear on average; falls back to sorting. */
void kin_select_nth_word(uint64_t *words, int64_t count, int64_t k);
void kin_select_nth_word128(kin_word128 *words, int64_t count, int64_t k);

#endif
