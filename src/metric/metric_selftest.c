/* SPDX-License-Identifier: Apache-2.0
 * Does this build, on this machine, compute the promised bits? Flags can be lost on the way from
 * the build file to the compiler, a library can change the floating-point mode, a compiler can drop
 * a rounding; each did in some program. So before the first answer we look, once a process, at
 * a dozen operations whose right results are known. It takes microseconds.
 *
 * The operands are volatile: what the compiler computes is no evidence of what the processor does.
 */
#include "metric/metric.h"

#include "base/base_try.h"
#include "host/host_cpu.h"
#include "metric/metric_table.h"

typedef const char *(*probe_fn)(void);

/* 1 + 2^-53 is a tie and goes to 1, 1 + 3 * 2^-53 goes up to the even one. */
static const char *rounds_to_nearest_even(void)
{
    volatile double one = 1.0;
    volatile double half_ulp = 0x1p-53;
    volatile double more = 0x1.8p-52;
    const bool right = one + half_ulp == 1.0 && one + more == 1.0 + 0x1p-51;
    return right ? NULL : "the floating-point mode does not round to nearest even";
}

static const char *keeps_subnormals(void)
{
    volatile double least = 0x1p-1022;
    volatile double half = 0.5;
    volatile float least_float = 0x1p-126f;
    const double made = least * half;
    const float made_float = least_float * (float)half;
    const bool right = kin_bits_of(made) == UINT64_C(1) << 51 && made_float * 2 == least_float &&
                       made * 2 == least;
    return right ? NULL : "the floating-point mode flushes subnormal numbers to zero";
}

/* (1 + 2^-27)^2 = 1 + 2^-26 + 2^-54: the last part survives a fused operation only. */
static const char *fma_is_fused(void)
{
    volatile double a = 1.0 + 0x1p-27;
    volatile double c = -(1.0 + 0x1p-26);
    return kin_fma(a, a, c) == 0x1p-54 ? NULL : "fma() is not fused";
}

static const char *product_is_rounded(void)
{
    volatile double a = 1.0 + 0x1p-27;
    volatile double c = 1.0 + 0x1p-26;
    const double x = a;
    return kin_sub(kin_mul(x, x), c) == 0 ? NULL : "a product and a sum were fused by the compiler";
}

/* Neighbouring casts to float32, the shape in which gcc 12 lost the rounding. */
static const char *casts_to_float_round(void)
{
    volatile double seed = 1.0 + 0x1p-30;
    const double in[4] = {seed, seed * 2, seed * 4, seed * 8};
    float out[4];
    for (int i = 0; i < 4; i++) {
        out[i] = (float)in[i];
    }
    const bool right = out[0] == 1.0f && out[1] == 2.0f && out[2] == 4.0f && out[3] == 8.0f;
    return right ? NULL : "a cast to float32 was left out by the compiler";
}

/* Row 1 is row 0 but for its last component; eleven columns have a tail. */
enum { COLS = 11, ROWS = 5 };

static void fill_rows(float rows[ROWS][COLS])
{
    for (int r = 0; r < ROWS; r++) {
        for (int i = 0; i < COLS; i++) {
            volatile float x = (float)((r + 3) * (i + 1) % 17) / 7.0f;
            rows[r][i] = x;
        }
    }
}

/* All keys of one body under one metric, as bits. */
static void keys_of_body(const kin_metric_table *table, kith_metric metric, const float *rows,
                         double keys[ROWS])
{
    _Alignas(64) double query[2 * KIN_METRIC_LANES];
    kin_row_transform transforms[ROWS];
    const bool transformed = kin_metric_get_traits(metric)->transforms;
    for (int r = 0; r < ROWS; r++) {
        transforms[r] = table->transform[KITH_F32]((const char *)(rows + r * COLS), COLS,
                                                   metric == KITH_CORRELATION);
    }
    table->expand[KITH_F32]((const char *)rows, COLS, transformed ? transforms : NULL, query);
    const kin_keys_job job = {
        .query = query,
        .data = (const char *)rows,
        .stride_bytes = COLS * (int64_t)sizeof(float),
        .transforms = transformed ? transforms : NULL,
        .count = ROWS,
        .keys = keys,
        .cols = COLS,
        .power = {.p = 2.5},
    };
    table->keys[metric][KITH_F32](&job);
}

static const kin_isa vector_levels[] = {KIN_ISA_AVX2, KIN_ISA_AVX512, KIN_ISA_NEON};

/* The body of each level that this processor has against the definition. */
static const char *bodies_agree(void)
{
    float rows[ROWS][COLS];
    fill_rows(rows);
    for (int metric = 1; metric <= KITH_METRIC_LAST; metric++) {
        if (kin_metric_table_portable.keys[metric][KITH_F32] == NULL) {
            continue;
        }
        double right[ROWS];
        keys_of_body(&kin_metric_table_portable, (kith_metric)metric, rows[0], right);
        for (size_t i = 0; i < sizeof vector_levels / sizeof *vector_levels; i++) {
            double keys[ROWS];
            if (!kin_cpu_has(vector_levels[i])) {
                continue;
            }
            keys_of_body(kin_metric_pick(vector_levels[i]), (kith_metric)metric, rows[0], keys);
            if (memcmp(keys, right, sizeof keys) != 0) {
                return "two instruction sets give different bits";
            }
        }
    }
    return NULL;
}

static const probe_fn probes[] = {
    rounds_to_nearest_even, keeps_subnormals,     fma_is_fused,
    product_is_rounded,     casts_to_float_round, bodies_agree,
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const char *verdict; /* NULL: all is well. Written once, under `once`. */

static void run_probes(void)
{
    const kin_fpenv found = kin_fpenv_enter();
    for (size_t i = 0; i < sizeof probes / sizeof probes[0] && verdict == NULL; i++) {
        verdict = probes[i]();
    }
    kin_fpenv_leave(found);
}

kith_status kin_metric_selftest(kith_ctx *ctx)
{
    (void)pthread_once(&once, run_probes);
    KIN_FAIL_IF(verdict != NULL, ctx, KITH_E_INTERNAL, kin_at(NULL),
                "the self-test of this build failed: %s (rebuild kith with its own flags)",
                verdict);
    return KITH_OK;
}
