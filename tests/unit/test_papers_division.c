/* SPDX-License-Identifier: Apache-2.0
 * The rule that divides the rows of a batch between processor and GPU (pipeline hybrid): pure
 * arithmetic, so it is tested without either. Machines are rates; batches are what they would
 * take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_random.h"
#include "papers/papers_hybrid.h"

#include <math.h>
#include <stdio.h>

/* The seconds that a machine of these rates takes for a row of a batch. */
static double time_of(const kin_papers_rates *r, double share)
{
    return share * r->handing +
           fmax(r->cpu_rest + share * r->cpu_select, r->gpu_rest + (1.0 - share) * r->gpu_select);
}

static double random_rate(uint64_t *state)
{
    return ldexp((double)(kin_random_next(state) >> 11), -53);
}

static kin_papers_rates random_rates(uint64_t *state)
{
    return (kin_papers_rates){.handing = random_rate(state) / 4,
                              .cpu_select = random_rate(state) * 4,
                              .cpu_rest = random_rate(state),
                              .gpu_select = random_rate(state),
                              .gpu_rest = random_rate(state)};
}

/* What a machine shows of a batch; latency: what its GPU takes for any number of rows. */
static kin_papers_timed seen(const kin_papers_rates *r, int64_t rows, int64_t cpu_rows,
                             double latency)
{
    return (kin_papers_timed){.rows = rows,
                              .cpu_rows = cpu_rows,
                              .handing = r->handing * (double)cpu_rows,
                              .cpu_select = r->cpu_select * (double)cpu_rows,
                              .cpu_rest = r->cpu_rest * (double)rows,
                              .gpu_select = r->gpu_select * (double)(rows - cpu_rows) + latency,
                              .gpu_rest = r->gpu_rest * (double)rows};
}

/* ---- The best share ------------------------------------------------------------------------- */

static void best(void **state)
{
    enum { CASES = 20000, SHARES = 200 };
    uint64_t seed = 1;
    int ends = 0;
    (void)state;
    for (int i = 0; i < CASES; i++) {
        const kin_papers_rates r = random_rates(&seed);
        const double share = kin_papers_division_best(&r);
        assert_true(share >= 0.0 && share <= 1.0);
        ends += share == 0.0 || share == 1.0;
        for (int j = 0; j <= SHARES; j++) {
            const double other = time_of(&r, (double)j / SHARES);
            assert_true(time_of(&r, share) <= other * (1.0 + 1e-12));
        }
        /* Inside, both end together. */
        if (share > 0.0 && share < 1.0) {
            const double cpu = r.cpu_rest + share * r.cpu_select;
            const double gpu = r.gpu_rest + (1.0 - share) * r.gpu_select;
            assert_true(fabs(cpu - gpu) <= 1e-9 * cpu);
        }
    }
    assert_true(ends > 0 && ends < CASES);
    printf("%d machines: no other of %d shares is faster; inside both sides end together, %d "
           "times all rows go to one side\n",
           CASES, SHARES + 1, ends);
}

static void ends(void **state)
{
    (void)state;
    const kin_papers_rates slow_cpu = {.cpu_select = 5, .cpu_rest = 2, .gpu_rest = 1};
    const kin_papers_rates idle_cpu = {.cpu_select = 1, .gpu_rest = 9, .gpu_select = 1};
    const kin_papers_rates dear = {.handing = 3, .cpu_select = 1, .gpu_rest = 2, .gpu_select = 1};
    const kin_papers_rates nothing = {.handing = 0};
    assert_true(kin_papers_division_best(&slow_cpu) == 0.0);
    assert_true(kin_papers_division_best(&idle_cpu) == 1.0);
    assert_true(kin_papers_division_best(&dear) == 0.0);
    assert_true(kin_papers_division_best(&nothing) == 1.0);
    printf("a processor that writes longer than the GPU works gets none, one that waits anyway "
           "gets all, keys that are dear to hand over stay\n");
}

/* ---- From batch to batch --------------------------------------------------------------------- */

static void first_batches(void **state)
{
    (void)state;
    for (int64_t rows = 0; rows < 5000; rows += rows < 100 ? 1 : 97) {
        kin_papers_division d = {.share = 0.0};
        const int64_t first = kin_papers_division_rows(&d, rows);
        assert_true(first >= 0 && first <= rows);
        assert_true(rows < 16 || (first < rows && rows - first <= rows / 16 + 1));
        assert_true(rows >= 8 || first == rows);
        /* Nothing is known of a side that had no rows: the division stays. */
        if (first == rows && rows > 0) {
            const kin_papers_rates r = {.cpu_select = 1, .gpu_select = 1};
            const kin_papers_timed t = seen(&r, rows, first, 0.0);
            kin_papers_division_learn(&d, &t);
            assert_true(kin_papers_division_rows(&d, rows) == rows);
        }
    }
    printf(
        "the first batch has all but a sixteenth on the processor; batches of 0 to 7 rows all\n");
}

/* Runs until the share has settled; the largest step and the worst share behind it. */
static void follow(kin_papers_division *d, const kin_papers_rates *r, int64_t rows, int batches,
                   double latency, double *off)
{
    const double target = kin_papers_division_best(r);
    double before = d->share;
    *off = 0.0;
    for (int b = 0; b < batches; b++) {
        const bool first = d->batches == 0;
        const int64_t cpu_rows = kin_papers_division_rows(d, rows);
        const bool probes = (d->batches - 1) % 16 == 0;
        const kin_papers_timed t = seen(r, rows, cpu_rows, latency);
        assert_true(cpu_rows >= 0 && cpu_rows <= rows);
        assert_true(first || fabs(d->share - before) <= 0.25 + 1e-12 || probes);
        assert_true(!probes || rows < 32 || (cpu_rows > 0 && cpu_rows < rows));
        kin_papers_division_learn(d, &t);
        before = d->share;
        if (b >= batches / 2 && !probes) {
            *off = fmax(*off, fabs(d->share - target));
        }
    }
}

static void converges(void **state)
{
    enum { CASES = 2000, BATCHES = 40 };
    uint64_t seed = 2;
    double worst = 0.0;
    int all = 0;
    int none = 0;
    (void)state;
    for (int i = 0; i < CASES; i++) {
        const kin_papers_rates r = random_rates(&seed);
        kin_papers_division d = {.share = 0.0};
        double off = 0.0;
        follow(&d, &r, 4096, BATCHES, 0.0, &off);
        worst = fmax(worst, off);
        all += kin_papers_division_best(&r) == 1.0 && d.share == 1.0;
        none += kin_papers_division_best(&r) == 0.0 && d.share == 0.0;
    }
    assert_true(worst < 1e-6);
    assert_true(all > 0 && none > 0);
    printf("%d machines: within %d batches a share is at most %.1e from the best one, %d times at "
           "100 %%, %d times at 0 %%\n",
           CASES, BATCHES / 2, worst, all, none);
}

/* A machine that becomes another one, and one whose GPU takes as long for few rows as for many: its
 * first rate is far too slow. */
static void follows(void **state)
{
    (void)state;
    const kin_papers_rates before = {.cpu_select = 1, .gpu_select = 4, .gpu_rest = 0.5};
    const kin_papers_rates after = {.cpu_select = 4, .gpu_select = 1, .gpu_rest = 0.5};
    kin_papers_division d = {.share = 0.0};
    double off = 0.0;
    follow(&d, &before, 1000, 40, 0.0, &off);
    assert_true(off < 1e-3);
    follow(&d, &after, 1000, 60, 0.0, &off);
    assert_true(off < 1e-3);
    /* 100 rows of latency: 16 rows seem 7 times as dear as they are in a batch of 1,024. */
    kin_papers_division late = {.share = 0.0};
    follow(&late, &after, 1024, 60, 100.0, &off);
    printf("a machine that changes is followed; with latency the share is %.3f of the rows, "
           "without %.3f\n",
           late.share, kin_papers_division_best(&after));
    assert_true(late.share < 0.5);
}

static void fixed(void **state)
{
    static const double shares[] = {-1.0, 0.0, 0.5, 1.0, 2.0};
    static const int64_t wanted[] = {0, 0, 500, 1000, 1000};
    const kin_papers_rates r = {.cpu_select = 3, .gpu_select = 1};
    (void)state;
    for (int i = 0; i < 5; i++) {
        kin_papers_division d = {.fixed = &shares[i]};
        for (int b = 0; b < 40; b++) {
            const int64_t rows = kin_papers_division_rows(&d, 1000);
            const kin_papers_timed t = seen(&r, 1000, rows, 0.0);
            assert_int_equal(rows, wanted[i]);
            kin_papers_division_learn(&d, &t);
        }
        assert_int_equal(kin_papers_division_rows(&d, 0), 0);
    }
    printf("a share that is given is taken, whatever was measured\n");
}

/* A batch that is asked for is one, as far as there is room; else what suits its matrix. */
static void batches_fit(void **state)
{
    (void)state;
    enum { COLUMNS = 269648, BLOCKS = 32, A_BLOCK = 10000000 };
    const uint64_t room = (uint64_t)100 << 30;
    const kin_papers_costs_size usual =
        kin_papers_costs_size_of(COLUMNS, BLOCKS, false, A_BLOCK, room);
    const kin_papers_costs_size asked =
        kin_papers_costs_size_of(COLUMNS, BLOCKS, true, A_BLOCK, room);
    const kin_papers_costs_size narrow =
        kin_papers_costs_size_of(COLUMNS, BLOCKS, true, A_BLOCK, room / 10);
    assert_int_equal(usual.blocks, 3);
    assert_int_equal(asked.blocks, BLOCKS);
    assert_true(asked.bytes > BLOCKS * (uint64_t)A_BLOCK && asked.bytes <= room / 4);
    assert_true(narrow.blocks > usual.blocks && narrow.blocks < BLOCKS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(best),        cmocka_unit_test(ends),    cmocka_unit_test(first_batches),
        cmocka_unit_test(converges),   cmocka_unit_test(follows), cmocka_unit_test(fixed),
        cmocka_unit_test(batches_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
