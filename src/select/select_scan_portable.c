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
#define SCAN_SINGLE(kind)                               \
    typedef kind vec_##kind;                            \
    static inline kind flip_##kind(bool largest)        \
    {                                                   \
        return (kind)(largest ? -1 : 1);                \
    }                                                   \
    static inline kind min_##kind(kind x, kind least)   \
    {                                                   \
        return x < least ? x : least;                   \
    }                                                   \
    static inline uint32_t below_##kind(kind x, kind t) \
    {                                                   \
        return (uint32_t)(x <= t);                      \
    }
enum { lanes_float = 1, lanes_double = 1 };
SCAN_SINGLE(float)
SCAN_SINGLE(double)
#define splat_float(x) (x)
#define splat_double(x) (x)
#define read_float(at) (*(at))
#define read_double(at) (*(at))
#define store_float(at, x) (*(at) = (x))
#define store_double(at, x) (*(at) = (x))
#define turn_float(x, flip) ((x) * (flip))
#define turn_double(x, flip) ((x) * (flip))

#include "select/select_scan_types.inc"

SCAN_MACHINE(portable, 24);
