/* SPDX-License-Identifier: Apache-2.0
 * Scan in plain C: one value a vector, which the compiler may do as it likes. Contract:
 * select_scan.h. */
#include "select/select_scan.h"

#include <math.h>

static inline float load_f32(const char *at)
{
    float value;
    memcpy(&value, at, sizeof value);
    return value;
}

static inline float load_f16(const char *at)
{
    uint16_t half;
    memcpy(&half, at, sizeof half);
    const uint32_t bits = kin_bits32_of_f16(half);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float load_bf16(const char *at)
{
    uint16_t half;
    memcpy(&half, at, sizeof half);
    const uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline double load_f64(const char *at)
{
    double value;
    memcpy(&value, at, sizeof value);
    return value;
}
#define LANES 1
#define VEC_SPLAT(x) (x)
#define VEC_READ(at) (*(at))
#define VEC_STORE(at, x) (*(at) = (x))
#define VEC_FLIP(largest) ((lane)((largest) ? -1 : 1))
#define VEC_TURN(x, flip) ((x) * (flip))
#define VEC_MIN(x, least) ((x) < (least) ? (x) : (least))
#define VEC_BELOW(x, t) ((uint32_t)((x) <= (t)))

#define vec float
#define lane float

#define CELLS(what) what##_f32
#include "select/select_scan_types.inc"

#define vec double
#define lane double

#define CELLS(what) what##_f64
#define SCAN_DOUBLES
#include "select/select_scan_types.inc"

SCAN_MACHINE(portable, 24, f32, 1, f64, 1);
