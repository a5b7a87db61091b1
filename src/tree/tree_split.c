/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Points are compared by (component, number), an order without ties, so which of them go left
 * is a fact of the data, whoever selects. One thread selects among words of both. All threads
 * together find the median's bucket by a histogram, search the bucket, and partition chunks to
 * where counting says. Both sides keep the order of their points, so numbers rise in every node.
 */
#include "tree/tree.h"

#include "host/host_threads.h"

#define SPLIT_INLINE static inline __attribute__((always_inline))

typedef float f32x4 __attribute__((vector_size(16)));

/* ---- Order of components --------------------------------------------------------------------- */

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

/* ---- Boxes ----------------------------------------------------------------------------------- */

#if defined(__SSE__)
/* The compiler makes no such instruction of a comparison of vectors. */
#define LOWER_F32X4(a, b) __builtin_ia32_minps(a, b)
#define HIGHER_F32X4(a, b) __builtin_ia32_maxps(a, b)
#else
typedef int32_t i32x4 __attribute__((vector_size(16)));

static f32x4 choose_f32x4(i32x4 mask, f32x4 yes, f32x4 no)
{
    return (f32x4)(((i32x4)yes & mask) | ((i32x4)no & ~mask));
}

#define LOWER_F32X4(a, b) choose_f32x4((a) < (b), a, b)
#define HIGHER_F32X4(a, b) choose_f32x4((a) > (b), a, b)
#endif

/* Points of a node, in rising number. */
typedef struct node_points {
    const float *rows; /* one behind the other where they are packed, else by number */
    uint32_t *numbers;
    uint64_t *words;
    int64_t count;
    int32_t wide;
    bool packed;
} node_points;

SPLIT_INLINE const float *row_of(const node_points *p, int64_t at)
{
    return p->rows + (p->packed ? at : (int64_t)p->numbers[at]) * p->wide;
}

SPLIT_INLINE f32x4 quarter_of(const node_points *p, int64_t at, int32_t c)
{
    f32x4 x;
    memcpy(&x, row_of(p, at) + c, sizeof x);
    return x;
}

/* Low then high, `wide` floats each. Four points at a time: a minimum waits for the one before. */
SPLIT_INLINE void box_of(const node_points *p, float *box)
{
    enum { AT_ONCE = 4 };
    for (int32_t c = 0; c < p->wide; c += KIN_TREE_QUARTER) {
        const f32x4 first = quarter_of(p, 0, c);
        f32x4 low[AT_ONCE] = {first, first, first, first};
        f32x4 high[AT_ONCE] = {first, first, first, first};
        int64_t at = 0;
        for (; at + AT_ONCE <= p->count; at += AT_ONCE) {
#pragma GCC unroll 4
            for (int j = 0; j < AT_ONCE; j++) {
                const f32x4 x = quarter_of(p, at + j, c);
                low[j] = LOWER_F32X4(x, low[j]);
                high[j] = HIGHER_F32X4(x, high[j]);
            }
        }
        for (; at < p->count; at++) {
            const f32x4 x = quarter_of(p, at, c);
            low[0] = LOWER_F32X4(x, low[0]);
            high[0] = HIGHER_F32X4(x, high[0]);
        }
#pragma GCC unroll 4
        for (int j = 1; j < AT_ONCE; j++) {
            low[0] = LOWER_F32X4(low[j], low[0]);
            high[0] = HIGHER_F32X4(high[j], high[0]);
        }
        memcpy(box + c, &low[0], sizeof low[0]);
        memcpy(box + p->wide + c, &high[0], sizeof high[0]);
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

/* ---- A median -------------------------------------------------------------------------------- */

/* Quickselect without a branch that depends on the words: which side of a pivot a word is on is a
 * coin toss, and half of the tosses would be guessed wrong. The pivot comes from a sorted sample
 * (Floyd, Rivest 1975), a little beyond the rank, so that the smaller side is mostly the one that
 * is kept: one pass and a half instead of three. Input that fools the sample falls back to
 * kin_select_nth_word, which nothing makes slow. */
enum { FEW = 12, MOST_SAMPLE = 31 };

/* Words below the pivot first; returns how many. */
static int64_t part_words(uint64_t *words, int64_t count, uint64_t pivot)
{
    int64_t below = 0;
    for (int64_t i = 0; i < count; i++) {
        const uint64_t word = words[i];
        words[i] = words[below];
        words[below] = word;
        below += word < pivot;
    }
    return below;
}

static void insert(uint64_t *sorted, int64_t count, uint64_t word)
{
    for (; count > 0 && sorted[count - 1] > word; count--) {
        sorted[count] = sorted[count - 1];
    }
    sorted[count] = word;
}

/* One of the words, not the smallest: both sides of it get some. */
static uint64_t choose_pivot(const uint64_t *words, int64_t count, int64_t rank)
{
    uint64_t sample[MOST_SAMPLE];
    const int64_t size = count < 100 ? 5 : count < 1000 ? 11 : MOST_SAMPLE;
    for (int64_t i = 0; i < size; i++) {
        insert(sample, i, words[i * (count / size)]);
    }
    const int64_t slack = size / 8;
    const int64_t place = rank * size / count + (2 * rank < count ? slack : -slack);
    return sample[place < 1 ? 1 : place >= size ? size - 1 : place];
}

uint64_t kin_tree_median(uint64_t *words, int64_t count, int64_t rank)
{
    int tries = 2 * (64 - __builtin_clzll((unsigned long long)count));
    while (count > FEW) {
        if (tries-- == 0) {
            kin_select_nth_word(words, count, rank);
            return words[rank];
        }
        const int64_t below = part_words(words, count, choose_pivot(words, count, rank));
        if (rank < below) {
            count = below;
        } else {
            words += below;
            rank -= below;
            count -= below;
        }
    }
    for (int64_t i = 1; i < count; i++) {
        insert(words, i, words[i]);
    }
    return words[rank];
}

/* ---- Nodes, by one thread -------------------------------------------------------------------- */

static void note_split(kin_tree *tree, int64_t node, int32_t column, float split)
{
    tree->planes[node] = column;
    tree->splits[node] = split;
}

SPLIT_INLINE void write_words(const node_points *p, int32_t column)
{
    for (int64_t at = 0; at < p->count; at++) {
        p->words[at] = (uint64_t)order_of(row_of(p, at)[column]) << 32 | p->numbers[at];
    }
}

/* Numbers below the pivot go from `left` on, the others from `right` on; rows, where they are
 * packed, with them. Without a branch: which one it is cannot be guessed. */
SPLIT_INLINE void part_points(const node_points *p, uint64_t pivot, uint32_t *numbers, int64_t left,
                              int64_t right, float *rows)
{
    for (int64_t at = 0; at < p->count; at++) {
        const uint64_t word = p->words[at];
        const int64_t goes_left = word < pivot;
        const int64_t to = right + ((left - right) & -goes_left);
        numbers[to] = (uint32_t)word;
        for (int32_t c = 0; p->packed && c < p->wide; c += KIN_TREE_QUARTER) {
            memcpy(rows + to * p->wide + c, p->rows + at * p->wide + c, sizeof(f32x4));
        }
        left += goes_left;
        right += 1 - goes_left;
    }
}

/* Where a node's rows stand, and where they go. */
typedef struct node_rows {
    const float *from;
    float *to;
    bool packed;
} node_rows;

SPLIT_INLINE void split_node(const kin_tree_build *b, int32_t level, int64_t i, float *box,
                             const node_rows rows)
{
    const int64_t first = kin_tree_first_point(b, level, i);
    const int64_t middle = kin_tree_first_point(b, level + 1, 2 * i + 1) - first;
    const int64_t node = ((int64_t)1 << level) + i;
    const node_points p = {.rows = rows.from,
                           .numbers = b->order + first,
                           .words = b->words + first,
                           .count = kin_tree_first_point(b, level, i + 1) - first,
                           .wide = b->wide,
                           .packed = rows.packed};
    if (middle == p.count) {
        /* Nothing goes right; where there are no points at all it may be left of everything. */
        note_split(b->tree, node, 0, (float)KIN_TREE_CLAMP * 2.0F);
        if (rows.packed) {
            memcpy(rows.to, rows.from, (size_t)(p.count * p.wide) * sizeof *rows.to);
        }
        return;
    }
    box_of(&p, box);
    const int32_t column = widest_column(b, box);
    write_words(&p, column);
    memcpy(b->room + first, p.words, (size_t)p.count * sizeof *p.words);
    const uint64_t pivot = kin_tree_median(b->room + first, p.count, middle);
    part_points(&p, pivot, p.numbers, 0, middle, rows.to);
    note_split(b->tree, node, column, component_of(pivot));
}

void kin_tree_split_alone(const kin_tree_build *b, int32_t level, int64_t i, float *box)
{
    split_node(b, level, i, box, (node_rows){.from = b->rows});
}

/* ---- Large nodes, by all threads ------------------------------------------------------------- */

static node_points chunk_points(const kin_tree_build *b, int64_t task)
{
    const int64_t first = b->first + task * KIN_TREE_CHUNK;
    return (node_points){.rows = b->rows,
                         .numbers = b->order + first,
                         .words = b->words + first,
                         .count = kin_min_i64(KIN_TREE_CHUNK, b->count - task * KIN_TREE_CHUNK),
                         .wide = b->wide,
                         .packed = false};
}

static kith_status box_chunk(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    const kin_tree_build *b = arg;
    const node_points p = chunk_points(b, task);
    box_of(&p, b->chunk_boxes + task * 2 * b->wide);
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
    const node_points p = chunk_points(b, task);
    memset(c, 0, sizeof *c);
    write_words(&p, b->column);
    for (int64_t at = 0; at < p.count; at++) {
        c->counts[bucket_of(b, p.words[at])] += 1;
    }
    return KITH_OK;
}

static kith_status count_below(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    const kin_tree_build *b = arg;
    const node_points p = chunk_points(b, task);
    int64_t below = 0;
    for (int64_t at = 0; at < p.count; at++) {
        below += p.words[at] < b->pivot;
    }
    b->chunks[task].left = below;
    return KITH_OK;
}

static kith_status partition_chunk(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    const kin_tree_build *b = arg;
    const node_points p = chunk_points(b, task);
    part_points(&p, b->pivot, b->order, b->chunks[task].left, b->chunks[task].right, NULL);
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

static void find_pivot(kin_tree_build *b, int64_t chunks, int64_t rank)
{
    const int32_t bucket = find_bucket(b, chunks, &rank);
    uint64_t *words = b->room + b->first;
    int64_t found = 0;
    for (int64_t at = b->first; at < b->first + b->count; at++) {
        words[found] = b->words[at];
        found += bucket_of(b, b->words[at]) == bucket;
    }
    b->pivot = kin_tree_median(words, found, rank);
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
    find_pivot(b, chunks, middle - b->first);
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

/* ---- Points in leaves ------------------------------------------------------------------------ */

/* Where the first component of a position is; others are KIN_TREE_LANES apart. */
static float *components(const kin_tree *tree, int64_t at)
{
    return tree->values + at / KIN_TREE_LANES * KIN_TREE_LANES * tree->cols + at % KIN_TREE_LANES;
}

static void make_hole(kin_tree *tree, int64_t at)
{
    float *out = components(tree, at);
    for (int32_t c = 0; c < tree->cols; c++) {
        out[(int64_t)c * KIN_TREE_LANES] = 0.0F;
    }
    tree->ids[at] = KITH_ID_NONE;
}

/* No point, and a box that nothing is in. The lanes are not touched. */
static void leaf_clear(kin_tree *tree, int64_t leaf)
{
    const int64_t node = kin_tree_leaves(tree) + leaf;
    float *box = tree->boxes + node * 2 * tree->cols;
    for (int32_t c = 0; c < tree->cols; c++) {
        box[c] = INFINITY;
        box[tree->cols + c] = -INFINITY;
    }
    tree->lost[node] = 0.0F;
    tree->counts[leaf] = 0;
}

void kin_tree_leaf_put(kin_tree *tree, int64_t leaf, const float *row, uint32_t id, float lost)
{
    const int64_t node = kin_tree_leaves(tree) + leaf;
    const int64_t at = (int64_t)tree->starts[leaf] * KIN_TREE_LANES + tree->counts[leaf];
    float *out = components(tree, at);
    float *low = tree->boxes + node * 2 * tree->cols;
    float *high = low + tree->cols;
    for (int32_t c = 0; c < tree->cols; c++) {
        out[(int64_t)c * KIN_TREE_LANES] = row[c];
        low[c] = row[c] < low[c] ? row[c] : low[c];
        high[c] = row[c] > high[c] ? row[c] : high[c];
    }
    tree->ids[at] = id;
    tree->lost[node] = fmaxf(tree->lost[node], lost);
    tree->counts[leaf] += 1;
}

void kin_tree_leaf_drop(kin_tree *tree, int64_t leaf, int64_t lane)
{
    const int64_t first = (int64_t)tree->starts[leaf] * KIN_TREE_LANES;
    const int64_t last = first + tree->counts[leaf] - 1;
    const float *from = components(tree, last);
    float *to = components(tree, first + lane);
    for (int64_t c = 0; c < tree->cols; c++) {
        to[c * KIN_TREE_LANES] = from[c * KIN_TREE_LANES];
    }
    tree->ids[first + lane] = tree->ids[last];
    make_hole(tree, last);
    tree->counts[leaf] -= 1;
    if (tree->counts[leaf] == 0) {
        leaf_clear(tree, leaf);
    }
}

/* Makes holes of the lanes behind the points. */
static void leaf_end(kin_tree *tree, int64_t leaf)
{
    const int64_t first = (int64_t)tree->starts[leaf] * KIN_TREE_LANES;
    const int64_t behind = (int64_t)tree->starts[leaf + 1] * KIN_TREE_LANES;
    for (int64_t at = first + tree->counts[leaf]; at < behind; at++) {
        make_hole(tree, at);
    }
}

void kin_tree_join(kin_tree *tree, int64_t node)
{
    const int32_t cols = tree->cols;
    const float *left = kin_tree_box(tree, 2 * node);
    const float *right = kin_tree_box(tree, 2 * node + 1);
    float *box = tree->boxes + node * 2 * cols;
    for (int32_t c = 0; c < cols; c++) {
        box[c] = fminf(left[c], right[c]);
        box[cols + c] = fmaxf(left[cols + c], right[cols + c]);
    }
    tree->lost[node] = fmaxf(tree->lost[2 * node], tree->lost[2 * node + 1]);
}

/* ---- Rows that are dealt to leaves ----------------------------------------------------------- */

/* Idea. From the node on that is dealt to a thread, or where its rows fit into a core's own cache,
 * they are copied to a plot once, and move with their numbers at every split, between its two
 * halves: each level reads and writes what stands side by side. Above, only numbers move, as rows
 * would be as many bytes again. */

/* rows: of the leaf's points, one behind the other; NULL: where their numbers say. */
static void write_leaf(const kin_tree_build *b, int64_t leaf, const float *rows)
{
    kin_tree *tree = b->tree;
    const int64_t first = kin_tree_first_point(b, tree->height, leaf);
    const int64_t last = kin_tree_first_point(b, tree->height, leaf + 1);
    const uint32_t *numbers = b->order + first;
    /* Ids first: they are far apart, and a loop of nothing else waits for many at a time. */
    uint32_t *ids = tree->ids + (int64_t)tree->starts[leaf] * KIN_TREE_LANES;
    for (int64_t i = 0; i < last - first; i++) {
        ids[i] = b->ids[numbers[i]];
    }
    leaf_clear(tree, leaf);
    for (int64_t i = 0; i < last - first; i++) {
        const float *row =
            rows != NULL ? rows + i * b->wide : b->rows + (int64_t)numbers[i] * b->wide;
        kin_tree_leaf_put(tree, leaf, row, ids[i], b->loses ? b->lost[numbers[i]] : 0.0F);
    }
    leaf_end(tree, leaf);
}

static void deal_packed(const kin_tree_build *b, int32_t level, int64_t i, float *box, float *rows,
                        float *other)
{
    if (level == b->tree->height) {
        write_leaf(b, i, rows);
        return;
    }
    const int64_t middle = kin_tree_first_point(b, level + 1, 2 * i + 1);
    const int64_t left = (middle - kin_tree_first_point(b, level, i)) * b->wide;
    split_node(b, level, i, box, (node_rows){rows, other, true});
    deal_packed(b, level + 1, 2 * i, box, other, rows);
    deal_packed(b, level + 1, 2 * i + 1, box, other + left, rows + left);
}

static void pack(const kin_tree_build *b, int64_t first, int64_t last, float *rows)
{
    for (int64_t at = first; at < last; at++) {
        memcpy(rows, b->rows + (int64_t)b->order[at] * b->wide, (size_t)b->wide * sizeof *rows);
        rows += b->wide;
    }
}

void kin_tree_build_under(const kin_tree_build *b, int32_t level, int64_t i, int32_t thread)
{
    float *box = (float *)(void *)kin_tree_scratch(b, thread);
    const int64_t first = kin_tree_first_point(b, level, i);
    const int64_t last = kin_tree_first_point(b, level, i + 1);
    if (last - first <= b->plot_points) {
        float *plot = kin_tree_plot(b, thread);
        pack(b, first, last, plot);
        deal_packed(b, level, i, box, plot, plot + b->plot_points * b->wide);
    } else if (level == b->tree->height) {
        write_leaf(b, i, NULL);
    } else {
        kin_tree_split_alone(b, level, i, box);
        kin_tree_build_under(b, level + 1, 2 * i, thread);
        kin_tree_build_under(b, level + 1, 2 * i + 1, thread);
    }
}
