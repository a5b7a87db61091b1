/* SPDX-License-Identifier: Apache-2.0
 * The candidates of a query while its packet walks: long lists, in device memory.
 *
 * Idea. What passes is appended where the list will stand in the end. When there is no room, or
 * when half as many as are wanted have come since the last time, the whole warp squeezes the list:
 * the wanted-th value is found digit by digit, and what is above keep goes. Nothing is sorted.
 *
 * Source. The long lists of the processor's tree (tree_list.c); radix selection as in
 * docs/notes/selection.md, with a histogram of 256 counters a warp.
 *
 * Cost. Five reads of the list a squeeze, 32 bytes a word of 8, since words of a list stand 256
 * bytes apart; they come from the second cache. With room for twice what is wanted a word is read
 * about ten times. Limits. A list loses something only where more than its room is within keep. */
#ifndef KIN_TREE_LIST_LONG_CUH
#define KIN_TREE_LIST_LONG_CUH

#include "tree/tree_list.cuh"

enum { TREE_BINS = 256, TREE_DIGIT = 8, TREE_SLACK = 32 };

/* Lists in device memory. APART: of places that do not stand next to each other. */
template <bool APART> struct kin_tree_gpu_long_lists {
    uint64_t *words;     /* of the packet; APART: of this lane's list */
    uint32_t *bins;      /* TREE_BINS counters in shared memory */
    int32_t squeezed_at; /* this lane's list is squeezed when it is so long */
};
typedef kin_tree_gpu_long_lists<false> kin_tree_gpu_long;
typedef kin_tree_gpu_long_lists<true> kin_tree_gpu_long_apart;

/* The first word of lane q's list; the others stand KIN_TREE_GPU_PACKET apart. All lanes call it.
 */
TREE_DEVICE uint64_t *tree_list_at(const kin_tree_gpu_long &s, int32_t q)
{
    return s.words + q;
}

TREE_DEVICE uint64_t *tree_list_at(const kin_tree_gpu_long_apart &s, int32_t q)
{
    return (uint64_t *)__shfl_sync(TREE_ALL_LANES, (unsigned long long)s.words, q);
}

/* The digit in which the word of rank *rank (from 1) stands; the rank becomes its rank there. */
TREE_DEVICE uint32_t tree_pick_bin(const uint32_t *bins, int32_t *rank)
{
    const int32_t lane = tree_lane_id();
    const int32_t a_lane = TREE_BINS / KIN_TREE_GPU_PACKET;
    int32_t sum = 0;
    for (int i = 0; i < a_lane; i++) {
        sum += (int32_t)bins[lane * a_lane + i];
    }
    int32_t upto = sum;
    for (int step = 1; step < KIN_TREE_GPU_PACKET; step *= 2) {
        const int32_t others = __shfl_up_sync(TREE_ALL_LANES, upto, step);
        upto += lane >= step ? others : 0;
    }
    const int32_t owner = __ffs((int)__ballot_sync(TREE_ALL_LANES, upto >= *rank)) - 1;
    int32_t bin = lane * a_lane;
    int32_t before = upto - sum;
    if (lane == owner) {
        while (before + (int32_t)bins[bin] < *rank) {
            before += (int32_t)bins[bin++];
        }
    }
    *rank -= __shfl_sync(TREE_ALL_LANES, before, owner);
    return (uint32_t)__shfl_sync(TREE_ALL_LANES, bin, owner);
}

/* The wanted-th value of a list of `count` words, 256 bytes apart. All lanes call it. */
TREE_DEVICE float tree_kth(const uint64_t *list, int32_t count, int32_t wanted, uint32_t *bins)
{
    const int32_t lane = tree_lane_id();
    uint32_t known = 0;
    int32_t rank = wanted;
    for (int shift = 32 - TREE_DIGIT; shift >= 0; shift -= TREE_DIGIT) {
        for (int i = lane; i < TREE_BINS; i += KIN_TREE_GPU_PACKET) {
            bins[i] = 0;
        }
        __syncwarp(); /* counters are clear, the list is written */
        for (int32_t i = lane; i < count; i += KIN_TREE_GPU_PACKET) {
            const uint32_t bits = (uint32_t)(list[i * KIN_TREE_GPU_PACKET] >> 32);
            if ((uint32_t)((uint64_t)bits >> (shift + TREE_DIGIT)) == known) {
                (void)atomicAdd(&bins[(bits >> shift) & (TREE_BINS - 1)], 1u);
            }
        }
        __syncwarp(); /* counted */
        known = known << TREE_DIGIT | tree_pick_bin(bins, &rank);
        __syncwarp(); /* read */
    }
    return __uint_as_float(known);
}

/* Leaves the words that are not above keep; returns how many. A word never moves up, and all of a
 * round are read before one is written. */
TREE_DEVICE int32_t tree_compact(uint64_t *list, int32_t count, float keep)
{
    const int32_t lane = tree_lane_id();
    const uint32_t before = (1u << lane) - 1;
    int32_t kept = 0;
    for (int32_t first = 0; first < count; first += KIN_TREE_GPU_PACKET) {
        const int32_t i = first + lane;
        const uint64_t word = i < count ? list[i * KIN_TREE_GPU_PACKET] : ~(uint64_t)0;
        const bool stays = i < count && !(tree_value(word) > keep);
        const uint32_t all = __ballot_sync(TREE_ALL_LANES, stays);
        if (stays) {
            list[(kept + __popc(all & before)) * KIN_TREE_GPU_PACKET] = word;
        }
        kept += __popc(all);
    }
    __syncwarp(); /* written */
    return kept;
}

/* Keep (bits) and the count that a squeezed list has, count << 32 | keep. Not inlined: it is long
 * and called from several places. */
static __device__ __noinline__ uint64_t tree_squeeze(uint64_t *list, uint32_t *bins,
                                                     kin_tree_gpu_lane of)
{
    tree_note(of, tree_kth(list, of.count, of.wanted, bins));
    const int32_t kept = tree_compact(list, of.count, of.keep);
    return (uint64_t)(uint32_t)kept << 32 | __float_as_uint(of.keep);
}

/* Squeezes the list of lane q, which holds at least what is wanted. */
template <bool APART>
TREE_DEVICE void tree_squeeze_lane(kin_tree_gpu_long_lists<APART> &s, kin_tree_gpu_lane &own,
                                   int32_t q)
{
    kin_tree_gpu_lane of = own;
    of.keep = __shfl_sync(TREE_ALL_LANES, own.keep, q);
    of.gain = __shfl_sync(TREE_ALL_LANES, own.gain, q);
    of.more = __shfl_sync(TREE_ALL_LANES, own.more, q);
    of.count = __shfl_sync(TREE_ALL_LANES, own.count, q);
    const uint64_t left = tree_squeeze(tree_list_at(s, q), s.bins, of);
    if (tree_lane_id() == q) {
        own.keep = tree_value(left << 32);
        own.count = (int32_t)(left >> 32);
        s.squeezed_at = min(own.count + own.wanted / 2 + TREE_SLACK, own.capacity);
    }
}

/* ---- What every policy of lists has ---------------------------------------------------------- */

/* Appends what is open, passes, and fits; true: not all of it did. */
template <int POINTS, bool APART>
TREE_DEVICE bool tree_append(const kin_tree_gpu_long_lists<APART> &s, kin_tree_gpu_lane &own,
                             int32_t q, const float (&values)[POINTS], bool (&open)[POINTS],
                             uint32_t position)
{
    const int32_t lane = tree_lane_id();
    const uint32_t before = (1u << lane) - 1;
    const float limit = __shfl_sync(TREE_ALL_LANES, own.keep, q);
    int32_t end = __shfl_sync(TREE_ALL_LANES, own.count, q);
    uint64_t *list = tree_list_at(s, q);
#pragma unroll
    for (int p = 0; p < POINTS; p++) {
        const bool pass = open[p] && values[p] <= limit;
        const uint32_t passed = __ballot_sync(TREE_ALL_LANES, pass);
        const int32_t at = end + __popc(passed & before);
        if (pass && at < own.capacity) {
            list[at * KIN_TREE_GPU_PACKET] =
                tree_word(values[p], position + (uint32_t)(p * KIN_TREE_GPU_PACKET));
            open[p] = false;
        }
        end += __popc(passed);
    }
    own.count = lane == q ? min(end, own.capacity) : own.count;
    return end > own.capacity;
}

/* A list that squeezing does not shorten is given up: its query walks no further, since it has to
 * be asked again with more room. */
template <int POINTS, bool APART>
TREE_DEVICE void tree_offer(kin_tree_gpu_long_lists<APART> &s, kin_tree_gpu_lane &own, int32_t q,
                            const float (&values)[POINTS], uint32_t position)
{
    bool open[POINTS];
#pragma unroll
    for (int p = 0; p < POINTS; p++) {
        open[p] = true;
    }
#pragma unroll 1
    while (tree_append<POINTS, APART>(s, own, q, values, open, position)) {
        tree_squeeze_lane(s, own, q);
        if (__shfl_sync(TREE_ALL_LANES, own.count, q) == own.capacity) {
            own.keep = tree_lane_id() == q ? TREE_GIVEN_UP : own.keep;
            return;
        }
    }
}

/* Squeezes the lists of the lanes in `which`. */
template <bool APART>
TREE_DEVICE void tree_squeeze_all(kin_tree_gpu_long_lists<APART> &s, kin_tree_gpu_lane &own,
                                  uint32_t which)
{
#pragma unroll 1
    for (; which != 0; which &= which - 1) {
        tree_squeeze_lane(s, own, __ffs((int)which) - 1);
    }
}

template <bool APART>
TREE_DEVICE void tree_settle(kin_tree_gpu_long_lists<APART> &s, kin_tree_gpu_lane &own)
{
    const bool long_enough = own.count >= s.squeezed_at && own.count < own.capacity;
    tree_squeeze_all(s, own, __ballot_sync(TREE_ALL_LANES, long_enough));
}

/* Lists stand where they should; what is above keep goes, but not of lists that were given up. */
TREE_DEVICE void tree_deliver(kin_tree_gpu_long &s, kin_tree_gpu_lane &own, uint64_t *)
{
    const bool squeezable = own.count > own.wanted && own.keep >= 0.0F;
    tree_squeeze_all(s, own, __ballot_sync(TREE_ALL_LANES, squeezable));
}

#endif
