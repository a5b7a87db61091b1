/* SPDX-License-Identifier: Apache-2.0
 * The certified screen: every pair of two sets, or of one set with itself, through the matrix unit;
 * what survives its limits lands in candidate lists. */
#ifndef KIN_SCREEN_H
#define KIN_SCREEN_H

#include "screen/screen_list.h"

#include <pthread.h>

/* One end of the pairs. Locks and blocks are the screen's. */
typedef struct kin_meet_side {
    const kin_set *set;
    /* its shadows (screen_corpus.h), or NULL. Where the set's rows lie as lines, pairs whose
     * shadows pass are looked at one by one; where they lie in panels, tiles that have such a pair
     * are. */
    const kin_set *cast;
    /* shadows of fewer columns, or NULL: only rows that have a pair that passes them with some
     * panel meet it in `cast`; where the set's rows lie as lines alone */
    const kin_set *sieve;
    kin_lists *lists;       /* candidates of the other end for each row; NULL: not wanted */
    const kin_cover *cover; /* bounds of blocks, to skip them; NULL: nothing is skipped */
    pthread_mutex_t *locks; /* one a block */
    int64_t blocks;
} kin_meet_side;

typedef struct kin_screen {
    kin_meet_side row;
    kin_meet_side point; /* of a graph set and lists are those of the rows: each product serves both
                            ends */
    int64_t block;       /* positions of a block: kin_screen_block() */
    int64_t pairs;       /* out: pairs there were to screen */
    int64_t pairs_skipped; /* out: pairs in tiles that were skipped by their bounds */
    int64_t pairs_looked;  /* out: pairs whose shadows passed, or of tiles that have one */
    int64_t keys_computed; /* out: canonical keys that full lists asked for */
} kin_screen;

/* Positions of a block, a multiple of KIN_BLOCK_STEP: two blocks of rounded rows and their lists
 * fit in the second-level cache. */
int64_t kin_screen_block(const kin_frame *frame);
/* The same for a graph of so many points: where there are blocks enough for all threads they are
 * longer, since limits and lists are read once for each pair of blocks. */
int64_t kin_screen_graph_block(const kin_frame *frame, int64_t points);
/* What kin_screen_run holds; sets, lists and covers may be shapes. */
void kin_screen_plan(kin_layout *plan, kin_screen *shape, int32_t threads);

kith_status kin_screen_run(kith_ctx *ctx, kin_screen *screen);

/* ---- Two blocks meet (screen_meet.c) --------------------------------------------------------- */

/* Their pairs through the unit, what passes its limits to the lists of both, the limits read again.
 * The screen deals out which blocks meet. */

struct kin_meet_work;

/* What all meetings have in common. */
typedef struct kin_meet {
    const kin_frame *frame; /* of the sets */
    kin_meet_side row;
    kin_meet_side point;
    bool graph;
    int64_t block;
    const kin_round_ops *ops;
    /* NULL: what passes goes to the lists. Else it is taken from the log of the rows, of the blocks
     * that begin at these positions, and no limit of the rows ever changes. */
    kith_status (*take)(void *arg, struct kin_meet_work *work, int64_t row_first,
                        int64_t point_first);
    void *take_arg;
} kin_meet;

/* Panels a call of the kernel; pairs a row that a log takes before it is delivered: few, so that
 * limits tighten soon, and more where a row is looked at with all of them. */
enum { KIN_MEET_PANELS = 2, KIN_MEET_PAIRS_A_ROW = 1, KIN_MEET_LOOKS_A_ROW = 8 };

/* Pairs whose shadows pass are looked at singly; or whole tiles; those pairs after a sieve. */
static inline bool kin_meet_looks(const kin_meet *r)
{
    return r->row.cast != NULL && r->row.set->line > 0;
}

static inline bool kin_meet_has_gate(const kin_meet *r)
{
    return r->row.cast != NULL && r->row.set->line == 0;
}

static inline bool kin_meet_has_sieve(const kin_meet *r)
{
    return kin_meet_looks(r) && r->row.sieve != NULL;
}

/* A block of one side: limits as the kernel reads them. */
typedef struct kin_meet_limits {
    double *reach;
    kin_word *limit;
    kin_word *half;
    kin_word *panel_half;
} kin_meet_limits;

/* fp32 rows by distance have a norm of at least so many times what they have lost (screen_set.c).
 */
#define KIN_MEET_NORM 0x1p11

/* What a pair's limit takes from one of its ends, and what is left of it for the reach of a row
 * (docs/notes/numerics.md, "Limits of a block"):
 *     (A + l)^2 + e (n + m)^2 <= (1 + 2^-20) A^2  +  2 e n^2  +  2 e m^2 + (1 + 2^20) l^2 */
static inline double kin_meet_slack(double kappa, kin_bound_row row)
{
    const double error = 2.0 * (kappa + 0x1p-20) * row.norm * row.norm;
    return (error + (1.0 + 0x1p20) * row.lost * row.lost) * (KIN_BOUND_WIDEN + 0x1p-26);
}

static inline double kin_meet_even_limit(double reach, kin_bound_row row)
{
    const double far = (reach + row.lost) * KIN_BOUND_WIDEN;
    return far * far * (1.0 + 0x1p-19);
}

/* Two blocks, for the unit: what the bound of a pair takes from either end stands in that end's own
 * term (docs/notes/numerics.md, "Limits of a block"). */
typedef struct kin_meet_even {
    double *row_slack;
    double *point_slack;
    kin_word *half_term;
    kin_word *row_term;
    kin_word *start;
} kin_meet_even;

/* A block of a set: positions, and those with its padding. */
typedef struct kin_even_block {
    const kin_set *set;
    int64_t first;
    int64_t count;
    int64_t padded;
} kin_even_block;

/* The arrays, for blocks of so many positions. */
void kin_even_name(kin_layout *layout, int64_t block, kin_meet_even *even);
/* Fills them where this is a meeting of fp32 rows by distance, and says whether it is. */
bool kin_even_make(const kin_even_block *rows, const kin_even_block *points,
                   const kin_meet_even *even);

/* A thread's room for pairs that are looked at in full. */
typedef struct kin_look {
    int64_t most;      /* pairs of a log */
    int32_t *begin;    /* block + 1: where the pairs of a row begin, by row */
    uint32_t *pairs;   /* most: a log's, row by row */
    uint16_t *which;   /* most: their points */
    kin_word *product; /* most */
} kin_look;

/* Two blocks of sets of one frame, whose rows lie as lines. */
typedef struct kin_look_blocks {
    const kin_set *rows;
    const kin_set *points;
    int64_t first_row;
    int64_t first_point;
    int64_t block; /* positions of a block, at most */
} kin_look_blocks;

/* The arrays, for blocks of so many positions and logs of so many pairs. */
void kin_look_name(kin_layout *layout, int64_t block, int64_t most, kin_look *look);
/* Puts the full costs into a log, whose pairs then stand row by row; padding is left out. */
void kin_look_costs(const kin_look *look, const kin_look_blocks *at, kin_tile_log *log);

/* A thread's room for what is screened first: tiles of shadows, or a sieve. */
typedef struct kin_gate {
    uint32_t *rows; /* shadows of the block for the unit, */
    int64_t packed; /* 1 + its number */
    kin_meet_limits row;
    kin_meet_limits point;
    uint16_t *pairs;  /* of a sieve, those that passed, by row and panel; */
    uint16_t *which;  /* the rows of one panel that have some */
    uint64_t *strips; /* kin_tile_job's */
    int64_t tests;    /* of strips, lately, */
    int64_t passed;   /* and how many passed */
    int64_t rest;     /* meetings without, this time, */
    int64_t resting;  /* and how many of them are left */
} kin_gate;

/* A thread's room, and what it counts. */
typedef struct kin_meet_work {
    KIN_APART uint32_t *rows; /* the block for the unit, */
    int64_t packed;           /* 1 + its number, */
    bool packed_cast;         /* the rows or their shadows */
    uint32_t *panels;         /* of sets of lines */
    kin_word *test;
    kin_meet_limits row;
    kin_meet_limits point;
    kin_meet_even even;
    kin_tile_log row_log;
    kin_tile_log point_log;
    kin_look look;
    kin_gate gate;
    kin_list_scratch scratch;
    int64_t pairs;
    int64_t skipped;
    int64_t looked;         /* pairs whose shadows passed, or of tiles that have one */
    double *row_tile_reach; /* the largest reach of each coarse tile of the rows */
    int64_t tests;          /* of tiles, lately, */
    int64_t hits;           /* and how many were skipped */
    int64_t resting;        /* meetings left without tests */
} kin_meet_work;

/* The arrays of a work that is all zero. */
void kin_meet_name(kin_layout *layout, const kin_meet *r, kin_meet_work *w);

/* Any blocks in any order, each pair of them once. */
kith_status kin_meet_blocks(const kin_meet *r, kin_meet_work *w, int64_t row_block,
                            int64_t point_block);
/* The most pairs that wait in a log. */
int64_t kin_meet_log_room(const kin_meet *r);

#endif
