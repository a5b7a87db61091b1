/* SPDX-License-Identifier: Apache-2.0
 * The way of packets through a tree. Contract: tree_kernels.h, kin_tree_gpu_walk.
 *
 * Idea. A warp is a packet of 32 queries that stand next to each other in the order, so they want
 * nearly the same leaves. What a lane is changes with the work:
 *
 *   nodes    a lane is a query: two boxes, read by all lanes from one address; who may still get
 *            something from a box is a ballot, hence every branch of the walk is the warp's
 *   groups   a lane is a leaf: the boxes of the 32 leaves below a node in registers, and the
 *            queries that wait go past them one by one. Of 32 queries four wait for a usual leaf of
 *            uniform points in 12 columns, and its box alone would be asked for all of them
 *   leaves   a lane is a point, or two: 64 points in registers, and the queries that wait go past
 *            them one by one, two at a time, from shared memory; a query that does not wait costs
 *            nothing, and a load of four components serves 128 differences
 *   lists    a lane is an entry of one list (tree_list.cuh)
 *
 *        node 1                 stack      [level][lane], the upper half of the box's value:
 *       /      \                           truncated, so never above it
 *     2  <--    3  put off      the nodes of the stack are dealt to the lanes, a level a lane
 *    / \
 *   4   5  put off              what was put off is tested again: limits have shrunk
 *   |
 *   128 .. 159                  the leaves below it, the nearest one first; who got something from
 *                               one is asked again about the others
 *
 * Source. Gieseke, Heinermann, Oancea, Igel 2014, "Buffer k-d trees": there a leaf collects queries
 * from everywhere before it is solved. Here queries are sorted by leaf, and a packet is that buffer
 * (tree_walk.c does the same on the processor).
 *
 * Why it is right. A box's value and a point's are the same operations in the same order: columns
 * rising, one fused multiply-add each, beginning at 0. |q - clamp(q, low, high)| is the rounded
 * difference to the nearest number of the box, and its square is never above that to a point in it
 * (tree_bound.h). Columns that pad rows and boxes are 0 and add +0. In a periodic box the way round
 * is P - max(q - low, high - q), in the same operations as a point's P - |q - x|, which is
 * therefore never below it; and so is the shorter way.
 *
 * Cost. Instructions of a warp: for each query and leaf 4 a column, 15 more where two queries wait,
 * 30 where one does; for each query and group 6 a column and 20; for each node 12 a column and 45.
 * Limits. 64 columns; beyond 32 a lane is one point. */
#ifndef KIN_TREE_WALK_CUH
#define KIN_TREE_WALK_CUH

#include "tree/tree_list.cuh"

enum {
    TREE_WARPS = 4,       /* of a block, where shared memory allows */
    TREE_QUERIES = 2,     /* that go past the points together */
    TREE_LEVELS = 5,      /* above the leaves, whose boxes are not asked: a lane a leaf */
    TREE_TWO_POINTS = 32, /* columns up to which a lane is two points */
    TREE_EXACT = 16       /* up to which every width has a kernel by the euclidean norm */
};

/* Shared memory of a packet, in bytes, one part behind the other. */
typedef struct kin_tree_gpu_shape {
    int32_t rows;
    int32_t list;  /* or the counters of long lists */
    int32_t found; /* 0 for long lists */
    int32_t stack;
} kin_tree_gpu_shape;

/* A packet on its way. Numbers that all lanes share, unless the comment says otherwise. */
template <typename LISTS> struct kin_tree_gpu_packet {
    const float *rows;     /* shared: [query][stride] */
    const float *period;   /* of the tree */
    uint16_t *stack;       /* this lane's: level l stands at l * 32 */
    LISTS lists;           /* by lane */
    kin_tree_gpu_lane own; /* by lane */
    uint64_t pairs;
    uint32_t leaves;
};

/* Floats from a row to the next: an odd number of 16 bytes, so that lanes which read their own rows
 * meet in no bank. */
template <int WIDE> struct kin_tree_gpu_stride {
    enum { FLOATS = ((WIDE / KIN_TREE_GPU_WIDE) | 1) * KIN_TREE_GPU_WIDE };
};

/* Blocks of a processor, as many as registers allow while hardly one is spilled: warps wait for
 * memory most of the time. */
template <int WIDE> struct kin_tree_gpu_blocks {
    enum {
        MOST = WIDE <= 4    ? 8
               : WIDE <= 8  ? 7
               : WIDE <= 12 ? 6
               : WIDE <= 16 ? 5
               : WIDE <= 24 ? 4
                            : 3
    };
};

/* Whether each width up to TREE_EXACT has a kernel of its own: for short lists alone. */
template <typename LISTS> struct kin_tree_gpu_exact {
    enum { YES = 0 };
};
template <> struct kin_tree_gpu_exact<kin_tree_gpu_short> {
    enum { YES = 1 };
};

/* Lists of walks through a periodic box. */
template <typename LISTS> struct kin_tree_gpu_wrapped : LISTS {
};
template <> struct kin_tree_gpu_exact<kin_tree_gpu_wrapped<kin_tree_gpu_short>> {
    enum { YES = 1 };
};
template <typename LISTS> struct kin_tree_gpu_wraps {
    enum { YES = 0 };
};
template <typename LISTS> struct kin_tree_gpu_wraps<kin_tree_gpu_wrapped<LISTS>> {
    enum { YES = 1 };
};

/* By column; NULL, which the compiler knows, where walks do not wrap. */
template <typename LISTS> TREE_DEVICE const float *tree_period(const kin_tree_gpu_packet<LISTS> &p)
{
    return kin_tree_gpu_wraps<LISTS>::YES ? p.period : NULL;
}

/* Columns that rows have: the kernel's own number where each number has a kernel. */
template <kin_tree_norm NORM, int WIDE, typename LISTS>
TREE_DEVICE int32_t tree_wide(const kin_tree_gpu &tree)
{
    const bool own = NORM == KIN_NORM_TWO && WIDE <= TREE_EXACT && kin_tree_gpu_exact<LISTS>::YES;
    return own ? WIDE : tree.wide;
}

/* ---- Arithmetic ------------------------------------------------------------------------------ */

template <kin_tree_norm NORM> TREE_DEVICE float tree_step(float sum, float difference)
{
    if (NORM == KIN_NORM_TWO) {
        return fmaf(difference, difference, sum);
    }
    const float size = fabsf(difference);
    return NORM == KIN_NORM_ONE ? sum + size : fmaxf(sum, size);
}

TREE_DEVICE float tree_part(const float4 &four, int i)
{
    return i == 0 ? four.x : i == 1 ? four.y : i == 2 ? four.z : four.w;
}

/* Of columns c .. c + 3; without periods they are not read. */
TREE_DEVICE float4 tree_periods(const float *period, int32_t c, int32_t wide)
{
    const float none = INFINITY;
    return period != NULL && c < wide ? __ldg((const float4 *)(period + c))
                                      : make_float4(none, none, none, none);
}

/* The shorter way round. */
TREE_DEVICE float tree_wrap(float difference, const float *period, float length)
{
    const float size = fabsf(difference);
    return period == NULL ? difference : fminf(size, length - size);
}

TREE_DEVICE float tree_gap(float q, float low, float high)
{
    return q - fminf(fmaxf(q, low), high);
}

TREE_DEVICE float tree_gap_round(float q, float low, float high, const float *period, float length)
{
    const float straight = tree_gap(q, low, high);
    return period == NULL ? straight : fminf(fabsf(straight), length - fmaxf(q - low, high - q));
}

/* Of two boxes that stand side by side, seen from the lane's own row. */
template <kin_tree_norm NORM, int WIDE>
TREE_DEVICE void tree_boxes(const float *boxes, int32_t wide, const float *row, const float *period,
                            float values[2])
{
    values[0] = 0.0F;
    values[1] = 0.0F;
#pragma unroll 4
    for (int32_t c = 0; c < wide; c += KIN_TREE_GPU_WIDE) {
        const float4 q = *(const float4 *)(row + c);
        const float4 lengths = tree_periods(period, c, wide);
#pragma unroll
        for (int child = 0; child < 2; child++) {
            const float *box = boxes + (int64_t)child * 2 * wide + c;
            const float4 low = __ldg((const float4 *)box);
            const float4 high = __ldg((const float4 *)(box + wide));
#pragma unroll
            for (int i = 0; i < KIN_TREE_GPU_WIDE; i++) {
                values[child] = tree_step<NORM>(values[child],
                                                tree_gap_round(tree_part(q, i), tree_part(low, i),
                                                               tree_part(high, i), period,
                                                               tree_part(lengths, i)));
            }
        }
    }
}

/* Of a lane's points, seen from QUERIES rows; NaN for the rows that are not there. period: of
 * `wide` columns. */
template <kin_tree_norm NORM, int WIDE, int POINTS, int QUERIES>
TREE_DEVICE void tree_distances(const float *const rows[TREE_QUERIES],
                                const float (&points)[POINTS][WIDE], const float *period,
                                int32_t wide, float (&values)[TREE_QUERIES][POINTS])
{
#pragma unroll
    for (int j = 0; j < TREE_QUERIES; j++) {
#pragma unroll
        for (int p = 0; p < POINTS; p++) {
            values[j][p] = j < QUERIES ? 0.0F : TREE_NOTHING;
        }
    }
#pragma unroll
    for (int c = 0; c < WIDE; c += KIN_TREE_GPU_WIDE) {
        const float4 lengths = tree_periods(period, c, wide);
#pragma unroll
        for (int j = 0; j < QUERIES; j++) {
            const float4 q = *(const float4 *)(rows[j] + c);
#pragma unroll
            for (int i = 0; i < KIN_TREE_GPU_WIDE; i++) {
#pragma unroll
                for (int p = 0; p < POINTS; p++) {
                    values[j][p] =
                        tree_step<NORM>(values[j][p], tree_wrap(points[p][c + i] - tree_part(q, i),
                                                                period, tree_part(lengths, i)));
                }
            }
        }
    }
}

/* ---- Leaves ---------------------------------------------------------------------------------- */

/* Point i of the leaf whose blocks begin at `blocks`. */
template <int WIDE>
TREE_DEVICE void tree_point(const float *blocks, int32_t wide, int32_t i, float (&point)[WIDE])
{
    const float *from =
        blocks + (int64_t)(i / KIN_TREE_LANES) * KIN_TREE_LANES * wide + i % KIN_TREE_LANES;
#pragma unroll
    for (int c = 0; c < WIDE; c++) {
        point[c] = c < wide ? __ldg(from + c * KIN_TREE_LANES) : 0.0F;
    }
}

/* Points first .. last of a leaf, at most 32 * POINTS of them, for the queries that wait. position:
 * of the leaf's first point. */
template <kin_tree_norm NORM, int WIDE, int POINTS, typename LISTS>
TREE_DEVICE void tree_screen(kin_tree_gpu_packet<LISTS> &p, const float *blocks, int32_t wide,
                             uint32_t position, int32_t first, int32_t last, uint32_t waiting)
{
    const int stride = kin_tree_gpu_stride<WIDE>::FLOATS;
    const int32_t mine = first + tree_lane_id();
    float points[POINTS][WIDE];
    bool there[POINTS];
#pragma unroll
    for (int i = 0; i < POINTS; i++) {
        const int32_t at = mine + i * KIN_TREE_GPU_PACKET;
        there[i] = at < last; /* else a point that is there stands in for it, and does not pass */
        tree_point<WIDE>(blocks, wide, there[i] ? at : first, points[i]);
    }
#pragma unroll 1
    while (waiting != 0) {
        const int32_t q = __ffs((int)waiting) - 1;
        waiting &= waiting - 1;
        const int32_t other = waiting != 0 ? __ffs((int)waiting) - 1 : q;
        waiting &= waiting - 1;
        const float *const rows[TREE_QUERIES] = {p.rows + q * stride, p.rows + other * stride};
        const float limits[TREE_QUERIES] = {__shfl_sync(TREE_ALL_LANES, p.own.keep, q),
                                            __shfl_sync(TREE_ALL_LANES, p.own.keep, other)};
        float values[TREE_QUERIES][POINTS];
        if (other != q) {
            tree_distances<NORM, WIDE, POINTS, 2>(rows, points, tree_period(p), wide, values);
        } else {
            tree_distances<NORM, WIDE, POINTS, 1>(rows, points, tree_period(p), wide, values);
        }
        bool hit = false;
#pragma unroll
        for (int j = 0; j < TREE_QUERIES; j++) {
#pragma unroll
            for (int i = 0; i < POINTS; i++) {
                hit |= there[i] & (values[j][i] <= limits[j]);
            }
        }
        if (!__any_sync(TREE_ALL_LANES, hit)) {
            continue;
        }
#pragma unroll 1
        for (int j = 0; j < (other != q ? 2 : 1); j++) {
            float offered[POINTS];
#pragma unroll
            for (int i = 0; i < POINTS; i++) {
                const float value = j == 0 ? values[0][i] : values[1][i];
                offered[i] = there[i] ? value : TREE_NOTHING;
            }
            tree_offer<POINTS>(p.lists, p.own, j == 0 ? q : other, offered,
                               position + (uint32_t)mine);
        }
    }
}

/* Blocks start .. of a leaf of `count` points, for the queries that wait. */
template <kin_tree_norm NORM, int WIDE, typename LISTS>
TREE_DEVICE void tree_leaf(kin_tree_gpu_packet<LISTS> &p, const kin_tree_gpu &tree, uint32_t start,
                           int32_t count, uint32_t waiting)
{
    const int32_t most = WIDE <= TREE_TWO_POINTS ? 2 * KIN_TREE_GPU_PACKET : KIN_TREE_GPU_PACKET;
    const int32_t wide = tree_wide<NORM, WIDE, LISTS>(tree);
    const float *blocks = tree.values + (int64_t)start * KIN_TREE_LANES * wide;
    const uint32_t position = start * KIN_TREE_LANES;
    p.leaves += (uint32_t)__popc(waiting);
    p.pairs += (uint64_t)((uint32_t)__popc(waiting) * (uint32_t)count);
#pragma unroll 1
    for (int32_t first = 0; first < count; first += most) {
        const int32_t last = min(count, first + most);
        if (WIDE <= TREE_TWO_POINTS && last - first > KIN_TREE_GPU_PACKET) {
            tree_screen<NORM, WIDE, (WIDE <= TREE_TWO_POINTS ? 2 : 1)>(p, blocks, wide, position,
                                                                       first, last, waiting);
        } else {
            tree_screen<NORM, WIDE, 1>(p, blocks, wide, position, first, last, waiting);
        }
    }
    tree_settle(p.lists, p.own);
}

/* ---- Groups ---------------------------------------------------------------------------------- */

/* The leaves below one node, by lane. */
typedef struct kin_tree_gpu_group {
    const float *box;
    uint32_t start;
    int32_t count;
    uint32_t wanted; /* queries that may get something from the leaf */
    float nearest;   /* value of its box for the nearest of them */
    bool open;       /* there is a leaf, and nobody was in it */
} kin_tree_gpu_group;

/* Which leaves the queries `asking` want, as of now. */
template <kin_tree_norm NORM, int WIDE, typename LISTS>
TREE_DEVICE void tree_ask(const kin_tree_gpu_packet<LISTS> &p, int32_t wide, uint32_t asking,
                          kin_tree_gpu_group &group)
{
    float low[WIDE];
    float high[WIDE];
#pragma unroll
    for (int c = 0; c < WIDE; c += KIN_TREE_GPU_WIDE) {
        const float4 zeros = {0.0F, 0.0F, 0.0F, 0.0F};
        const bool real = group.open && c < wide;
        const float4 from = real ? __ldg((const float4 *)(group.box + c)) : zeros;
        const float4 upto = real ? __ldg((const float4 *)(group.box + wide + c)) : zeros;
#pragma unroll
        for (int i = 0; i < KIN_TREE_GPU_WIDE; i++) {
            low[c + i] = tree_part(from, i);
            high[c + i] = tree_part(upto, i);
        }
    }
#pragma unroll 1
    while (asking != 0) {
        const int32_t q = __ffs((int)asking) - 1;
        const uint32_t bit = asking & (0U - asking);
        const float limit = __shfl_sync(TREE_ALL_LANES, p.own.keep, q);
        const float *row = p.rows + q * kin_tree_gpu_stride<WIDE>::FLOATS;
        float value = 0.0F;
        asking ^= bit;
#pragma unroll
        for (int c = 0; c < WIDE; c += KIN_TREE_GPU_WIDE) {
            const float4 four = *(const float4 *)(row + c);
            const float4 lengths = tree_periods(tree_period(p), c, wide);
#pragma unroll
            for (int i = 0; i < KIN_TREE_GPU_WIDE; i++) {
                value = tree_step<NORM>(value,
                                        tree_gap_round(tree_part(four, i), low[c + i], high[c + i],
                                                       tree_period(p), tree_part(lengths, i)));
            }
        }
        const bool wants = group.open && value <= limit;
        group.wanted = wants ? group.wanted | bit : group.wanted & ~bit;
        group.nearest = wants ? fminf(group.nearest, value) : group.nearest;
    }
}

/* Leaves first .. first + count - 1, the nearest one first, for the queries that wait. Whoever got
 * something from a leaf is asked again about the others. */
template <kin_tree_norm NORM, int WIDE, typename LISTS>
TREE_DEVICE void tree_leaves(kin_tree_gpu_packet<LISTS> &p, const kin_tree_gpu &tree, int32_t first,
                             int32_t count, uint32_t waiting)
{
    const int32_t lane = tree_lane_id();
    const int32_t wide = tree_wide<NORM, WIDE, LISTS>(tree);
    const int32_t leaf = first + (lane < count ? lane : 0);
    kin_tree_gpu_group group;
    group.box = tree.boxes + ((int64_t)(1 << tree.height) + leaf) * 2 * wide;
    group.start = __ldg(tree.starts + leaf);
    group.count = (int32_t)__ldg(tree.counts + leaf);
    group.wanted = 0;
    group.nearest = INFINITY;
    group.open = lane < count;
#pragma unroll 1
    for (;;) {
        if (waiting != 0) {
            tree_ask<NORM, WIDE>(p, wide, waiting, group);
        }
        const uint32_t far = group.wanted != 0 ? __float_as_uint(group.nearest) : ~0U;
        const uint32_t least = __reduce_min_sync(TREE_ALL_LANES, far);
        if (least == ~0U) {
            return;
        }
        const int32_t next = __ffs((int)__ballot_sync(TREE_ALL_LANES, far == least)) - 1;
        const float before = p.own.keep;
        tree_leaf<NORM, WIDE>(p, tree, __shfl_sync(TREE_ALL_LANES, group.start, next),
                              __shfl_sync(TREE_ALL_LANES, group.count, next),
                              __shfl_sync(TREE_ALL_LANES, group.wanted, next));
        group.wanted = lane == next ? 0 : group.wanted;
        group.open = group.open && lane != next;
        waiting = __ballot_sync(TREE_ALL_LANES, p.own.keep < before) &
                  __reduce_or_sync(TREE_ALL_LANES, group.wanted);
    }
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

/* Which child comes first, 0 or 1: the one that more of those who want both are nearer to. */
TREE_DEVICE int32_t tree_nearer(uint32_t left, uint32_t right, const float values[2])
{
    const uint32_t both = left & right;
    const uint32_t to_left = __ballot_sync(TREE_ALL_LANES, values[0] < values[1]);
    const uint32_t to_right = __ballot_sync(TREE_ALL_LANES, values[0] > values[1]);
    if (left == 0 || right == 0) {
        return left == 0 ? 1 : 0;
    }
    return __popc(to_right & both) > __popc(to_left & both) ? 1 : 0;
}

template <kin_tree_norm NORM, int WIDE, typename LISTS>
TREE_DEVICE void tree_walk(kin_tree_gpu_packet<LISTS> &p, const kin_tree_gpu &tree)
{
    const int32_t lane = tree_lane_id();
    const int32_t below = min((int32_t)TREE_LEVELS, tree.height);
    const int32_t groups = 1 << (tree.height - below);
    const int32_t wide = tree_wide<NORM, WIDE, LISTS>(tree);
    const float *row = p.rows + lane * kin_tree_gpu_stride<WIDE>::FLOATS;
    uint32_t waiting = __ballot_sync(TREE_ALL_LANES, p.own.keep >= 0.0F);
    int32_t node = 1;
    int32_t top = 0;
    int32_t put_off = 0; /* lane l: the node at level l of the stack */
#pragma unroll 1
    for (;;) {
        while (waiting != 0 && node < groups) {
            float values[2];
            tree_boxes<NORM, WIDE>(tree.boxes + (int64_t)4 * node * wide, wide, row, tree_period(p),
                                   values);
            const uint32_t left = __ballot_sync(TREE_ALL_LANES, values[0] <= p.own.keep);
            const uint32_t right = __ballot_sync(TREE_ALL_LANES, values[1] <= p.own.keep);
            const int32_t first = tree_nearer(left, right, values);
            const float later = first == 0 ? values[1] : values[0];
            waiting = first == 0 ? left : right;
            if ((first == 0 ? right : left) != 0) {
                p.stack[top * KIN_TREE_GPU_PACKET] = (uint16_t)(__float_as_uint(later) >> 16);
                put_off = lane == top ? 2 * node + 1 - first : put_off;
                top += 1;
            }
            node = 2 * node + first;
        }
        if (waiting != 0) {
            tree_leaves<NORM, WIDE>(p, tree, (node - groups) << below, 1 << below, waiting);
        }
        do {
            if (top == 0) {
                return;
            }
            top -= 1;
            node = __shfl_sync(TREE_ALL_LANES, put_off, top);
            const float value = /* of the node's box */
                __uint_as_float((uint32_t)p.stack[top * KIN_TREE_GPU_PACKET] << 16);
            waiting = __ballot_sync(TREE_ALL_LANES, value <= p.own.keep);
        } while (waiting == 0);
    }
}

/* ---- Packets --------------------------------------------------------------------------------- */

/* The lane's row to shared memory, zeros behind it. */
template <int WIDE>
TREE_DEVICE void tree_load(const kin_tree_gpu_walk &job, int64_t place, bool active, float *row)
{
    const int32_t wide = job.tree.wide;
    const float *from = job.tree.values;
    int64_t stride = 1;
    if (active && job.rows != NULL) {
        from = job.rows + (job.order != NULL ? (int64_t)job.order[place] : place) * wide;
    } else if (active) {
        from += place / KIN_TREE_LANES * KIN_TREE_LANES * wide + place % KIN_TREE_LANES;
        stride = KIN_TREE_LANES;
    }
#pragma unroll 4
    for (int32_t c = 0; c < WIDE; c += KIN_TREE_GPU_WIDE) {
        float4 four = {0.0F, 0.0F, 0.0F, 0.0F};
        if (active && c < wide && stride == 1) {
            four = __ldg((const float4 *)(from + c));
        } else if (active && c < wide) {
            four = make_float4(from[c * stride], from[(c + 1) * stride], from[(c + 2) * stride],
                               from[(c + 3) * stride]);
        }
        *(float4 *)(row + c) = four;
    }
}

TREE_DEVICE bool tree_active(const kin_tree_gpu_walk &job, int64_t place)
{
    return place < job.place0 + job.count &&
           (job.rows != NULL || job.tree.ids[place] != KITH_ID_NONE);
}

TREE_DEVICE float tree_row_lost(const kin_tree_gpu_walk &job, int64_t place)
{
    if (job.rows == NULL) {
        return job.tree.most_lost;
    }
    return job.row_lost[job.order != NULL ? (int64_t)job.order[place] : place];
}

TREE_DEVICE void tree_begin(kin_tree_gpu_short &s, char *shared, const kin_tree_gpu_shape &shape,
                            const kin_tree_gpu_lists &, int64_t)
{
    s.lists = (uint64_t *)(shared + shape.rows);
    s.found = (uint64_t *)(shared + shape.rows + shape.list);
}

TREE_DEVICE void tree_begin(kin_tree_gpu_long &s, char *shared, const kin_tree_gpu_shape &shape,
                            const kin_tree_gpu_lists &lists, int64_t packet)
{
    s.words = lists.words + packet * lists.capacity * KIN_TREE_GPU_PACKET;
    s.bins = (uint32_t *)(shared + shape.rows);
    s.squeezed_at = lists.wanted;
}

/* Counts of a place, and of all that the packet did. */
template <typename LISTS>
TREE_DEVICE void tree_report(const kin_tree_gpu_packet<LISTS> &p, const kin_tree_gpu_walk &job,
                             int64_t place)
{
    const bool lost = tree_lost(p.own);
    const uint32_t all_lost = __ballot_sync(TREE_ALL_LANES, lost);
    if (place < job.place0 + job.count) {
        job.lists.counts[place] = p.own.count;
        job.lists.lost[place] = lost ? 1 : 0;
    }
    if (tree_lane_id() == 0) {
        unsigned long long *met = (unsigned long long *)job.met;
        (void)atomicAdd(met, (unsigned long long)p.pairs);
        (void)atomicAdd(met + 1, (unsigned long long)p.leaves);
        if (all_lost != 0) {
            (void)atomicAdd(met + 2, (unsigned long long)__popc(all_lost));
        }
    }
}

template <kin_tree_norm NORM, int WIDE, typename LISTS>
static __global__ void __launch_bounds__(TREE_WARPS *KIN_TREE_GPU_PACKET,
                                         kin_tree_gpu_blocks<WIDE>::MOST)
    walk_kernel(const kin_tree_gpu_walk job, const kin_tree_gpu_shape shape)
{
    extern __shared__ uint4 tree_shared[];
    const int32_t warps = (int32_t)blockDim.x / KIN_TREE_GPU_PACKET;
    const int32_t warp = (int32_t)threadIdx.x / KIN_TREE_GPU_PACKET;
    const int32_t lane = tree_lane_id();
    const int64_t packet = job.place0 / KIN_TREE_GPU_PACKET + (int64_t)blockIdx.x * warps + warp;
    const int64_t place = packet * KIN_TREE_GPU_PACKET + lane;
    if (packet * KIN_TREE_GPU_PACKET >= job.place0 + job.count) {
        return;
    }
    const int32_t bytes = shape.rows + shape.list + shape.found + shape.stack;
    char *shared = (char *)tree_shared + (int64_t)warp * bytes;
    float *rows = (float *)shared;
    const bool active = tree_active(job, place);
    kin_tree_gpu_packet<LISTS> p;
    p.rows = rows;
    p.period = job.tree.period;
    p.stack = (uint16_t *)(shared + bytes - shape.stack) + lane;
    p.pairs = 0;
    p.leaves = 0;
    p.own = tree_lane_of(job.tree, job.lists, active, active ? tree_row_lost(job, place) : 0.0F);
    tree_begin(p.lists, shared, shape, job.lists, packet);
    tree_load<WIDE>(job, place, active, rows + lane * kin_tree_gpu_stride<WIDE>::FLOATS);
    __syncwarp(); /* all rows are there */
    tree_walk<NORM, WIDE>(p, job.tree);
    tree_deliver(p.lists, p.own,
                 job.lists.words + packet * job.lists.capacity * KIN_TREE_GPU_PACKET);
    tree_report(p, job, place);
}

/* ---- Launch ---------------------------------------------------------------------------------- */

template <int WIDE> static kin_tree_gpu_shape tree_shape(const kin_tree_gpu_walk *job, bool is_long)
{
    kin_tree_gpu_shape shape;
    shape.rows = (int32_t)(KIN_TREE_GPU_PACKET * kin_tree_gpu_stride<WIDE>::FLOATS * sizeof(float));
    shape.list = (int32_t)(TREE_BINS * sizeof(uint32_t));
    shape.found = 0;
    if (!is_long) {
        shape.list = (int32_t)(job->lists.capacity * KIN_TREE_GPU_PACKET * sizeof(uint64_t));
        shape.found = (int32_t)(KIN_TREE_GPU_PACKET * sizeof(uint64_t));
    }
    shape.stack = (int32_t)((job->tree.height + 1) * KIN_TREE_GPU_PACKET * sizeof(uint16_t));
    return shape;
}

template <kin_tree_norm NORM, int WIDE, typename LISTS>
static int tree_launch(kin_gpu_stream *stream, const kin_tree_gpu_walk *job,
                       const kin_tree_gpu_shape &shape)
{
    const int64_t bytes = (int64_t)shape.rows + shape.list + shape.found + shape.stack;
    const int64_t packets = (job->count + KIN_TREE_GPU_PACKET - 1) / KIN_TREE_GPU_PACKET;
    int32_t warps = TREE_WARPS;
    while (warps > 1 && warps * bytes > stream->shared_bytes) {
        warps /= 2;
    }
    KIN_CUDA_TRY(kin_gpu_allow_shared(stream, walk_kernel<NORM, WIDE, LISTS>));
    walk_kernel<NORM, WIDE, LISTS>
        <<<(unsigned)((packets + warps - 1) / warps), (unsigned)(warps * KIN_TREE_GPU_PACKET),
           (size_t)(warps * bytes), stream->stream>>>(*job, shape);
    return kin_gpu_launched();
}

/* Ends a function with the launch for WIDE columns, if that is enough. */
#define TREE_LAUNCH_UP_TO(WIDE, NORM, LISTS, is_long)                                       \
    if (job->tree.wide <= (WIDE)) {                                                         \
        return tree_launch<NORM, WIDE, LISTS>(stream, job, tree_shape<WIDE>(job, is_long)); \
    }

/* By kind of list, each in a file of its own: job->count > 0, columns are few enough. */
int kin_tree_gpu_walk_short(kin_gpu_stream *stream, const kin_tree_gpu_walk *job);
int kin_tree_gpu_walk_long(kin_gpu_stream *stream, const kin_tree_gpu_walk *job);
/* Of either kind, in a periodic box. */
int kin_tree_gpu_walk_box(kin_gpu_stream *stream, const kin_tree_gpu_walk *job);

#endif
