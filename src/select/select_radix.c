/* SPDX-License-Identifier: Apache-2.0
 *
 * Radix select (Alabi et al. 2012; the quick multi-select paper measures against it). Contract:
 * select_body.h.
 *
 * Idea: count how often each value of the uppermost digit occurs; the counts say which digit the
 * k-th word has. One collection pass: words with a smaller digit belong to the answer, those with
 * this one are candidates, the rest is never seen again. The same with the next digit, among the
 * candidates alone, until all of them are wanted, or few are left, which are sorted. Keys stand
 * above ids in a word, so ids break ties without a word about them.
 *
 * Digits have 11 bits: the first one is then a float32's sign, exponent and two bits more, and the
 * counts stay in the first-level cache.
 *
 * Cost: two reads of the row and 4 n additions at most, whatever k is; n words of memory; k log k
 * for sorting. Limits: the first digit separates little where all values share an exponent; the
 * counts cost 2048 places a digit, which short rows do not earn back.
 */
#define SELECT_BODY "select/select_radix_body.inc"

enum {
    RADIX_BLOCK = 256,
    RADIX_BITS = 11,
    RADIX_BINS = 1 << RADIX_BITS,
    RADIX_FEW = 256, /* candidates that are sorted instead of counted */
};

#include "select/select_twice.inc"

static uint64_t scratch_bytes(const kin_select_job *job, int64_t longest_run)
{
    return kin_size_mul((uint64_t)longest_run, (uint64_t)kin_word_bytes(job->dtype));
}

const kin_select_body kin_select_radix = {scratch_bytes, select_any};
