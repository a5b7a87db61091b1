/* SPDX-License-Identifier: Apache-2.0
 * What scan (select_scan.c) asks of a machine: minima of cells, and the places of what is not above
 * a threshold. Both see values turned: as floats (float64: doubles) whose sign is flipped where the
 * largest are asked for, so that the wanted end is always the lower one. NaN is in no minimum and
 * passes no threshold. And what goes from words to thresholds and from places back to words. */
#ifndef KIN_SELECT_SCAN_H
#define KIN_SELECT_SCAN_H

#include "base/base_size.h"
#include "select/select.h"

#include <math.h>

/* A segment is so many vectors; `lanes` of kin_scan_ops says how many values a vector has. */
enum { KIN_SCAN_VECTORS = 8, KIN_SCAN_MOST_LANES = 16 };

/* Which vectors make a cell vector: cell i is the minimum, lane by lane, of the `vectors` vectors
 * at i * cell_stride + j * vector_stride bytes. */
typedef struct kin_scan_cells {
    int64_t cells;
    int64_t cell_stride;
    int64_t vectors;
    int64_t vector_stride;
    int64_t ahead; /* prefetches so many bytes further on */
} kin_scan_cells;

/* A pass over whole segments. */
typedef struct kin_scan_pass {
    const char *values;
    const void *least; /* cells of the segments (minima), or NULL: they are made on the way */
    double threshold;  /* of turned values; NaN: nothing passes */
    bool largest;
    uint32_t first;   /* place of values[0] */
    uint32_t *places; /* out: rising; room for `most` and a segment more */
    int64_t most;
    int64_t found;
} kin_scan_pass;

typedef struct kin_scan_ops {
    int64_t lanes;
    /* out: cells x lanes floats (float64: doubles); infinity where a lane saw NaN alone. */
    void (*least)(const char *values, const kin_scan_cells *cells, bool largest, void *out);
    /* Cells `to` .. `from` - 1 are folded into cells 0 .. to - 1; from >= to. */
    void (*fold)(void *cells, int64_t from, int64_t to);
    /* How many lanes of cells 0 .. count - 1 are not above the threshold. */
    int64_t (*count)(const void *cells, int64_t count, double threshold);
    /* Appends the places of segments [segment, segments) that hold values not above the threshold,
     * until `found` reaches `most`. The first segment that was not read. */
    int64_t (*collect)(kin_scan_pass *pass, int64_t segment, int64_t segments);
} kin_scan_ops;

typedef struct kin_scan_machine {
    /* The place of each number once all are sorted, equal ones in the order they have. Quadratic:
     * it pays up to `ranked` of them. Seven more can be read behind the last. */
    int64_t ranked;
    void (*rank)(uint64_t *numbers, int64_t count, uint32_t *ranks);
    kin_scan_ops ops[KIN_SELECT_BF16 + 1]; /* by type */
} kin_scan_machine;

KIN_BODIES_OF(kin_scan_machine)

static inline const kin_scan_ops *kin_scan_ops_of(const kin_scan_machine *machine,
                                                  kin_select_type dtype)
{
    return &machine->ops[dtype <= KIN_SELECT_BF16 ? dtype : KIN_SELECT_F32];
}

/* ---- Thresholds of turned values: smaller keys are smaller numbers, whichever end is wanted -- */

static inline double kin_scan_threshold32(uint32_t key)
{
    const uint32_t bits = kin_key32_bits(key, false);
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static inline double kin_scan_threshold64(uint64_t key)
{
    const uint64_t bits = kin_key64_bits(key, false);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* What may still pass once k words are held, the last of which is `last`; strict: later words of
 * equal values come behind. False: NaN may, too.
 *   The key before one of a number: -inf has a NaN before it, which nothing passes. There is one
 * key between those of 0 and of the number before it, which belongs to -0 and is no different from
 * 0.
 */
static inline bool kin_scan_tighten_64(bool strict, kin_word64 last, double *threshold)
{
    const uint32_t key = (uint32_t)(last >> 32);
    const uint32_t before = key == 0x80000000u ? key - 2 : key - 1;
    *threshold = INFINITY;
    if (key != UINT32_MAX) {
        *threshold = kin_scan_threshold32(strict ? before : key);
    }
    return key != UINT32_MAX || strict;
}

static inline bool kin_scan_tighten_128(bool strict, kin_word128 last, double *threshold)
{
    const uint64_t key = (uint64_t)(last >> 64);
    const uint64_t before = key == 0x8000000000000000u ? key - 2 : key - 1;
    *threshold = INFINITY;
    if (key != UINT64_MAX) {
        *threshold = kin_scan_threshold64(strict ? before : key);
    }
    return key != UINT64_MAX || strict;
}

/* ---- The word of one place that passed; kin_select_load64 and 128 are for many in a row ------ */

static inline uint32_t kin_scan_id(const kin_run *run, int64_t place)
{
    return run->ids == NULL ? (uint32_t)(run->first + place) : run->ids[place];
}

static inline kin_word64 kin_scan_word_64(const kin_run *run, int64_t place)
{
    uint32_t bits;
    if (run->dtype == KIN_SELECT_F32) {
        memcpy(&bits, run->values + 4 * place, sizeof bits);
    } else {
        uint16_t half;
        memcpy(&half, run->values + 2 * place, sizeof half);
        bits = run->dtype == KIN_SELECT_F16 ? kin_bits32_of_f16(half) : (uint32_t)half << 16;
    }
    return kin_word64_make(kin_key32(bits, run->largest), kin_scan_id(run, place));
}

static inline kin_word128 kin_scan_word_128(const kin_run *run, int64_t place)
{
    uint64_t bits;
    memcpy(&bits, run->values + 8 * place, sizeof bits);
    return kin_word128_make(kin_key64(bits, run->largest), kin_scan_id(run, place));
}

#endif
