/* SPDX-License-Identifier: Apache-2.0
 *
 * Quick multi-select (quick multi-select paper, "GPU-Based Quick Multi-Select", Algorithm 1) on one
 * thread. Contract: select.h.
 *
 * Idea: partition out of place, from one array into the other: words before the pivot from the
 * left, the rest from the right, then swap the arrays. If the left side has more than the k wanted,
 * go on with it alone. Otherwise it belongs to the answer and stays where it is: a reference to it
 * (array, first, count) goes onto a stack, and the right side gives what is still missing. Nothing
 * is copied twice; the references are gathered at the end.
 *
 *     row -> A   [ < p | >= p ]         left too many: go on with A's left
 *     A   -> B   [ < q | >= q ]         left too few: keep (B, left), go on with B's right
 *     B   -> A          [ < r | >= r ]
 *
 * Each word is written to both ends and one of two places moves on, so the loop has no branch. The
 * pivot is the median of three. Where it is the smallest of all, the next partition takes what
 * equals it: words differ unless an element was given twice, so that is rare, and always progress.
 *
 * Cost: n + n / 2 + n / 4 ... = about 2n words moved, two arrays of n words, k log k for sorting.
 * Like introselect it is bounded: after 2 log2 n partitions what is left is sorted. Limits: it
 * moves the whole row at least once, which methods with a threshold do not.
 */
#if !defined(WORD)
#define SELECT_BODY "select/select_quick.c"

enum {
    QUICK_BLOCK = 256,
    QUICK_SHORT = 32,   /* sorted at once */
    QUICK_PIECES = 132, /* one a partition, of which there are at most 2 * 64, and the last */
};

#include "select/select_twice.inc"

static uint64_t scratch_bytes(const kin_select_job *job, int64_t longest_run)
{
    return kin_size_mul(2 * (uint64_t)longest_run, (uint64_t)kin_word_bytes(job->dtype));
}

KIN_SELECT_METHOD(kin_select_quick)

#else /* the text, for one width of words */

typedef struct NAME(piece) {
    const WORD *words;
    int64_t count;
} NAME(piece);

/* Where the next word of each side goes. */
typedef struct NAME(sides) {
    WORD *to;
    int64_t low;
    int64_t high;
} NAME(sides);

static void NAME(part)(NAME(sides) * sides, const WORD *words, int64_t count, WORD bound)
{
    WORD *to = sides->to;
    int64_t low = sides->low;
    int64_t high = sides->high;
    for (int64_t i = 0; i < count; i++) {
        const WORD word = words[i];
        const int64_t before = word < bound;
        to[low] = word;
        to[high] = word;
        low += before;
        high -= 1 - before;
    }
    sides->low = low;
    sides->high = high;
}

/* words NULL: those of the run. Gives how many went left. */
static int64_t NAME(partition)(const kin_run *run, const WORD *words, int64_t count, WORD bound,
                               WORD *to)
{
    NAME(sides) sides = {to, 0, count - 1};
    if (words != NULL) {
        NAME(part)(&sides, words, count, bound);
        return sides.low;
    }
    WORD block[QUICK_BLOCK];
    for (int64_t at = 0; at < count; at += QUICK_BLOCK) {
        const int64_t loaded = kin_min_i64(QUICK_BLOCK, count - at);
        LOAD(run, at, loaded, block);
        NAME(part)(&sides, block, loaded, bound);
    }
    return sides.low;
}

/* The median of the first, the middle and the last word. */
static WORD NAME(pivot)(const kin_run *run, const WORD *words, int64_t count)
{
    const int64_t places[3] = {0, count / 2, count - 1};
    WORD three[3];
    for (int i = 0; i < 3; i++) {
        if (words != NULL) {
            three[i] = words[places[i]];
        } else {
            LOAD(run, places[i], 1, &three[i]);
        }
    }
    const WORD low = three[0] < three[1] ? three[0] : three[1];
    const WORD high = three[0] < three[1] ? three[1] : three[0];
    const WORD rest = three[2] < high ? three[2] : high;
    return rest < low ? low : rest;
}

static void NAME(gather)(const NAME(piece) * pieces, int count, WORD *out)
{
    for (int i = 0; i < count; i++) {
        memcpy(out, pieces[i].words, sizeof *out * (size_t)pieces[i].count);
        out += pieces[i].count;
    }
}

static void NAME(select)(const kin_select_job *job, const kin_run *run, int64_t k, void *scratch,
                         WORD *out)
{
    NAME(piece) pieces[QUICK_PIECES];
    int kept = 0;
    int64_t count = run->count;
    int64_t wanted = k;
    const WORD *words = NULL; /* of the first partition: the run itself */
    WORD *rooms[2] = {scratch, (WORD *)scratch + count};
    int64_t first = 0; /* in the room that is written next */
    int room = 0;
    int left_to_do = 2 * (64 - __builtin_clzll((unsigned long long)count | 1));
    if (count <= QUICK_SHORT || wanted == count) {
        LOAD(run, 0, count, rooms[1]);
        words = rooms[1];
    }
    while (wanted > 0 && wanted < count && count > QUICK_SHORT && left_to_do > 0) {
        left_to_do -= 1;
        WORD bound = NAME(pivot)(run, words, count);
        WORD *to = rooms[room] + first;
        int64_t before = NAME(partition)(run, words, count, bound, to);
        if (before == 0) { /* the pivot is the smallest: it and its equals go left, from `to` */
            if (bound == WORST) {
                before = wanted; /* all are equal */
            } else {
                bound += 1;
                room = 1 - room;
                words = to;
                to = rooms[room] + first;
                before = NAME(partition)(run, words, count, bound, to);
                before = kin_min_i64(before, wanted);
            }
        }
        if (before > wanted) {
            count = before;
        } else {
            pieces[kept] = (NAME(piece)){to, before};
            kept += 1;
            first += before;
            count -= before;
            wanted -= before;
        }
        words = rooms[room] + first;
        room = 1 - room;
    }
    if (wanted > 0) {
        WORD *rest = rooms[1 - room] + first;
        if (wanted < count) {
            SORT(rest, count);
        }
        pieces[kept] = (NAME(piece)){rest, wanted};
        kept += 1;
    }
    NAME(gather)(pieces, kept, out);
    if (job->sorted) {
        SORT(out, k);
    }
}

#endif
