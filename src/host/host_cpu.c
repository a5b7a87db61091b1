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

enum { TILE_DATA = 1 << 18 }; /* which needs a permission beside */

static bool tiles_permitted(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

typedef struct needs {
    bool here;
    uint32_t c1, b7, c7, d7, a7_1; /* registers of leaves 1 and 7, and of 7's leaf 1 */
    uint64_t saved;
} needs;

static bool has_own(const needs *n)
{
    const cpuid_bits seven = leaf(7, 0);
    const bool saved = (n->saved & ~saved_state()) == 0;
    const bool known = (n->c1 & ~leaf(1, 0).c) == 0 && (n->b7 & ~seven.b) == 0 &&
                       (n->c7 & ~seven.c) == 0 && (n->d7 & ~seven.d) == 0 &&
                       (n->a7_1 & ~leaf(7, 1).a) == 0;
    return saved && known && ((n->saved & TILE_DATA) == 0 || tiles_permitted());
}

#define KIN_ISA_HERE_MAP KIN_ISA_X86_MAP

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
typedef struct needs {
    bool here;
    unsigned long hwcap, hwcap2;
} needs;

static bool has_own(const needs *n)
{
    return (n->hwcap & ~getauxval(AT_HWCAP)) == 0 && (n->hwcap2 & ~getauxval(AT_HWCAP2)) == 0;
}

#define KIN_ISA_HERE_MAP KIN_ISA_ARM_MAP
#else
typedef struct needs {
    bool here;
} needs;

static bool has_own(const needs *n)
{
    return n->here;
}

#define KIN_ISA_HERE_MAP(X)
#endif

const char *kin_cpu_model(char *text, size_t bytes)
{
    (void)snprintf(text, bytes, "processor");
    return text;
}
#endif

#define PART_OF(NAME, name, part, ...) [KIN_ISA_##NAME] = KIN_ISA_##part,
static const kin_isa parts[KIN_ISA_COUNT] = {KIN_ISA_MAP(PART_OF)};

bool kin_cpu_has(kin_isa isa)
{
#define NEEDS(NAME, name, part, rate, flags, ...) [KIN_ISA_##NAME] = {.here = true, __VA_ARGS__},
    static const needs all[KIN_ISA_COUNT] = {[KIN_ISA_PORTABLE] = {.here = true},
                                             KIN_ISA_HERE_MAP(NEEDS)};
    bool has = true;
    for (; has && isa != KIN_ISA_PORTABLE; isa = parts[isa]) {
        has = all[isa].here && has_own(&all[isa]);
    }
    return has;
}

kin_isa kin_cpu_best(void)
{
    int isa = KIN_ISA_COUNT - 1;
    while (!kin_cpu_has((kin_isa)isa)) {
        isa--;
    }
    return (kin_isa)isa;
}

bool kin_isa_includes(kin_isa isa, kin_isa body)
{
    while (isa != body && isa != KIN_ISA_PORTABLE) {
        isa = parts[isa];
    }
    return isa == body;
}

const void *kin_isa_pick(kin_isa isa, const void *const bodies[KIN_ISA_COUNT])
{
    while (bodies[isa] == NULL && isa != KIN_ISA_PORTABLE) {
        isa = parts[isa];
    }
    return bodies[isa];
}

#define NAME_OF(NAME, name, ...) #name,
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
