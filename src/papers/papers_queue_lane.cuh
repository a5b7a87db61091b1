/* SPDX-License-Identifier: Apache-2.0
 * What one lane does with the queue of its row: the three queues of the merge-queue paper (sections
 * III-A to III-C) over plain words. Nothing here knows of warps, so the processor can run it, too.
 *
 *   places of a queue   0 1 2 ... k - 1, place p in memory at front[p * pitch]
 *
 *   all           place 0 holds the last of the k words: a candidate enters only if it comes
 *                 before that one, and takes its place
 *   insertion     falling from place 0 on
 *   heap          no child (2 p + 1, 2 p + 2) above its parent
 *   merge queue   levels [0, m) [m, 2 m) [2 m, 4 m) [4 m, 8 m) ..., each falling, and their heads
 *                 (first places) falling, too; the last level ends at k
 *
 * Any k. The last level of a merge queue is thought to go on to its power of two with words that
 * come before all others (0, behind which is everything). Those would always stay at its end, for
 * every comparison leaves the greater word at the lower place. So they need no memory: a comparison
 * with a place beyond k does nothing. Padding with the worst word would be wrong, because the head
 * of the queue would not be the k-th then.
 *
 * Lazy update. Two levels are merged when the head of the upper one has become smaller than that of
 * the next (the paper's listing 2 has the comparison the other way round, which would merge after
 * nearly every insertion and never where it is needed). Then everything above is one falling run:
 * the levels before have just been merged, or it is the first. */
#ifndef KIN_PAPERS_QUEUE_LANE_CUH
#define KIN_PAPERS_QUEUE_LANE_CUH

#include "kith/kith_papers.h"
#include "select/select_word.h"

/* m of the paper, which found 8 to be the best, is task->level, a power of two from 4 on: merges go
 * by fours at least.
 * Words that a lane can hold back: task->buffer_size. 16 of them sort in registers without a
 * branch, and take 4 KiB (float64: 8) of shared memory a warp, which with the tile still leaves a
 * processor more warps than a method of one thread a row can give it. Longer buffers let more
 * candidates in by an old threshold. */

/* Before a loop whose words are to stay in registers. The host's compiler knows no such pragma. */
#if defined(__CUDA_ARCH__)
#define KIN_QUEUE_UNROLL _Pragma("unroll")
#else
#define KIN_QUEUE_UNROLL
#endif

template <typename Word> struct kin_queue {
    Word *front;
    int64_t pitch; /* words from one place to the next */
    int64_t k;
};

/* What lies beyond the queue counts as 0. */
template <typename Word> KIN_SELECT_HD Word kin_queue_get(const kin_queue<Word> &queue, int64_t at)
{
    return at < queue.k ? queue.front[at * queue.pitch] : (Word)0;
}

template <typename Word>
KIN_SELECT_HD void kin_queue_set(const kin_queue<Word> &queue, int64_t at, Word word)
{
    if (at < queue.k) {
        queue.front[at * queue.pitch] = word;
    }
}

template <typename Word> KIN_SELECT_HD void kin_queue_exchange(Word &greater, Word &smaller)
{
    const bool wrong = greater < smaller;
    const Word first = greater;
    greater = wrong ? smaller : greater;
    smaller = wrong ? first : smaller;
}

template <typename Word> KIN_SELECT_HD void kin_queue_clear(const kin_queue<Word> &queue)
{
    for (int64_t at = 0; at < queue.k; at++) {
        queue.front[at * queue.pitch] = ~(Word)0;
    }
}

/* ---- Insertion ------------------------------------------------------------------------------ */

/* Into the falling places [0, length); the word in place 0 goes. Four words are read ahead, so that
 * their latencies overlap. */
template <typename Word>
KIN_SELECT_HD void kin_queue_insert(const kin_queue<Word> &queue, int64_t length, Word word)
{
    for (int64_t at = 0;; at += 4) {
        Word next[4];
        KIN_QUEUE_UNROLL
        for (int i = 0; i < 4; i++) {
            next[i] = at + 1 + i < length ? kin_queue_get(queue, at + 1 + i) : (Word)0;
        }
        KIN_QUEUE_UNROLL
        for (int i = 0; i < 4; i++) {
            if (next[i] <= word) {
                kin_queue_set(queue, at + i, word);
                return;
            }
            kin_queue_set(queue, at + i, next[i]);
        }
    }
}

/* ---- Heap ----------------------------------------------------------------------------------- */

/* The word in place 0 goes; the hole sinks until `word` fits. */
template <typename Word> KIN_SELECT_HD void kin_queue_sink(const kin_queue<Word> &queue, Word word)
{
    int64_t at = 0;
    for (;;) {
        const int64_t child = 2 * at + 1;
        const Word left = kin_queue_get(queue, child);
        const Word right = kin_queue_get(queue, child + 1);
        const Word greater = left < right ? right : left;
        if (greater <= word) { /* also where there is no child */
            break;
        }
        kin_queue_set(queue, at, greater);
        at = left < right ? child + 1 : child;
    }
    kin_queue_set(queue, at, word);
}

/* ---- Merge queue ---------------------------------------------------------------------------- */

/* STAGES stages of a bitonic merge in one pass over [0, end): comparisons at the distances
 * step * 2^(STAGES - 1), ..., 2 * step, step. The 2^STAGES words that meet in them stay in
 * registers, and their loads overlap. */
template <int STAGES, typename Word>
KIN_SELECT_HD void kin_queue_stages(const kin_queue<Word> &queue, int64_t end, int64_t step)
{
    const int64_t block = step << STAGES;
    for (int64_t first = 0; first < end; first += block) {
        const int64_t stop = end - first < step ? end - first : step;
        for (int64_t at = first; at < first + stop; at++) {
            Word word[1 << STAGES];
            KIN_QUEUE_UNROLL
            for (int i = 0; i < 1 << STAGES; i++) {
                word[i] = kin_queue_get(queue, at + i * step);
            }
            KIN_QUEUE_UNROLL
            for (int stage = STAGES - 1; stage >= 0; stage--) {
                KIN_QUEUE_UNROLL
                for (int i = 0; i < 1 << STAGES; i++) {
                    if ((i >> stage & 1) == 0) {
                        kin_queue_exchange(word[i], word[i | 1 << stage]);
                    }
                }
            }
            KIN_QUEUE_UNROLL
            for (int i = 0; i < 1 << STAGES; i++) {
                kin_queue_set(queue, at + i * step, word[i]);
            }
        }
    }
}

/* Reverse bitonic merge, in place, of the falling runs [0, half) and [half, 2 half): the first
 * stage compares place i with its mirror 2 half - 1 - i, which is what reversing one run would
 * give. half: a power of two, at least 4; half < k. */
template <typename Word>
KIN_SELECT_HD void kin_queue_merge(const kin_queue<Word> &queue, int64_t half)
{
    const int64_t end = 2 * half < queue.k ? 2 * half : queue.k;
    for (int64_t first = (2 * half - end) / 4 * 4; first < half; first += 4) {
        Word greater[4];
        Word smaller[4];
        KIN_QUEUE_UNROLL
        for (int i = 0; i < 4; i++) {
            greater[i] = kin_queue_get(queue, first + i);
            smaller[i] = kin_queue_get(queue, 2 * half - 1 - first - i);
        }
        KIN_QUEUE_UNROLL
        for (int i = 0; i < 4; i++) {
            kin_queue_exchange(greater[i], smaller[i]);
            kin_queue_set(queue, first + i, greater[i]);
            kin_queue_set(queue, 2 * half - 1 - first - i, smaller[i]);
        }
    }
    int32_t stages = 0;
    while (half >> stages > 1) {
        stages += 1;
    }
    if (stages % 3 == 1) {
        stages -= 1;
        kin_queue_stages<1>(queue, end, (int64_t)1 << stages);
    } else if (stages % 3 == 2) {
        stages -= 2;
        kin_queue_stages<2>(queue, end, (int64_t)1 << stages);
    }
    while (stages > 0) {
        stages -= 3;
        kin_queue_stages<3>(queue, end, (int64_t)1 << stages);
    }
}

/* The same by merge path (Green, McColl and Bader 2012; Odeh et al. 2012; section V of the paper
 * names it as future work), which one lane walks from end to end. Of the next four words of both
 * runs those that come first are max(upper[i], lower[3 - i]): that is the diagonal's search without
 * a branch, and eight loads are on their way together. 2 half words are read and written once,
 * where the network does so log2(half) / 3 + 1 times.
 *   aside: half places, as far apart as the queue's; the upper run is copied there. The lower one
 * stays where it is: [0, i + j) are written when i words of the upper and j of the lower run have
 * been taken, and i <= half, so nothing that is still to be read of it is overtaken. (Where words
 * are 0, as what lies behind a run is, one more may seem to be of the upper run; all that is left
 * is 0 then.) */
template <typename Word>
KIN_SELECT_HD void kin_queue_merge_path(const kin_queue<Word> &queue, Word *aside, int64_t half)
{
    const int64_t end = 2 * half < queue.k ? 2 * half : queue.k;
    const kin_queue<Word> upper = {aside, queue.pitch, half};
    const kin_queue<Word> lower = {queue.front + half * queue.pitch, queue.pitch, end - half};
    for (int64_t at = 0; at < half; at += 4) {
        Word word[4];
        KIN_QUEUE_UNROLL
        for (int x = 0; x < 4; x++) {
            word[x] = queue.front[(at + x) * queue.pitch];
        }
        KIN_QUEUE_UNROLL
        for (int x = 0; x < 4; x++) {
            aside[(at + x) * queue.pitch] = word[x];
        }
    }
    int64_t i = 0;
    for (int64_t at = 0; at < end; at += 4) {
        Word word[4];
        Word mirror[4];
        int32_t taken = 0;
        KIN_QUEUE_UNROLL
        for (int x = 0; x < 4; x++) {
            word[x] = kin_queue_get(upper, i + x);
            mirror[x] = kin_queue_get(lower, at - i + 3 - x);
        }
        KIN_QUEUE_UNROLL
        for (int x = 0; x < 4; x++) {
            taken += word[x] >= mirror[x] ? 1 : 0;
            word[x] = word[x] >= mirror[x] ? word[x] : mirror[x];
        }
        kin_queue_exchange(word[0], word[2]);
        kin_queue_exchange(word[1], word[3]);
        kin_queue_exchange(word[0], word[1]);
        kin_queue_exchange(word[2], word[3]);
        KIN_QUEUE_UNROLL
        for (int x = 0; x < 4; x++) {
            kin_queue_set(queue, at + x, word[x]);
        }
        i += taken;
    }
}

/* aside: for PATH alone. */
template <bool PATH, typename Word>
KIN_SELECT_HD void kin_queue_join(const kin_queue<Word> &queue, Word *aside, int64_t half)
{
    if (PATH) {
        kin_queue_merge_path(queue, aside, half);
    } else {
        kin_queue_merge(queue, half);
    }
}

/* Has the head of the level before `half` become smaller than that of the level at `half`? */
template <typename Word>
KIN_SELECT_HD bool kin_queue_wants(const kin_queue<Word> &queue, int64_t level, int64_t half)
{
    const int64_t before = half == level ? 0 : half / 2;
    return queue.front[before * queue.pitch] < queue.front[half * queue.pitch];
}

/* The first level takes the word; the levels are not looked at. */
template <typename Word>
KIN_SELECT_HD void kin_queue_insert_first(const kin_queue<Word> &queue, int64_t level, Word word)
{
    kin_queue_insert(queue, queue.k < level ? queue.k : level, word);
}

/* All levels become one falling run. */
template <bool PATH, typename Word>
KIN_SELECT_HD void kin_queue_join_all(const kin_queue<Word> &queue, Word *aside, int64_t level)
{
    for (int64_t half = level; half < queue.k; half *= 2) {
        kin_queue_join<PATH>(queue, aside, half);
    }
}

/* ---- A lane's buffer ------------------------------------------------------------------------ */

/* Sorts the `count` words at buffer[0], buffer[pitch], ..., the first one first; what lies behind
 * them, up to SIZE, becomes the worst word. A bitonic network whose merges mirror their first
 * stage, so that all comparisons point one way. SIZE words in registers. */
template <int SIZE, typename Word>
KIN_SELECT_HD void kin_queue_sort(Word *buffer, int32_t pitch, int32_t count)
{
    Word word[SIZE];
    KIN_QUEUE_UNROLL
    for (int i = 0; i < SIZE; i++) {
        word[i] = i < count ? buffer[i * pitch] : ~(Word)0;
    }
    KIN_QUEUE_UNROLL
    for (int log = 1; 1 << log <= SIZE; log++) {
        KIN_QUEUE_UNROLL
        for (int stage = log; stage > 0; stage--) {
            const int flip = stage == log ? (1 << log) - 1 : 1 << (stage - 1);
            KIN_QUEUE_UNROLL
            for (int i = 0; i < SIZE; i++) {
                if ((i ^ flip) > i) {
                    kin_queue_exchange(word[i ^ flip], word[i]);
                }
            }
        }
    }
    KIN_QUEUE_UNROLL
    for (int i = 0; i < SIZE; i++) {
        buffer[i * pitch] = word[i];
    }
}

/* The same for 8 words, or for 16, 32, 64 ...: sixteens in registers, which the merge queue's
 * network then makes one run; seen from its end, a rising run falls. */
template <typename Word>
KIN_SELECT_HD void kin_queue_sort_runs(Word *buffer, int32_t pitch, int32_t count, int32_t size)
{
    if (size < 16) {
        kin_queue_sort<8>(buffer, pitch, count);
        return;
    }
    for (int32_t at = 0; at < size; at += 16) {
        kin_queue_sort<16>(buffer + at * pitch, pitch, count - at);
    }
    for (int32_t run = 16; run < size; run *= 2) {
        for (int32_t at = 0; at < size; at += 2 * run) {
            const kin_queue<Word> pair = {buffer + (at + 2 * run - 1) * pitch, -(int64_t)pitch,
                                          2 * run};
            kin_queue_merge(pair, run);
        }
    }
}

#endif
