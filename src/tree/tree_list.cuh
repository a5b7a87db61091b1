/* SPDX-License-Identifier: Apache-2.0
 * The candidates of a query while its packet walks: short lists, in shared memory.
 *
 * Idea. Points are tested by lanes, a lane a point, for one query at a time, so what passes of a
 * leaf is spread over the warp, and the warp merges it into the query's list, which is sorted by
 * value: an entry a lane (two, where it has more than 32), a find a lane. A find is shown to all
 * lanes, and everyone who stands behind it moves one place up; after all finds each word knows its
 * slot.
 *
 *   lane        0    1    2    3            0    1
 *   list      0.1  0.3  0.4  0.9    found 0.2  0.3
 *   slot        0    2    4    5            1    3
 *
 * Where many pass (at first all do) a value is found by bisection that at least `wanted` of them
 * do not exceed, and few more.
 *
 * Source. Merging by ranks: merge path, as in select_host.c; a bound before a selection: scan
 * (docs/notes/selection.md). Tried and dropped: a lane a list, insertion from buffers that are
 * emptied together. Late in a walk two or three lanes of 32 had something to insert.
 *
 * Invariant. A point that was screened and is not in the list comes after `wanted` others in the
 * order (canonical key, id), or its value is at least `dropped`. What is above `keep` is proven to
 * come after; what falls off the end of a full list is not, and the least of it is remembered.
 *
 * Why keep alone. keep = kth * gain + more is at least the limit that tree_bound.h proves for the
 * worst leaf (kin_tree_keep_of has the inequality), and costs no root. It exceeds that limit by
 * 2^-21 of it where rows lost nothing, by 2^-12 elsewhere.
 *
 * Cost. About 80 operations of a warp a leaf and query that finds something there, 10 more for each
 * find. Limits. 64 slots; 256 bytes of shared memory a slot and packet. */
#ifndef KIN_TREE_LIST_CUH
#define KIN_TREE_LIST_CUH

#include "gpu/gpu_stream.cuh"
#include "tree/tree_kernels.h"

#include <cuda_runtime.h>

enum {
    TREE_SPARE = 8, /* what passes beyond the wanted number, for a bisection to pay */
    TREE_NEAR = 2,  /* and what it may leave too many */
    TREE_HALVINGS = 8
};
#define TREE_ALL_LANES 0xffffffffu
#define TREE_NO_QUERY (-1.0F)
#define TREE_GIVEN_UP (-2.0F)                   /* the list lost something; the query has stopped */
#define TREE_NOTHING __int_as_float(0x7fffffff) /* NaN: fails every comparison */
#define TREE_DEVICE static __device__ __forceinline__

/* What a lane knows of its query, whatever holds the list. */
typedef struct kin_tree_gpu_lane {
    float keep; /* values above it are not needed; or one of TREE_NO_QUERY, TREE_GIVEN_UP */
    float gain;
    float more;
    float dropped; /* the least value that found no room; NaN: none */
    int32_t count; /* entries of the list */
    int32_t wanted;
    int32_t capacity;
} kin_tree_gpu_lane;

/* Lists in shared memory. */
typedef struct kin_tree_gpu_short {
    uint64_t *lists; /* [query][slot] */
    uint64_t *found; /* KIN_TREE_GPU_PACKET words, of the query at hand */
} kin_tree_gpu_short;

TREE_DEVICE int32_t tree_lane_id(void)
{
    return (int32_t)(threadIdx.x % KIN_TREE_GPU_PACKET);
}

TREE_DEVICE uint64_t tree_word(float value, uint32_t position)
{
    return (uint64_t)__float_as_uint(value) << 32 | position;
}

TREE_DEVICE float tree_value(uint64_t word)
{
    return __uint_as_float((uint32_t)(word >> 32));
}

/* ---- A lane ---------------------------------------------------------------------------------- */

TREE_DEVICE kin_tree_gpu_lane tree_lane_of(const kin_tree_gpu &tree,
                                           const kin_tree_gpu_lists &lists, bool active, float lost)
{
    const kin_tree_keep keep =
        kin_tree_keep_of(tree.norm, lost, tree.most_lost, tree.widen, tree.floor);
    kin_tree_gpu_lane lane;
    lane.keep = active ? INFINITY : TREE_NO_QUERY;
    lane.gain = keep.gain;
    lane.more = keep.more;
    lane.dropped = TREE_NOTHING;
    lane.count = 0;
    lane.wanted = lists.wanted;
    lane.capacity = lists.capacity;
    return lane;
}

/* `wanted` points have values of at most kth. */
TREE_DEVICE void tree_note(kin_tree_gpu_lane &own, float kth)
{
    own.keep = fminf(own.keep, kth * own.gain + own.more);
}

/* Something that was dropped may be needed. */
TREE_DEVICE bool tree_lost(const kin_tree_gpu_lane &own)
{
    return own.dropped <= own.keep || own.keep == TREE_GIVEN_UP;
}

/* ---- What passes ----------------------------------------------------------------------------- */

/* How many values are at most `limit`, in all lanes. Values are not negative, or NaN. */
template <int POINTS> TREE_DEVICE int32_t tree_passed(const float (&values)[POINTS], float limit)
{
    int32_t passed = 0;
#pragma unroll
    for (int p = 0; p < POINTS; p++) {
        passed += __popc(__ballot_sync(TREE_ALL_LANES, values[p] <= limit));
    }
    return passed;
}

/* A value that at least `wanted` values do not exceed, where so many are at most `limit`. Numbers
 * that are not negative have the order of their bits. */
template <int POINTS>
TREE_DEVICE float tree_bisect(const float (&values)[POINTS], float limit, int32_t wanted)
{
    uint32_t low = ~0u;
    uint32_t high = 0;
#pragma unroll
    for (int p = 0; p < POINTS; p++) {
        const bool pass = values[p] <= limit;
        low = pass ? min(low, __float_as_uint(values[p])) : low;
        high = pass ? max(high, __float_as_uint(values[p])) : high;
    }
    low = __reduce_min_sync(TREE_ALL_LANES, low);
    high = __reduce_max_sync(TREE_ALL_LANES, high);
    int32_t upto = wanted + TREE_NEAR + 1; /* how many do not exceed `high`, or more */
    for (int i = 0; i < TREE_HALVINGS && low < high && upto > wanted + TREE_NEAR; i++) {
        const uint32_t middle = low + (high - low) / 2;
        const int32_t count = tree_passed<POINTS>(values, __uint_as_float(middle));
        upto = count >= wanted ? count : upto;
        high = count >= wanted ? middle : high;
        low = count >= wanted ? low : middle + 1;
    }
    return __uint_as_float(high);
}

/* The first KIN_TREE_GPU_PACKET of what is open and passes go to `found` and are open no more;
 * returns how many they were, or would have been. */
template <int POINTS>
TREE_DEVICE int32_t tree_gather(const kin_tree_gpu_short &s, float limit,
                                const float (&values)[POINTS], bool (&open)[POINTS],
                                uint32_t position)
{
    const uint32_t before = (1u << tree_lane_id()) - 1;
    int32_t end = 0;
#pragma unroll
    for (int p = 0; p < POINTS; p++) {
        const bool pass = open[p] && values[p] <= limit;
        const uint32_t passed = __ballot_sync(TREE_ALL_LANES, pass);
        const int32_t at = end + __popc(passed & before);
        if (pass && at < KIN_TREE_GPU_PACKET) {
            s.found[at] = tree_word(values[p], position + (uint32_t)(p * KIN_TREE_GPU_PACKET));
            open[p] = false;
        }
        end += __popc(passed);
    }
    return end;
}

/* ---- Merging --------------------------------------------------------------------------------- */

/* Slots of the list's entries and of a find in the merged list, by lane. Bits of values; a lane
 * without one has INT32_MAX, which is above all of them. Entries come before finds of the same
 * value. */
template <int ENTRIES>
TREE_DEVICE void tree_ranks(const uint64_t (&entries)[ENTRIES], uint64_t find, int32_t finds,
                            int32_t (&slots)[ENTRIES], int32_t *find_slot)
{
    const int32_t lane = tree_lane_id();
    const int32_t own = (int32_t)(find >> 32);
    int32_t upto = own; /* finds up to here come before the lane's own: earlier ones, equal ones */
    *find_slot = 0;
#pragma unroll
    for (int e = 0; e < ENTRIES; e++) {
        slots[e] = lane + e * KIN_TREE_GPU_PACKET;
    }
#pragma unroll 4
    for (int32_t i = 0; i < finds; i++) {
        const int32_t shown = __shfl_sync(TREE_ALL_LANES, own, i);
        int32_t before = 0;
#pragma unroll
        for (int e = 0; e < ENTRIES; e++) {
            const bool is_before = (int32_t)(entries[e] >> 32) <= shown;
            before += __popc(__ballot_sync(TREE_ALL_LANES, is_before));
            slots[e] += is_before ? 0 : 1;
        }
        *find_slot += lane == i ? before : 0;
        upto -= lane == i ? 1 : 0;
        *find_slot += shown <= upto ? 1 : 0;
    }
}

/* Of finds that enter an empty list. */
TREE_DEVICE int32_t tree_rank_alone(uint64_t find, int32_t finds)
{
    const int32_t lane = tree_lane_id();
    const uint32_t own = (uint32_t)(find >> 32);
    int32_t slot = 0;
#pragma unroll 4
    for (int32_t i = 0; i < finds; i++) {
        const uint32_t shown = __shfl_sync(TREE_ALL_LANES, own, i);
        slot += shown < own + (i < lane ? 1U : 0U) ? 1 : 0;
    }
    return slot;
}

/* Bits of the value of a word whose slot is outside of the list. */
TREE_DEVICE uint32_t tree_fallen(uint64_t word, int32_t slot, int32_t capacity)
{
    return slot < capacity ? ~0u : (uint32_t)(word >> 32);
}

/* The first `finds` words of `found` enter the list of query q, which has `count`: up to 32 times
 * ENTRIES. */
template <int ENTRIES>
TREE_DEVICE void tree_merge(const kin_tree_gpu_short &s, kin_tree_gpu_lane &own, int32_t q,
                            int32_t count, int32_t finds)
{
    const int32_t lane = tree_lane_id();
    const uint64_t nothing = (uint64_t)INT32_MAX << 32;
    uint64_t *list = s.lists + q * own.capacity;
    uint64_t entries[ENTRIES];
    int32_t slots[ENTRIES] = {0};
    int32_t find_slot;
    __syncwarp(); /* finds and list were written by other lanes */
    const uint64_t find = lane < finds ? s.found[lane] : nothing;
#pragma unroll
    for (int e = 0; e < ENTRIES; e++) {
        const int32_t at = lane + e * KIN_TREE_GPU_PACKET;
        entries[e] = at < count ? list[at] : nothing;
    }
    if (count == 0) {
        find_slot = tree_rank_alone(find, finds);
    } else {
        tree_ranks<ENTRIES>(entries, find, finds, slots, &find_slot);
    }
    __syncwarp(); /* all have read the list */
    uint32_t fallen = tree_fallen(find, lane < finds ? find_slot : 0, own.capacity);
    if (lane < finds && find_slot < own.capacity) {
        list[find_slot] = find;
    }
#pragma unroll
    for (int e = 0; e < ENTRIES; e++) {
        const bool there = lane + e * KIN_TREE_GPU_PACKET < count;
        fallen = min(fallen, tree_fallen(entries[e], there ? slots[e] : 0, own.capacity));
        if (there && slots[e] < own.capacity) {
            list[slots[e]] = entries[e];
        }
    }
    __syncwarp(); /* merged */
    const int32_t merged = min(count + finds, own.capacity);
    if (count + finds > own.capacity) {
        fallen = __reduce_min_sync(TREE_ALL_LANES, fallen);
        own.dropped = lane == q ? fminf(own.dropped, __uint_as_float(fallen)) : own.dropped;
    }
    if (lane == q && merged >= own.wanted) {
        tree_note(own, tree_value(list[own.wanted - 1]));
    }
    const float keep = __shfl_sync(TREE_ALL_LANES, own.keep, q);
    int32_t kept =
        __popc(__ballot_sync(TREE_ALL_LANES, lane < merged && tree_value(list[lane]) <= keep));
    if (merged > KIN_TREE_GPU_PACKET) {
        const int32_t at = lane + KIN_TREE_GPU_PACKET;
        kept += __popc(__ballot_sync(TREE_ALL_LANES, at < merged && tree_value(list[at]) <= keep));
    }
    own.count = lane == q ? kept : own.count;
}

/* ---- What every policy of lists has ---------------------------------------------------------- */

/* Values of query q that a lane holds, of the points position, position + 32, ...; NaN: no point.
 * All lanes call it. */
template <int POINTS>
TREE_DEVICE void tree_offer(kin_tree_gpu_short &s, kin_tree_gpu_lane &own, int32_t q,
                            const float (&values)[POINTS], uint32_t position)
{
    float limit = __shfl_sync(TREE_ALL_LANES, own.keep, q);
    if (tree_passed<POINTS>(values, limit) >= own.wanted + TREE_SPARE) {
        const float kth = tree_bisect<POINTS>(values, limit, own.wanted);
        if (tree_lane_id() == q) {
            tree_note(own, kth);
        }
    }
    bool open[POINTS];
#pragma unroll
    for (int p = 0; p < POINTS; p++) {
        open[p] = true;
    }
    int32_t finds = KIN_TREE_GPU_PACKET + 1;
#pragma unroll 1
    while (finds > KIN_TREE_GPU_PACKET) {
        limit = __shfl_sync(TREE_ALL_LANES, own.keep, q);
        finds = tree_gather<POINTS>(s, limit, values, open, position);
        const int32_t count = __shfl_sync(TREE_ALL_LANES, own.count, q);
        const int32_t some = min(finds, (int32_t)KIN_TREE_GPU_PACKET);
        if (finds > 0 && count <= KIN_TREE_GPU_PACKET) {
            tree_merge<1>(s, own, q, count, some);
        } else if (finds > 0) {
            tree_merge<2>(s, own, q, count, some);
        }
    }
}

/* A leaf is done. */
TREE_DEVICE void tree_settle(kin_tree_gpu_short &, kin_tree_gpu_lane &)
{
}

/* The walk is done: lists to `words` of the packet, [slot][lane]. */
TREE_DEVICE void tree_deliver(const kin_tree_gpu_short &s, const kin_tree_gpu_lane &own,
                              uint64_t *words)
{
    const int32_t lane = tree_lane_id();
    const int32_t most = __reduce_max_sync(TREE_ALL_LANES, own.count);
    __syncwarp(); /* lists were written by other lanes */
    for (int32_t i = 0; i < most; i++) {
        if (i < own.count) {
            words[i * KIN_TREE_GPU_PACKET + lane] = s.lists[lane * own.capacity + i];
        }
    }
}

/* ---- Long lists ------------------------------------------------------------------------------ */

/* The candidates of a query while its packet walks: long lists, in device memory.
 *
 * Idea. What passes is appended where the list will stand in the end. When there is no room, or
 * when half as many as are wanted have come since the last time, the whole warp squeezes the list:
 * the wanted-th value is found digit by digit, and what is above keep goes. Nothing is sorted.
 *
 * Source. The long lists of the processor's tree (tree_walk.c); radix selection as in
 * docs/notes/selection.md, with a histogram of 256 counters a warp.
 *
 * Cost. Five reads of the list a squeeze, 32 bytes a word of 8, since words of a list stand 256
 * bytes apart; they come from the second cache. With room for twice what is wanted a word is read
 * about ten times. Limits. A list loses something only where more than its room is within keep. */

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
