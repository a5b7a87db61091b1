/* SPDX-License-Identifier: Apache-2.0
 * The reference device's launches of select_kernels.h: one body for every method, since all give
 * the same bytes. The first k words of a row stand in a heap, the worst on top. What may come in
 * any order comes backwards, so that nobody takes it for sorted. */
#include "reference/reference.h"

#include "kith/kith_papers.h"

#include <string.h>

/* Key above id, of any type. */
static kin_word128 word_at(const kin_select_job *task, int64_t row, int64_t col)
{
    const char *from =
        task->values + row * task->stride_bytes + col * kin_select_type_bytes(task->dtype);
    const bool largest = task->largest != 0;
    uint32_t id = task->first_id + (uint32_t)col;
    uint64_t bits = 0;
    if (task->ids != NULL) {
        memcpy(&id, task->ids + row * task->ids_stride_bytes + 4 * col, sizeof id);
    }
    memcpy(&bits, from, (size_t)kin_select_type_bytes(task->dtype));
    switch (task->dtype) {
    case KIN_SELECT_F64:
        return kin_word128_make(kin_key64(bits, largest), id);
    case KIN_SELECT_F32:
        return kin_word128_make(kin_key32((uint32_t)bits, largest), id);
    case KIN_SELECT_F16:
        return kin_word128_make(kin_key32(kin_bits32_of_f16((uint16_t)bits), largest), id);
    case KIN_SELECT_BF16:
        return kin_word128_make(kin_key32((uint32_t)bits << 16, largest), id);
    case KIN_SELECT_KEYS:
        return kin_word128_make(bits, id);
    }
    return KIN_WORD128_WORST;
}

static void write_value(const kin_select_job *task, kin_word128 word, void *values, int64_t at)
{
    if (task->dtype == KIN_SELECT_F64) {
        kin_word128_value(word, task->largest != 0, values, at);
    } else {
        const kin_word64 narrow = kin_word64_make((uint32_t)(word >> 64), 0);
        kin_word64_value(narrow, task->dtype, task->largest != 0, values, at);
    }
}

/* A word that may be too small for its place in a heap of `count`. */
static void sink(kin_word128 *heap, int64_t count, int64_t at)
{
    const kin_word128 word = heap[at];
    for (int64_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        child += child + 1 < count && heap[child + 1] > heap[child] ? 1 : 0;
        if (heap[child] <= word) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = word;
}

/* The first k words of a row, ascending. */
static void first_words(const kin_select_job *task, int64_t row, kin_word128 *heap)
{
    for (int64_t i = 0; i < task->k; i++) {
        heap[i] = word_at(task, row, i);
    }
    for (int64_t i = task->k / 2 - 1; i >= 0; i--) {
        sink(heap, task->k, i);
    }
    for (int64_t i = task->k; i < task->cols; i++) {
        const kin_word128 word = word_at(task, row, i);
        if (word < heap[0]) {
            heap[0] = word;
            sink(heap, task->k, 0);
        }
    }
    for (int64_t left = task->k - 1; left > 0; left--) {
        const kin_word128 last = heap[0];
        heap[0] = heap[left];
        heap[left] = last;
        sink(heap, left, 0);
    }
}

static void select_rows(const kin_select_job *task)
{
    kin_word128 *words = task->scratch;
    for (int64_t row = 0; row < task->rows; row++) {
        first_words(task, row, words + row * task->k);
    }
    for (int64_t i = 0; i < task->rows * task->k; i++) {
        const int64_t back = i / task->k * task->k + task->k - 1 - i % task->k;
        const kin_word128 word = words[task->sorted != 0 ? i : back];
        if (task->out_values != NULL) {
            write_value(task, word, task->out_values, i);
        }
        if (task->out_ids != NULL) {
            task->out_ids[i] = (uint32_t)word;
        }
    }
    for (int64_t row = 0; task->out_kth != NULL && row < task->rows; row++) {
        write_value(task, words[row * task->k + task->k - 1], task->out_kth, row);
    }
}

REFERENCE_LAUNCH(select_rows, kin_select_job)

static uint64_t scratch(kin_gpu_stream *stream, const kin_select_job *task)
{
    (void)stream;
    return (uint64_t)(task->rows * task->k) * sizeof(kin_word128);
}

#define METHOD(NAME, ...) [KITH_SELECT_##NAME] = {scratch, select_rows_launch},
const kin_select_kernels reference_select[] = {KITH_SELECT_MAP(METHOD)
                                                   KITH_PAPERS_SELECT_MAP(METHOD)};
