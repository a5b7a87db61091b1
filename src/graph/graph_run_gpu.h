/* SPDX-License-Identifier: Apache-2.0
 * One descent on a GPU: what its parts share.
 *
 *   position   a place in the prepared set (metrics that are screened: groups of equal rows, near
 *              ones together), or the row itself (all others)
 */
#ifndef KIN_GRAPH_GPU_RUN_H
#define KIN_GRAPH_GPU_RUN_H

#include "graph/graph_gpu.h"
#include "graph/graph_kernels.h"

/* What kernels count in a round, one block of device memory. */
typedef struct kin_graph_gpu_counters {
    uint64_t updates;
    uint64_t evaluations;
} kin_graph_gpu_counters;

/* Lists that get canonical keys at a time (graph_control_gpu.c). */
typedef struct kin_graph_gpu_keying {
    int64_t rows; /* at most, of so many places at most */
    int64_t length;
    const char *what;    /* they are of, when memory is short */
    uint32_t *positions; /* rows */
    double *keys;        /* rows x length */
    uint32_t *entries;   /* rows x length; NONE where a list ends */
    struct {
        uint32_t *positions;
        double *keys;
        uint32_t *entries;
    } on_device;
} kin_graph_gpu_keying;

/* Rows whose lists are looked at (graph_control_gpu.c). */
typedef struct kin_graph_gpu_watch {
    kin_hold hold;
    kin_answer answer;
    int64_t count;    /* controls that have a position: the others are degenerate rows */
    uint32_t *which;  /* count: index of the control */
    uint32_t *firsts; /* count: the row that stands for it */
    double *own;      /* count: its key to itself */
    kin_pair *list;   /* room for one list and itself */
    kin_graph_gpu_keying keying;
} kin_graph_gpu_watch;

/* What is this GPU's where several make one graph (graph_share_gpu.c). */
typedef struct kin_graph_gpu_share {
    int32_t part;
    int32_t parts; /* 0: it is alone */
    int64_t firsts[KIN_GPU_TEAM_MOST + 1];
    uint64_t *lasts; /* device: the last words of all lists */
    uint64_t *got;   /* device: a piece of others' slots */
    uint64_t got_words;
    kin_graph_gpu_sent *sent; /* device: parts x room; NULL: slots go as a whole */
    int64_t room;
    uint64_t *counts; /* device: by part */
} kin_graph_gpu_share;

typedef struct kin_graph_gpu_run {
    kin_screen_gpu_device on;
    kin_hold *hold; /* what lives as long as it does */
    const kin_graph_gpu_kernels *kernels;
    kin_exact_gpu_corpus *corpus;
    const kin_graph_request *request; /* without zeros */
    const kith_neighbors *out;
    bool screened;
    int64_t rows;
    int64_t count; /* positions */
    const kin_groups *groups;
    kin_graph_gpu_points points;
    kin_graph_gpu_lists graph; /* ours */
    uint64_t *aside;           /* ours: farther halves of lists (graph_round_gpu.c); NULL: none */
    int64_t wanted;            /* other positions that a list must have: k, or all there are */
    int32_t candidates;        /* of each kind that a list samples; they rise as lists do */
    kin_graph_gpu_watch watch;
    kin_graph_gpu_share share;
    double near_share; /* of all pairs that the start looks at, about */
    double evaluations;
    int64_t start_ns;
} kin_graph_gpu_run;

/* Every row is a position, and no list has its own row. */
static inline bool kin_graph_gpu_is_plain(const kin_groups *groups)
{
    return groups->next == NULL && groups->degenerate == 0;
}

/* ---- Sizes within the room that a device has (graph_layout_gpu.c) ---------------------------- */

enum {
    KIN_GRAPH_GPU_MOST_K = 1024,
    KIN_GRAPH_GPU_PAIRS = 4096,  /* whose keys are computed at a time, */
    KIN_GRAPH_GPU_PAIR_LIST = 8, /* as lists of so many places: the least there is */
    KIN_GRAPH_GPU_SMALL = 4096   /* rows: all pairs take less time than launches do */
};

/* Least entries that the start's screen proves, the own one among them. */
int64_t kin_graph_gpu_start_k(const kin_graph_request *request);
/* Entries of a list of the start that keeps k: as many as keep it from losing any, fewer where
 * there is no room. */
int32_t kin_graph_gpu_capacity(int64_t rows, int64_t k, uint64_t room);
/* What rounds of lists of one length take, in device memory. */
typedef struct kin_graph_gpu_room {
    int64_t points;
    int32_t candidates;
    kin_graph_gpu_samples samples;
    uint64_t *words; /* slots of samples, then offers */
    uint64_t bytes;  /* of them */
    kin_graph_gpu_counters *counters;
} kin_graph_gpu_room;
void kin_graph_gpu_room_name(kin_layout *layout, void *job);
/* Of so many positions, beside the points: the graph, and what rounds take; or what rounds and the
 * end take, whichever is more. */
uint64_t kin_graph_gpu_rounds_bytes(const kin_graph_request *request, int64_t positions);
uint64_t kin_graph_gpu_rest_bytes(const kin_graph_request *request, int64_t positions);
/* Rows whose lists get canonical keys at a time, where there is no screen. */
int64_t kin_graph_gpu_key_rows(int64_t rows, int32_t length);
/* Samples forward and reverse of a kind, of so many candidates. */
void kin_graph_gpu_sample_sizes(int32_t candidates, int32_t *forward, int32_t *reverse);

/* ---- Relatives (graph_relative_gpu.c) -------------------------------------------------------- */

/* The start of metrics whose near points no screen finds (graph/graph_start.h has the
 * processor's). Each has a relative, the Euclidean distance of other rows, and near under one is
 * mostly near under the other:
 *
 *   chi2                     |sqrt a - sqrt b|
 *   jaccard                  of the patterns, zeros and ones, each of length 1
 *   manhattan, chebyshev     of the rows as they are
 *   inner_product            of rows of length 1; and who is long is near to everybody, so that the
 *                            longest rows are looked at by all
 *   kl                       the same of sqrt a
 *
 * Two graphs that are made one have their own start, but of these two metrics all look at the
 * longest rows of both, too: neither graph knows those of the other. */

/* A graph by rows, in device memory. */
typedef struct kin_graph_gpu_found {
    uint32_t *ids; /* rows x k; NULL: none */
    int64_t k;
    uint32_t *of; /* what ids count: rows by number; NULL: rows themselves */
    int64_t of_count;
} kin_graph_gpu_found;

typedef struct kin_graph_gpu_relatives {
    kin_graph_gpu_found near;  /* under the relative */
    kin_graph_gpu_found among; /* the longest rows */
    double evaluations;
} kin_graph_gpu_relatives;

/* Whether the request, without zeros, begins so. */
bool kin_graph_gpu_is_related(const kin_graph_request *request);
/* What this engine is asked under the relative. */
typedef struct kin_graph_gpu_relative {
    kin_graph_request request;
    kith_matrix points; /* related rows; without data where they are not the rows as given */
    uint64_t own_bytes; /* device memory of related rows that are not */
} kin_graph_gpu_relative;
kin_graph_gpu_relative kin_graph_gpu_relative_of(const kith_matrix *points,
                                                 const kin_graph_request *request);
/* relatives: zero; freed by its owner, also after an error. Room for relatives->near;
 * hold: of near->points, where they are not the rows as given. */
kith_status kin_graph_gpu_relate_points(kin_graph_gpu_run *run, kin_graph_gpu_relative *near,
                                        kin_graph_gpu_relatives *relatives, kin_hold *hold);
/* relatives->among, where rows are looked for that are near to everybody; else nothing. */
kith_status kin_graph_gpu_search_longest(kin_graph_gpu_run *run,
                                         kin_graph_gpu_relatives *relatives);

/* Device memory beside points and graph. nearing: what the graph under the relative takes; others:
 * what the rest of the start does. */
uint64_t kin_graph_gpu_relatives_bytes(const kith_matrix *points, const kin_graph_request *request,
                                       uint64_t nearing, uint64_t others);

/* ---- The screen (graph_screen_gpu.c) --------------------------------------------------------- */

/* What tells near tiles from others (graph_screen_gpu.c). */
typedef struct kin_graph_gpu_nearness {
    kin_hold hold;
    kin_screen_gpu_worst *worst;  /* of each tile: how far its near ones are */
    float *radii;                 /* zeros: balls are points */
    kin_screen_gpu_coarse coarse; /* where near tiles are looked for; none: everywhere */
    uint32_t *groups;
    uint32_t *counts;
} kin_graph_gpu_nearness;

/* Makes graph->words of its length: empty lists. */
kith_status kin_graph_gpu_make_empty(const kin_graph_gpu_run *run, kin_graph_gpu_lists *graph);
/* Makes graph->words of its length and fills them with what the screen finds, all NEW. */
kith_status kin_graph_gpu_screen(kin_graph_gpu_run *run, kin_graph_gpu_lists *graph);
/* Two graphs are made one by what the screen finds near. */
bool kin_graph_gpu_looks_across(const kin_graph_gpu_run *run);
/* Then, where there are near tiles: lists have what they need, and none is drawn by chance. */
bool kin_graph_gpu_knows_reach(const kin_graph_gpu_run *run);
/* Empty places of the run's lists; job: what is wanted and given. */
kith_status kin_graph_gpu_fill_up(const kin_graph_gpu_run *run, kin_graph_gpu_fill job);

/* ---- Start (graph_start_gpu.c) --------------------------------------------------------------- */

/* Makes run->graph and fills it: every list has `length` entries, or nearly. Waits. */
kith_status kin_graph_gpu_begin(kin_graph_gpu_run *run, kin_graph_start start,
                                const kin_graph_gpu_relatives *relatives);

/* Device room for places, and what they are: row -> position, UINT32_MAX for none. The caller's,
 * also after an error. */
kith_status kin_graph_gpu_place_rows(kin_graph_gpu_run *run, kin_hold *hold, uint32_t **places);

/* ---- A merge as published (graph_round_gpu.c): nothing where the request has none ------------ */

/* Blocks of SLOTS words that hold half a list. */
int32_t kin_graph_gpu_aside_blocks(int32_t length);
/* After the lists of both graphs: their farther halves go, points of the other set come. Waits. */
kith_status kin_graph_gpu_ggm_begin(kin_graph_gpu_run *run);
/* After the last round: what was put aside comes back, and the judge looks once more. */
kith_status kin_graph_gpu_ggm_end(kin_graph_gpu_run *run, const kin_graph_outcome *outcome);

/* ---- Several GPUs (graph_share_gpu.c): nothing where there is one ---------------------------- */

/* What each holds beside the rest, of so many points. */
uint64_t kin_graph_gpu_share_bytes(int64_t points, int32_t parts);
/* After count and graph are known: whose positions they are. */
kith_status kin_graph_gpu_share_make(kin_graph_gpu_run *run);
/* Slots of so many words a point: the least that any GPU left, where the point is owned. Waits. */
kith_status kin_graph_gpu_share_least(const kin_graph_gpu_run *run, uint64_t *words,
                                      int64_t a_point);
/* What the first member found of all rows, to all. Waits. */
kith_status kin_graph_gpu_share_ids(const kin_graph_gpu_run *run, const kin_graph_gpu_found *found);

/* ---- Rounding (graph_start_gpu.c) ------------------------------------------------------------ */

/* Where rounded rows cannot tell neighbours apart, points.set.rounded becomes NULL and the graph
 * has costs of rows as given from here on. Waits. */
kith_status kin_graph_gpu_refine(kin_graph_gpu_run *run);

/* ---- Rounds (graph_round_gpu.c) -------------------------------------------------------------- */

/* All rounds, judged in between, until one of the request's reasons to end. */
kith_status kin_graph_gpu_rounds(kin_graph_gpu_run *run, kin_graph_outcome *outcome);

/* ---- Longer lists (graph_round_gpu.c) -------------------------------------------------------- */

/* The entries of a list that lengthens so many times, each time to twice as many. */
int32_t kin_graph_gpu_longest(int32_t length, int32_t lengthenings);

/* ---- Control (graph_control_gpu.c) ----------------------------------------------------------- */

/* The true keys, once, and what looking takes. Nothing where nobody asks. */
kith_status kin_graph_gpu_watch_make(kin_graph_gpu_run *run);
/* Where controls stand, once positions will not change any more. */
kith_status kin_graph_gpu_watch_place(kin_graph_gpu_run *run);
/* Looks, and asks the caller; round->phi is filled. */
kith_status kin_graph_gpu_judge(kin_graph_gpu_run *run, kin_graph_round *round,
                                kin_graph_verdict *verdict);

/* ---- Keys (graph_control_gpu.c) -------------------------------------------------------------- */

/* Room for rows and length of k, which are set as `what` is. */
kith_status kin_graph_gpu_keying_make(kin_hold *hold, kin_gpu *gpu, kin_graph_gpu_keying *k);
/* Keys and entries of the lists of `count` positions of k, which the caller wrote. ids: of the
 * graph's positions, in device memory. Waits. */
kith_status kin_graph_gpu_key_lists(const kin_graph_gpu_run *run, const kin_graph_gpu_keying *k,
                                    const uint32_t *ids, const kin_graph_gpu_lists *graph,
                                    int64_t count);
/* Keys of positions to themselves. rows: their rows. */
kith_status kin_graph_gpu_own_keys(const kin_graph_gpu_run *run, const uint32_t *rows,
                                   int64_t count, double *keys);

/* ---- End (graph_finish_gpu.c) ---------------------------------------------------------------- */

/* Canonical answers of the graph's lists. */
kith_status kin_graph_gpu_finish(kin_graph_gpu_run *run);

#endif
