/* SPDX-License-Identifier: Apache-2.0
 * Every method of selection on a GPU by its name, a pair of functions each: bytes of scratch, and
 * the launch. Each .cu file defines what it owns; the plugin lists them. */
#ifndef KIN_SELECT_LAUNCH_CUH
#define KIN_SELECT_LAUNCH_CUH

#include "gpu/gpu_stream.cuh"
#include "select/select_kernels.h"

/* Of a function's name without _scratch or _launch. */
#define KIN_SELECT_LAUNCH(name)                                                  \
    uint64_t name##_scratch(kin_gpu_stream *stream, const kin_select_job *task); \
    int name##_launch(kin_gpu_stream *stream, const kin_select_job *task);
#define KIN_SELECT_LAUNCH_ROW(NAME, number, name) KIN_SELECT_LAUNCH(kin_select_##name)
KITH_SELECT_MAP(KIN_SELECT_LAUNCH_ROW)

/* select_scan_short.cu: rows whose words fit into a few KiB; without scratch. */
bool kin_select_scan_is_short(const kin_select_job *task);
int kin_select_scan_short(kin_gpu_stream *stream, const kin_select_job *task);

/* select_finish.cu: words is rows x k words of the dtype's kind, in any order, in device memory,
 * and is overwritten: sorts each row where `sorted` (or out_kth) asks, and writes the task's
 * outputs. already_sorted: writes alone. Any k. scratch: what kin_select_finish_scratch wants. */
uint64_t kin_select_finish_scratch(kin_gpu_stream *stream, const kin_select_job *task,
                                   bool already_sorted);
int kin_select_finish(kin_gpu_stream *stream, const kin_select_job *task, void *words,
                      bool already_sorted, void *scratch);

/* ---- Types of values ------------------------------------------------------------------------- */

/* How one becomes a word and comes back. Kernels are templates over one of these;
 * KIN_SELECT_BY_TYPE makes the instances. */

struct kin_value_f32 {
    typedef uint32_t bits;
    typedef kin_word64 word;
    static __device__ __forceinline__ word make(bits b, uint32_t id, bool largest)
    {
        return kin_word64_make(kin_key32(b, largest), id);
    }
};

struct kin_value_f16 {
    typedef uint16_t bits;
    typedef kin_word64 word;
    static __device__ __forceinline__ word make(bits b, uint32_t id, bool largest)
    {
        return kin_word64_make(kin_key32(kin_bits32_of_f16(b), largest), id);
    }
};

struct kin_value_bf16 {
    typedef uint16_t bits;
    typedef kin_word64 word;
    static __device__ __forceinline__ word make(bits b, uint32_t id, bool largest)
    {
        return kin_word64_make(kin_key32((uint32_t)b << 16, largest), id);
    }
};

/* `largest` is never asked for. */
struct kin_value_u32 {
    typedef uint32_t bits;
    typedef kin_word64 word;
    static __device__ __forceinline__ word make(bits b, uint32_t id, bool)
    {
        return kin_word64_make(b, id);
    }
};

struct kin_value_f64 {
    typedef uint64_t bits;
    typedef kin_word128 word;
    static __device__ __forceinline__ word make(bits b, uint32_t id, bool largest)
    {
        return kin_word128_make(kin_key64(b, largest), id);
    }
};

template <typename Word> static __device__ __forceinline__ Word kin_word_worst()
{
    return ~(Word)0;
}

/* One row of a task. */
template <typename Value> struct kin_device_row {
    const typename Value::bits *values;
    const uint32_t *ids; /* NULL: first_id + place */
    uint32_t first_id;
    bool largest;

    __device__ __forceinline__ kin_device_row(const kin_select_job &task, int64_t row)
        : values((const typename Value::bits *)(task.values + row * task.stride_bytes)),
          ids(task.ids == NULL ? NULL : (const uint32_t *)(task.ids + row * task.ids_stride_bytes)),
          first_id(task.first_id), largest(task.largest != 0)
    {
    }
    __device__ __forceinline__ uint32_t id(int64_t place) const
    {
        return ids == NULL ? first_id + (uint32_t)place : ids[place];
    }
    __device__ __forceinline__ typename Value::word word(int64_t place) const
    {
        return Value::make(values[place], id(place), largest);
    }
};

/* Writes place `at` of row `row` of the answer; only the last place counts where k-th values are
 * asked for. The words must be ascending then. */
static __device__ __forceinline__ void kin_select_put(const kin_select_job &task, int64_t row,
                                                      int64_t at, kin_word64 word)
{
    const bool largest = task.largest != 0;
    if (task.out_kth != NULL) {
        if (at == task.k - 1) {
            kin_word64_value(word, task.dtype, largest, task.out_kth, row);
        }
        return;
    }
    if (task.out_values != NULL) {
        kin_word64_value(word, task.dtype, largest, task.out_values, row * task.k + at);
    }
    if (task.out_ids != NULL) {
        task.out_ids[row * task.k + at] = (uint32_t)word;
    }
}

static __device__ __forceinline__ void kin_select_put(const kin_select_job &task, int64_t row,
                                                      int64_t at, kin_word128 word)
{
    const bool largest = task.largest != 0;
    if (task.out_kth != NULL) {
        if (at == task.k - 1) {
            kin_word128_value(word, largest, task.out_kth, row);
        }
        return;
    }
    if (task.out_values != NULL) {
        kin_word128_value(word, largest, task.out_values, row * task.k + at);
    }
    if (task.out_ids != NULL) {
        task.out_ids[row * task.k + at] = (uint32_t)word;
    }
}

/* `function<Value>(arguments...)` for the dtype of a task, as the value of a function that returns
 * int. */
#define KIN_SELECT_BY_TYPE(dtype, function, ...)      \
    switch (dtype) {                                  \
    case KIN_SELECT_F32:                              \
        return function<kin_value_f32>(__VA_ARGS__);  \
    case KIN_SELECT_F16:                              \
        return function<kin_value_f16>(__VA_ARGS__);  \
    case KIN_SELECT_BF16:                             \
        return function<kin_value_bf16>(__VA_ARGS__); \
    case KIN_SELECT_F64:                              \
        return function<kin_value_f64>(__VA_ARGS__);  \
    case KIN_SELECT_KEYS:                             \
        return function<kin_value_u32>(__VA_ARGS__);  \
    default:                                          \
        return (int)cudaErrorInvalidValue;            \
    }

#endif
