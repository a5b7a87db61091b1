/* SPDX-License-Identifier: Apache-2.0
 * Two falling runs of one length become one: the merge queue's own network and merge path, and the
 * other that its paper names as future work (section V), for a queue that one lane owns and for one
 * of a warp.
 *
 *   places of a queue   [0, L) the upper run, [L, 2 L) the lower one; both fall
 *   SMALLER false       all 2 L places fall afterwards: what the merge queue does
 *   SMALLER true        only the smaller half is wanted, falling, in [L, 2 L); [0, L) may hold
 *                       anything then: what a queue would do with a sorted batch of new words
 *
 * L: a power of two, at least 8. Any words, equal ones, too.
 *
 * Adaptive bitonic merge (Bilardi and Nicolau 1989; for GPUs Peters, Schulz-Hildebrandt and
 * Luttenberger 2012). Of a bitonic sequence of 2 n words the n smallest are neighbours, if its ends
 * are thought to be joined. So of the n pairs (i, i + n) that a stage compares, those in the wrong
 * order are either the first ones or the last ones. A binary search finds where they end, and they
 * are exchanged unseen: 4 L comparisons, not L (1 + log L). Which end is wrong is how far the
 * sequence is rotated; the first pair tells. Exchanging is O(L) a stage in an array. The original
 * swaps two pointers instead: its sequences are trees, whose every read waits for another one. Kept
 * as pairs of intervals of the runs they need no moves either, but then each search is one for
 * where a diagonal crosses, and the method is merge path.
 *   Equal pairs: they say nothing of the side, so a search that meets one gives up, and the node's
 * pairs are compared. The last three stages are always compared: a search would cost as much.
 *
 * Merge path (Green, McColl and Bader 2012; Odeh et al. 2012). The first t words of the merged run
 * are i of the upper and t - i of the lower run; a binary search along the diagonal t finds i. So
 * every lane can begin anywhere. It cannot work in place: the lower run stays where it is while a
 * lane fills the queue from its first place on, the upper one is copied aside before. The smaller
 * half, written from place L on, never overtakes what is still to be read, and needs no copy.
 *   by fours: of the next four of both runs, those that come first are max(a[i], b[3 - i]), which
 * is the diagonal's search without a branch; eight loads are on their way together.
 */
#ifndef BENCH_MERGE_CUH
#define BENCH_MERGE_CUH

#include "papers/papers_queue_lane.cuh"

typedef enum merge_method { FLOOR, BITONIC, ADAPTIVE, PATH, PATH_FOURS } merge_method;
enum { METHODS = 5, LANES = 32, MOST_LENGTH = 1024 };

typedef kin_queue<kin_word64> lane_queue;

/* A queue of a warp in shared memory. One word in 17 is left out, so that lanes that are 8 or 16
 * places apart do not meet in a bank. */
struct warp_queue {
    kin_word64 *words;
    int32_t first;
};

KIN_SELECT_HD kin_word64 &word_at(const lane_queue &queue, int64_t at)
{
    return queue.front[at * queue.pitch];
}

KIN_SELECT_HD int32_t padded(int32_t at)
{
    return at + (at >> 4);
}

KIN_SELECT_HD kin_word64 &word_at(const warp_queue &queue, int32_t at)
{
    return queue.words[padded(queue.first + at)];
}

KIN_SELECT_HD lane_queue part_of(const lane_queue &queue, int32_t first, int32_t count)
{
    return lane_queue{queue.front + first * queue.pitch, queue.pitch, count};
}

KIN_SELECT_HD warp_queue part_of(const warp_queue &queue, int32_t first, int32_t)
{
    return warp_queue{queue.words, queue.first + first};
}

KIN_SELECT_HD int32_t log_of(int32_t power)
{
    int32_t log = 0;
    while (power >> log > 1) {
        log += 1;
    }
    return log;
}

/* ---- Searches, the same for both ------------------------------------------------------------ */

/* The pairs that a stage must exchange: [from, to), or those that a comparison finds. */
struct wrong_pairs {
    int32_t from;
    int32_t to;
    bool unknown;
};

/* Between two falling runs, place i of the upper against its mirror: the wrong ones are last. */
template <typename Queue> KIN_SELECT_HD wrong_pairs search_mirror(const Queue &queue, int32_t half)
{
    int32_t low = 0;
    int32_t high = half;
    while (low < high) {
        const int32_t middle = (low + high) / 2;
        if (word_at(queue, middle) < word_at(queue, 2 * half - 1 - middle)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return wrong_pairs{low, half, false};
}

/* In the bitonic sequence of the places [base, base + 2 half), place i against i + half. */
template <typename Queue>
KIN_SELECT_HD wrong_pairs search_node(const Queue &queue, int32_t base, int32_t half)
{
    const kin_word64 first = word_at(queue, base);
    const kin_word64 other = word_at(queue, base + half);
    const bool first_is_wrong = first < other;
    bool equal = first == other;
    int32_t low = 1;
    int32_t high = half;
    while (low < high && !equal) {
        const int32_t middle = (low + high) / 2;
        const kin_word64 left = word_at(queue, base + middle);
        const kin_word64 right = word_at(queue, base + middle + half);
        equal = left == right;
        if ((left < right) == first_is_wrong) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return wrong_pairs{first_is_wrong ? 0 : low, first_is_wrong ? low : half, equal};
}

/* How many of the first `place` words of the merged run are of the upper one; of equal words those
 * come first. */
template <typename Queue>
KIN_SELECT_HD int32_t search_diagonal(const Queue &upper, const Queue &lower, int32_t length,
                                      int32_t place)
{
    int32_t low = place > length ? place - length : 0;
    int32_t high = place < length ? place : length;
    while (low < high) {
        const int32_t middle = (low + high) / 2;
        if (word_at(upper, middle) < word_at(lower, place - 1 - middle)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* ---- Serial merges, the same for both ------------------------------------------------------- */

/* What lies behind a run counts as 0: nothing comes behind that, so it is a word like it. */
template <typename Queue>
KIN_SELECT_HD kin_word64 word_or_zero(const Queue &run, int32_t at, int32_t length)
{
    return at < length ? word_at(run, at) : 0;
}

/* `count` words to out, from place i of the upper and j of the lower run on. out may be behind or
 * before the lower run in the same places, as the head of this file says. */
template <typename Queue>
KIN_SELECT_HD void merge_serial(const Queue &upper, const Queue &lower, int32_t length, int32_t i,
                                int32_t j, const Queue &out, int32_t count)
{
    kin_word64 a = word_or_zero(upper, i, length);
    kin_word64 b = word_or_zero(lower, j, length);
    for (int32_t at = 0; at < count; at++) {
        const bool takes_upper = a >= b;
        word_at(out, at) = takes_upper ? a : b;
        i += takes_upper ? 1 : 0;
        j += takes_upper ? 0 : 1;
        const kin_word64 *place = takes_upper ? &word_at(upper, i) : &word_at(lower, j);
        const kin_word64 next = (takes_upper ? i : j) < length ? *place : 0;
        a = takes_upper ? next : a;
        b = takes_upper ? b : next;
    }
}

/* The same, four words a step; count: a multiple of four. */
template <typename Queue>
KIN_SELECT_HD void merge_fours(const Queue &upper, const Queue &lower, int32_t length, int32_t i,
                               int32_t j, const Queue &out, int32_t count)
{
    for (int32_t at = 0; at < count; at += 4) {
        kin_word64 word[4];
        kin_word64 mirror[4];
        int32_t taken = 0;
        KIN_QUEUE_UNROLL
        for (int x = 0; x < 4; x++) {
            word[x] = word_or_zero(upper, i + x, length);
            mirror[x] = word_or_zero(lower, j + 3 - x, length);
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
            word_at(out, at + x) = word[x];
        }
        i += taken;
        j += 4 - taken;
    }
}

/* ---- A lane's queue ------------------------------------------------------------------------- */

KIN_SELECT_HD void lane_copy(const lane_queue &from, const lane_queue &to, int32_t count)
{
    for (int32_t at = 0; at < count; at += 8) {
        kin_word64 word[8];
        KIN_QUEUE_UNROLL
        for (int x = 0; x < 8; x++) {
            word[x] = word_at(from, at + x);
        }
        KIN_QUEUE_UNROLL
        for (int x = 0; x < 8; x++) {
            word_at(to, at + x) = word[x];
        }
    }
}

/* The network for the smaller half; for both it is the merge queue's own, kin_queue_merge. */
KIN_SELECT_HD void lane_bitonic_smaller(const lane_queue &queue, int32_t length)
{
    for (int32_t at = 0; at < length; at += 4) {
        kin_word64 greater[4];
        kin_word64 smaller[4];
        KIN_QUEUE_UNROLL
        for (int x = 0; x < 4; x++) {
            greater[x] = word_at(queue, at + x);
            smaller[x] = word_at(queue, 2 * length - 1 - at - x);
        }
        KIN_QUEUE_UNROLL
        for (int x = 0; x < 4; x++) {
            kin_queue_exchange(greater[x], smaller[x]);
            word_at(queue, 2 * length - 1 - at - x) = smaller[x];
        }
    }
    const lane_queue kept = part_of(queue, length, length);
    int32_t stages = log_of(length) / 3 * 3;
    if (length >> stages == 2) {
        kin_queue_stages<1>(kept, length, (int64_t)1 << stages);
    } else if (length >> stages == 4) {
        kin_queue_stages<2>(kept, length, (int64_t)1 << stages);
    }
    for (; stages > 0; stages -= 3) {
        kin_queue_stages<3>(kept, length, (int64_t)1 << (stages - 3));
    }
}

/* Exchanges the wrong ones of the pairs (left + i, right + way i), or overwrites the right one.
 * Every lane walks over all pairs, though it knows where its own begin: places that lanes touch
 * together are neighbours. */
template <bool SMALLER>
KIN_SELECT_HD void lane_swap(const lane_queue &queue, int32_t left, int32_t right, int32_t way,
                             int32_t pairs, const wrong_pairs &wrong)
{
    for (int32_t at = 0; at < pairs; at += 4) {
        kin_word64 lefts[4];
        kin_word64 rights[4];
        bool swaps[4];
        KIN_QUEUE_UNROLL
        for (int x = 0; x < 4; x++) {
            swaps[x] = at + x >= wrong.from && at + x < wrong.to;
            lefts[x] = swaps[x] ? word_at(queue, left + at + x) : 0;
            rights[x] = swaps[x] && !SMALLER ? word_at(queue, right + way * (at + x)) : 0;
        }
        KIN_QUEUE_UNROLL
        for (int x = 0; x < 4; x++) {
            if (swaps[x]) {
                word_at(queue, right + way * (at + x)) = lefts[x];
            }
            if (swaps[x] && !SMALLER) {
                word_at(queue, left + at + x) = rights[x];
            }
        }
    }
}

template <bool SMALLER> KIN_SELECT_HD void lane_adaptive(const lane_queue &whole, int32_t length)
{
    lane_swap<SMALLER>(whole, 0, 2 * length - 1, -1, length, search_mirror(whole, length));
    const int32_t count = SMALLER ? length : 2 * length;
    const lane_queue queue = part_of(whole, 2 * length - count, count);
    for (int32_t half = length / 2; half >= 8; half /= 2) {
        for (int32_t base = 0; base < count; base += 2 * half) {
            const wrong_pairs wrong = search_node(queue, base, half);
            if (wrong.unknown) {
                kin_queue_stages<1>(part_of(queue, base, 2 * half), 2 * half, half);
            } else {
                lane_swap<false>(queue, base, base + half, 1, half, wrong);
            }
        }
    }
    kin_queue_stages<3>(queue, count, 1);
}

/* spare: L places of the lane's own. By fours, both kept, it is the merge queue's own,
 * kin_queue_merge_path. */
template <bool SMALLER, bool FOURS>
KIN_SELECT_HD void lane_path(const lane_queue &queue, const lane_queue &spare, int32_t length)
{
    const lane_queue upper = part_of(queue, 0, length);
    const lane_queue lower = part_of(queue, length, length);
    lane_queue from = upper;
    int32_t i = 0;
    if (SMALLER) {
        i = search_diagonal(upper, lower, length, length);
    } else {
        from = spare;
        lane_copy(upper, spare, length);
    }
    const lane_queue out = SMALLER ? lower : queue;
    const int32_t count = SMALLER ? length : 2 * length;
    const int32_t j = SMALLER ? length - i : 0;
    if (FOURS) {
        merge_fours(from, lower, length, i, j, out, count);
    } else {
        merge_serial(from, lower, length, i, j, out, count);
    }
}

template <merge_method METHOD, bool SMALLER>
KIN_SELECT_HD void lane_merge(const lane_queue &queue, const lane_queue &spare, int32_t length)
{
    if (METHOD == BITONIC && SMALLER) {
        lane_bitonic_smaller(queue, length);
    } else if (METHOD == BITONIC) {
        kin_queue_merge(queue, length);
    } else if (METHOD == PATH_FOURS && !SMALLER) {
        kin_queue_merge_path(queue, spare.front, length);
    } else if (METHOD == ADAPTIVE) {
        lane_adaptive<SMALLER>(queue, length);
    } else if (METHOD != FLOOR) {
        lane_path<SMALLER, METHOD == PATH_FOURS>(queue, spare, length);
    }
}

/* ---- A warp's queue: all lanes call these --------------------------------------------------- */

/* Stages that a pass does in registers: as many as leave every lane something to do. */
KIN_SELECT_HD int32_t warp_stages_of(int32_t count)
{
    return count >= 8 * LANES ? 3 : count >= 4 * LANES ? 2 : 1;
}

template <int STAGES>
static __device__ __forceinline__ void warp_pass(const warp_queue &queue, int32_t lane,
                                                 int32_t count, int32_t step_log)
{
    const int32_t step = 1 << step_log;
    for (int32_t group = lane; group < count >> STAGES; group += LANES) {
        const int32_t at = (group >> step_log << (step_log + STAGES)) + (group & (step - 1));
        kin_word64 word[1 << STAGES];
        KIN_QUEUE_UNROLL
        for (int i = 0; i < 1 << STAGES; i++) {
            word[i] = word_at(queue, at + i * step);
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
            word_at(queue, at + i * step) = word[i];
        }
    }
    __syncwarp(); /* the next pass has other groups */
}

/* The last `stages` stages of the bitonic sequences that `count` places hold. */
static __device__ __forceinline__ void warp_network(const warp_queue &queue, int32_t lane,
                                                    int32_t count, int32_t stages)
{
    while (stages > 0) {
        const int32_t widest = warp_stages_of(count);
        const int32_t now = stages < widest ? stages : widest;
        stages -= now;
        if (now == 3) {
            warp_pass<3>(queue, lane, count, stages);
        } else if (now == 2) {
            warp_pass<2>(queue, lane, count, stages);
        } else {
            warp_pass<1>(queue, lane, count, stages);
        }
    }
}

template <bool SMALLER>
static __device__ __forceinline__ void warp_bitonic(const warp_queue &queue, int32_t lane,
                                                    int32_t length)
{
    for (int32_t at = lane; at < length; at += LANES) {
        kin_word64 greater = word_at(queue, at);
        kin_word64 smaller = word_at(queue, 2 * length - 1 - at);
        kin_queue_exchange(greater, smaller);
        if (!SMALLER) {
            word_at(queue, at) = greater;
        }
        word_at(queue, 2 * length - 1 - at) = smaller;
    }
    __syncwarp(); /* a place and its mirror are of one lane here alone */
    const int32_t count = SMALLER ? length : 2 * length;
    warp_network(part_of(queue, 2 * length - count, count), lane, count, log_of(length));
}

/* A lane searches a node while there are enough of them; then all lanes share the pairs. plan: a
 * wrong_pairs for each of L / 8 nodes. */
template <bool SMALLER>
static __device__ __forceinline__ void warp_adaptive(const warp_queue &whole, wrong_pairs *plan,
                                                     int32_t lane, int32_t length)
{
    const wrong_pairs mirror = search_mirror(whole, length); /* by all, without a vote */
    __syncwarp();                                            /* before anyone writes */
    for (int32_t at = mirror.from + lane; at < length; at += LANES) {
        const kin_word64 greater = word_at(whole, 2 * length - 1 - at);
        word_at(whole, 2 * length - 1 - at) = word_at(whole, at);
        if (!SMALLER) {
            word_at(whole, at) = greater;
        }
    }
    __syncwarp();
    const int32_t count = SMALLER ? length : 2 * length;
    const warp_queue queue = part_of(whole, 2 * length - count, count);
    for (int32_t half_log = log_of(length) - 1; half_log >= 3; half_log--) {
        const int32_t half = 1 << half_log;
        for (int32_t node = lane; node < count >> (half_log + 1); node += LANES) {
            plan[node] = search_node(queue, node << (half_log + 1), half);
        }
        __syncwarp(); /* the plan is complete */
        for (int32_t pair = lane; pair < count / 2; pair += LANES) {
            const int32_t node = pair >> half_log;
            const int32_t i = pair & (half - 1);
            const wrong_pairs wrong = plan[node];
            if (!wrong.unknown && (i < wrong.from || i >= wrong.to)) {
                continue;
            }
            const int32_t at = (node << (half_log + 1)) + i;
            const kin_word64 left = word_at(queue, at);
            const kin_word64 right = word_at(queue, at + half);
            if (!wrong.unknown || left < right) {
                word_at(queue, at) = right;
                word_at(queue, at + half) = left;
            }
        }
        __syncwarp(); /* and done with */
    }
    warp_network(queue, lane, count, 3);
}

/* To the same places of `out`, which is not `queue`. */
template <bool SMALLER, bool FOURS>
static __device__ __forceinline__ void warp_path(const warp_queue &queue, const warp_queue &out,
                                                 int32_t lane, int32_t length)
{
    const int32_t count = SMALLER ? length : 2 * length;
    const int32_t share = count < LANES ? 1 : count / LANES;
    if (lane * share < count) {
        const warp_queue lower = part_of(queue, length, length);
        const int32_t place = 2 * length - count + lane * share;
        const int32_t i = search_diagonal(queue, lower, length, place);
        const warp_queue own = part_of(out, place, share);
        if (FOURS) {
            merge_fours(queue, lower, length, i, place - i, own, share);
        } else {
            merge_serial(queue, lower, length, i, place - i, own, share);
        }
    }
    __syncwarp();
}

template <merge_method METHOD, bool SMALLER>
static __device__ __forceinline__ void warp_merge(const warp_queue &queue, const warp_queue &out,
                                                  wrong_pairs *plan, int32_t lane, int32_t length)
{
    if (METHOD == BITONIC) {
        warp_bitonic<SMALLER>(queue, lane, length);
    } else if (METHOD == ADAPTIVE) {
        warp_adaptive<SMALLER>(queue, plan, lane, length);
    } else if (METHOD != FLOOR) {
        warp_path<SMALLER, METHOD == PATH_FOURS>(queue, out, lane, length);
    }
}

#endif
