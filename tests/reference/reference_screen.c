/* SPDX-License-Identifier: Apache-2.0
 * Products of rounded rows, what is made of them, and the readers of matrices of costs. */
#include "reference/reference_screen.h"
#include "screen/screen_gate.h"
#include "screen/screen_start.h"
#include "select/select_word.h"

#include <stdlib.h>

enum {
    TILE = KIN_SCREEN_GPU_TILE,
    BLOCK = KIN_SCREEN_GPU_BLOCK,
    EXACT_COLS = 1024 /* products of bytes that a float sums without rounding */
};

/* ---- Products -------------------------------------------------------------------------------- */

/* As many columns of a tile as go side by side. */
typedef float lanes __attribute__((vector_size(16)));
enum { LANES = sizeof(lanes) / sizeof(float), GROUPS = TILE / LANES };

/* Rows of a block and columns of a tile as numbers. */
typedef struct sides {
    const kin_screen_gpu_screen *job;
    float *rows;        /* BLOCK x cols */
    lanes *cols;        /* GROUPS x cols */
    int32_t more[TILE]; /* than v is compared: what a column's start is above -half_j */
} sides;

static void load_rows(const sides *s, int64_t first)
{
    const kin_screen_gpu_set *set = &s->job->rows;
    for (int64_t r = 0; r < BLOCK && first + r < set->points; r++) {
        for (int32_t c = 0; c < set->frame.cols; c++) {
            s->rows[r * set->frame.cols + c] = rounded_of(set, first + r, c);
        }
    }
}

static int32_t start_of(const kin_screen_gpu_set *set, int64_t col)
{
    const unsigned char *tile = set->starts + col / TILE * TILE * KIN_START_BYTES;
    int32_t start = 0;
    for (int32_t t = 0; t < KIN_START_BYTES; t++) {
        start +=
            kin_start_of_rows(t) * (int32_t)(int8_t)tile[kin_start_place((int32_t)(col % TILE), t)];
    }
    return start;
}

static void load_cols(sides *s, int64_t first)
{
    const kin_screen_gpu_set *set = &s->job->cols;
    for (int64_t j = 0; j < TILE; j++) {
        for (int32_t c = 0; c < set->frame.cols; c++) {
            s->cols[j / LANES * set->frame.cols + c][j % LANES] = rounded_of(set, first + j, c);
        }
        s->more[j] = set->starts == NULL || first + j >= set->points
                         ? 0
                         : start_of(set, first + j) + set->half[first + j].i;
    }
}

/* Four groups at a time: no sum waits for the one before it. */
static void multiply(const sides *s, const float *row, int32_t begin, int32_t end, float *sums)
{
    const int64_t pitch = s->job->cols.frame.cols;
    for (int g = 0; g < GROUPS; g += 4) {
        const lanes *cols = s->cols + g * pitch;
        lanes sum[4];
        memcpy(sum, sums + (size_t)g * LANES, sizeof sum);
        for (int32_t c = begin; c < end; c++) {
            sum[0] += row[c] * cols[c];
            sum[1] += row[c] * cols[pitch + c];
            sum[2] += row[c] * cols[2 * pitch + c];
            sum[3] += row[c] * cols[3 * pitch + c];
        }
        memcpy(sums + (size_t)g * LANES, sum, sizeof sum);
    }
}

/* v = product - half_j of a row of the block and all columns of the tile. */
static void find_v(const sides *s, int64_t r, int64_t col0, kin_screen_gpu_word *v)
{
    const int32_t cols = s->job->rows.frame.cols;
    const float *row = s->rows + r * cols;
    const kin_screen_gpu_word *half = s->job->cols.half + col0;
    float sums[TILE];
    if (s->job->rows.frame.type == KIN_SCREEN_GPU_F16) {
        for (int j = 0; j < TILE; j++) {
            sums[j] = -half[j].f;
        }
        multiply(s, row, 0, cols, sums);
        memcpy(v, sums, sizeof sums);
        return;
    }
    for (int j = 0; j < TILE; j++) {
        v[j].i = -half[j].i;
    }
    for (int32_t c = 0; c < cols; c += EXACT_COLS) {
        memset(sums, 0, sizeof sums);
        multiply(s, row, c, c + EXACT_COLS < cols ? c + EXACT_COLS : cols, sums);
        for (int j = 0; j < TILE; j++) {
            v[j].i += (int32_t)sums[j];
        }
    }
}

static kin_screen_gpu_word cost_at(const kin_screen_gpu_screen *job, int64_t row, int64_t col,
                                   kin_screen_gpu_word v)
{
    kin_screen_gpu_word cost = job->rows.facts[row].term;
    if (job->rows.frame.type == KIN_SCREEN_GPU_S8) {
        cost.u += (job->cols.facts[col].term.u & 1u) - 2u * v.u;
    } else {
        cost.f -= 2.0F * v.f;
    }
    return cost;
}

static uint32_t order_at(const kin_screen_gpu_screen *job, int64_t row, int64_t col,
                         kin_screen_gpu_word v)
{
    return col < job->cols.points ? order_of(job->rows.frame.type, cost_at(job, row, col, v))
                                  : UINT32_MAX;
}

/* ---- Lists ----------------------------------------------------------------------------------- */

/* Below this v neither the row nor a column that shares the gate has a use for: screen_gate.h. */
static kin_screen_gpu_word least_of(const kin_screen_gpu_screen *job, kin_gate_test test,
                                    kin_screen_gpu_word gate)
{
    kin_screen_gpu_word least = test.row;
    if (job->col_lists.words == NULL) {
        return least;
    }
    if (job->rows.frame.type == KIN_SCREEN_GPU_S8) {
        const int32_t gated = test.col.i - gate.i;
        least.i = gated < least.i ? gated : least.i;
    } else {
        const float gated = kin_down_sub(test.col.f, gate.f);
        least.f = isnan(least.f) || least.f < gated ? least.f : gated;
    }
    return least;
}

static bool keeps(const kin_screen_gpu_frame *frame, double reach, double cost, kin_bound_row own,
                  kin_bound_row other)
{
    const bool takes_none = frame->bound == KIN_BOUND_DISTANCE && reach < 0.0;
    return !takes_none && is_within(frame, reach, cost, own, other);
}

/* Which ends of a pair want it: bit 0 the row, bit 1 the column. */
static int wish_of(const kin_screen_gpu_look *job, int64_t row, int64_t col, uint32_t order)
{
    const kin_screen_gpu_frame *frame = &job->rows.frame;
    const kin_bound_row own = bounds_of(&job->rows, row);
    const kin_bound_row other = bounds_of(&job->cols, col);
    const double cost = cost_of(frame->type, order);
    const bool for_col =
        job->col_lists.words != NULL &&
        keeps(frame, kin_screen_gpu_reach(frame, job->col_lists.reach[col]), cost, other, own);
    const double reach = kin_screen_gpu_reach(frame, job->row_lists.reach[row]);
    return keeps(frame, reach, cost, own, other) | for_col << 1;
}

static void grant(const kin_screen_gpu_look *job, int64_t row, int64_t col, uint32_t order,
                  int wish)
{
    if ((wish & 1) != 0) {
        push(&job->row_lists, row, (uint64_t)order << 32 | (uint64_t)col);
    }
    if ((wish & 2) != 0) {
        push(&job->col_lists, col, (uint64_t)order << 32 | (uint64_t)row);
    }
}

/* The same of the rows whose shadows passed. */
static void look_at(const kin_screen_gpu_look *job, int64_t row, int64_t col)
{
    const kin_screen_gpu_screen screen = {.rows = job->rows, .cols = job->cols};
    const kin_screen_gpu_word half = job->cols.half[col];
    double product = 0.0;
    kin_screen_gpu_word v;
    for (int32_t c = 0; c < job->rows.frame.cols; c++) {
        product += (double)rounded_of(&job->rows, row, c) * (double)rounded_of(&job->cols, col, c);
    }
    if (job->rows.frame.type == KIN_SCREEN_GPU_S8) {
        v.i = (int32_t)product - half.i;
    } else {
        v.f = (float)product - half.f;
    }
    const uint32_t order = order_at(&screen, row, col, v);
    grant(job, row, col, order, wish_of(job, row, col, order));
}

static void offer(const kin_screen_gpu_screen *screen, int64_t row, int64_t col,
                  kin_screen_gpu_word v)
{
    kin_screen_gpu_look job = {.rows = screen->rows,
                               .cols = screen->cols,
                               .row_lists = screen->row_lists,
                               .col_lists = screen->col_lists};
    const kin_screen_gpu_passed *passed = &screen->passed;
    const uint32_t order = order_at(screen, row, col, v);
    const int wish = wish_of(&job, row, col, order);
    if (passed->pairs == NULL || wish == 0) {
        grant(&job, row, col, order, wish);
    } else if (*passed->count < passed->room) {
        passed->pairs[(*passed->count)++] = (uint64_t)row << 32 | (uint64_t)col;
    } else {
        job.rows = screen->full_rows;
        job.cols = screen->full_cols;
        *passed->count += 1;
        look_at(&job, row, col);
    }
}

static void body_look(const kin_screen_gpu_look *job)
{
    for (uint64_t i = 0; i < *job->passed.count && i < job->passed.room; i++) {
        look_at(job, (int64_t)(job->passed.pairs[i] >> 32),
                (int64_t)(uint32_t)job->passed.pairs[i]);
    }
    *job->looked += *job->passed.count;
}

REFERENCE_SCREEN(look)

/* With starts in bytes both sides of the comparison are larger by their shift. */
static bool is_above(const sides *s, int64_t j, kin_screen_gpu_word v, kin_screen_gpu_word least)
{
    if (s->job->rows.frame.type == KIN_SCREEN_GPU_F16) {
        return !(v.f < least.f);
    }
    const int64_t shift = s->job->cols.starts == NULL ? 0 : s->job->cols.start_shift;
    return v.i + (int64_t)s->more[j] >= least.i + shift;
}

static void list_row(const sides *s, int64_t row, int64_t tile, const kin_screen_gpu_word *v)
{
    const kin_screen_gpu_screen *job = s->job;
    const kin_screen_gpu_frame *frame = &job->rows.frame;
    const kin_screen_gpu_worst *worst = &job->worst[tile];
    const float eps =
        frame->kappa > 0.0 ? nextafterf((float)(frame->kappa + 0x1p-20), INFINITY) : 0.0F;
    const float lost = job->rows.facts[row].lost;
    const kin_gate_row own = {
        job->rows.half[row], job->rows.facts[row].norm, lost,
        kin_gate_far(frame->bound, kin_screen_gpu_reach(frame, job->row_lists.reach[row]), lost)};
    const kin_bound_row other = {(double)worst->norm, (double)worst->lost};
    const kin_gate_test test =
        job->cols.starts != NULL
            ? kin_gate_make_even(frame->bound, own, job->cols.worst)
            : kin_gate_make_test(frame->type, frame->bound, eps, own, other, worst->far);
    for (int64_t j = 0; j < TILE && tile * TILE + j < job->cols.points; j++) {
        const kin_screen_gpu_word gate = worst->gate[kin_screen_gpu_gate_of((int32_t)j)];
        if (is_above(s, j, v[j], least_of(job, test, gate))) {
            offer(job, row, tile * TILE + j, v[j]);
        }
    }
}

/* ---- Matrices, and what is nearest ----------------------------------------------------------- */

static void write_row(const kin_screen_gpu_screen *job, int64_t row, int64_t tile, int64_t place,
                      const kin_screen_gpu_word *v)
{
    uint32_t least = UINT32_MAX;
    for (int64_t j = 0; j < TILE; j++) {
        const uint32_t order = order_at(job, row, tile * TILE + j, v[j]);
        least = order < least ? order : least;
        if (job->parts != NULL) {
            uint32_t *part =
                &job->parts[(row * job->pitch + place * TILE + j) / KIN_SCREEN_GPU_PART];
            *part = j % KIN_SCREEN_GPU_PART == 0 || order < *part ? order : *part;
        }
        if (job->matrix != NULL) {
            job->matrix[row * job->pitch + place * TILE + j] = order;
        }
    }
    if (job->minima != NULL) {
        job->minima[row * (job->pitch / TILE) + place] = least;
    }
}

static void find_nearest(const kin_screen_gpu_screen *job, int64_t row, int64_t tile,
                         const kin_screen_gpu_word *v)
{
    for (int64_t col = tile * TILE; col < (tile + 1) * TILE && col < job->cols.points; col++) {
        const uint64_t order = order_at(job, row, col, v[col % TILE]);
        const uint64_t word = order << 32 | (uint64_t)col;
        job->nearest[row] = word < job->nearest[row] ? word : job->nearest[row];
    }
}

/* ---- The screen ------------------------------------------------------------------------------ */

static void screen_tile(sides *s, const kin_screen_gpu_unit *unit, uint32_t t)
{
    const kin_screen_gpu_screen *job = s->job;
    const int64_t tile = job->tiles[unit->first + t];
    const int64_t place = (int64_t)unit->first - (int64_t)unit->block * job->tiles_a_block + t;
    load_cols(s, tile * TILE);
    for (int64_t r = 0; r < BLOCK; r++) {
        const int64_t row = (int64_t)unit->block * BLOCK + r;
        kin_screen_gpu_word v[TILE];
        if (row >= job->rows.points) {
            return;
        }
        find_v(s, r, tile * TILE, v);
        if (job->mode == KIN_SCREEN_GPU_LISTS) {
            list_row(s, row, tile, v);
        } else if (job->mode == KIN_SCREEN_GPU_MATRIX) {
            write_row(job, row, tile, place, v);
        } else {
            find_nearest(job, row, tile, v);
        }
    }
}

static void body_screen(const kin_screen_gpu_screen *job)
{
    const int32_t cols = job->rows.frame.cols;
    sides s = {.job = job,
               .rows = reference_room((int64_t)cols * BLOCK, sizeof(float)),
               .cols = reference_room((int64_t)cols * GROUPS, sizeof(lanes))};
    for (uint32_t u = (*job->next)++; u < *job->unit_count; u = (*job->next)++) {
        const kin_screen_gpu_unit *unit = &job->units[u];
        load_rows(&s, (int64_t)unit->block * BLOCK);
        for (uint32_t t = 0; t < unit->count; t++) {
            screen_tile(&s, unit, t);
        }
    }
    free(s.rows);
    free(s.cols);
}

static void screen_body(const void *job)
{
    body_screen(job);
}

int reference_screen_screen(kin_gpu_stream *stream, const kin_screen_gpu_screen *job)
{
    const char *unit = getenv("KITH_GPU_UNIT");
    const bool is_known =
        unit == NULL || unit[0] == '\0' || strcmp(unit, "mma") == 0 || strcmp(unit, "wgmma") == 0;
    return is_known ? reference_later(stream, screen_body, job, sizeof *job) : REFERENCE_INVALID;
}

/* ---- Readers of matrices --------------------------------------------------------------------- */

/* Columns of a row, of `count`. */
static int64_t own_columns(const uint32_t *own, const kin_screen_gpu_set *set, int64_t position,
                           int64_t count)
{
    if (own == NULL) {
        return count;
    }
    return set->ids[position] == KITH_ID_NONE ? 0 : (int64_t)own[position / BLOCK];
}

static void lower_reach(const kin_screen_gpu_kth *job, int64_t position, uint32_t order)
{
    const double reach =
        order == UINT32_MAX
            ? (double)INFINITY /* fewer than k columns */
            : proven_by(&job->set.frame, order, bounds_of(&job->set, position), job->col_worst);
    if (reach < job->lists.reach[position]) {
        job->lists.reach[position] = reach;
    }
}

static void body_kth(const kin_screen_gpu_kth *job)
{
    const int32_t k = job->lists.k;
    uint64_t *words = reference_room(job->count, sizeof *words);
    for (int64_t i = 0; i < job->rows && job->row0 + i < job->set.points; i++) {
        const int64_t position = job->row0 + i;
        const int64_t columns = own_columns(job->own, &job->set, position, job->count);
        const bool by_minima = job->minima != NULL && columns / TILE >= k;
        const int64_t count = by_minima ? columns / TILE : columns;
        const uint32_t *from =
            by_minima ? job->minima + i * (job->pitch / TILE) : job->matrix + i * job->pitch;
        if (job->own != NULL && job->set.ids[position] == KITH_ID_NONE) {
            job->lists.reach[position] = -(double)INFINITY;
        }
        if (count < k || columns > job->count) {
            continue;
        }
        for (int64_t c = 0; c < count; c++) {
            words[c] = from[c];
        }
        kin_select_nth_word(words, count, k - 1);
        lower_reach(job, position, (uint32_t)words[k - 1]);
    }
    free(words);
}

REFERENCE_SCREEN(kth)

/* orders: of the first `most` columns of a tile, or of all. */
static void gather_tile(const kin_screen_gpu_gather *job, int64_t row, const uint32_t *orders,
                        int64_t tile, int64_t most)
{
    const kin_screen_gpu_frame *frame = &job->rows_set.frame;
    const double reach = job->lists.reach[row];
    const kin_bound_row own = bounds_of(&job->rows_set, row);
    for (int64_t j = 0; j < TILE && j < most && tile * TILE + j < job->cols_set.points; j++) {
        const int64_t col = tile * TILE + j;
        const double cost = cost_of(frame->type, orders[j]);
        if (is_within(frame, reach, cost, own, job->cols_set.worst) &&
            is_within(frame, reach, cost, own, bounds_of(&job->cols_set, col))) {
            push(&job->lists, row, (uint64_t)orders[j] << 32 | (uint64_t)col);
        }
    }
}

static void body_gather(const kin_screen_gpu_gather *job)
{
    const kin_screen_gpu_frame *frame = &job->rows_set.frame;
    for (int64_t i = 0; i < job->rows && job->row0 + i < job->rows_set.points; i++) {
        const int64_t row = job->row0 + i;
        const int64_t columns = own_columns(job->own, &job->rows_set, row, job->count);
        for (int64_t t = 0; t * TILE < columns && columns <= job->count; t++) {
            const uint32_t least =
                job->minima != NULL ? job->minima[i * (job->pitch / TILE) + t] : 0;
            const bool has_any =
                job->minima == NULL ||
                (least != UINT32_MAX &&
                 is_within(frame, job->lists.reach[row], cost_of(frame->type, least),
                           bounds_of(&job->rows_set, row), job->cols_set.worst));
            if (has_any) {
                gather_tile(job, row, job->matrix + i * job->pitch + t * TILE,
                            job->tiles[row / BLOCK * job->tiles_a_block + t], columns - t * TILE);
            }
        }
    }
}

REFERENCE_SCREEN(gather)
