/* SPDX-License-Identifier: Apache-2.0
 * The reference device's launches of tree_kernels.h. A tree is made by one recursion from the root,
 * a list by one from the root outwards. */
#include "reference/reference_tree.h"

#include "base/base_size.h"
#include "metric/metric_arith.h"
#include "tree/tree.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VECTOR = 16 /* bytes that kernels read at once */ };

/* Arrays of a tree are read-only for all but what makes them. */
#define WRITABLE(TYPE, array) ((TYPE *)(uintptr_t)(array))

static bool reads_in_vectors(const void *array)
{
    return (uintptr_t)array % VECTOR == 0;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static double value_of(const kin_screen_gpu_rows *rows, const uint32_t *ids, int64_t i, int32_t c)
{
    const int64_t row = ids != NULL ? (int64_t)ids[i] : i;
    return kin_value(rows->dtype, (const char *)rows->data + row * rows->stride_bytes, c);
}

/* A row as the columns of its tree. */
static void load_row(const kin_screen_gpu_rows *rows, const uint32_t *ids, int64_t i,
                     double *values)
{
    for (int32_t c = 0; c < rows->cols; c++) {
        values[c] = value_of(rows, ids, i, c);
    }
    if (kin_place_has(rows->metric)) {
        kin_place_turn(values);
    }
}

static void measure(const kin_tree_gpu_measure *job)
{
    double values[KIN_TREE_GPU_MOST_COLS];
    for (int32_t c = 0; c < kin_place_cols(job->rows.metric, job->rows.cols); c++) {
        job->low[c] = INFINITY;
        job->high[c] = -INFINITY;
        for (int64_t i = 0; i < job->count; i++) {
            load_row(&job->rows, job->ids, i, values);
            const double value = values[c];
            job->low[c] = value < job->low[c] ? value : job->low[c];
            job->high[c] = value > job->high[c] ? value : job->high[c];
        }
    }
}

REFERENCE_LAUNCH(measure, kin_tree_gpu_measure)

static void round_rows(const kin_tree_gpu_round *job)
{
    REFERENCE_MUST(reads_in_vectors(job->out) && job->wide % KIN_TREE_GPU_WIDE == 0);
    const bool places = kin_place_has(job->rows.metric);
    const int32_t cols = kin_place_cols(job->rows.metric, job->rows.cols);
    double values[KIN_TREE_GPU_MOST_COLS];
    for (int64_t i = 0; i < job->count; i++) {
        float *out = job->out + i * job->wide;
        double sum = 0.0;
        const double slack = places
                                 ? job->scale * kin_place_lost(value_of(&job->rows, job->ids, i, 0),
                                                               value_of(&job->rows, job->ids, i, 1))
                                 : job->slack;
        load_row(&job->rows, job->ids, i, values);
        for (int32_t c = 0; c < job->wide; c++) {
            double lost = 0.0;
            out[c] =
                c < cols ? kin_tree_round_value(values[c], job->shift[c], job->scale, &lost) : 0.0F;
            sum = kin_tree_lost_add(job->norm, sum, lost);
        }
        job->lost[i] = kin_tree_lost_kept(kin_tree_lost_whole(job->norm, sum) + slack);
        if (job->most_lost != NULL) {
            *job->most_lost = fmaxf(*job->most_lost, job->lost[i]);
        }
    }
}

REFERENCE_LAUNCH(round_rows, kin_tree_gpu_round)

/* ---- Order of queries ------------------------------------------------------------------------ */

static int by_word(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a;
    const uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* So many bits of a cell that about a packet falls into each. */
static int32_t cell_bits(const kin_tree_gpu_order *job)
{
    enum { MOST_BITS = 6 };
    const int64_t leaves = (int64_t)1 << job->tree.height;
    int32_t bits = 0;
    while (bits < MOST_BITS && bits < job->tree.cols &&
           leaves * KIN_TREE_GPU_PACKET << bits < job->count) {
        bits += 1;
    }
    return bits;
}

/* The widest columns of a node's box are halved, the widest one first, of equal ones the first. */
static uint64_t cell_of(const kin_tree_gpu *tree, int64_t node, const float *row, int32_t bits)
{
    const float *low = tree->boxes + node * 2 * tree->wide;
    const float *high = low + tree->wide;
    bool halved[KIN_TREE_GPU_MOST_COLS] = {false};
    uint64_t cell = 0;
    for (int32_t bit = 0; bit < bits; bit++) {
        int32_t widest = -1;
        for (int32_t c = 0; c < tree->cols; c++) {
            if (!halved[c] && (widest < 0 || high[c] - low[c] > high[widest] - low[widest])) {
                widest = c;
            }
        }
        halved[widest] = true;
        cell = 2 * cell + (row[widest] < 0.5F * low[widest] + 0.5F * high[widest] ? 0 : 1);
    }
    return cell;
}

static void order(const kin_tree_gpu_order *job)
{
    const kin_tree_gpu *tree = &job->tree;
    const int32_t bits = cell_bits(job);
    uint64_t *words = job->scratch;
    for (int64_t i = 0; i < job->count; i++) {
        const float *row = job->rows + i * tree->wide;
        uint64_t node = 1;
        while (node >> tree->height == 0) {
            node = 2 * node + (row[tree->planes[node]] < tree->splits[node] ? 0 : 1);
        }
        const uint64_t cell = cell_of(tree, (int64_t)node, row, bits);
        words[i] = (node << bits | cell) << 32 | (uint64_t)i;
    }
    qsort(words, (size_t)job->count, sizeof *words, by_word);
    for (int64_t i = 0; i < job->count; i++) {
        job->order[i] = (uint32_t)words[i];
    }
}

REFERENCE_LAUNCH(order, kin_tree_gpu_order)

/* As much as a GPU's sort wants. */
static int order_or_size(kin_gpu_stream *stream, const kin_tree_gpu_order *job)
{
    enum { WORDS = 5, TABLES = 1 << 14 };
    if (job->scratch == NULL) {
        *job->scratch_bytes = (uint64_t)job->count * WORDS * sizeof(uint32_t) + TABLES;
        return 0;
    }
    return order_launch(stream, job);
}

/* ---- Building -------------------------------------------------------------------------------- */

/* Places of the points that stand before the i-th node of a level. */
static int64_t first_point(const kin_tree_gpu *tree, int32_t level, int64_t i)
{
    return kin_min_i64(kin_tree_block_of(tree->blocks, level, i) * KIN_TREE_LANES, tree->points);
}

typedef struct building {
    const kin_tree_gpu_build *job;
    uint64_t *words;
    uint64_t *room;
    uint32_t *numbers; /* by place */
} building;

/* Low then high, `wide` floats each; a box of nothing holds nothing. */
static void write_box(const building *b, int64_t node, int64_t first, int64_t last)
{
    const kin_tree_gpu *tree = &b->job->tree;
    float *low = WRITABLE(float, tree->boxes) + node * 2 * tree->wide;
    float *high = low + tree->wide;
    for (int32_t c = 0; c < tree->wide; c++) {
        low[c] = c < tree->cols ? INFINITY : 0.0F;
        high[c] = 0.0F - low[c];
        for (int64_t at = first; c < tree->cols && at < last; at++) {
            const float x = b->job->rows[(int64_t)b->numbers[at] * tree->wide + c];
            low[c] = x < low[c] ? x : low[c];
            high[c] = x > high[c] ? x : high[c];
        }
    }
    float lost = 0.0F;
    for (int64_t at = first; at < last; at++) {
        lost = fmaxf(lost, b->job->row_lost[b->numbers[at]]);
    }
    WRITABLE(float, tree->lost)[node] = lost;
}

/* Of those that are equally wide the first one. */
static int32_t widest_column(const kin_tree_gpu *tree, int64_t node)
{
    const float *low = tree->boxes + node * 2 * tree->wide;
    const float *high = low + tree->wide;
    int32_t widest = 0;
    for (int32_t c = 1; c < tree->cols; c++) {
        if ((double)high[c] - (double)low[c] > (double)high[widest] - (double)low[widest]) {
            widest = c;
        }
    }
    return widest;
}

/* The points before `middle` in the order (component, number) go left; numbers rise in both parts.
 * Returns the component in the middle. */
static float part_points(const building *b, int32_t column, int64_t first, int64_t middle,
                         int64_t last)
{
    const float *rows = b->job->rows;
    const int64_t wide = b->job->tree.wide;
    for (int64_t at = first; at < last; at++) {
        const uint32_t number = b->numbers[at];
        uint32_t bits;
        memcpy(&bits, rows + number * wide + column, sizeof bits);
        b->words[at] = (uint64_t)kin_key32(bits, false) << 32 | number;
        b->room[at] = b->words[at];
    }
    const uint64_t pivot = kin_tree_median(b->room + first, last - first, middle - first);
    int64_t left = first;
    int64_t right = middle;
    for (int64_t at = first; at < last; at++) {
        b->numbers[b->words[at] < pivot ? left++ : right++] = (uint32_t)b->words[at];
    }
    return rows[(int64_t)(uint32_t)pivot * wide + column];
}

/* The i-th node of a level and all below it. */
static void build_node(const building *b, int32_t level, int64_t i)
{
    const kin_tree_gpu *tree = &b->job->tree;
    const int64_t node = ((int64_t)1 << level) + i;
    const int64_t first = first_point(tree, level, i);
    const int64_t last = first_point(tree, level, i + 1);
    write_box(b, node, first, last);
    if (level == tree->height) {
        WRITABLE(uint32_t, tree->starts)
        [i] = (uint32_t)kin_tree_block_of(tree->blocks, level, i);
        WRITABLE(uint32_t, tree->counts)[i] = (uint32_t)(last - first);
        return;
    }
    const int64_t middle = first_point(tree, level + 1, 2 * i + 1);
    int32_t column = 0;
    float split = (float)KIN_TREE_CLAMP * 2.0F; /* where nothing goes right all is left of it */
    if (middle < last) {
        column = widest_column(tree, node);
        split = part_points(b, column, first, middle, last);
    }
    WRITABLE(int32_t, tree->planes)[node] = column;
    WRITABLE(float, tree->splits)[node] = split;
    build_node(b, level + 1, 2 * i);
    build_node(b, level + 1, 2 * i + 1);
}

static void write_points(const building *b)
{
    const kin_tree_gpu *tree = &b->job->tree;
    for (int64_t place = 0; place < tree->blocks * KIN_TREE_LANES; place++) {
        const bool real = place < tree->points;
        const uint32_t number = real ? b->numbers[place] : 0;
        const uint32_t id = b->job->firsts != NULL ? b->job->firsts[number] : number;
        WRITABLE(uint32_t, tree->ids)[place] = real ? id : KITH_ID_NONE;
        for (int64_t c = 0; c < tree->wide; c++) {
            const int64_t at =
                (place / KIN_TREE_LANES * tree->wide + c) * KIN_TREE_LANES + place % KIN_TREE_LANES;
            WRITABLE(float, tree->values)
            [at] = real ? b->job->rows[number * (int64_t)tree->wide + c] : 0.0F;
        }
    }
}

static void build(const kin_tree_gpu_build *job)
{
    const kin_tree_gpu *tree = &job->tree;
    const int64_t leaves = (int64_t)1 << tree->height;
    REFERENCE_MUST(reads_in_vectors(job->rows) && reads_in_vectors(tree->values) &&
                   reads_in_vectors(tree->boxes));
    building b = {.job = job, .words = job->scratch};
    b.room = b.words + tree->points;
    b.numbers = (uint32_t *)(b.room + tree->points);
    for (int64_t i = 0; i < tree->points; i++) {
        b.numbers[i] = (uint32_t)i;
    }
    build_node(&b, 0, 0);
    write_points(&b);
    /* What no node has has the bytes of the host's, too. */
    memset(WRITABLE(float, tree->boxes), 0, 2 * (size_t)tree->wide * sizeof *tree->boxes);
    WRITABLE(float, tree->lost)[0] = 0.0F;
    WRITABLE(float, tree->splits)[0] = 0.0F;
    WRITABLE(int32_t, tree->planes)[0] = 0;
    WRITABLE(uint32_t, tree->starts)[leaves] = (uint32_t)tree->blocks;
}

REFERENCE_LAUNCH(build, kin_tree_gpu_build)

/* As much as tree_build.cu lays out: two sets of lists, and counters. */
static int build_or_size(kin_gpu_stream *stream, const kin_tree_gpu_build *job)
{
    enum { COUNTER_BYTES = 4 };
    if (job->scratch == NULL) {
        const uint64_t lists = 2 * ((uint64_t)job->tree.cols + 1);
        *job->scratch_bytes =
            (uint64_t)job->tree.points * (lists * sizeof(uint32_t) + COUNTER_BYTES);
        return 0;
    }
    return build_launch(stream, job);
}

/* ---- The walk -------------------------------------------------------------------------------- */

static float value_in(uint64_t word)
{
    const uint32_t bits = (uint32_t)(word >> 32);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Boxes and points by the same operations in the same order, which is what makes boxes right. */
static inline float step(kin_tree_norm norm, float sum, float difference)
{
    return norm == KIN_NORM_TWO   ? sum + difference * difference
           : norm == KIN_NORM_ONE ? sum + fabsf(difference)
                                  : fmaxf(sum, fabsf(difference));
}

/* The shorter way of a difference, or of one to a box whose farthest number is so far. */
static inline float wrap(const kin_tree_gpu *tree, int32_t c, float difference, float far)
{
    return tree->period == NULL ? difference : fminf(fabsf(difference), tree->period[c] - far);
}

float reference_box(const reference_walker *w, int64_t node)
{
    const int32_t wide = w->tree->wide;
    const float *low = w->tree->boxes + node * 2 * wide;
    float value = 0.0F;
    for (int32_t c = 0; c < wide; c++) {
        const float q = w->row[c];
        const float nearest = fminf(fmaxf(q, low[c]), low[wide + c]);
        const float far = fmaxf(q - low[c], low[wide + c] - q);
        value = step(w->tree->norm, value, wrap(w->tree, c, q - nearest, far));
    }
    return value;
}

float reference_point(const reference_walker *w, int64_t position)
{
    const int32_t wide = w->tree->wide;
    const float *from = w->tree->values + position / KIN_TREE_LANES * KIN_TREE_LANES * wide +
                        position % KIN_TREE_LANES;
    float value = 0.0F;
    for (int64_t c = 0; c < wide; c++) {
        const float difference = w->row[c] - from[c * KIN_TREE_LANES];
        value =
            step(w->tree->norm, value, wrap(w->tree, (int32_t)c, difference, fabsf(difference)));
    }
    return value;
}

/* Of the points of a block. The norm is a constant of each call: inner loops have no branch. */
static inline void add_columns(const reference_walker *w, int64_t block, kin_tree_norm norm,
                               float *values)
{
    const int32_t wide = w->tree->wide;
    const float *from = w->tree->values + block * KIN_TREE_LANES * wide;
    for (int32_t c = 0; c < wide; c++) {
        for (int lane = 0; lane < KIN_TREE_LANES; lane++) {
            const float difference = w->row[c] - from[c * KIN_TREE_LANES + lane];
            values[lane] =
                step(norm, values[lane], wrap(w->tree, c, difference, fabsf(difference)));
        }
    }
}

static void values_of_block(const reference_walker *w, int64_t block, float values[KIN_TREE_LANES])
{
    memset(values, 0, KIN_TREE_LANES * sizeof *values);
    switch (w->tree->norm) {
    case KIN_NORM_TWO:
        add_columns(w, block, KIN_NORM_TWO, values);
        break;
    case KIN_NORM_ONE:
        add_columns(w, block, KIN_NORM_ONE, values);
        break;
    case KIN_NORM_MOST:
        add_columns(w, block, KIN_NORM_MOST, values);
        break;
    }
}

/* The wanted-th value of the list tells how much of it is not needed. */
static void squeeze(reference_walker *w)
{
    enum { SLACK = 32 };
    memcpy(w->room, w->words, (size_t)w->count * sizeof *w->words);
    const float kth = value_in(kin_tree_median(w->room, w->count, w->wanted - 1));
    w->keep = fminf(w->keep, kth * w->bound.gain + w->bound.more);
    int32_t kept = 0;
    for (int32_t i = 0; i < w->count; i++) {
        const uint64_t word = w->words[i];
        w->words[kept] = word;
        kept += value_in(word) <= w->keep ? 1 : 0;
    }
    w->count = kept;
    w->squeezed_at = (int32_t)kin_min_i64(kept + w->wanted / 2 + SLACK, w->capacity);
}

static void offer(reference_walker *w, float value, int64_t position)
{
    uint32_t bits;
    if (value <= w->keep && w->count == w->squeezed_at) {
        squeeze(w);
    }
    if (value <= w->keep && w->count == w->capacity) {
        w->lost = true;
        w->keep = -1.0F;
    }
    if (value <= w->keep) {
        memcpy(&bits, &value, sizeof bits);
        w->words[w->count++] = (uint64_t)bits << 32 | (uint64_t)position;
    }
}

void reference_leaf(reference_walker *w, int64_t leaf)
{
    const kin_tree_gpu *tree = w->tree;
    const int64_t first = (int64_t)tree->starts[leaf] * KIN_TREE_LANES;
    float values[KIN_TREE_LANES];
    for (int64_t i = 0; i < (int64_t)tree->counts[leaf]; i++) {
        if (i % KIN_TREE_LANES == 0) {
            values_of_block(w, (first + i) / KIN_TREE_LANES, values);
        }
        offer(w, values[i % KIN_TREE_LANES], first + i);
    }
    w->met[0] += tree->counts[leaf];
    w->met[1] += 1;
}

static void visit(reference_walker *w, int64_t node, float value)
{
    const int64_t leaf = node - ((int64_t)1 << w->tree->height);
    if (!(value <= w->keep)) {
        return;
    }
    if (leaf >= 0) {
        reference_leaf(w, leaf);
        return;
    }
    const float values[2] = {reference_box(w, 2 * node), reference_box(w, 2 * node + 1)};
    const int64_t nearer = values[1] < values[0] ? 1 : 0;
    visit(w, 2 * node + nearer, values[nearer]);
    visit(w, 2 * node + 1 - nearer, values[1 - nearer]);
}

const float *reference_row_at(const kin_tree_gpu_walk *job, int64_t place, float *room, float *lost)
{
    const kin_tree_gpu *tree = &job->tree;
    if (job->rows != NULL) {
        const int64_t query = job->order != NULL ? (int64_t)job->order[place] : place;
        *lost = job->row_lost[query];
        return job->rows + query * tree->wide;
    }
    const float *from = tree->values + place / KIN_TREE_LANES * KIN_TREE_LANES * tree->wide +
                        place % KIN_TREE_LANES;
    for (int64_t c = 0; c < tree->wide; c++) {
        room[c] = from[c * KIN_TREE_LANES];
    }
    *lost = tree->most_lost;
    return tree->ids[place] != KITH_ID_NONE ? room : NULL;
}

uint64_t *reference_list_of(const kin_tree_gpu_lists *lists, int64_t place)
{
    return lists->words + place / KIN_TREE_GPU_PACKET * KIN_TREE_GPU_PACKET * lists->capacity +
           place % KIN_TREE_GPU_PACKET;
}

static void walk_place(const kin_tree_gpu_walk *job, int64_t place, reference_walker *w)
{
    const kin_tree_gpu *tree = &job->tree;
    float own[KIN_TREE_GPU_MOST_COLS];
    float lost = 0.0F;
    w->row = reference_row_at(job, place, own, &lost);
    w->bound = kin_tree_keep_of(tree->norm, lost, tree->most_lost, tree->widen, tree->floor);
    w->keep = INFINITY;
    w->lost = false;
    w->count = 0;
    w->squeezed_at = w->wanted;
    if (w->row != NULL) {
        visit(w, 1, 0.0F);
    }
    for (int32_t i = 0; i < w->count; i++) {
        reference_list_of(&job->lists, place)[(int64_t)i * KIN_TREE_GPU_PACKET] = w->words[i];
    }
    job->lists.counts[place] = w->count;
    job->lists.lost[place] = w->lost ? 1 : 0;
    w->met[2] += w->lost ? 1 : 0;
}

static void walk(const kin_tree_gpu_walk *job)
{
    const kin_tree_gpu_lists *lists = &job->lists;
    uint64_t *room = reference_room(2 * (int64_t)lists->capacity, sizeof *room);
    REFERENCE_MUST(job->place0 % KIN_TREE_GPU_PACKET == 0);
    REFERENCE_MUST(job->tree.wide % KIN_TREE_GPU_WIDE == 0 &&
                   job->tree.wide <= KIN_TREE_GPU_MOST_COLS && lists->capacity > lists->wanted);
    REFERENCE_MUST(reads_in_vectors(job->rows) && reads_in_vectors(job->tree.boxes));
    reference_walker w = {.tree = &job->tree,
                          .words = room,
                          .room = room + lists->capacity,
                          .wanted = lists->wanted,
                          .capacity = lists->capacity,
                          .met = job->met};
    for (int64_t place = job->place0; place < job->place0 + job->count; place++) {
        walk_place(job, place, &w);
    }
    free(room);
}

REFERENCE_LAUNCH(walk, kin_tree_gpu_walk)

static int32_t walk_short(kin_gpu_stream *stream)
{
    (void)stream;
    return KIN_TREE_GPU_SHORT;
}

/* ---- The end of lists ------------------------------------------------------------------------ */

static int by_key(const void *a, const void *b)
{
    const kin_screen_gpu_pair *x = a;
    const kin_screen_gpu_pair *y = b;
    return x->key != y->key ? (x->key < y->key ? -1 : 1) : (x->id > y->id) - (x->id < y->id);
}

/* Room for the candidates of a place. */
typedef struct candidates {
    uint32_t *ids;
    double *keys;
    kin_screen_gpu_pair *pairs; /* sorted */
} candidates;

/* Returns how many there are. */
static int32_t finish_place(const kin_tree_gpu_finish *job, int64_t place, const candidates *all)
{
    const uint64_t *words = reference_list_of(&job->lists, place);
    const uint32_t row = job->order != NULL ? job->order[place] : (uint32_t)place;
    const int32_t count = row == KITH_ID_NONE ? 0 : job->lists.counts[place];
    REFERENCE_MUST(count <= job->lists.capacity);
    for (int32_t i = 0; i < count; i++) {
        all->ids[i] = job->tree.ids[(uint32_t)words[(int64_t)i * KIN_TREE_GPU_PACKET]];
    }
    if (count > 0) {
        reference_keys(&job->queries, row, &job->corpus, all->ids, 0, count, all->keys);
    }
    for (int32_t i = 0; i < count; i++) {
        all->pairs[i] = (kin_screen_gpu_pair){.key = all->keys[i], .id = all->ids[i]};
    }
    qsort(all->pairs, (size_t)count, sizeof *all->pairs, by_key);
    return count;
}

static void finish(const kin_tree_gpu_finish *job)
{
    const int64_t wanted = job->lists.wanted;
    const candidates all = {.ids = reference_room(job->lists.capacity, sizeof *all.ids),
                            .keys = reference_room(job->lists.capacity, sizeof *all.keys),
                            .pairs = reference_room(job->lists.capacity, sizeof *all.pairs)};
    REFERENCE_MUST(reads_in_vectors(job->pairs) && job->place0 % KIN_TREE_GPU_PACKET == 0);
    REFERENCE_MUST(job->answers.rows == 0 || job->lists.capacity <= KIN_TREE_GPU_SHORT);
    for (int64_t i = 0; i < job->count; i++) {
        const int32_t count = finish_place(job, job->place0 + i, &all);
        const int32_t kept = (int32_t)kin_min_i64(count, wanted);
        *job->keys += (uint64_t)count;
        if (job->answers.rows != 0) {
            kin_screen_gpu_write answers = job->answers;
            answers.row0 = i;
            answers.rows = 1;
            answers.pairs = all.pairs;
            answers.count = &kept;
            answers.k = kept;
            reference_write(&answers);
            continue;
        }
        job->counts[i] = kept;
        memcpy(job->pairs + i * wanted, all.pairs, (size_t)kept * sizeof *all.pairs);
    }
    free(all.ids);
    free(all.keys);
    free(all.pairs);
}

REFERENCE_LAUNCH(finish, kin_tree_gpu_finish)

const kin_tree_kernels reference_tree = {.measure = measure_launch,
                                         .round = round_rows_launch,
                                         .order = order_or_size,
                                         .build = build_or_size,
                                         .walk = walk_launch,
                                         .walk_short = walk_short,
                                         .finish = finish_launch,
                                         .radius = reference_tree_radius,
                                         .sums = reference_tree_sums,
                                         .ranges = reference_tree_ranges};
