/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Points are compared by (component, number), an order without ties, so which of them go left
 * is a fact of the data, whoever selects. One thread selects among words of both. All threads
 * together find the median's bucket by a histogram, search the bucket, and partition chunks to
 * where counting says.
 */
#include "tree/tree_split.h"

#include "base/base_mem.h"
#include "base/base_try.h"
#include "host/host_threads.h"
#include "select/select_pairs.h"

typedef float f32x4 __attribute__((vector_size(16)));
typedef int32_t i32x4 __attribute__((vector_size(16)));

/* ---- Order of components ----------------------------------------------------------------------
 */

static uint32_t order_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

static float component_of(uint64_t word)
{
    const uint32_t order = (uint32_t)(word >> 32);
    const uint32_t bits = (order & 0x80000000u) != 0 ? order & 0x7fffffffu : ~order;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint64_t word_of(const kin_tree_build *b, int64_t at, int32_t column)
{
    const uint32_t number = b->order[at];
    return (uint64_t)order_of(b->rows[(int64_t)number * b->wide + column]) << 32 | number;
}

/* ---- Boxes and medians ------------------------------------------------------------------------
 */

static f32x4 choose(i32x4 mask, f32x4 yes, f32x4 no)
{
    return (f32x4)(((i32x4)yes & mask) | ((i32x4)no & ~mask));
}

/* The box of points at places [first, last): low then high, `wide` floats each. */
static void box_of(const kin_tree_build *b, int64_t first, int64_t last, float *box)
{
    for (int32_t c = 0; c < b->wide; c += KIN_TREE_QUARTER) {
        f32x4 low;
        f32x4 high;
        memcpy(&low, b->rows + (int64_t)b->order[first] * b->wide + c, sizeof low);
        high = low;
        for (int64_t at = first + 1; at < last; at++) {
            f32x4 x;
            memcpy(&x, b->rows + (int64_t)b->order[at] * b->wide + c, sizeof x);
            low = choose(x < low, x, low);
            high = choose(x > high, x, high);
        }
        memcpy(box + c, &low, sizeof low);
        memcpy(box + b->wide + c, &high, sizeof high);
    }
}

static int32_t widest_column(const kin_tree_build *b, const float *box)
{
    int32_t widest = 0;
    for (int32_t c = 1; c < b->tree->cols; c++) {
        const float *high = box + b->wide;
        if ((double)high[c] - (double)box[c] > (double)high[widest] - (double)box[widest]) {
            widest = c;
        }
    }
    return widest;
}

static void note_split(kin_tree *tree, int64_t node, int32_t column, float split)
{
    tree->planes[node] = column;
    tree->splits[node] = split;
}

void kin_tree_split_alone(const kin_tree_build *b, int32_t level, int64_t i, float *box)
{
    const int64_t first = kin_tree_first_point(b, level, i);
    const int64_t middle = kin_tree_first_point(b, level + 1, 2 * i + 1);
    const int64_t last = kin_tree_first_point(b, level, i + 1);
    if (middle == last) {
        /* Nothing goes right; where there are no points at all it may be left of everything. */
        note_split(b->tree, ((int64_t)1 << level) + i, 0, (float)KIN_TREE_CLAMP * 2.0F);
        return;
    }
    box_of(b, first, last, box);
    const int32_t column = widest_column(b, box);
    for (int64_t at = first; at < last; at++) {
        b->words[at] = word_of(b, at, column);
    }
    kin_select_nth_word(b->words + first, last - first, middle - first);
    for (int64_t at = first; at < last; at++) {
        b->order[at] = (uint32_t)b->words[at];
    }
    note_split(b->tree, ((int64_t)1 << level) + i, column, component_of(b->words[middle]));
}

/* ---- Large nodes, by all threads ---------------------------------------------------------------
 */

static int64_t chunk_last(const kin_tree_build *b, int64_t task)
{
    return b->first + kin_min_i64((task + 1) * KIN_TREE_CHUNK, b->count);
}

static kith_status box_chunk(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    const kin_tree_build *b = arg;
    box_of(b, b->first + task * KIN_TREE_CHUNK, chunk_last(b, task),
           b->chunk_boxes + task * 2 * b->wide);
    return KITH_OK;
}

/* Never falling in the component, so buckets are in the order of words. */
static int32_t bucket_of(const kin_tree_build *b, uint64_t word)
{
    const float place = (component_of(word) - b->start) * b->gain;
    return place >= (float)(KIN_TREE_BUCKETS - 1) ? KIN_TREE_BUCKETS - 1
           : place > 0.0F                         ? (int32_t)place
                                                  : 0;
}

static kith_status count_chunk(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    const kin_tree_build *b = arg;
    kin_tree_chunk *c = &b->chunks[task];
    memset(c, 0, sizeof *c);
    for (int64_t at = b->first + task * KIN_TREE_CHUNK; at < chunk_last(b, task); at++) {
        b->words[at] = word_of(b, at, b->column);
        c->counts[bucket_of(b, b->words[at])] += 1;
    }
    return KITH_OK;
}

static kith_status count_below(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    const kin_tree_build *b = arg;
    int64_t below = 0;
    for (int64_t at = b->first + task * KIN_TREE_CHUNK; at < chunk_last(b, task); at++) {
        below += b->words[at] < b->pivot;
    }
    b->chunks[task].left = below;
    return KITH_OK;
}

/* Numbers below the pivot go to the left part, the others behind them. */
static kith_status partition_chunk(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    const kin_tree_build *b = arg;
    int64_t left = b->chunks[task].left;
    int64_t right = b->chunks[task].right;
    for (int64_t at = b->first + task * KIN_TREE_CHUNK; at < chunk_last(b, task); at++) {
        const uint64_t word = b->words[at];
        int64_t *to = word < b->pivot ? &left : &right;
        b->order[(*to)++] = (uint32_t)word;
    }
    return KITH_OK;
}

static void box_of_chunks(const kin_tree_build *b, int64_t chunks, float *box)
{
    memcpy(box, b->chunk_boxes, 2 * (size_t)b->wide * sizeof *box);
    for (int64_t i = 1; i < chunks; i++) {
        const float *other = b->chunk_boxes + i * 2 * b->wide;
        for (int32_t c = 0; c < b->wide; c++) {
            box[c] = fminf(box[c], other[c]);
            box[b->wide + c] = fmaxf(box[b->wide + c], other[b->wide + c]);
        }
    }
}

/* The bucket that holds the word of rank `*rank`, which becomes its rank in the bucket. */
static int32_t find_bucket(const kin_tree_build *b, int64_t chunks, int64_t *rank)
{
    for (int32_t bucket = 0; bucket + 1 < KIN_TREE_BUCKETS; bucket++) {
        int64_t count = 0;
        for (int64_t i = 0; i < chunks; i++) {
            count += b->chunks[i].counts[bucket];
        }
        if (*rank < count) {
            return bucket;
        }
        *rank -= count;
    }
    return KIN_TREE_BUCKETS - 1;
}

static kith_status find_pivot(kin_tree_build *b, int64_t chunks, int64_t rank)
{
    const int32_t bucket = find_bucket(b, chunks, &rank);
    int64_t count = 0;
    for (int64_t i = 0; i < chunks; i++) {
        count += b->chunks[i].counts[bucket];
    }
    uint64_t *words = NULL;
    KIN_TRY(kin_alloc(b->ctx, &words, (uint64_t)count, sizeof *words, "a median"));
    int64_t found = 0;
    for (int64_t at = b->first; found < count; at++) {
        if (bucket_of(b, b->words[at]) == bucket) {
            words[found++] = b->words[at];
        }
    }
    kin_select_nth_word(words, count, rank);
    b->pivot = words[rank];
    kin_free(b->ctx, words);
    return KITH_OK;
}

kith_status kin_tree_split_together(kin_tree_build *b, int32_t level, int64_t i, float *box)
{
    b->first = kin_tree_first_point(b, level, i);
    b->count = kin_tree_first_point(b, level, i + 1) - b->first;
    const int64_t middle = kin_tree_first_point(b, level + 1, 2 * i + 1);
    const int64_t chunks = kin_ceil_div(b->count, KIN_TREE_CHUNK);
    KIN_TRY(kin_parallel(b->ctx, "tree", chunks, box_chunk, b));
    box_of_chunks(b, chunks, box);
    b->column = widest_column(b, box);
    b->start = box[b->column];
    const float spread = box[b->wide + b->column] - b->start;
    b->gain = spread > 0.0F ? (float)KIN_TREE_BUCKETS / spread : 0.0F;
    b->gain = b->gain <= 0x1p100F ? b->gain : 0.0F;
    KIN_TRY(kin_parallel(b->ctx, "tree", chunks, count_chunk, b));
    KIN_TRY(find_pivot(b, chunks, middle - b->first));
    KIN_TRY(kin_parallel(b->ctx, "tree", chunks, count_below, b));
    int64_t left = b->first;
    int64_t right = middle;
    for (int64_t c = 0; c < chunks; c++) {
        const int64_t points = kin_min_i64(KIN_TREE_CHUNK, b->count - c * KIN_TREE_CHUNK);
        const int64_t below = b->chunks[c].left;
        b->chunks[c].left = left;
        b->chunks[c].right = right;
        left += below;
        right += points - below;
    }
    note_split(b->tree, ((int64_t)1 << level) + i, b->column, component_of(b->pivot));
    return kin_parallel(b->ctx, "tree", chunks, partition_chunk, b);
}
