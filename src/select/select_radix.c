/* SPDX-License-Identifier: Apache-2.0
 *
 * Radix select (Alabi et al. 2012; the quick multi-select paper measures against it). Contract:
 * select.h.
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
#if !defined(WORD)
#define SELECT_BODY "select/select_radix.c"

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

KIN_SELECT_METHOD(kin_select_radix)

#else /* the text, for one width of words */

/* The digit that the `wanted`-th word has, how many words have a smaller one, how many this one. */
typedef struct NAME(digit) {
    int shift;
    int64_t value;
    int64_t below;
    int64_t equal;
} NAME(digit);

static inline int64_t NAME(digit_of)(WORD word, int shift)
{
    return (int64_t)((word >> shift) & (RADIX_BINS - 1));
}

static void NAME(count)(const WORD *words, int64_t count, int shift, int64_t bins[RADIX_BINS])
{
    for (int64_t i = 0; i < count; i++) {
        bins[NAME(digit_of)(words[i], shift)] += 1;
    }
}

static NAME(digit) NAME(find)(const int64_t bins[RADIX_BINS], int64_t wanted, int shift)
{
    NAME(digit) digit = {shift, 0, 0, bins[0]};
    while (digit.below + digit.equal < wanted) {
        digit.below += digit.equal;
        digit.value += 1;
        digit.equal = bins[digit.value];
    }
    return digit;
}

/* Where smaller words and candidates go. Each word is written to both places. `best` has one place
 * more than the words that are smaller, and candidates may be where the words come from. */
typedef struct NAME(collected) {
    WORD *best;
    int64_t bests;
    WORD *candidates;
    int64_t count;
} NAME(collected);

static void NAME(collect)(NAME(collected) * into, const WORD *words, int64_t count,
                          const NAME(digit) * digit)
{
    int64_t bests = into->bests;
    int64_t candidates = into->count;
    for (int64_t i = 0; i < count; i++) {
        const WORD word = words[i];
        const int64_t value = NAME(digit_of)(word, digit->shift);
        into->best[bests] = word;
        into->candidates[candidates] = word;
        bests += value < digit->value;
        candidates += value == digit->value;
    }
    into->bests = bests;
    into->count = candidates;
}

/* The first two reads: counts, then collection. */
static NAME(collected) NAME(first_digit)(const kin_run *run, int64_t k, WORD *candidates, WORD *out)
{
    const int shift = 8 * (int)sizeof(WORD) - RADIX_BITS;
    int64_t bins[RADIX_BINS] = {0};
    WORD words[RADIX_BLOCK];
    for (int64_t at = 0; at < run->count; at += RADIX_BLOCK) {
        const int64_t count = kin_min_i64(RADIX_BLOCK, run->count - at);
        LOAD(run, at, count, words);
        NAME(count)(words, count, shift, bins);
    }
    const NAME(digit) digit = NAME(find)(bins, k, shift);
    NAME(collected) into = {out, 0, candidates, 0};
    for (int64_t at = 0; into.bests + into.count < digit.below + digit.equal; at += RADIX_BLOCK) {
        const int64_t count = kin_min_i64(RADIX_BLOCK, run->count - at);
        LOAD(run, at, count, words);
        NAME(collect)(&into, words, count, &digit);
    }
    return into;
}

static void NAME(select)(const kin_select_job *job, const kin_run *run, int64_t k, void *scratch,
                         WORD *out)
{
    NAME(collected) into = {out, 0, scratch, 0};
    if (k == run->count || run->count <= RADIX_FEW) {
        into.count = run->count;
        LOAD(run, 0, run->count, into.candidates);
    } else {
        into = NAME(first_digit)(run, k, scratch, out);
    }
    int shift = 8 * (int)sizeof(WORD) - RADIX_BITS;
    while (into.bests + into.count > k && into.count > RADIX_FEW && shift > 0) {
        shift = shift > RADIX_BITS ? shift - RADIX_BITS : 0; /* the last overlaps: no harm */
        int64_t bins[RADIX_BINS] = {0};
        NAME(count)(into.candidates, into.count, shift, bins);
        const NAME(digit) digit = NAME(find)(bins, k - into.bests, shift);
        const int64_t count = into.count;
        into.count = 0;
        NAME(collect)(&into, into.candidates, count, &digit);
    }
    if (into.bests + into.count > k && shift > 0) { /* few; with no digit left all are equal */
        SORT(into.candidates, into.count);
    }
    memcpy(out + into.bests, into.candidates, sizeof *out * (size_t)(k - into.bests));
    if (job->sorted) {
        SORT(out, k);
    }
}

#endif
