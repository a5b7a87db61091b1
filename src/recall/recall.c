/* SPDX-License-Identifier: Apache-2.0
 *
 * The interval is Wilson's for a proportion, over rows. The neighbours of one row are found or
 * missed together more often than not, so that a row is one observation: n of them, not n K. But a
 * row's recall is a number from 0 to 1 and varies less than one that is right or wrong as a whole,
 * of variance p (1 - p). Wilson's formula therefore gets as many rows as would say as much if they
 * were right or wrong:
 *
 *   n' = n (n p (1 - p) + 1) / (S + 1)     S: sum of the squared distances of recalls from p
 *
 * The 1 stands for one row more, which missed everything. Where hardly a row misses anything, S is
 * known badly, and a rare row that loses all its neighbours may not be in the sample at all: then
 * n' is little above n. Of a sample without a miss it is n: Wilson's interval of n right ones.
 * Where each row is right or wrong as a whole n' = n, too. tests/unit/test_recall.c counts how
 * often the truth lies within. */
#include "recall/recall.h"

#include "base/base_random.h"
#include "base/base_size.h"

#include <math.h>

/* Of which sample a row of the control is. */
enum { DECIDES = 1 << 0, TELLS = 1 << 1 };

static const uint64_t DECIDING_SEED = 0x6b697468206b6e6eu;

/* ---- Rows ----------------------------------------------------------------------------------- */

/* Where few of many rows are drawn, looking at each of them takes longer than the rest. */
enum { FEW = 8192, MANY_TIMES = 64 };

/* Each row with the chance that is left for it (Knuth's algorithm S): no row twice. */
static void draw_walking(int64_t rows, int64_t count, uint64_t seed, uint32_t *ids)
{
    int64_t drawn = 0;
    for (int64_t row = 0; drawn < count; row++) {
        const uint64_t left = (uint64_t)(rows - row);
        if (kin_random_below(&seed, left) < (uint64_t)(count - drawn)) {
            ids[drawn++] = (uint32_t)row;
        }
    }
}

/* Floyd's: the i-th draw is among the first rows - count + i + 1, and what was drawn before gives
 * way to the last of them. */
static void draw_few(int64_t rows, int64_t count, uint64_t seed, uint32_t *ids)
{
    for (int64_t drawn = 0; drawn < count; drawn++) {
        const int64_t last = rows - count + drawn;
        uint32_t id = (uint32_t)kin_random_below(&seed, (uint64_t)last + 1);
        int64_t place = kin_lower_u32(ids, drawn, id);
        if (place < drawn && ids[place] == id) {
            id = (uint32_t)last;
            place = drawn;
        }
        memmove(ids + place + 1, ids + place, (size_t)(drawn - place) * sizeof *ids);
        ids[place] = id;
    }
}

void kin_recall_draw(int64_t rows, int64_t count, uint64_t seed, uint32_t *ids)
{
    if (count <= FEW && rows / count >= MANY_TIMES) {
        draw_few(rows, count, seed, ids);
    } else {
        draw_walking(rows, count, seed, ids);
    }
}

uint64_t kin_recall_deciding_seed(uint64_t seed)
{
    return seed ^ DECIDING_SEED;
}

/* ---- Recall --------------------------------------------------------------------------------- */

void kin_recall_add_row(kin_recall_sums *sums, const double *found, int64_t at, double last)
{
    int64_t hits = 0;
    for (int64_t i = 0; i < at; i++) {
        hits += found[i] <= last;
    }
    kin_recall_add(sums, (double)hits / (double)at);
}

void kin_recall_interval(const kin_recall_sums *sums, bool all, kith_recall *out)
{
    const double z = 1.959963984540054; /* 97.5 % of a normal distribution lie below */
    const double n = (double)sums->rows;
    const double share = sums->sum / n;
    out->rows = sums->rows;
    out->recall = share;
    out->low = share;
    out->high = share;
    if (all) {
        return;
    }
    const double whole = fmax(share * (1.0 - share), 0.0);
    const double spread = fmin(fmax(sums->squares - n * share * share, 0.0), n * whole);
    const double m = n * (n * whole + 1.0) / (spread + 1.0);
    const double middle = (share + z * z / (2.0 * m)) / (1.0 + z * z / m);
    const double reach = z / (1.0 + z * z / m) * sqrt(whole / m + z * z / (4.0 * m * m));
    out->low = fmax(0.0, fmin(middle - reach, share));
    out->high = fmin(1.0, fmax(middle + reach, share));
}

/* ---- Control -------------------------------------------------------------------------------- */

/* Both samples in one ascending list. */
static void join(kin_recall_samples *s, const uint32_t *tells, const uint32_t *decides,
                 int64_t deciding)
{
    int64_t rows = 0;
    for (int64_t i = 0, j = 0; i < s->each || j < deciding; rows++) {
        const bool left = i < s->each && (j == deciding || tells[i] <= decides[j]);
        const bool right = j < deciding && (i == s->each || decides[j] <= tells[i]);
        s->ids[rows] = left ? tells[i] : decides[j];
        s->part[rows] = (unsigned char)((left ? TELLS : 0) | (right ? DECIDES : 0));
        i += left;
        j += right;
    }
    s->control.count = rows;
}

static void name_samples(kin_layout *layout, void *job)
{
    kin_recall_samples *s = job;
    const uint64_t most = (uint64_t)s->each * (s->decides ? 2 : 1);
    s->ids = kin_layout_array(layout, most, sizeof *s->ids);
    s->drawn = kin_layout_array(layout, most, sizeof *s->drawn);
    s->part = kin_layout_array(layout, most, sizeof *s->part);
    s->control.kth = kin_layout_array(layout, most, sizeof *s->control.kth);
    s->control.found = kin_layout_array(layout, kin_size_mul(most, (uint64_t)s->control.at),
                                        sizeof *s->control.found);
}

kith_status kin_recall_samples_make(kith_ctx *ctx, uint64_t seed, kin_recall_samples *samples)
{
    kin_recall_samples *s = samples;
    if (s->each == 0) {
        return KITH_OK;
    }
    KIN_TRY(kin_layout_make(ctx, name_samples, s, "sample rows", &s->block));
    kin_recall_draw(s->rows, s->each, seed, s->drawn);
    if (s->decides) {
        kin_recall_draw(s->rows, s->each, kin_recall_deciding_seed(seed), s->drawn + s->each);
    }
    join(s, s->drawn, s->drawn + s->each, s->decides ? s->each : 0);
    s->control.ids = s->ids;
    return KITH_OK;
}

static kin_recall_sums recalls(const kin_recall_samples *s, unsigned part)
{
    const kin_recall_control *control = &s->control;
    kin_recall_sums sums = {0};
    for (int64_t i = 0; i < control->count; i++) {
        if ((s->part[i] & part) != 0) {
            kin_recall_add_row(&sums, control->found + i * control->at, control->at,
                               control->kth[i]);
        }
    }
    return sums;
}

double kin_recall_decide(const kin_recall_samples *samples)
{
    const kin_recall_sums sums = recalls(samples, samples->decides ? DECIDES : TELLS);
    return sums.rows > 0 ? sums.sum / (double)sums.rows : -1.0;
}

void kin_recall_tell(const kin_recall_samples *samples, kith_recall *out)
{
    const kin_recall_sums sums = recalls(samples, TELLS);
    if (sums.rows > 0) {
        kin_recall_interval(&sums, sums.rows == samples->rows, out);
        out->at = samples->control.at;
    }
}
