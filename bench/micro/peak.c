/* SPDX-License-Identifier: Apache-2.0
 * What this machine can do at most: multiply-accumulates a second of each unit that kith screens
 * with, from registers alone, on a given number of threads. Benchmarks are quoted as a share of it.
 *
 *     bench_peak [THREADS]
 *
 * A line for each unit that the processor has: name, threads, 10^9 multiply-accumulates a second
 * (best of some runs: a limit is what was reached once).
 */
#include "host/host_clock.h"
#include "host/host_cpu.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 7, MAX_THREADS = 1024 };

typedef struct unit {
    const char *name;
    kin_isa isa;
    int64_t macs; /* multiply-accumulates a round */
    void (*run)(int64_t rounds);
} unit;

#if defined(__x86_64__)
#include <immintrin.h>

#define AMX __attribute__((target("amx-tile,amx-int8,amx-bf16")))

/* Independent sums, enough to fill two units of a latency of 5 cycles. In assembler: compilers kept
 * them in memory. Registers 0-11 are the sums, 12 and 13 the operands, 14 a product. */
enum { SUMS = 12 };
#define EACH(step)                                                                            \
    step("0") step("1") step("2") step("3") step("4") step("5") step("6") step("7") step("8") \
        step("9") step("10") step("11")
#define ZERO(n) "vxorps %%xmm" n ", %%xmm" n ", %%xmm" n "\n\t"
#define OPERANDS(reg)                                                                        \
    "vmovd %1, %%xmm14\n\tvpbroadcastd %%xmm14, %%" reg "12\n\tvpbroadcastd %%xmm14, %%" reg \
    "13\n\t"
#define LOOP(operands, step)                                                                  \
    __asm__ volatile(EACH(ZERO) operands "1:\n\t" EACH(step) "dec %0\n\tjnz 1b\n\tvzeroupper" \
                     : "+r"(rounds)                                                           \
                     : "r"(pattern)                                                           \
                     : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",  \
                       "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14")
#define STEP_F32_AVX2(n) "vfmadd231ps %%ymm12, %%ymm13, %%ymm" n "\n\t"
#define STEP_F32_AVX512(n) "vfmadd231ps %%zmm12, %%zmm13, %%zmm" n "\n\t"
#define STEP_S16_AVX2(n) \
    "vpmaddwd %%ymm12, %%ymm13, %%ymm14\n\tvpaddd %%ymm14, %%ymm" n ", %%ymm" n "\n\t"
#define STEP_S16_AVX512(n) \
    "vpmaddwd %%zmm12, %%zmm13, %%zmm14\n\tvpaddd %%zmm14, %%zmm" n ", %%zmm" n "\n\t"
#define STEP_S8_AVX2VNNI(n) "%{vex%} vpdpbusd %%ymm12, %%ymm13, %%ymm" n "\n\t"
#define STEP_S8_AVX512VNNI(n) "vpdpbusd %%zmm12, %%zmm13, %%zmm" n "\n\t"

static const uint32_t half_f32 = 0x3f000000;
static const uint32_t small_s8 = 0x03050703;

static void run_f32_avx2(int64_t rounds)
{
    const uint32_t pattern = half_f32;
    LOOP(OPERANDS("ymm"), STEP_F32_AVX2);
}

static void run_s16_avx2(int64_t rounds)
{
    const uint32_t pattern = small_s8;
    LOOP(OPERANDS("ymm"), STEP_S16_AVX2);
}

static void run_s8_avx2vnni(int64_t rounds)
{
    const uint32_t pattern = small_s8;
    LOOP(OPERANDS("ymm"), STEP_S8_AVX2VNNI);
}

static void run_f32_avx512(int64_t rounds)
{
    const uint32_t pattern = half_f32;
    LOOP(OPERANDS("zmm"), STEP_F32_AVX512);
}

static void run_s16_avx512(int64_t rounds)
{
    const uint32_t pattern = small_s8;
    LOOP(OPERANDS("zmm"), STEP_S16_AVX512);
}

static void run_s8_avx512vnni(int64_t rounds)
{
    const uint32_t pattern = small_s8;
    LOOP(OPERANDS("zmm"), STEP_S8_AVX512VNNI);
}

/* 8 tiles of 16 rows of 64 bytes: four sums, two left and two right operands. */
typedef struct tile_shape {
    uint8_t palette;
    uint8_t start_row;
    uint8_t reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_shape;

AMX static void load_tiles(void)
{
    /* Not zeros: units may run faster on them than on data. */
    _Alignas(64) static const uint8_t values[1024] = {[0 ... 1023] = 0x3f};
    /* Static: the compiler takes ldtilecfg to read but the first bytes of its operand, and may drop
     * what is stored into the rest of a local one. */
    static const tile_shape shape = {
        .palette = 1,
        .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
        .rows = {16, 16, 16, 16, 16, 16, 16, 16},
    };
    _tile_loadconfig(&shape);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(4, values, 64);
    _tile_loadd(5, values, 64);
    _tile_loadd(6, values, 64);
    _tile_loadd(7, values, 64);
}

AMX static void run_s8_amx(int64_t rounds)
{
    load_tiles();
    for (int64_t round = 0; round < rounds; round++) {
        _tile_dpbssd(0, 4, 6);
        _tile_dpbssd(1, 4, 7);
        _tile_dpbssd(2, 5, 6);
        _tile_dpbssd(3, 5, 7);
    }
    _tile_release();
}

AMX static void run_bf16_amx(int64_t rounds)
{
    load_tiles();
    for (int64_t round = 0; round < rounds; round++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_release();
}

static const unit units[] = {
    {"f32_avx2", KIN_ISA_AVX2, SUMS * 8, run_f32_avx2},
    {"s16_avx2", KIN_ISA_AVX2, SUMS * 16, run_s16_avx2},
    {"s8_avx2vnni", KIN_ISA_AVX2VNNI, SUMS * 32, run_s8_avx2vnni},
    {"f32_avx512", KIN_ISA_AVX512, SUMS * 16, run_f32_avx512},
    {"s16_avx512", KIN_ISA_AVX512, SUMS * 32, run_s16_avx512},
    {"s8_avx512vnni", KIN_ISA_AVX512VNNI, SUMS * 64, run_s8_avx512vnni},
    {"s8_amx", KIN_ISA_AMX, 4 * 16 * 16 * 64, run_s8_amx},
    {"bf16_amx", KIN_ISA_AMX, 4 * 16 * 16 * 32, run_bf16_amx},
};
#else
#define KEEP_SCALAR(value) __asm__ volatile("" : "+r"(value))

static void run_s32_portable(int64_t rounds)
{
    int32_t sums[8] = {0};
    for (int64_t round = 0; round < rounds; round++) {
        for (int i = 0; i < 8; i++) {
            int32_t factor = 3;
            KEEP_SCALAR(factor);
            sums[i] += factor * i;
            KEEP_SCALAR(sums[i]);
        }
    }
}

static const unit units[] = {{"s32_portable", KIN_ISA_PORTABLE, 8, run_s32_portable}};
#endif

typedef struct job {
    const unit *unit;
    int64_t rounds;
    pthread_barrier_t *start;
} job;

static void *run_job(void *arg)
{
    const job *work = arg;
    pthread_barrier_wait(work->start);
    work->unit->run(work->rounds);
    return NULL;
}

/* Seconds from the moment that all threads are ready until the last has finished. */
static double time_threads(const unit *tested, int64_t rounds, int threads)
{
    pthread_t ids[MAX_THREADS];
    pthread_barrier_t start;
    job work = {tested, rounds, &start};
    pthread_barrier_init(&start, NULL, (unsigned)threads + 1);
    for (int i = 0; i < threads; i++) {
        if (pthread_create(&ids[i], NULL, run_job, &work) != 0) {
            fprintf(stderr, "bench_peak: thread %d could not be started\n", i);
            exit(1);
        }
    }
    pthread_barrier_wait(&start);
    const int64_t began = kin_clock_ns();
    for (int i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
    }
    pthread_barrier_destroy(&start);
    return kin_clock_since(began);
}

/* Rounds double until a run lasts long enough for starting threads not to count. */
static double measure_gmacs(const unit *tested, int threads)
{
    int64_t rounds = 1 << 16;
    double best = time_threads(tested, rounds, threads);
    while (best < 0.15) {
        rounds *= 2;
        best = time_threads(tested, rounds, threads);
    }
    for (int run = 1; run < RUNS; run++) {
        const double seconds = time_threads(tested, rounds, threads);
        best = seconds < best ? seconds : best;
    }
    return (double)tested->macs * (double)rounds * threads / best / 1e9;
}

int main(int argc, char **argv)
{
    const int threads = argc > 1 ? atoi(argv[1]) : kin_cpu_count();
    if (threads < 1 || threads > MAX_THREADS) {
        fprintf(stderr, "bench_peak: THREADS must be 1 to %d\n", MAX_THREADS);
        return 2;
    }
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (kin_cpu_has(units[i].isa)) {
            printf("%s %d %.2f\n", units[i].name, threads, measure_gmacs(&units[i], threads));
            fflush(stdout);
        }
    }
    return 0;
}
