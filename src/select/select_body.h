/* SPDX-License-Identifier: Apache-2.0
 * What a method of selection on the processor is: it sees one run of one row and gives words.
 *
 * Each method has a body for words of 64 and of 128 bits, generated from one text: select_twice.inc
 * reads it once a width. */
#ifndef KIN_SELECT_BODY_H
#define KIN_SELECT_BODY_H

#include "select/select.h"
#include "select/select_word.h"

/* A run of values of one row: places [first, first + count). */
typedef struct kin_run {
    const char *values;  /* of place `first` */
    const uint32_t *ids; /* of place `first`, or NULL: ids are first, first + 1 ... */
    int64_t first;
    int64_t count;
    kin_select_type dtype;
    bool largest;
} kin_run;

/* words[i] = word of place at + i of the run, 0 <= i < count. For float64 words is kin_word128. */
void kin_select_load64(const kin_run *run, int64_t at, int64_t count, kin_word64 *words);
void kin_select_load128(const kin_run *run, int64_t at, int64_t count, kin_word128 *words);

/* out: the first min(k, run->count) words of the run, ascending where job->sorted (they may be
 * ascending anyway). scratch: as many bytes as the method's function of that name says, 64-byte
 * aligned, contents undefined before and after. out is kin_word64 or kin_word128 by the dtype.
 * Cannot fail, allocates nothing, reads no global state but constants. */
typedef struct kin_select_body {
    uint64_t (*scratch_bytes)(const kin_select_job *job, int64_t longest_run);
    void (*select)(const kin_select_job *job, const kin_run *run, void *scratch, void *out);
} kin_select_body;

/* The body of each method on a machine: select_quick.c, select_radix.c, and select_scan.c with
 * select_scan_portable.c, _avx2.c, _avx512.c. */
#define KIN_SELECT_DECLARE(NAME, number, name) \
    const kin_select_body *kin_select_##name(kin_isa isa);
KITH_SELECT_MAP(KIN_SELECT_DECLARE)
#undef KIN_SELECT_DECLARE

#endif
