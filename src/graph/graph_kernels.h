/* SPDX-License-Identifier: Apache-2.0
 * The kernels of NN-Descent on a GPU, as a table of launches; conventions as in
 * screen/screen_kernels.h: device pointers, no launch waits, 0 or a number of the CUDA runtime.
 *
 * Everything but walks is by position of a set (screen_set_gpu.h), so that neighbours lie near each
 * other in memory. All slots are filled by 64-bit atomic minima (graph/graph_word.h): a round
 * gives the same bytes in every run. */
#ifndef KIN_GRAPH_GPU_KERNELS_H
#define KIN_GRAPH_GPU_KERNELS_H

#include "graph/graph_word.h"
#include "screen/screen_kernels.h"

enum {
    KIN_GRAPH_GPU_MOST_LIST = 1088,  /* entries of a list: k up to 1,024 */
    KIN_GRAPH_GPU_MOST_SAMPLES = 64, /* forward + reverse samples of a kind (NEW, OLD) a point */
    KIN_GRAPH_GPU_NEAR_TILES = 32,
    KIN_GRAPH_GPU_SLOTS = 32,       /* offers that a point takes in a round; a power of two */
    KIN_GRAPH_GPU_MOST_WIDTH = 4096 /* points that a walk keeps */
};

/* Sorted lists without duplicates and without the own position; KIN_GRAPH_EMPTY behind. */
typedef struct kin_graph_gpu_lists {
    int64_t points;
    int32_t length;  /* entries a list, a multiple of 8, <= MOST_LIST */
    uint64_t *words; /* points x length */
    /* The lists that a launch cares for, those of points first .. end - 1; end 0: all. The others
     * are another GPU's of a team, and empty here. */
    int64_t first;
    int64_t end;
} kin_graph_gpu_lists;

/* Behind the last of them. */
KIN_HD int64_t kin_graph_gpu_behind(const kin_graph_gpu_lists *graph)
{
    return graph->end > 0 ? graph->end : graph->points;
}

/* How many they are. */
KIN_HD int64_t kin_graph_gpu_cared(const kin_graph_gpu_lists *graph)
{
    return kin_graph_gpu_behind(graph) - graph->first;
}

/* What is compared: the rounded rows of a set, or rows as given by canonical keys. */
typedef struct kin_graph_gpu_points {
    kin_screen_gpu_set set;   /* rounded != NULL: costs are term_i + term_j - 2 product */
    kin_screen_gpu_rows rows; /* rounded == NULL: costs are canonical keys, rounded to float;
                            position -> row by set.ids */
} kin_graph_gpu_points;

/* The lists of the screen become a graph: of each row the `length` entries of least (cost,
 * position), own position left out, all NEW. */
typedef struct kin_graph_gpu_adopt {
    kin_screen_gpu_lists lists; /* counts may lie beyond the capacity: then what is there */
    kin_screen_gpu_type type;   /* of the costs in lists: orders are kept */
    kin_graph_gpu_lists graph;
} kin_graph_gpu_adopt;

/* Empty places of all lists are filled up to `wanted` entries with positions drawn by (seed,
 * position, place), costs computed, all NEW; lists stay sorted and without duplicates, so some may
 * get fewer where draws meet. given (NULL: none): points x given_length positions to take first,
 * UINT32_MAX: none. */
typedef struct kin_graph_gpu_fill {
    kin_graph_gpu_points points;
    kin_graph_gpu_lists graph;
    int32_t wanted;
    const uint32_t *given;
    int32_t given_length;
    int32_t given_alone; /* 1: nothing is drawn, and in full lists the nearest stay */
    int32_t known;       /* 1: none of the given ones is NEW */
    uint64_t seed;
} kin_graph_gpu_fill;

/* Lists of one graph become the first entries of the other's, longer ones: all NEW, EMPTY behind.
 */
typedef struct kin_graph_gpu_stretch {
    kin_graph_gpu_lists from;
    kin_graph_gpu_lists to;
} kin_graph_gpu_stretch;

/* Where rows that are all positions stand: places[ids[p]] = p. */
typedef struct kin_graph_gpu_place {
    int64_t points;
    const uint32_t *ids; /* position -> row */
    uint32_t *places;    /* row -> position */
} kin_graph_gpu_place;

/* Lists of a graph as positions, for fill: given[p * length + j] is the position of entry j of the
 * list of row ids[p], UINT32_MAX where there is none, or it is p. Of rows that the graph does not
 * have `given` stays as it is. */
typedef struct kin_graph_gpu_give {
    int64_t points;
    const uint32_t *ids;    /* position -> row; UINT32_MAX: none */
    const uint32_t *places; /* row -> position; UINT32_MAX: none */
    const uint32_t *graph;  /* rows x k; ids count from `first`, others than rows are none */
    int64_t first;          /* the graph has rows first .. first + rows - 1 */
    int64_t rows;
    int64_t k;
    int32_t length; /* entries of a list that are taken */
    uint32_t *given;
} kin_graph_gpu_give;

/* Lists keep their nearer halves: of n entries the last n / 2 go to `aside`, in blocks of SLOTS
 * words a point, word i of block b of point p at aside[(b * points + p) * SLOTS + i]; EMPTY behind
 * them, and in the list. */
typedef struct kin_graph_gpu_halve {
    kin_graph_gpu_lists graph;
    uint64_t *aside; /* blocks x points x SLOTS */
    int32_t blocks;  /* of a point; enough for half a list */
} kin_graph_gpu_halve;

/* Positions of the other set, for fill: given[p * length + j] is where that row stands which is
 * drawn for the free place j of the list of p (kin_graph_row_across); UINT32_MAX where there is
 * none, or its position is one of the own set, too. */
typedef struct kin_graph_gpu_cross {
    kin_graph_gpu_lists graph;
    const uint32_t *ids;    /* position -> row */
    const uint32_t *places; /* row -> position; UINT32_MAX: none */
    kin_graph_split sets;
    uint64_t seed;
    uint32_t *given; /* points x graph.length */
} kin_graph_gpu_cross;

/* Rows whose Euclidean distances stand for another metric (graph_relative_gpu.c). */
typedef enum kin_graph_gpu_relation {
    KIN_GRAPH_GPU_AS_GIVEN = 0,
    KIN_GRAPH_GPU_ROOTS,      /* the root of each value; values are not negative */
    KIN_GRAPH_GPU_SHARES,     /* the same, the row then of length 1 */
    KIN_GRAPH_GPU_PATTERNS,   /* 1 where a value is not 0, the row then of length 1 */
    KIN_GRAPH_GPU_DIRECTIONS, /* the row of length 1 */
    KIN_GRAPH_GPU_LOGS        /* ln of each value, -100 at least; values are not negative */
} kin_graph_gpu_relation;

/* related (or NULL): rows x cols floats; values beyond 2^100 become that. lengths (or NULL): what
 * the sort of screen_kernels.h takes, the longest first: the low half of a word falls as the sum of
 * squares before the row was made of length 1, rounded to float, rises. */
typedef struct kin_graph_gpu_relate {
    kin_screen_gpu_rows rows;
    kin_graph_gpu_relation relation;
    float *related;
    uint64_t *lengths;
} kin_graph_gpu_relate;

/* Rows by number, one behind the other. */
typedef struct kin_graph_gpu_pick {
    const void *from;
    int64_t stride_bytes;
    int64_t bytes; /* of a row */
    const uint32_t *rows;
    int64_t count;
    void *to; /* count x bytes */
} kin_graph_gpu_pick;

/* Samples of a round: of each kind `forward` places for entries of the list and `reverse` slots for
 * points whose lists sampled this one. Empty: KIN_GRAPH_EMPTY in slots, UINT32_MAX in ids. */
typedef struct kin_graph_gpu_samples {
    int32_t forward; /* p; forward + reverse <= MOST_SAMPLES */
    int32_t reverse;
    uint64_t *new_slots; /* points x reverse, filled with 0xff before */
    uint64_t *old_slots;
    uint32_t *new_ids; /* points x (forward + reverse): what collect made: distinct, ascending, own
                          position not among them */
    uint32_t *old_ids; /* the same, none of new_ids among them */
    int32_t *new_counts;
    int32_t *old_counts;
} kin_graph_gpu_samples;

/* First half: the first p NEW and the first p OLD of each list go to new_ids and old_ids (and
 * counts); the NEW ones become OLD in the list; each sampled v gets this position as an offer for
 * the slot kin_graph_slot(hash, reverse) of its own new_slots or old_slots, hash and priority
 * from kin_graph_hash(salt, position). Second half (collect): slots join ids; sorted, without
 * duplicates. */
typedef struct kin_graph_gpu_sample {
    kin_graph_gpu_lists graph;
    kin_graph_gpu_samples samples;
    uint64_t salt; /* seed and round */
} kin_graph_gpu_sample;

/* Cross-matching of each point's samples, NEW x NEW and NEW x OLD (paper, section 4.2), and offers
 * (4.3): to each NEW sample the nearest other NEW and the nearest OLD one, to each OLD sample the
 * nearest NEW one; with all: every pair to both. An offer w to u goes to offers[u * SLOTS +
 * kin_graph_gpu_slot(w)] by atomic minimum, unless w is not below the last word of u's list (bit
 * `new` set in w). *evaluations, added to: costs. */
typedef struct kin_graph_gpu_join {
    kin_graph_gpu_points points;
    kin_graph_gpu_lists graph;
    kin_graph_gpu_samples samples;
    uint64_t *offers; /* points x SLOTS, filled with 0xff before */
    int32_t all;
    uint64_t salt;         /* seed and round: other positions share a slot in each round */
    uint64_t *evaluations; /* one number */
    const uint64_t *lasts; /* points: the last words of all lists; NULL: they are in the lists */
    int64_t split;         /* positions whose rows (points.set.ids) are below are one set, the
                              others another, and costs within a set are no costs: neither offered
                              nor counted. 0: all meet */
} kin_graph_gpu_join;

/* The slot in which a position is offered. Candidates of a point stand near each other, often side
 * by side, and these never share one. Others may, and the nearer one, which lists may know already,
 * then hides the other: in another round it does not. */
KIN_HD uint32_t kin_graph_gpu_slot(uint64_t salt, uint32_t position)
{
    const uint32_t turn = kin_graph_hash(salt, position / KIN_GRAPH_GPU_SLOTS);
    return (position + turn) % KIN_GRAPH_GPU_SLOTS;
}

/* Offers go to lists: sorted, without duplicates (a position that is there stays as it is).
 * *updates, added to: entries that came to stand among the first `counted` of their lists. Offers
 * are reset to EMPTY. */
typedef struct kin_graph_gpu_merge {
    kin_graph_gpu_lists graph;
    uint64_t *offers;
    int32_t counted;   /* at most the length of a list */
    uint64_t *updates; /* one number */
} kin_graph_gpu_merge;

/* For each tile of a set the distance of centres within which `count` other tiles' centres are (its
 * count-th nearest; all if there are fewer), as `far` of worst[tile], `integer` its square rounded
 * up where the frame's bound is of integers. So that kin_screen_gpu_plan with radii of zero plans
 * near tiles. coarse: the groups whose tiles are looked at; then a tile that finds fewer has +inf.
 */
typedef struct kin_graph_gpu_near {
    kin_screen_gpu_set set; /* with centres */
    kin_screen_gpu_coarse coarse;
    int64_t count;
    kin_screen_gpu_worst *worst; /* padded / 128 */
    int64_t first; /* of tiles first .. end - 1 at least; end 0: of all. Both multiples of */
    int64_t end;   /* NEAR_TILES, or the end of all */
} kin_graph_gpu_near;

/* Of each `tiles` tiles the mean of centres. */
typedef struct kin_graph_gpu_groups {
    kin_screen_gpu_set set; /* with centres */
    int32_t tiles;
    float *centres; /* groups x cols */
} kin_graph_gpu_groups;

/* lasts[point]: the last word of each list that the graph cares for. */
typedef struct kin_graph_gpu_ends {
    kin_graph_gpu_lists graph;
    uint64_t *lasts; /* points */
} kin_graph_gpu_ends;

/* words[i] becomes the lesser one of it and others[i]: what two GPUs left in the same slots. */
typedef struct kin_graph_gpu_least {
    uint64_t *words;
    const uint64_t *others;
    int64_t count;
} kin_graph_gpu_least;

/* A word of a slot on its way to another GPU. */
typedef struct kin_graph_gpu_sent {
    uint64_t place; /* of all slots */
    uint64_t word;
} kin_graph_gpu_sent;

/* Slots that are not empty, of points of other parts: those of part p from p * room on, *counts[p]
 * of them, cleared before; what is beyond room is counted, not written. bounds: the slots of part p
 * are bounds[p] .. bounds[p + 1] - 1, bounds multiples of 32 but for the last. */
typedef struct kin_graph_gpu_gather {
    const uint64_t *words;
    int32_t part;
    int32_t parts;
    int64_t bounds[KIN_SCREEN_GPU_MOST_PARTS + 1];
    int64_t room;
    kin_graph_gpu_sent *sent; /* parts x room */
    uint64_t *counts;         /* parts */
} kin_graph_gpu_gather;

/* What came to be least of each of them; all places differ. */
typedef struct kin_graph_gpu_settle {
    uint64_t *words;
    const kin_graph_gpu_sent *sent;
    int64_t count;
} kin_graph_gpu_settle;

/* keys[i * length + j]: the canonical key of control i and entry j of its list, +inf where it is
 * empty. */
typedef struct kin_graph_gpu_keys {
    kin_screen_gpu_rows rows;
    const uint32_t *ids; /* position -> row */
    kin_graph_gpu_lists graph;
    const uint32_t *controls; /* positions */
    int64_t control_count;
    double *keys;
    uint32_t *entries; /* rows of the entries, KITH_ID_NONE where empty */
} kin_graph_gpu_keys;

/* The graph as lists of the screen, for screen->rescore: words order << 32 | position. */
typedef struct kin_graph_gpu_hand {
    kin_graph_gpu_lists graph;
    kin_screen_gpu_lists lists; /* capacity >= length */
} kin_graph_gpu_hand;

/* Edges of a graph both ways, and without the own row: of each row the ids of its list, then rows
 * whose lists name it. These go to slots: what meets in a slot leaves the one that stands nearer in
 * its list there, the others try one more slot. KITH_ID_NONE behind. */
typedef struct kin_graph_gpu_link {
    int64_t points;
    int32_t k;             /* of the graph */
    const uint32_t *graph; /* points x k; KITH_ID_NONE: none */
    uint64_t *slots;       /* points x k, filled with 0xff before */
    uint32_t *links;       /* points x 2 k */
} kin_graph_gpu_link;

/* Weakly connected parts of a graph. words, *count of them, in any order: UINT32_MAX - rows of the
 * part << 32 | its lowest row. */
typedef struct kin_graph_gpu_parts {
    int64_t points;
    int32_t k;
    const uint32_t *graph; /* points x k; KITH_ID_NONE: none */
    uint32_t *roots;       /* points */
    uint32_t *sizes;       /* points, cleared before */
    uint64_t *words;       /* points: room */
    uint32_t *count;       /* one number, cleared before */
} kin_graph_gpu_parts;

/* Best-first walks (graph/graph_walk.h), by rows: of queries query0 .. query0 + count - 1 the k
 * first of those that a walk of `width` kept, in the order (canonical key, id). The same pairs in
 * every run, whatever other queries there are. */
typedef struct kin_graph_gpu_walk {
    kin_screen_gpu_rows points; /* below KIN_GRAPH_MOST_POINTS */
    kin_screen_gpu_rows queries;
    int64_t query0;
    int64_t count;
    const uint32_t *links; /* points x most; KITH_ID_NONE: none */
    int32_t most;
    const uint32_t *entries; /* rows where walks begin; some may be equal */
    int32_t entry_count;
    int32_t width; /* >= k, <= MOST_WIDTH */
    int32_t k;
    kin_screen_gpu_pair *pairs; /* count x k */
    int32_t *found;             /* count: pairs in use, fewer than k where a walk met no more */
    uint64_t *evaluations;      /* one number, added to: keys that led */
} kin_graph_gpu_walk;

/* The nearest of a sample: a position that chance draws of each `step` that stand together, `count`
 * of them (what comes again every few rows would meet even steps always or never), each chunk of
 * which tells every query its nearest one, by cost without the query's own term; where costs are
 * products, by the product with a row of the same direction and length 1. Bytes of floats are those
 * of this launch alone. */
typedef struct kin_graph_gpu_lead {
    kin_screen_gpu_set points;
    kin_screen_gpu_set queries; /* in the frame of the points */
    uint64_t salt;
    int64_t step;
    int64_t count; /* times step: no more than the points */
    int32_t chunk; /* places of one, a multiple of KIN_GRAPH_GPU_LEADS */
    int32_t chunks;
    uint64_t *words; /* queries.points x chunks, by position */
} kin_graph_gpu_lead;
KIN_HD int64_t kin_graph_gpu_lead_position(const kin_graph_gpu_lead *job, int64_t place)
{
    const uint32_t hash = kin_graph_hash(job->salt, (uint32_t)place);
    return place * job->step + (int64_t)kin_graph_slot(hash, (uint32_t)job->step);
}
enum { KIN_GRAPH_GPU_LEADS = 64 }; /* and so many chunks at most */

/* Walks by positions, from the KIN_GRAPH_GPU_ENTRIES nearest that queries were led to, and where
 * costs are products from the links of the KIN_GRAPH_GPU_ALIKE first, too, by costs of rounded
 * rows: the first of what they kept, `capacity` of a list at most, k of which the exact
 * engine's canonical keys shall choose. The same lists in every run, whatever other queries there
 * are. */
typedef struct kin_graph_gpu_follow {
    kin_screen_gpu_set points; /* below KIN_GRAPH_MOST_POINTS */
    kin_screen_gpu_set queries;
    const uint32_t *links; /* points x most, positions; KITH_ID_NONE: none */
    int32_t most;
    const uint64_t *leads;      /* queries.points x lead_count */
    int32_t lead_count;         /* <= KIN_GRAPH_GPU_LEADS */
    int32_t width;              /* >= lists.capacity, <= MOST_WIDTH */
    kin_screen_gpu_lists lists; /* words and counts, by position of the query */
    uint64_t *evaluations;      /* one number, added to: costs that led */
} kin_graph_gpu_follow;
enum { KIN_GRAPH_GPU_ENTRIES = 32, KIN_GRAPH_GPU_ALIKE = 16 };

/* A row a launch: its name, and the struct that it takes. */
#define KIN_GRAPH_GPU_LAUNCHES(X) \
    X(near_tiles, near)           \
    X(group_centres, groups)      \
    X(adopt, adopt)               \
    X(fill, fill)                 \
    X(place, place)               \
    X(give, give)                 \
    X(halve, halve)               \
    X(cross, cross)               \
    X(relate, relate)             \
    X(pick, pick)                 \
    X(stretch, stretch)           \
    X(sample, sample)             \
    X(collect, sample)            \
    X(join, join)                 \
    X(merge, merge)               \
    X(ends, ends)                 \
    X(least, least)               \
    X(gather, gather)             \
    X(settle, settle)             \
    X(keys, keys)                 \
    X(hand, hand)                 \
    X(link, link)                 \
    X(parts, parts)               \
    X(walk, walk)                 \
    X(lead, lead)                 \
    X(follow, follow)

typedef struct kin_graph_gpu_kernels {
#define KIN_ENTRY(name, type) int (*name)(kin_gpu_stream * stream, const kin_graph_gpu_##type *job);
    KIN_GRAPH_GPU_LAUNCHES(KIN_ENTRY)
#undef KIN_ENTRY
} kin_graph_gpu_kernels;

#ifdef __CUDACC__
extern "C" {
#define KIN_ENTRY(name, type) \
    int kin_graph_gpu_launch_##name(kin_gpu_stream *stream, const kin_graph_gpu_##type *job);
KIN_GRAPH_GPU_LAUNCHES(KIN_ENTRY)
#undef KIN_ENTRY
}
#endif

#endif
