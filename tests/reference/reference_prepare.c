/* SPDX-License-Identifier: Apache-2.0
 * Rows before they are screened: looked at, transformed, grouped, measured, rounded, covered,
 * sorted. */
#include "metric/metric_table.h"
#include "reference/reference_screen.h"
#include "screen/screen_cover.h"
#include "screen/screen_start.h"
#include "select/select_word.h"

/* ---- Values ---------------------------------------------------------------------------------- */

static bool is_bad(const kin_screen_gpu_rows *rows, double x)
{
    const bool nonnegative = rows->metric == KITH_CHI2 || rows->metric == KITH_KL;
    const bool is_double = rows->dtype == KITH_F64;
    const bool far = rows->metric == KITH_HAVERSINE && fabs(x) > KIN_MOST_RADIANS;
    return isnan(x) || isinf(x) || far || (nonnegative && x < 0) ||
           (is_double && fabs(x) > 0x1p500) ||
           (is_double && rows->metric == KITH_KL && x > 0 && x < 0x1p-500);
}

static void check_box(const kin_screen_gpu_check *job)
{
    const kin_screen_gpu_rows *rows = &job->rows;
    for (int64_t row = 0; row < rows->rows; row++) {
        for (int32_t col = 0; col < rows->cols; col++) {
            const double x = kin_value(rows->dtype, row_of(rows, row), col);
            const bool outside = rows->period[col] > 0 && !(x >= 0 && x < rows->period[col]);
            const uint64_t place =
                KIN_SCREEN_GPU_OUTSIDE | (uint64_t)((job->first + row) * rows->cols);
            *job->bad = outside && place < *job->bad ? place : *job->bad;
            if (outside && job->marks != NULL) {
                job->marks[row] = 1;
            }
        }
    }
}

static uint32_t misfits_of(double x)
{
    const bool whole = rint(x) == x;
    return (whole && x >= 0 && x <= UINT8_MAX ? 0U : KIN_BYTES_U8) |
           (whole && x >= INT8_MIN && x <= INT8_MAX ? 0U : KIN_BYTES_I8);
}

static void body_check(const kin_screen_gpu_check *job)
{
    const kin_screen_gpu_rows *rows = &job->rows;
    if (rows->period != NULL) {
        check_box(job);
    }
    for (int64_t row = 0; row < rows->rows; row++) {
        for (int32_t col = 0; col < rows->cols; col++) {
            const uint64_t place =
                (uint64_t)(job->first + row) * (uint64_t)rows->cols + (uint64_t)col;
            const double x = kin_value(rows->dtype, row_of(rows, row), col);
            if (job->misfits != NULL) {
                *job->misfits |= misfits_of(x);
            }
            if (is_bad(rows, x)) {
                *job->bad = place < *job->bad ? place : *job->bad;
                if (job->marks != NULL) {
                    job->marks[row] = 1;
                }
            }
        }
    }
}

REFERENCE_SCREEN(check)

static void body_transform(const kin_screen_gpu_transform *job)
{
    const kin_screen_gpu_rows *rows = &job->rows;
    const kin_transform_fn transform = kin_metric_pick(KIN_ISA_PORTABLE)->transform[rows->dtype];
    for (int64_t row = 0; row < rows->rows; row++) {
        job->transforms[row] =
            transform(row_of(rows, row), rows->cols, rows->metric == KITH_CORRELATION);
        job->degenerate[row] = job->transforms[row].degenerate != 0 ? 1 : 0;
        *job->count += job->degenerate[row];
    }
}

REFERENCE_SCREEN(transform)

/* ---- Groups ---------------------------------------------------------------------------------- */

static uint64_t hash_of(const char *row, size_t bytes)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (size_t i = 0; i < bytes; i++) {
        hash = (hash ^ (unsigned char)row[i]) * 0x100000001b3u;
    }
    return kin_graph_mix(hash);
}

/* Rows come in rising order, so that who finds a place first is the lowest of its group. */
static void body_group(const kin_screen_gpu_group *job)
{
    const size_t bytes = (size_t)job->rows.cols * (size_t)kin_value_bytes(job->rows.dtype);
    for (int64_t row = 0; row < job->rows.rows; row++) {
        const char *data = row_of(&job->rows, row);
        const uint64_t hash = row < job->known
                                  ? job->hashes[row]
                                  : hash_of(data, bytes) >> 1; /* no place is free by it */
        uint64_t *place = job->table + 2 * (hash & (job->slots - 1));
        while (
            place[0] != UINT64_MAX &&
            (place[0] != hash || memcmp(row_of(&job->rows, (int64_t)place[1]), data, bytes) != 0)) {
            place +=
                place == job->table + 2 * (job->slots - 1) ? -2 * (int64_t)(job->slots - 1) : 2;
        }
        if (place[0] == UINT64_MAX) {
            place[0] = hash;
            place[1] = (uint64_t)row;
            *job->distinct += 1;
        }
        job->firsts[row] = (uint32_t)place[1];
        if (job->hashes != NULL) {
            job->hashes[row] = hash;
        }
    }
}

REFERENCE_SCREEN(group)

/* ---- Frames ---------------------------------------------------------------------------------- */

static void body_measure(const kin_screen_gpu_measure *job)
{
    const kin_screen_gpu_rows *rows = &job->rows;
    const size_t cols = (size_t)rows->cols;
    memset(job->mean, 0, cols * sizeof *job->mean);
    job->largest[0] = 0.0;
    job->largest[1] = 0.0;
    for (int64_t row = 0; row < rows->rows && job->shifts != 0; row++) {
        for (int32_t col = 0; col < rows->cols; col++) {
            job->mean[col] += value_of(rows, row, col);
        }
    }
    for (size_t col = 0; col < cols; col++) {
        job->mean[col] /= (double)rows->rows;
    }
    for (int64_t row = 0; row < rows->rows; row++) {
        double sum = 0.0;
        for (int32_t col = 0; col < rows->cols; col++) {
            const double a = value_of(rows, row, col) - job->mean[col];
            job->largest[0] = fmax(job->largest[0], fabs(a));
            sum += a * a;
        }
        job->largest[1] = job->norms != 0 ? fmax(job->largest[1], sqrt(sum)) : 0.0;
    }
}

REFERENCE_SCREEN(measure)

/* ---- Rounded rows ---------------------------------------------------------------------------- */

/* Of a float that is 0 or within the normal range, to nearest, ties to even. */
static uint16_t half_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t magnitude = bits & 0x7fffffffu;
    const uint32_t rounded = (magnitude + 0xfff + (magnitude >> 13 & 1)) >> 13;
    return (uint16_t)((bits >> 16 & 0x8000u) | (magnitude == 0 ? 0 : rounded - (112u << 10)));
}

typedef struct sums {
    double stored; /* squares */
    double lost;
    double given;
} sums;

static double clamped(double x, double most)
{
    return x > most ? most : x < -most ? -most : x;
}

static double frame_value(const kin_screen_gpu_round *job, int64_t row, int32_t col)
{
    const double mean = job->frame.mean != NULL ? job->frame.mean[col] : 0.0;
    return (value_of(&job->rows, row, col) - mean) * (1.0 / job->frame.scale);
}

static sums round_row(const kin_screen_gpu_round *job, int64_t row, unsigned char *out)
{
    sums s = {0.0, 0.0, 0.0};
    for (int32_t col = 0; col < job->frame.cols; col++) {
        const double b = frame_value(job, row, col);
        double x;
        if (job->frame.type == KIN_SCREEN_GPU_F16) {
            const uint16_t half = half_of((float)(fabs(b) < 0x1p-14 ? 0.0 : clamped(b, 0x1p15)));
            memcpy(out + 2 * (size_t)col, &half, sizeof half);
            x = kin_value_of_f16(half);
        } else {
            x = fmin(fmax(rint(b), -128.0), 127.0);
            out[col] = (unsigned char)(int8_t)x;
        }
        s.stored += x * x;
        s.lost += (b - x) * (b - x);
        s.given += b * b;
    }
    if (job->frame.type == KIN_SCREEN_GPU_S8 && s.stored > 0x1p28) {
        memset(out, 0, (size_t)job->frame.row_bytes);
        return (sums){0.0, s.given, s.given}; /* far outside: the origin stands for it */
    }
    return s;
}

static void set_integer(const kin_screen_gpu_round *job, int64_t position, int64_t term)
{
    job->facts[position].term.i = (int32_t)term;
    job->half[position].i = (int32_t)(term >> 1);
}

static void finish_row(const kin_screen_gpu_round *job, int64_t position, int64_t row,
                       const sums *s)
{
    const double before =
        job->off != NULL ? (double)job->off[row * job->off_stride] / job->frame.scale : 0.0;
    const bool product = job->frame.bound == KIN_BOUND_PRODUCT;
    kin_screen_gpu_facts *facts = &job->facts[position];
    const double off = sqrt(s->lost);
    const double length = sqrt(s->stored);
    facts->norm = kin_up_of(length * KIN_BOUND_WIDEN);
    facts->lost = kin_up_of((before + off + 0x1p-50 * (length + off) + 0x1p-500) * KIN_BOUND_WIDEN);
    if (job->frame.type == KIN_SCREEN_GPU_F16) {
        facts->term.f = product ? 0.0F : (float)s->stored;
        job->half[position].f = 0.5F * facts->term.f;
    } else {
        set_integer(job, position, product ? 0 : (int64_t)s->stored);
    }
}

/* Bytes as they are, and floats that are such; unsigned ones moved by 128. */
static void round_integers(const kin_screen_gpu_round *job, int64_t position, int64_t row,
                           unsigned char *out)
{
    const kith_dtype dtype = job->rows.dtype;
    const int32_t shift = dtype == KITH_U8 ? 128 : dtype == KITH_I8 ? 0 : job->frame.shift;
    int64_t sum = 0;
    int64_t squares = 0;
    for (int32_t col = 0; col < job->frame.cols; col++) {
        const int32_t x = (int32_t)kin_value(dtype, row_of(&job->rows, row), col) - shift;
        out[col] = (unsigned char)(int8_t)x;
        sum += x;
        squares += (int64_t)x * x;
    }
    const int64_t shifted = -2 * shift * sum - (int64_t)shift * shift * job->frame.cols;
    set_integer(job, position, job->rows.metric == KITH_INNER_PRODUCT ? shifted : squares);
}

static void pad(const kin_screen_gpu_round *job, int64_t position)
{
    kin_screen_gpu_word word = {.i = KIN_SCREEN_GPU_PAD_INT};
    if (job->frame.type == KIN_SCREEN_GPU_F16) {
        word.f = KIN_SCREEN_GPU_PAD_FLOAT;
    }
    job->facts[position].term = word;
    job->half[position] = word;
}

static void copy_past(const kin_screen_gpu_round *job, int64_t position, int64_t place,
                      unsigned char *out)
{
    const kin_screen_gpu_set *past = &job->past.set;
    const size_t bytes = (size_t)job->frame.row_bytes;
    memcpy(out, past->rounded + (size_t)place * bytes, bytes);
    job->facts[position] = past->facts[place];
    job->half[position] = past->half[place];
}

static void body_round(const kin_screen_gpu_round *job)
{
    for (int64_t p = 0; p < job->padded; p++) {
        unsigned char *out = job->rounded + p * job->frame.row_bytes;
        memset(out, 0, (size_t)job->frame.row_bytes);
        memset(&job->facts[p], 0, sizeof *job->facts);
        if (p >= job->points || (job->ids != NULL && job->ids[p] == KITH_ID_NONE)) {
            pad(job, p);
            continue;
        }
        const int64_t row = job->ids != NULL ? (int64_t)job->ids[p] : job->first + p;
        const bool framed = job->frame.bound != KIN_BOUND_INTEGER;
        if (job->frame.bound == KIN_BOUND_INTEGER) {
            round_integers(job, p, row, out);
        } else if (row < job->past.known) {
            copy_past(job, p, job->past.places[row], out);
        } else {
            const sums s = round_row(job, row, out);
            finish_row(job, p, row, &s);
        }
        if (framed && job->places != NULL) {
            job->places[row] = (uint32_t)p;
        }
        if (framed && job->worst != NULL && row >= job->past.known) {
            job->worst[0] = fmaxf(job->worst[0], job->facts[p].norm);
            job->worst[1] = fmaxf(job->worst[1], job->facts[p].lost);
        }
    }
}

REFERENCE_SCREEN(round)

/* ---- Shadows --------------------------------------------------------------------------------- */

static void cast_row(const kin_screen_gpu_cast *job, int64_t position)
{
    const kin_screen_gpu_set *set = &job->set;
    float *values = job->values + position * (job->axes + 1);
    double length_sq = 0.0;
    double image_sq = 0.0;
    for (int32_t c = 0; c < set->frame.cols; c++) {
        const float x = rounded_of(set, position, c) - job->mean[c];
        length_sq += (double)x * (double)x;
    }
    for (int32_t j = 0; j < job->axes; j++) {
        double sum = 0.0;
        for (int32_t c = 0; c < set->frame.cols; c++) {
            const float x = rounded_of(set, position, c) - job->mean[c];
            sum += (double)x * (double)job->basis[(int64_t)c * KIN_SCREEN_GPU_MOST_AXES + j];
        }
        values[j] = (float)sum;
        image_sq += (double)values[j] * (double)values[j];
    }
    const double rest = kin_bound_shadow_rest(length_sq, image_sq);
    values[job->axes] = (float)rest;
    job->off[position] =
        kin_up_of(kin_bound_shadow_error(length_sq, rest, job->skew, job->axes, 1) +
                  0x1p-22 * sqrt(length_sq) + (double)set->facts[position].lost);
}

static void body_cast(const kin_screen_gpu_cast *job)
{
    for (int64_t p = 0; p < job->set.points; p++) {
        cast_row(job, p);
    }
}

REFERENCE_SCREEN(cast)

/* ---- Balls ----------------------------------------------------------------------------------- */

static float radius_of(const kin_screen_gpu_set *set, int64_t position, const float *centre)
{
    double sum = 0.0;
    for (int32_t col = 0; col < set->frame.cols; col++) {
        const double t = (double)rounded_of(set, position, col) - (double)centre[col];
        sum += t * t;
    }
    return kin_ball_radius(kin_up_of(sum), set->frame.cols, set->facts[position].lost);
}

static void body_cover(const kin_screen_gpu_cover *job)
{
    const kin_screen_gpu_set *set = &job->set;
    const int32_t cols = set->frame.cols;
    for (int64_t tile = 0; tile < set->padded / KIN_SCREEN_GPU_TILE; tile++) {
        const int64_t first = tile * KIN_SCREEN_GPU_TILE;
        const int64_t left = set->points - first;
        const int64_t count = left < 0                     ? 0
                              : left < KIN_SCREEN_GPU_TILE ? left
                                                           : KIN_SCREEN_GPU_TILE;
        float *centre = job->centres + tile * cols;
        memset(centre, 0, (size_t)cols * sizeof *centre);
        job->radii[tile] = 0.0F;
        for (int64_t p = first; p < first + count; p++) {
            for (int32_t col = 0; col < cols; col++) {
                centre[col] += rounded_of(set, p, col);
            }
        }
        for (int32_t col = 0; col < cols && count > 0; col++) {
            centre[col] /= (float)count;
        }
        for (int64_t p = first; p < first + count; p++) {
            job->radii[tile] = fmaxf(job->radii[tile], radius_of(set, p, centre));
        }
    }
}

REFERENCE_SCREEN(cover)

static float square_from(const kin_screen_gpu_set *set, int64_t position, const float *centre)
{
    float square = 0.0F;
    for (int32_t col = 0; col < set->frame.cols; col++) {
        const float t = rounded_of(set, position, col) - centre[col];
        square += t * t;
    }
    return square;
}

/* The nearest of the first `balls` centres. */
static int32_t side_of(const kin_screen_gpu_set *set, int64_t position, const float *centres,
                       int32_t balls, float *least)
{
    int32_t side = 0;
    *least = INFINITY;
    for (int32_t ball = 0; ball < balls; ball++) {
        const float square = square_from(set, position, centres + ball * set->frame.cols);
        side = square < *least ? ball : side;
        *least = square < *least ? square : *least;
    }
    return side;
}

/* Centres are rows, the first one of the tile and each time the one that is farthest from those
 * before. */
static void split_tile(const kin_screen_gpu_split *job, int64_t first, int64_t end, float *centres,
                       float *radii)
{
    const kin_screen_gpu_set *set = &job->set;
    const int32_t cols = set->frame.cols;
    int64_t farthest = first;
    for (int32_t ball = 0; ball < KIN_SCREEN_GPU_BALLS; ball++) {
        float most = -1.0F;
        float least = 0.0F;
        for (int32_t col = 0; col < cols; col++) {
            centres[ball * cols + col] = rounded_of(set, farthest, col);
        }
        for (int64_t p = first; p < end; p++) {
            (void)side_of(set, p, centres, ball + 1, &least);
            farthest = least > most ? p : farthest;
            most = least > most ? least : most;
        }
        radii[ball] = 0.0F;
    }
    for (int64_t p = first; p < end; p++) {
        float least = 0.0F;
        const int32_t side = side_of(set, p, centres, KIN_SCREEN_GPU_BALLS, &least);
        radii[side] = fmaxf(radii[side], radius_of(set, p, centres + side * cols));
    }
}

static void body_split(const kin_screen_gpu_split *job)
{
    const kin_screen_gpu_set *set = &job->set;
    for (int64_t first = 0; first < set->points; first += KIN_SCREEN_GPU_TILE) {
        const int64_t end =
            first + KIN_SCREEN_GPU_TILE < set->points ? first + KIN_SCREEN_GPU_TILE : set->points;
        const int64_t ball = first / KIN_SCREEN_GPU_TILE * KIN_SCREEN_GPU_BALLS;
        split_tile(job, first, end, job->centres + ball * set->frame.cols, job->radii + ball);
    }
}

REFERENCE_SCREEN(split)

/* ---- Starts of columns ----------------------------------------------------------------------- */

static void body_start(const kin_screen_gpu_start *job)
{
    for (int64_t p = 0; p < job->points; p++) {
        const int32_t half = job->half[p].i;
        job->found->least = half < job->found->least ? half : job->found->least;
    }
    const int32_t shift = kin_start_shift(job->found->least);
    for (int64_t p = 0; p < job->padded; p++) {
        unsigned char *tile =
            job->starts + p / KIN_SCREEN_GPU_TILE * KIN_SCREEN_GPU_TILE * KIN_START_BYTES;
        const int32_t start = kin_start_of(shift, job->half[p].i);
        job->found->cut += p < job->points && start != shift - job->half[p].i;
        for (int32_t t = 0; t < KIN_START_BYTES; t++) {
            tile[kin_start_place((int32_t)(p % KIN_SCREEN_GPU_TILE), t)] =
                (unsigned char)kin_start_byte(start, t);
        }
    }
}

REFERENCE_SCREEN(start)

/* ---- Order ----------------------------------------------------------------------------------- */

static uint32_t given_row(const kin_screen_gpu_sort *job, int64_t i)
{
    return job->ids != NULL ? job->ids[i] : (uint32_t)i;
}

static void body_sort(const kin_screen_gpu_sort *job)
{
    uint64_t *words = job->scratch;
    if (job->nearest == NULL) {
        for (int64_t i = 0; i < job->points; i++) {
            job->order[i] = given_row(job, i);
        }
        return;
    }
    for (int64_t i = 0; i < job->points; i++) {
        const uint32_t cell = (uint32_t)job->nearest[i];
        words[i] =
            (uint64_t)(cell < job->cell_count ? cell : job->cell_count - 1) << 32 | (uint64_t)i;
    }
    kin_select_sort_words(words, job->points);
    for (int64_t m = 0; job->marks != NULL && m < kin_screen_gpu_sort_marks(job->points); m++) {
        const int64_t at = m * KIN_SCREEN_GPU_TILE;
        job->marks[m] = (uint32_t)(words[at < job->points ? at : job->points - 1] >> 32);
    }
    for (int64_t i = 0; i < job->points; i++) {
        words[i] = given_row(job, (int64_t)(uint32_t)words[i]); /* order may be ids */
    }
    for (int64_t i = 0; i < job->points; i++) {
        job->order[i] = (uint32_t)words[i];
    }
}

/* By the sums of their components: any order is right. */
static void body_halve(const kin_screen_gpu_halve *job)
{
    kin_pair pairs[KIN_SCREEN_GPU_HALVED];
    for (int64_t i = 0; i < job->set.points; i++) {
        double sum = 0.0;
        for (int32_t col = 0; col < job->set.frame.cols; col++) {
            sum += (double)rounded_of(&job->set, i, col);
        }
        pairs[i] = (kin_pair){sum, job->ids[i], 0};
    }
    kin_select_sort_pairs(pairs, job->set.points);
    for (int64_t i = 0; i < job->set.points; i++) {
        job->ids[i] = pairs[i].id;
    }
}

REFERENCE_SCREEN(halve)

static void body_keep(const kin_screen_gpu_keep *job)
{
    int64_t to = 0;
    for (int64_t i = 0; i < job->points; i++) {
        const uint32_t id = job->ids[i];
        if ((job->words[id / 32] >> id % 32 & 1) == 0) {
            continue;
        }
        const uint32_t cell = job->marks != NULL ? job->marks[i / KIN_SCREEN_GPU_TILE] : 0;
        if (job->marks != NULL && to % KIN_SCREEN_GPU_TILE == 0) {
            job->to_marks[to / KIN_SCREEN_GPU_TILE] = cell;
        }
        if (job->marks != NULL && to == job->kept - 1) {
            job->to_marks[to / KIN_SCREEN_GPU_TILE + 1] = cell;
        }
        job->to_ids[to++] = id;
    }
}

REFERENCE_SCREEN(keep)

static void body_take(const kin_screen_gpu_take *job)
{
    for (int64_t i = 0; i < job->count; i++) {
        job->to_ids[i] = job->ids[job->of[i]];
        job->to_reach[i] = job->reach[job->of[i]];
    }
}

REFERENCE_SCREEN(take)

static void sort_body(const void *job)
{
    body_sort(job);
}

/* How much scratch is wanted is said at once. */
int reference_screen_sort(kin_gpu_stream *stream, const kin_screen_gpu_sort *job)
{
    if (job->nearest != NULL && job->scratch == NULL && job->points > 0) {
        *job->scratch_bytes = (uint64_t)job->points * sizeof(uint64_t);
        return 0;
    }
    return job->points > 0 ? reference_later(stream, sort_body, job, sizeof *job) : 0;
}
