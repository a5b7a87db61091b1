/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "host/host_cpu.h"

#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>

/* CPUID leaf 7 and the control register say what processor and kernel have; gcc 12's
 * __builtin_cpu_supports does not know AMX, so all of it is read here in one way. */
typedef struct cpuid_bits {
    uint32_t a, b, c, d;
} cpuid_bits;

static cpuid_bits leaf(uint32_t number, uint32_t sub)
{
    cpuid_bits r = {0, 0, 0, 0};
    (void)__get_cpuid_count(number, sub, &r.a, &r.b, &r.c, &r.d);
    return r;
}

static uint64_t saved_state(void) /* XCR0: which registers the kernel saves */
{
    if ((leaf(1, 0).c >> 27 & 1) == 0) {
        return 0;
    }
    uint32_t low = 0;
    uint32_t high = 0;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return ((uint64_t)high << 32) | low;
}

static bool all_set(uint64_t value, uint64_t bits)
{
    return (value & bits) == bits;
}

static bool tiles_permitted(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

static bool has_avx2(void)
{
    const uint32_t base = leaf(1, 0).c; /* FMA 12, AVX 28, F16C 29 */
    return all_set(base, 1u << 12 | 1u << 28 | 1u << 29) && all_set(saved_state(), 0x6) &&
           all_set(leaf(7, 0).b, 1u << 5 | 1u << 3 | 1u << 8); /* AVX2, BMI1, BMI2 */
}

static bool has_avx512(void)
{
    return has_avx2() && all_set(saved_state(), 0xe6) && /* F, DQ, BW, VL */
           all_set(leaf(7, 0).b, 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31);
}

bool kin_cpu_has(kin_isa isa)
{
    switch (isa) {
    case KIN_ISA_PORTABLE:
        return true;
    case KIN_ISA_AVX2:
        return has_avx2();
    case KIN_ISA_AVX2VNNI:
        return has_avx2() && all_set(leaf(7, 1).a, 1u << 4);
    case KIN_ISA_AVX512:
        return has_avx512();
    case KIN_ISA_AVX512VNNI:
        return has_avx512() && all_set(leaf(7, 0).c, 1u << 11);
    case KIN_ISA_AMX: /* TILE 24, INT8 25, BF16 22 */
        return kin_cpu_has(KIN_ISA_AVX512VNNI) && all_set(saved_state(), 0x60000) &&
               all_set(leaf(7, 0).d, 1u << 24 | 1u << 25 | 1u << 22) && tiles_permitted();
    default:
        return false;
    }
}

const char *kin_cpu_model(char *text, size_t bytes)
{
    char brand[49] = {0};
    if (leaf(0x80000000u, 0).a >= 0x80000004u) {
        for (uint32_t i = 0; i < 3; i++) {
            const cpuid_bits part = leaf(0x80000002u + i, 0);
            memcpy(brand + 16 * i, &part, sizeof part);
        }
    }
    const char *start = brand;
    while (*start == ' ') {
        start++;
    }
    (void)snprintf(text, bytes, "%s", *start != '\0' ? start : "x86-64");
    return text;
}
#else
#if defined(__aarch64__)
#include <sys/auxv.h>

/* The kernel says what the processor has and it saves; older headers lack names of newer bits. */
bool kin_cpu_has(kin_isa isa)
{
    enum { HAS_ASIMD = 1 << 1, HAS_ASIMDDP = 1 << 20, HAS2_I8MM = 1 << 13 };
    const bool neon = (getauxval(AT_HWCAP) & HAS_ASIMD) != 0;
    const bool dotprod = neon && (getauxval(AT_HWCAP) & HAS_ASIMDDP) != 0;
    switch (isa) {
    case KIN_ISA_PORTABLE:
        return true;
    case KIN_ISA_NEON:
        return neon;
    case KIN_ISA_DOTPROD:
        return dotprod;
    case KIN_ISA_I8MM:
        return dotprod && (getauxval(AT_HWCAP2) & HAS2_I8MM) != 0;
    default:
        return false;
    }
}
#else
bool kin_cpu_has(kin_isa isa)
{
    return isa == KIN_ISA_PORTABLE;
}
#endif

const char *kin_cpu_model(char *text, size_t bytes)
{
    (void)snprintf(text, bytes, "processor");
    return text;
}
#endif

kin_isa kin_cpu_best(void)
{
    for (int isa = KIN_ISA_COUNT - 1; isa > KIN_ISA_PORTABLE; isa--) {
        if (kin_cpu_has((kin_isa)isa)) {
            return (kin_isa)isa;
        }
    }
    return KIN_ISA_PORTABLE;
}

bool kin_isa_includes(kin_isa isa, kin_isa body)
{
    const bool arm = isa >= KIN_ISA_NEON;
    return body == KIN_ISA_PORTABLE || (body <= isa && arm == (body >= KIN_ISA_NEON) &&
                                        (body != KIN_ISA_AVX2VNNI || isa == KIN_ISA_AVX2VNNI));
}

const void *kin_isa_pick(kin_isa isa, const void *const bodies[KIN_ISA_COUNT])
{
    int level = (int)isa;
    while (level > KIN_ISA_PORTABLE &&
           (bodies[level] == NULL || !kin_isa_includes(isa, (kin_isa)level))) {
        level--;
    }
    return bodies[level];
}

#define NAME_OF(NAME, name) #name,
static const char *const isa_names[KIN_ISA_COUNT] = {KIN_ISA_MAP(NAME_OF)};

const char *kin_isa_name(kin_isa isa)
{
    return isa_names[isa];
}

bool kin_isa_parse(const char *name, kin_isa *isa)
{
    for (int i = 0; i < KIN_ISA_COUNT; i++) {
        if (strcmp(name, isa_names[i]) == 0) {
            *isa = (kin_isa)i;
            return true;
        }
    }
    return false;
}

int64_t kin_cpu_l2_bytes(void)
{
    const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return bytes >= 64 * 1024 ? (int64_t)bytes : 512 * 1024;
}

/* The processors that a cgroup's quota pays for; 0 where there is none. */
static int32_t quota_processors(void)
{
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (file == NULL) {
        return 0;
    }
    long long quota = 0;
    long long period = 0;
    const int got = fscanf(file, "%lld %lld", &quota, &period);
    (void)fclose(file);
    if (got != 2 || quota <= 0 || period <= 0) {
        return 0;
    }
    return (int32_t)((quota + period - 1) / period);
}

int32_t kin_cpu_count(void)
{
    cpu_set_t set;
    int32_t count = 1;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        count = CPU_COUNT(&set);
    }
    const int32_t quota = quota_processors();
    if (quota > 0 && quota < count) {
        count = quota;
    }
    return count > 0 ? count : 1;
}
