/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. With the share s of the rows at the processor, a row of a batch takes
 *
 *      T(s) = s handing + (1 - s) picking
 *           + max(cpu_rest + s cpu_select, gpu_rest + (1 - s) gpu_select)
 *
 * seconds: keys that go to the processor are waited for by both, as is what the GPU does before it
 * goes on; then the processor selects and writes while the GPU selects and is at the next batch's
 * costs. T is the larger of two straight lines, so it is least where they meet, both sides ending
 * together, or at an end of [0, 1].
 */
#include "papers/papers_hybrid.h"

#include <stddef.h>

/* Bounds, not rates: how far a division moves at a time, and how often both sides are looked at. */
enum {
    STEP = 4,          /* a share moves by at most one of so many, */
    PROBE = 16,        /* one of so many rows is enough to time a side, */
    PROBE_BATCHES = 16 /* and that is done once in so many batches */
};

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double bounded(double value, double least, double most)
{
    return value < least ? least : value > most ? most : value;
}

static double time_of(const kin_papers_rates *r, double share)
{
    return share * r->handing + (1.0 - share) * r->picking +
           larger(r->cpu_rest + share * r->cpu_select, r->gpu_rest + (1.0 - share) * r->gpu_select);
}

double kin_papers_division_best(const kin_papers_rates *r)
{
    const double both = r->cpu_select + r->gpu_select;
    const double meet =
        both > 0.0 ? bounded((r->gpu_rest + r->gpu_select - r->cpu_rest) / both, 0.0, 1.0) : 1.0;
    const double end = time_of(r, 0.0) < time_of(r, 1.0) ? 0.0 : 1.0;
    return time_of(r, meet) < time_of(r, end) ? meet : end;
}

/* The share of the next batch, before it is made whole rows. */
static double next_share(const kin_papers_division *d)
{
    const double step = 1.0 / STEP;
    const double probe = 1.0 / PROBE;
    if (d->batches == 0) {
        return 1.0 - probe;
    }
    double share = d->share;
    if (d->knows_cpu && d->knows_gpu) {
        share = bounded(kin_papers_division_best(&d->rates), share - step, share + step);
    }
    return d->batches % PROBE_BATCHES == 0 ? bounded(share, probe, 1.0 - probe) : share;
}

int64_t kin_papers_division_rows(kin_papers_division *d, int64_t rows)
{
    d->share = bounded(d->fixed != NULL ? *d->fixed : next_share(d), 0.0, 1.0);
    d->batches += 1;
    return (int64_t)(d->share * (double)rows + 0.5);
}

static void learn(double *rate, bool known, double seconds, int64_t rows)
{
    const double seen = seconds / (double)rows;
    *rate = known ? (*rate + seen) / 2 : seen;
}

void kin_papers_division_learn(kin_papers_division *d, const kin_papers_timed *t)
{
    const int64_t gpu_rows = t->rows - t->cpu_rows;
    const bool known = d->knows_cpu || d->knows_gpu;
    if (t->rows < 1) {
        return;
    }
    learn(&d->rates.cpu_rest, known, t->cpu_rest, t->rows);
    learn(&d->rates.gpu_rest, known, t->gpu_rest, t->rows);
    if (t->cpu_rows > 0) {
        learn(&d->rates.handing, d->knows_cpu, t->handing, t->cpu_rows);
        learn(&d->rates.cpu_select, d->knows_cpu, t->cpu_select, t->cpu_rows);
        d->knows_cpu = true;
    }
    if (gpu_rows > 0) {
        learn(&d->rates.picking, d->knows_gpu, t->picking, gpu_rows);
        learn(&d->rates.gpu_select, d->knows_gpu, t->gpu_select, gpu_rows);
        d->knows_gpu = true;
    }
}
