/* SPDX-License-Identifier: Apache-2.0
 * The certified screen of one set of rows against one of columns, both in device memory, from the
 * seed to the tightened lists. Knows no metric and no caller: sets in, lists out. */
#ifndef KIN_SCREEN_STAGE_GPU_H
#define KIN_SCREEN_STAGE_GPU_H

#include "base/base_size.h"
#include "screen/screen_balls_gpu.h"

/* ---- Sizes ----------------------------------------------------------------------------------- */

enum { KIN_SCREEN_GPU_ORDERED_ROWS = 1024 }; /* fewer rows of a search are not worth an order */

/* Entries of a list that keep rows from losing candidates. */
int32_t kin_screen_gpu_capacity(int64_t k);
/* Of a search: more where rows are few and there is room. */
int32_t kin_screen_gpu_search_capacity(int64_t rows, int64_t cols, int64_t k, uint64_t room);
/* Whether a search of so many rows gains by an order of its rows and homes of their blocks. */
bool kin_screen_gpu_wants_homes(int64_t rows, int64_t cols, int64_t k);
enum { KIN_SCREEN_GPU_SEED_UNIT_TILES = 8 }; /* most tiles of a unit of a seed */
/* Units of a short stage, about: eight for each processor of an H200. */
enum { KIN_SCREEN_GPU_STAGE_UNITS = 1056 };

/* Whether a graph that is cut short has so many tiles that near ones are looked for in near groups
 * alone, and then the most tiles that a block meets in a stage. */
enum { KIN_SCREEN_GPU_WIDE_TILES = 256 };
bool kin_screen_gpu_is_wide(int64_t points);

/* How large the parts of a work are. */
typedef struct kin_screen_gpu_sizes {
    int64_t seed_blocks;  /* graph: blocks of a seed; search: 0 */
    int64_t seed_tiles;   /* columns of the seed's matrix, in tiles */
    int64_t batch_blocks; /* blocks of rows that one matrix holds */
    int64_t stretch;      /* offsets or tiles that a plan may take at once */
    int64_t tile_count;   /* of the table of tiles */
    int64_t unit_count;
    uint32_t unit_tiles;
} kin_screen_gpu_sizes;

static inline int64_t kin_screen_gpu_tiles_of(int64_t points)
{
    return kin_ceil_div(points, KIN_SCREEN_GPU_TILE);
}

static inline int64_t kin_screen_gpu_blocks_of(int64_t points)
{
    return kin_ceil_div(points, KIN_SCREEN_GPU_BLOCK);
}

/* Costs of a batch of seeds. */
static inline uint64_t kin_screen_gpu_matrix_words(const kin_screen_gpu_sizes *size)
{
    return (uint64_t)(size->batch_blocks * KIN_SCREEN_GPU_BLOCK * size->seed_tiles *
                      KIN_SCREEN_GPU_TILE);
}

/* Of a screen by reaches that are known, whose plans may take so much memory. */
kin_screen_gpu_sizes kin_screen_gpu_sizes_known(const kin_gpu *gpu, int64_t rows, int64_t cols,
                                                uint64_t memory);

/* ---- Work ------------------------------------------------------------------------------------ */

/* Numbers that kernels count in, one block of device memory. */
typedef struct kin_screen_gpu_counters {
    uint32_t unit_count; /* these three are cleared before a stage */
    uint32_t next;
    uint64_t passed;        /* pairs of shadows, of the stage */
    uint32_t seed_units[3]; /* of a full batch, of the last, of all blocks */
    uint32_t unused;
    uint64_t met; /* pairs of (block, tile) that were screened, and that were skipped */
    uint64_t skipped;
    uint64_t keys;
    uint64_t short_rows;
    uint64_t looked; /* pairs whose shadows passed, in all */
    uint64_t lost;   /* rows that lost candidates, at the end */
} kin_screen_gpu_counters;

/* Tiles of the columns that are near to a block of rows: first .. end - 1. */
typedef struct kin_screen_gpu_home {
    int64_t first;
    int64_t end;
} kin_screen_gpu_home;

typedef struct kin_screen_gpu_work {
    kin_screen_gpu_device on;
    kin_screen_gpu_set rows;
    kin_screen_gpu_set cols;
    bool graph;                        /* rows are the columns, each pair serves both ends */
    const kin_screen_gpu_home *homes;  /* search: of each block, in host memory; NULL: not known */
    const kin_screen_gpu_balls *balls; /* search: of the columns, where they serve; or NULL */
    /* search: kin_screen_gpu_work_run_both; NULL: pairs serve one end */
    struct kin_screen_gpu_work *back;
    /* A graph, set before the work is made: each member of the team that is in lockstep has the
     * same sets and makes the same calls. Lists are then whole where their rows' owner is. */
    bool shared;
    kin_screen_gpu_share share; /* no parts: not shared */
    kin_screen_gpu_lists lists;
    kin_screen_gpu_worst *worst;           /* of the tiles of rows */
    kin_screen_gpu_word *gates;            /* of the rows, for who has them as columns */
    const kin_screen_gpu_worst *col_worst; /* of the tiles of cols: kin_screen_gpu_worst_find */
    /* A graph that is cut short, for engines whose answers are approximate (set before the work is
     * made): stages meet the pairs of tiles whose centres are within the larger `far` of both
     * (integer bounds: the root of the larger `integer`), and no others. points_radii: a zero a
     * tile. NULL: all that can matter. Lists that overflow keep what they had before that stage. */
    bool cut_short;
    const kin_screen_gpu_worst *near;
    const float *points_radii;
    double near_share; /* of all pairs, about */
    /* with `near`, where kin_screen_gpu_is_wide: the groups of near tiles */
    kin_screen_gpu_coarse coarse;
    int32_t *before; /* of kin_screen_gpu_tighten; at the end kin_screen_gpu_lost's ids */
    /* A graph's shadows, by the positions of rows (screen_shadow_gpu.c): what stages screen, and
     * what they let pass waits for the look. rounded NULL: they screen the rows themselves. */
    kin_screen_gpu_set cast;
    kin_screen_gpu_worst *cast_worst;
    kin_screen_gpu_word *cast_gates;
    uint64_t *passed;
    uint64_t passed_room;
    int64_t cast_stretch; /* offsets of a stage whose passed pairs find room, as far as is known */
    double cast_worth;    /* the share of pairs up to which shadows are worth the looks */
    kin_screen_gpu_counters *counters; /* device */
    uint32_t *tiles;
    kin_screen_gpu_unit *units;
    uint32_t *matrix;
    kin_screen_gpu_sizes size; /* with a stretch before the work is made: the caller's own */
    void *block;               /* all arrays but the matrix */
    bool wary;                 /* search: rows may be too coarse, */
    bool crowded;              /* and are: nothing is found */
    bool known;   /* kin_screen_gpu_work_reached was here: limits will not become much less */
    bool reached; /* rows have a reach: tiles and units of the seeds stand ready */
    void *events[2];
    int64_t stages;    /* so far */
    double seed_pairs; /* pairs of (block, tile) in seeds */
} kin_screen_gpu_work;

/* work: on, rows, cols, graph, homes, col_worst are set; the rest zero. */
kith_status kin_screen_gpu_work_make(kin_screen_gpu_work *work, int64_t k, int32_t capacity);
void kin_screen_gpu_work_free(kin_screen_gpu_work *work);

/* Rows of a graph whose seeds are everything, at most; of rounded rows of so many bytes, 0: of the
 * narrowest. */
int64_t kin_screen_gpu_small_graph(const kin_gpu *gpu, int64_t k, int64_t row_bytes);

/* Device memory that a search's work takes at most, where so much room is left. */
uint64_t kin_screen_gpu_work_bytes(int64_t rows, int64_t cols, int64_t k, uint64_t room);
/* The same of a graph that is screened at once. */
uint64_t kin_screen_gpu_graph_bytes(const kin_gpu *gpu, int64_t rows, int64_t k, uint64_t room);
/* The same of one that is cut short. */
uint64_t kin_screen_gpu_cut_short_bytes(int64_t rows, int64_t k, int32_t capacity, uint64_t room);
/* The same of a search without seeds. */
uint64_t kin_screen_gpu_seedless_bytes(int64_t rows, int64_t cols, int64_t k, uint64_t room);

/* Whether a graph is more than its seeds; reach alone, from a first pass over the seeds, by which
 * rows may then be arranged. */
bool kin_screen_gpu_work_has_stages(const kin_screen_gpu_work *work);
kith_status kin_screen_gpu_work_reach(kin_screen_gpu_work *work);
/* In its place, for a graph of which the caller knows neighbours: every row's reach in work->lists
 * is proven. */
kith_status kin_screen_gpu_work_reached(kin_screen_gpu_work *work);
/* The seeds alone: lists of what each block finds in its own surroundings. */
kith_status kin_screen_gpu_work_seed(kin_screen_gpu_work *work);
/* Seed and all stages. Returns with work under way. */
kith_status kin_screen_gpu_work_run(kin_screen_gpu_work *work);
/* The same by balls, but for a tightening of all lists. *done is false, and lists are empty, where
 * there is no room for it, or the first rows need too many tiles: screen_near_gpu.c. */
kith_status kin_screen_gpu_work_near(kin_screen_gpu_work *work, bool *done);
/* Two searches at once, of which each has the rows of the other as its columns: each pair serves
 * both ends. */
kith_status kin_screen_gpu_work_run_both(kin_screen_gpu_work *work, kin_screen_gpu_work *back);
/* The same for rows whose lists overflowed: all columns, from the reach that they proved. */
kith_status kin_screen_gpu_work_rerun(kin_screen_gpu_work *work);

/* Offsets or places first .. last - 1 alone, nothing tightened. both: pairs serve both ends, of a
 * graph or of a search that has a way back. */
kith_status kin_screen_gpu_work_screen(const kin_screen_gpu_work *work, int64_t first, int64_t last,
                                       bool both);
/* Sets cast_stretch: so many pairs pass in an offset. */
void kin_screen_gpu_work_stretch(kin_screen_gpu_work *work, double an_offset);
/* Until the device has done all that was launched; the caller may cancel meanwhile. */
kith_status kin_screen_gpu_work_pace(const kin_screen_gpu_work *work, double share);
/* Behind the launches of a stage: waits for the one before the last. */
kith_status kin_screen_gpu_work_end_stage(kin_screen_gpu_work *work, double share);
/* The worst of tiles of rows, by the reach that is known. */
kith_status kin_screen_gpu_work_worst(const kin_screen_gpu_work *work);

/* Rows row0 .. row0 + count - 1 of a set (row0 a multiple of KIN_SCREEN_GPU_BLOCK) against tiles of
 * columns, with all costs written: what their k least prove of reach, and what may be within it. */
typedef struct kin_screen_gpu_costs {
    kin_screen_gpu_set rows;
    kin_screen_gpu_set cols;
    kin_screen_gpu_lists lists; /* of rows */
    int64_t row0;
    int64_t count;
    const kin_screen_gpu_unit *units; /* blocks are counted from row0 */
    const uint32_t *unit_count;
    uint32_t *next; /* cleared before */
    const uint32_t *tiles;
    uint32_t tiles_a_block;            /* in `tiles`; 0: all blocks have the same */
    const kin_screen_gpu_worst *worst; /* of the tiles of cols, or NULL */
    uint32_t *matrix;                  /* count x pitch; of parts, / KIN_SCREEN_GPU_PART */
    uint32_t *minima;                  /* or NULL */
    bool parts;          /* the least costs of parts of tiles are written, no others */
    int64_t pitch;       /* columns */
    const uint32_t *own; /* of kin_screen_gpu_kth, by block of rows; or NULL */
    int32_t *told;       /* of collecting: kin_screen_gpu_gather's, as the next one; or NULL */
    uint32_t *seen;
} kin_screen_gpu_costs;
kith_status kin_screen_gpu_costs_reach(const kin_screen_gpu_device *on,
                                       const kin_screen_gpu_costs *costs);
kith_status kin_screen_gpu_costs_gather(const kin_screen_gpu_device *on,
                                        const kin_screen_gpu_costs *costs);
/* Of few rows both, and lists that need not be cleared are tightened. */
kith_status kin_screen_gpu_costs_collect(const kin_screen_gpu_device *on,
                                         const kin_screen_gpu_costs *costs);

/* At the end: the positions of rows that lost candidates, into `before` in any order; their number,
 * fetched; and a wait for that, but for nothing that was launched behind it. */
kith_status kin_screen_gpu_work_lost(const kin_screen_gpu_work *work, uint64_t **count);
kith_status kin_screen_gpu_work_lost_wait(const kin_screen_gpu_work *work);
/* What work has done, for the report. */
typedef struct kin_screen_gpu_tally {
    double pairs; /* of (block, tile), seeds included */
    double skipped;
    double keys;   /* canonical ones */
    double looked; /* pairs of rows */
    double reruns; /* rows */
} kin_screen_gpu_tally;
static inline void kin_screen_gpu_tally_add(kin_screen_gpu_tally *sum,
                                            const kin_screen_gpu_tally *more)
{
    sum->pairs += more->pairs;
    sum->skipped += more->skipped;
    sum->keys += more->keys;
    sum->looked += more->looked;
    sum->reruns += more->reruns;
}
/* Adds to it; waits. */
kith_status kin_screen_gpu_work_tally(const kin_screen_gpu_work *work, kin_screen_gpu_tally *tally);

#endif
