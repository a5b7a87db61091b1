/* SPDX-License-Identifier: Apache-2.0
 * How the scan sees values: as numbers that it compares, and as rows that it reads. */
#ifndef KIN_SELECT_NUMBER_CUH
#define KIN_SELECT_NUMBER_CUH

#include "select/select_value.cuh"

#include <cuda_fp16.h>
#include <math.h>

/* order() is what the sample is ranked by; threshold() the greatest number of that order, or a
 * greater one. x <= threshold(order(x)) holds for every number; NaN never passes, whatever the
 * direction. */
struct number_of_float {
    typedef float number;
    static __device__ __forceinline__ uint32_t order(float x)
    {
        return kin_key32(__float_as_uint(x), false);
    }
    static __device__ __forceinline__ float threshold(uint32_t order)
    {
        const float x = __uint_as_float(kin_key32_bits(order, false));
        return x == x ? x : INFINITY;
    }
};

template <typename Value> struct scanned;

template <> struct scanned<kin_value_f32> : number_of_float {
    static __device__ __forceinline__ float number_of(uint32_t bits, bool largest)
    {
        return __uint_as_float(largest ? bits ^ 0x80000000u : bits);
    }
};

template <> struct scanned<kin_value_f16> : number_of_float {
    static __device__ __forceinline__ float number_of(uint16_t bits, bool largest)
    {
        const __half_raw raw = {bits};
        const float x = __half2float(__half(raw));
        return largest ? -x : x;
    }
};

template <> struct scanned<kin_value_bf16> : number_of_float {
    static __device__ __forceinline__ float number_of(uint16_t bits, bool largest)
    {
        const uint32_t wide = (uint32_t)bits << 16;
        return __uint_as_float(largest ? wide ^ 0x80000000u : wide);
    }
};

/* Costs of a screen: their order is themselves. */
template <> struct scanned<kin_value_u32> {
    typedef uint32_t number;
    static __device__ __forceinline__ uint32_t number_of(uint32_t bits, bool)
    {
        return bits;
    }
    static __device__ __forceinline__ uint32_t order(uint32_t x)
    {
        return x;
    }
    static __device__ __forceinline__ uint32_t threshold(uint32_t order)
    {
        return order;
    }
};

template <> struct scanned<kin_value_f64> {
    typedef double number;
    static __device__ __forceinline__ double number_of(uint64_t bits, bool largest)
    {
        const double x = __longlong_as_double((long long)bits);
        return largest ? -x : x;
    }
    /* The upper half of the key; the threshold is the greatest number that has it. */
    static __device__ __forceinline__ uint32_t order(double x)
    {
        return (uint32_t)(kin_key64((uint64_t)__double_as_longlong(x), false) >> 32);
    }
    static __device__ __forceinline__ double threshold(uint32_t order)
    {
        const uint64_t key = (uint64_t)order << 32 | UINT32_MAX;
        const double x = __longlong_as_double((long long)kin_key64_bits(key, false));
        return x == x ? x : (double)INFINITY;
    }
};

/* Words that were selected from runs: the upper 32 bits of the key decide whether one passes. */
struct word_64 {
    typedef uint64_t bits;
    typedef kin_word64 word;
};
struct word_128 {
    typedef kin_word128 bits;
    typedef kin_word128 word;
};

template <> struct scanned<word_64> : scanned<kin_value_u32> {
    static __device__ __forceinline__ uint32_t number_of(kin_word64 word, bool)
    {
        return (uint32_t)(word >> 32);
    }
};

template <> struct scanned<word_128> : scanned<kin_value_u32> {
    static __device__ __forceinline__ uint32_t number_of(kin_word128 word, bool)
    {
        return (uint32_t)(word >> 96);
    }
};

template <typename Value> struct run_reader {
    kin_device_row<Value> row;
    __device__ __forceinline__ run_reader(const kin_select_task &task, int64_t at) : row(task, at)
    {
    }
    __device__ __forceinline__ typename Value::word word(typename Value::bits bits,
                                                         int64_t place) const
    {
        return Value::make(bits, row.id(place), row.largest);
    }
    __device__ __forceinline__ const typename Value::bits *values() const
    {
        return row.values;
    }
    __device__ __forceinline__ bool largest() const
    {
        return row.largest;
    }
};

/* Rows of words have their ids inside. */
template <typename Word> struct word_reader {
    const Word *words;
    __device__ __forceinline__ word_reader(const kin_select_task &task, int64_t at)
        : words((const Word *)(task.values + at * task.stride_bytes))
    {
    }
    __device__ __forceinline__ Word word(Word bits, int64_t) const
    {
        return bits;
    }
    __device__ __forceinline__ const Word *values() const
    {
        return words;
    }
    __device__ __forceinline__ bool largest() const
    {
        return false;
    }
};
template <> struct run_reader<word_64> : word_reader<kin_word64> {
    using word_reader<kin_word64>::word_reader;
};
template <> struct run_reader<word_128> : word_reader<kin_word128> {
    using word_reader<kin_word128>::word_reader;
};

#endif
