/* SPDX-License-Identifier: Apache-2.0
 * The kernels of the exact engine on a GPU, as a table of launches. A launch takes a stream and a
 * job by value of its struct, does not wait, and gives 0 or a number of the CUDA runtime. Counters
 * and results of a job are device memory that its caller has cleared where the comment says so.
 */
#ifndef KIN_SCREEN_KERNELS_H
#define KIN_SCREEN_KERNELS_H

#include "gpu/gpu_module.h"
#include "screen/screen_set_gpu.h"

#include <stdbool.h>

/* ---- Preparation (screen_prepare.cu, screen_order.cu) ---------------------------------------- */

/* Every value once (kin_metric_check). *bad, UINT64_MAX before, becomes the lowest row * cols + col
 * with a value that the metric does not allow; where all are allowed, KIN_SCREEN_GPU_OUTSIDE and
 * that of the lowest row, and any column, that is not in the box (kin_metric_check_box). */
#define KIN_SCREEN_GPU_OUTSIDE (UINT64_C(1) << 63)
typedef struct kin_screen_gpu_check {
    kin_screen_gpu_rows rows;
    int64_t first; /* in `bad`, the number of the first row */
    uint64_t *bad;
    uint8_t *marks;    /* rows, or NULL: 1 where a row has such a value */
    uint32_t *misfits; /* cleared before, or NULL: KIN_BYTES_* that do not hold all (of floats) */
} kin_screen_gpu_check;

/* transforms[row] with the bits of kin_metric_transforms; degenerate[row] = 1 or 0. *count, cleared
 * before: how many. */
typedef struct kin_screen_gpu_transform {
    kin_screen_gpu_rows rows;
    kin_row_transform *transforms;
    uint8_t *degenerate;
    uint64_t *count;
} kin_screen_gpu_transform;

/* firsts[row] = the lowest row with the same bytes. Rows whose hashes collide may keep themselves
 * as their first although an equal row exists; that costs time, not truth. table: slots (a power of
 * two, at least 2 rows) pairs of (hash, row), filled with 0xff. *distinct, cleared before: rows
 * that are their own first. */
typedef struct kin_screen_gpu_group {
    kin_screen_gpu_rows rows;
    uint64_t slots;
    uint64_t *table; /* 2 x slots */
    uint32_t *firsts;
    uint64_t *distinct;
    uint64_t *hashes; /* by row, or NULL; those of the first `known` rows are there */
    int64_t known;
} kin_screen_gpu_group;

/* Sums and extremes of the columns, then of the norms: what a frame is made of. The same numbers in
 * every run; not canonical, since any mean is right. */
typedef struct kin_screen_gpu_measure {
    kin_screen_gpu_rows rows;
    int32_t shifts;  /* 1: mean is the mean of the columns; 0: zeros */
    int32_t norms;   /* 1: largest[1] is wanted too, which costs a second read; 0: it becomes 0 */
    int32_t parts;   /* kin_screen_gpu_measure_parts(rows.cols) */
    double *scratch; /* parts x 3 x cols */
    double *mean;    /* cols */
    double *largest; /* [0] max |x - mean|, [1] max |x - mean|_2 over rows */
} kin_screen_gpu_measure;

/* So many pieces of the rows are summed apart: all processors work, scratch stays small. */
static inline int32_t kin_screen_gpu_measure_parts(int32_t cols)
{
    const int32_t most = 256;
    const int32_t fit = (1 << 21) / cols;
    return fit > most ? most : fit > 1 ? fit : 1;
}

/* Another set in the same frame, not of integers, which has the first `known` rows. */
typedef struct kin_screen_gpu_past {
    kin_screen_gpu_set set;
    const uint32_t *places; /* by row: its position there, if it has one */
    int64_t known;          /* 0: there is none */
} kin_screen_gpu_past;

/* Rounded rows ids[0 .. points) (ids NULL: first, first + 1, ...) of a set, with facts, halves and
 * padding up to `padded`, and where an id is KITH_ID_NONE. What the past has of them is copied.
 * worst: 2 floats, cleared before: largest norm and lost, but of what is copied. */
typedef struct kin_screen_gpu_round {
    kin_screen_gpu_rows rows;
    kin_screen_gpu_frame frame;
    const uint32_t *ids;
    const float *off;   /* what each row of `rows` has lost before, in their units; NULL: nothing */
    int64_t off_stride; /* floats from one to the next */
    int64_t first;
    int64_t points;
    int64_t padded;
    unsigned char *rounded;
    kin_screen_gpu_facts *facts;
    kin_screen_gpu_word *half;
    kin_screen_gpu_past past;
    uint32_t *places; /* by row: its position, not of integers; or NULL */
    float *worst;     /* or NULL */
} kin_screen_gpu_round;

/* Shadows (screen/screen_corpus.h) of the positions of a set as plain numbers, from its rounded
 * rows and in their units: values[p] are the image of row p less `mean` and the length of what the
 * basis leaves of it; off[p] is at least how far they are from the shadow of the row as it was
 * given. */
typedef struct kin_screen_gpu_cast {
    kin_screen_gpu_set set; /* distances */
    const float *mean;      /* columns of the set */
    const float *basis;     /* columns x KIN_SCREEN_GPU_MOST_AXES, zeros behind the axes */
    int32_t axes;           /* below KIN_SCREEN_GPU_MOST_AXES */
    double skew;            /* |(BtB)^1/2 - 1| of the basis, at most */
    float *values;          /* points x (axes + 1) */
    float *off;             /* points */
} kin_screen_gpu_cast;
enum { KIN_SCREEN_GPU_MOST_AXES = 128 };

/* Columns of bytes as screen_start.h has them. found->least is INT32_MAX and found->cut 0 before;
 * then the least half of all positions, and how many starts are above what they should be. */
typedef struct kin_screen_gpu_starts {
    int32_t least;
    uint32_t cut;
} kin_screen_gpu_starts;
typedef struct kin_screen_gpu_start {
    const kin_screen_gpu_word *half; /* padded */
    int64_t points;
    int64_t padded;
    unsigned char *starts; /* padded x KIN_START_BYTES */
    kin_screen_gpu_starts *found;
} kin_screen_gpu_start;

/* centres and radii of the tiles of a set, from its rounded rows and what they lost. */
typedef struct kin_screen_gpu_cover {
    kin_screen_gpu_set set;
    float *centres;
    float *radii;
} kin_screen_gpu_cover;

/* Balls around each tile of a set of bytes, KIN_SCREEN_GPU_BALLS of them, one behind the other:
 * every row of the tile is in one. So rows of several clusters, or some that lie far from all
 * others, make no large ball. */
enum { KIN_SCREEN_GPU_BALLS = 4 };
typedef struct kin_screen_gpu_split {
    kin_screen_gpu_set set;
    float *centres; /* balls x cols */
    float *radii;
} kin_screen_gpu_split;

/* order[0 .. points): the rows ids[] (NULL: 0, 1, ...) sorted by cell, in the order of ids[] within
 * one (where they ascend that is by row), the cell of ids[i] being the lower half of nearest[i];
 * ids and order may be one array then. nearest NULL: as they are. marks, only with nearest: the
 * cells of positions 0, 128, 256 ..., behind them that of the last. scratch of scratch_bytes; with
 * scratch NULL only *scratch_bytes is set. */
typedef struct kin_screen_gpu_sort {
    const uint64_t *nearest;
    const uint32_t *ids;
    int64_t points;
    uint32_t cell_count;
    uint32_t *order;
    uint32_t *marks; /* kin_screen_gpu_sort_marks(points), or NULL */
    void *scratch;
    uint64_t *scratch_bytes; /* host */
} kin_screen_gpu_sort;

static inline int64_t kin_screen_gpu_sort_marks(int64_t points)
{
    return (points + KIN_SCREEN_GPU_TILE - 1) / KIN_SCREEN_GPU_TILE + 1;
}

/* The ids of a set put in an order in which near rows stand together: halved at the median along
 * the direction in which they spread most, until 32 are left. As many rows as
 * KIN_SCREEN_GPU_HALVED, or half of it; any order is right, and it is the same in every run. */
typedef struct kin_screen_gpu_halve {
    kin_screen_gpu_set set;
    uint32_t *ids;
} kin_screen_gpu_halve;
enum { KIN_SCREEN_GPU_HALVED = 256 };

/* Of positions whose rows are ids[] those that a bitmap allows, `kept` of them (the caller counts),
 * in their order: to_ids. words: the bits, row r being bit r % 32 of word r / 32. marks: of
 * kin_screen_gpu_sort, which become to_marks; or NULL. */
typedef struct kin_screen_gpu_keep {
    const uint32_t *words;
    const uint32_t *ids;
    int64_t points;
    const uint32_t *marks;
    int64_t kept;
    uint32_t *to_ids;
    uint32_t *to_marks;
    uint32_t *counts; /* scratch: kin_screen_gpu_keep_parts(points) */
} kin_screen_gpu_keep;
enum { KIN_SCREEN_GPU_KEEP_PART = 4096 };

static inline int64_t kin_screen_gpu_keep_parts(int64_t points)
{
    return (points + KIN_SCREEN_GPU_KEEP_PART - 1) / KIN_SCREEN_GPU_KEEP_PART;
}

/* Of some positions: to_ids[i] and to_reach[i] are those of position of[i]. */
typedef struct kin_screen_gpu_take {
    const uint32_t *of;
    int64_t count;
    const uint32_t *ids;
    const double *reach;
    uint32_t *to_ids;
    double *to_reach;
} kin_screen_gpu_take;

/* ---- The screen (screen_tile_wgmma.cu, screen_tile_mma.cu) --------------------------------- */

typedef enum kin_screen_gpu_mode {
    KIN_SCREEN_GPU_LISTS = 0, /* candidates go to lists */
    KIN_SCREEN_GPU_MATRIX,    /* costs are written */
    KIN_SCREEN_GPU_NEAREST    /* the column of least cost */
} kin_screen_gpu_mode;

/* Pairs whose shadows passed: row << 32 | col, positions. pairs NULL: there are no shadows. */
typedef struct kin_screen_gpu_passed {
    uint64_t *pairs;
    uint64_t *count; /* one number, cleared before: also of those beyond the room */
    uint64_t room;
} kin_screen_gpu_passed;

/* All units; columns are tiles[unit.first ..] of `cols`. Units, tiles and their count lie in device
 * memory, so that no host waits between planning and screening. */
typedef struct kin_screen_gpu_screen {
    kin_screen_gpu_mode mode;
    kin_screen_gpu_set rows;
    kin_screen_gpu_set cols;
    const kin_screen_gpu_unit *units;
    const uint32_t *unit_count; /* one number */
    uint32_t *next;             /* one number, cleared before: units are dealt by it */
    const uint32_t *tiles;

    /* LISTS. row_lists by position of rows; col_lists (two-sided: each pair serves both ends) by
     * position of cols, words NULL: one-sided. worst: of the tiles of cols; only norm and lost
     * count where col_lists is absent. Precise tests decide what is pushed. */
    kin_screen_gpu_lists row_lists;
    kin_screen_gpu_lists col_lists;
    const kin_screen_gpu_worst *worst;
    const kin_screen_gpu_word *gates; /* two-sided: as worst.gate, of each position of cols alone */
    /* Where rows and cols are shadows: what passes, be it the coarse test alone, waits to be looked
     * at in full. What finds no room is looked at here and now, which takes long; full_rows,
     * full_cols: the rows themselves, by the same positions. */
    kin_screen_gpu_passed passed;
    kin_screen_gpu_set full_rows;
    kin_screen_gpu_set full_cols;

    /* MATRIX: order(cost) of row r of the row set and column c of tile number t of the unit's block
     * goes to matrix[r * pitch + (unit.first - first_tile(block) + t) * 128 + c], first_tile(block)
     * = block * tiles_a_block. Rows from `points` on are not written; padding columns are, with the
     * largest order. minima (NULL: none): [r * pitch / 128 + tile]: the least order of each tile.
     * parts: in place of both, [(r * pitch + the same place) / KIN_SCREEN_GPU_PART]: the least
     * order of each part of a tile, of so many columns, whichever these are. */
    uint32_t *matrix;
    uint32_t *minima;
    uint32_t *parts;
    int64_t pitch;
    uint32_t tiles_a_block;

    /* NEAREST: nearest[r] = order(cost) << 32 | position, by atomic minimum; filled with 0xff. */
    uint64_t *nearest;
} kin_screen_gpu_screen;

/* The pairs that a screen of shadows let pass, of the rows themselves: costs, precise tests, lists
 * as in its job. looked, added to: how many. */
typedef struct kin_screen_gpu_look {
    kin_screen_gpu_set rows;
    kin_screen_gpu_set cols;
    kin_screen_gpu_lists row_lists;
    kin_screen_gpu_lists col_lists;
    kin_screen_gpu_passed passed;
    uint64_t *looked;
} kin_screen_gpu_look;

/* ---- Lists (screen_lists.cu, screen_plan.cu) ------------------------------------------------- */

/* Reach of each row (row0 .. row0 + rows of the set) from the k-th smallest of `count` costs, or
 * from the k-th smallest of their tile minima where minima is given and holds k: at least k columns
 * cost no more. Only lowers a reach. col_worst: the worst of the columns. own: by block of rows,
 * how many columns it has, the first of `count` (NULL: all; without minima); rows whose id is
 * KITH_ID_NONE have none, and their reach becomes one that takes none. */
typedef struct kin_screen_gpu_kth {
    kin_screen_gpu_set set;
    kin_screen_gpu_lists lists;
    int64_t row0;
    int64_t rows;
    const uint32_t *matrix; /* rows x pitch, by row - row0 */
    const uint32_t *minima; /* rows x pitch / 128, or NULL */
    int64_t pitch;
    int64_t count; /* columns, a multiple of 128; or parts of them, of 32 */
    const uint32_t *own;
    kin_bound_row col_worst;
} kin_screen_gpu_kth;

/* Reach of each row of a set of bytes from the columns of KIN_SCREEN_GPU_AIMED tiles that have near
 * balls (kin_screen_gpu_split, as a set). k is at most KIN_SCREEN_GPU_AIMED_K, a rounded row has at
 * most KIN_SCREEN_GPU_AIMED_BYTES. */
enum { KIN_SCREEN_GPU_AIMED = 8, KIN_SCREEN_GPU_AIMED_K = 64, KIN_SCREEN_GPU_AIMED_BYTES = 256 };
typedef struct kin_screen_gpu_aim {
    kin_screen_gpu_set rows;
    kin_screen_gpu_set cols;
    kin_screen_gpu_set balls;
    kin_screen_gpu_lists lists;
    uint32_t *minima; /* scratch: rows x padded balls / 128 */
} kin_screen_gpu_aim;

/* The tiles of columns that a row of each block can reach, in any order, as at most units_a_block
 * units a block. What a ball's set has lost is its radius, so that bounds of pairs are those of
 * balls. counts and arrived: cleared before. columns: how many of them each block has, also of
 * those that find no room; such a block has no units. */
typedef struct kin_screen_gpu_meet {
    kin_screen_gpu_set rows;
    kin_screen_gpu_set balls;
    kin_screen_gpu_lists lists; /* reach is read */
    uint32_t *tiles;            /* blocks x tiles_a_block */
    uint32_t tiles_a_block;
    uint32_t units_a_block;
    kin_screen_gpu_unit *units;
    uint32_t *unit_count;
    uint32_t *arrived;
    uint32_t *counts;  /* blocks */
    uint32_t *columns; /* blocks */
    uint64_t *met;     /* as of a plan; or NULL */
} kin_screen_gpu_meet;

/* Pushes the columns of a cost matrix that may be within a row's reach. tiles: of the block of the
 * row, as in the screen that wrote the matrix. own: as in kth. */
typedef struct kin_screen_gpu_gather {
    kin_screen_gpu_set rows_set;
    kin_screen_gpu_set cols_set;
    kin_screen_gpu_lists lists;
    int64_t row0;
    int64_t rows;
    const uint32_t *matrix;
    const uint32_t *minima; /* of collect; or NULL */
    int64_t pitch;
    int64_t count;
    const uint32_t *own;
    const uint32_t *tiles;
    uint32_t tiles_a_block;
    int32_t *told;  /* of collect: entries of each row's list, -1: candidates are lost; or NULL */
    uint32_t *seen; /* of collect, with own and minima: columns of the first block; or NULL */
} kin_screen_gpu_gather;

/* Of few rows all three at once: reach as by kth, candidates as by gather, and what tightening
 * leaves of them. Lists need not be cleared; those of rows that lost candidates hold any of them,
 * and a block that has more columns of its own than `count` lost all. Without minima, of any number
 * of rows where blocks have their own columns, a few; nothing is told. */
enum { KIN_SCREEN_GPU_OWN_K = 64, KIN_SCREEN_GPU_OWN_TILES = 16 };
typedef kin_screen_gpu_gather kin_screen_gpu_collect;

/* Compacts every list: reach from the k smallest costs, entries above their limit go, counts fall.
 * Marks rows that lost candidates. Then the worst of each tile, for the next screen. cols_set:
 * whose positions the entries name. */
typedef struct kin_screen_gpu_tighten {
    kin_screen_gpu_set set;
    kin_screen_gpu_set cols_set;
    kin_screen_gpu_lists lists;
    kin_screen_gpu_worst *worst; /* padded / 128 of set, or NULL */
    kin_screen_gpu_word *gates;  /* with worst: padded, or NULL */
    uint64_t *kept;              /* one number, cleared before: entries left; or NULL */
    int32_t *before; /* rows, or NULL: entries that the last tightening left (at first 0), then
                        what this one leaves. Where nothing came, nothing is done */
    bool restores;   /* a list that overflowed goes back to what was before, so that what it keeps
                        does not depend on who came first */
} kin_screen_gpu_tighten;

/* Sorts each `run` consecutive positions by rising reach (ties: by id) and puts each 32 of them
 * where eight in a row share a gate (kin_screen_gpu_gate_place): ids and reaches are permuted in
 * place. Thresholds of a gate's columns then differ little, which is what makes one test serve both
 * ends of a pair. */
typedef struct kin_screen_gpu_arrange {
    int64_t points;
    int32_t run; /* a power of two from KIN_SCREEN_GPU_QUAD to KIN_SCREEN_GPU_RUN */
    uint32_t *ids;
    double *reach;
} kin_screen_gpu_arrange;

/* Tiles in groups of `tiles` (4, 8 or 16), and of each two groups of rows the groups of columns
 * that are near to them: what a plan has written whose tiles are groups (counts, tiles). groups
 * NULL: not known. */
enum { KIN_SCREEN_GPU_COARSE_PARTS = 16 };
typedef struct kin_screen_gpu_coarse {
    const uint32_t *groups; /* of each two `room` */
    const uint32_t *counts;
    uint32_t room;
    int32_t tiles;
} kin_screen_gpu_coarse;

/* The tiles of columns that each block of rows must meet, offsets first_offset .. last_offset in
 * tiles (graph: blocks ahead on the circle, pairs once; search: tiles in `sequence`), without those
 * that balls prove to be apart. Appends units of at most unit_tiles. unit_count cleared before.
 * skipped, met: pairs of (block, tile), added to. */
typedef struct kin_screen_gpu_plan {
    kin_screen_gpu_set rows;
    kin_screen_gpu_set cols;
    int32_t graph; /* 1: rows and cols are one set, two-sided, block offsets */
    int32_t dealt; /* 1: a search in which groups of blocks are at different places of the sequence
                    */
    /* A graph: only tiles of these groups are looked at. first and last are then a part of each
     * list, of KIN_SCREEN_GPU_COARSE_PARTS, and blocks that are at most `reach` apart do not meet.
     */
    kin_screen_gpu_coarse coarse;
    int64_t reach;
    /* Of the groups of KIN_SCREEN_GPU_PLAN_GROUP blocks of rows every parts-th, from the part-th
     * on, or where they are `adjoining` the part-th of so many stretches; parts 0: all. Their tiles
     * stand side by side. */
    int32_t part;
    int32_t parts;
    int32_t adjoining;
    int64_t
        first; /* graph: offset in blocks, 0 for screens that are one-sided; search: first tile */
    int64_t last;      /* behind it */
    int64_t far_first; /* a graph: more offsets, no more than from first to last, or none */
    int64_t far_last;
    const kin_screen_gpu_worst *row_worst; /* by tile of rows */
    /* by tile of cols, where pairs serve both ends, or NULL */
    const kin_screen_gpu_worst *col_worst;
    uint32_t *tiles;        /* blocks of rows that are planned x tiles_a_block */
    uint32_t tiles_a_block; /* room: graph 2 an offset, search last - first; with
                               groups or counts any: what finds none counts as skipped */
    uint32_t *counts;       /* NULL, or tiles of each block that is planned */
    uint32_t unit_tiles;
    kin_screen_gpu_unit *units; /* NULL: none are made */
    uint32_t *unit_count;
    uint64_t *met; /* [0] met, [1] skipped */
} kin_screen_gpu_plan;

/* ---- Lists of a team (screen_share.cu) ------------------------------------------------------- */

/* Rows belong to parts: firsts[p] .. firsts[p + 1] - 1 to part p, multiples of
 * KIN_SCREEN_GPU_BLOCK. The lists of rows of other parts are packed for them, and become empty:
 * words and their rows, the segment of part p from p * room on. Lists that overflowed: `capacity`
 * words and one that says so; whole: nothing but the latter. What finds no room stays where it is,
 * for another time. counts[2 p], cleared before: words that were to go to part p; counts[2 p + 1],
 * filled with 0xff: where the first list begins that found no room. */
enum { KIN_SCREEN_GPU_MOST_PARTS = 16 };
typedef struct kin_screen_gpu_pack {
    kin_screen_gpu_lists lists;
    int64_t points;
    int32_t part;
    int32_t parts;
    int32_t whole;
    int64_t firsts[KIN_SCREEN_GPU_MOST_PARTS + 1];
    uint64_t room; /* words of a segment, at least 32 (capacity + 1) */
    uint64_t *words;
    uint32_t *rows;
    uint64_t *counts;
} kin_screen_gpu_pack;

/* What another part has packed joins the lists, as if the screen had pushed it. whole: as packed.
 */
typedef struct kin_screen_gpu_accept {
    kin_screen_gpu_lists lists;
    const uint64_t *words;
    const uint32_t *rows;
    int64_t count;
    int32_t whole;
} kin_screen_gpu_accept;

/* ---- Answers (screen_rescore.cu) ------------------------------------------------------------- */

/* Candidates of a row that are known without a screen: of ids listed one behind the other `count`
 * from `first` on, but for `gap` of them behind the first `before`. */
typedef struct kin_screen_gpu_span {
    uint32_t first;
    uint32_t count; /* without the gap */
    uint32_t before;
    uint32_t gap;
} kin_screen_gpu_span;

/* Numbers of groups in 32 bits each, and what they are as a whole. */
typedef struct kin_screen_gpu_numbers {
    uint64_t largest;
    uint64_t refused; /* rows from the first number below 0 on; 0: there is none */
} kin_screen_gpu_numbers;
typedef struct kin_screen_gpu_number {
    const int64_t *numbers;
    int64_t rows;
    uint32_t *of;
    kin_screen_gpu_numbers *found;
} kin_screen_gpu_number;

/* Rows by group, in any order within one: those whose bit is set (as kin_screen_gpu_keep has them;
 * NULL: all). owners: by position, its group; or NULL. */
typedef struct kin_screen_gpu_regroup {
    const uint32_t *of; /* by row, below groups */
    int64_t rows;
    const uint32_t *words;
    int64_t groups;
    uint32_t *begin; /* groups + 1: where each begins */
    uint32_t *next;  /* groups + 1: scratch */
    uint32_t *order;
    uint32_t *owners;
} kin_screen_gpu_regroup;

/* Rows by group as the positions of a set in which each group begins with a block of its own, and
 * behind whose last row stands nobody (KITH_ID_NONE) up to the next block. A group's rows are
 * spread over its positions by a sequence (screen_schedule.h), so that each of its tiles is a
 * sample of all. */
typedef struct kin_screen_gpu_seat {
    uint32_t first;  /* of its group in `listed` */
    uint32_t count;  /* rows of the group */
    uint32_t before; /* of them, in blocks before this one */
    uint32_t step;   /* of the sequence */
    uint32_t group;
} kin_screen_gpu_seat;
typedef struct kin_screen_gpu_spread {
    const uint32_t *listed;
    const kin_screen_gpu_seat *seats; /* by block */
    int64_t blocks;
    uint32_t *ids; /* blocks x KIN_SCREEN_GPU_BLOCK */
} kin_screen_gpu_spread;

KIN_HD uint32_t kin_screen_gpu_spread_id(const kin_screen_gpu_spread *job, int64_t position)
{
    const kin_screen_gpu_seat *seat = &job->seats[position / KIN_SCREEN_GPU_BLOCK];
    const uint64_t place = seat->before + (uint64_t)(position % KIN_SCREEN_GPU_BLOCK);
    return place < seat->count ? job->listed[seat->first + place * seat->step % seat->count]
                               : KITH_ID_NONE;
}

/* ids[i] = asked[i] where query i's group may find fewer than `least` rows, else KITH_ID_NONE. */
typedef struct kin_screen_gpu_few {
    const uint32_t *asked;
    const uint32_t *owners;
    const kin_screen_gpu_span *spans;
    int64_t queries;
    uint32_t least;
    uint32_t *ids;
} kin_screen_gpu_few;

/* Positions that lost candidates: how many there are, added to *count, and with `ids` who they are,
 * in any order. */
typedef struct kin_screen_gpu_lost {
    const uint8_t *lost;
    const uint32_t *of;               /* by position, its id; NULL: itself */
    const kin_screen_gpu_seat *seats; /* by block */
    int64_t points;
    uint64_t *count;
    uint32_t *ids;    /* or NULL */
    uint32_t *owners; /* their groups, or NULL */
} kin_screen_gpu_lost;

/* What each group's queries may find: the rows of the same group, or of all others. */
typedef struct kin_screen_gpu_span_totals {
    uint64_t pairs; /* of a query and a row */
    uint32_t longest;
    uint32_t used; /* groups that have pairs */
} kin_screen_gpu_span_totals;
typedef struct kin_screen_gpu_spans {
    const uint32_t *row_begin;
    const uint32_t *query_begin;
    int64_t groups;
    int32_t others;
    kin_screen_gpu_span *spans;
    kin_screen_gpu_span_totals *totals;
} kin_screen_gpu_spans;

KIN_HD kin_screen_gpu_span kin_screen_gpu_span_of(const kin_screen_gpu_spans *job, int64_t group)
{
    const uint32_t first = job->row_begin[group];
    const uint32_t own = job->row_begin[group + 1] - first;
    kin_screen_gpu_span span;
    span.first = job->others != 0 ? 0 : first;
    span.count = job->others != 0 ? job->row_begin[job->groups] - own : own;
    span.before = job->others != 0 ? first : own;
    span.gap = job->others != 0 ? own : 0;
    return span;
}

/* Final rows: pairs of position row0 + i become row ids[row0 + i] of the outputs (any may be NULL),
 * `left_out` (by output row; own: the row's own id) not among them, first k_out. *short_rows, added
 * to: rows that had fewer; fills: their slots behind become empty. Output arrays begin with output
 * row out_row0. */
typedef struct kin_screen_gpu_write {
    kith_metric metric;
    const uint32_t *ids; /* position -> output row, KITH_ID_NONE: none; NULL: the same */
    const uint32_t *left_out;
    int32_t leaves_own_out;
    int64_t row0;
    int64_t rows;
    const kin_screen_gpu_pair *pairs;
    const int32_t *count; /* NULL: k each */
    int32_t k;            /* pairs a row */
    int32_t k_out;
    int64_t out_row0;
    uint32_t *out_ids;
    float *out_distances;
    double *out_distances64;
    uint64_t *short_rows;
    int32_t fills;
} kin_screen_gpu_write;

/* Canonical keys of all list entries of rows row0 .. row0 + rows, sorted by (key, id), the first k
 * of each to pairs (rows x k; fewer: count says how many, the rest is untouched). For integer
 * bounds the key is made from the cost. A position without a row (KITH_ID_NONE) has no pairs, and
 * as a candidate comes last, with a key of infinity. Rows that lost candidates are written like any
 * other; the caller runs them again.
 *
 * More than a block of threads sorts: `all` has the keys of all entries, in any order, and count
 * says how many of a row are of its first k.
 *
 * With spans there are no lists: position p has the candidates listed[] of spans[owners[p]], of
 * lists only k is read, and capacity, the most that a span has. */
enum { KIN_SCREEN_GPU_SORTED_K = 3072 };
typedef struct kin_screen_gpu_unsorted {
    double *keys;  /* rows x pitch; behind the last of a row +inf */
    uint32_t *ids; /* the same; KITH_ID_NONE */
    int64_t pitch; /* at least the entries of any row */
} kin_screen_gpu_unsorted;
typedef struct kin_screen_gpu_rescore {
    kin_screen_gpu_set set;
    kin_screen_gpu_set cols_set;
    kin_screen_gpu_rows set_rows;
    kin_screen_gpu_rows cols_rows;
    kin_screen_gpu_lists lists;
    const kin_screen_gpu_span *spans; /* or NULL */
    const uint32_t *owners;
    const uint32_t *listed;
    int64_t row0;
    int64_t rows;
    kin_screen_gpu_pair *pairs;
    /* in place of pairs; keys NULL: k is at most KIN_SCREEN_GPU_SORTED_K */
    kin_screen_gpu_unsorted all;
    int32_t *count;
    uint64_t *keys;               /* one number, added to: keys computed; or NULL */
    kin_screen_gpu_write answers; /* of these pairs, by the same launch; its rows are 0: none */
} kin_screen_gpu_rescore;

/* Of rows that were rescored where nobody waits to see what became of them:
 *
 *     a mark        a value is not allowed: its outputs become KITH_ID_NONE and NaN
 *     told below 0, it lost candidates, or has no direction: all `points` rows of the corpus, which
 *     degenerate    `listed` has, get keys, and its outputs are written again
 *     else          they stand
 *
 * `points` are cut into `slices`, of which a block has one: the last block of a row that is done
 * writes. What has nothing to do costs as good as nothing. */
typedef struct kin_screen_gpu_rescue {
    kin_screen_gpu_rescore done; /* with answers, and listed; rows begin at 0 */
    const uint8_t *marks;
    const int32_t *told;       /* of kin_screen_gpu_gather */
    const uint8_t *degenerate; /* or NULL */
    int64_t points;
    int32_t slices;
    kin_screen_gpu_pair *parts; /* rows x slices x k */
    uint32_t *arrived;          /* rows, cleared before */
    uint64_t *few;              /* becomes 0 where a row that stands has fewer than k pairs */
} kin_screen_gpu_rescue;

/* ---- Canonical keys of all pairs (screen_keys.cu): direct metrics, small jobs, the last resort */

/* keys[i * pitch + j] = key(queries row (query_ids[i] or query0 + i), corpus row corpus0 + j); a
 * degenerate row's keys are 1. */
typedef struct kin_screen_gpu_keys {
    kin_screen_gpu_rows queries;
    kin_screen_gpu_rows corpus;
    const uint32_t *query_ids;
    int64_t query0;
    int64_t query_count;
    int64_t corpus0;
    int64_t corpus_count;
    double *keys;
    int64_t pitch;
} kin_screen_gpu_keys;

/* Merges `columns` keys of each row into its best: pairs (rows x k, sorted, count[] of them)
 * becomes the first k of both in the order (key, id), id = corpus0 + column. after (NULL: none): by
 * row, only what comes after this (key, id) is taken, so that k beyond KIN_SCREEN_GPU_PASS_K is
 * served in passes. */
typedef struct kin_screen_gpu_best {
    const double *keys;
    int64_t pitch;
    int64_t rows;
    int64_t columns;
    int64_t corpus0;
    int32_t k; /* <= KIN_SCREEN_GPU_PASS_K */
    const kin_screen_gpu_pair *after;
    int64_t after_pitch; /* pairs from one row's to the next one's */
    kin_screen_gpu_pair *pairs;
    int64_t pairs_pitch; /* k, or more where the lists of passes stand in one row */
    int32_t *count;
} kin_screen_gpu_best;
enum { KIN_SCREEN_GPU_PASS_K = 2048 };

/* pairs[i] = (keys[i], ids[i]), which selection gives apart. */
typedef struct kin_screen_gpu_join {
    const double *keys;
    const uint32_t *ids;
    int64_t count;
    kin_screen_gpu_pair *pairs;
} kin_screen_gpu_join;

/* ---- Radius search (screen_hits.cu) ---------------------------------------------------------- */

/* A pair that may be within a radius: rows of the queries' and of the corpus' matrices. */
typedef struct kin_screen_gpu_hit {
    double key;
    uint32_t query;
    uint32_t first;
} kin_screen_gpu_hit;

/* Canonical keys of list entries, unsorted: the first places[i + 1] - places[i] of row row0 + i
 * become hits from places[i] on. Integer bounds: keys are made from costs. */
typedef struct kin_screen_gpu_hits {
    kin_screen_gpu_set set;
    kin_screen_gpu_set cols_set;
    kin_screen_gpu_rows set_rows;
    kin_screen_gpu_rows cols_rows;
    kin_screen_gpu_lists lists; /* words and capacity are read */
    int64_t row0;
    int64_t rows;
    const int64_t *places; /* rows + 1, from 0 to total */
    int64_t total;
    kin_screen_gpu_hit *hits;
} kin_screen_gpu_hits;

/* The keys of a matrix (as of kin_screen_gpu_keys) that are at most most[row], in any order.
 * *count, cleared before: how many; those beyond `room` are counted, not written. */
typedef struct kin_screen_gpu_within {
    const double *keys;
    int64_t pitch;
    int64_t rows;
    int64_t columns;
    uint32_t query0;  /* of the first row */
    uint32_t corpus0; /* of the first column */
    const double *most;
    int64_t room;
    kin_screen_gpu_hit *hits;
    uint64_t *count;
} kin_screen_gpu_within;

/* ---- The table ------------------------------------------------------------------------------- */

/* A row a launch: its name, and that of the struct which it takes. `screen` picks the body for the
 * stream's device: wgmma on sm_90, mma on all others from sm_80 on, or what KITH_GPU_UNIT=wgmma|mma
 * names. */
#define KIN_SCREEN_GPU_LAUNCHES(X) \
    X(check)                       \
    X(transform)                   \
    X(group)                       \
    X(measure)                     \
    X(round)                       \
    X(cast)                        \
    X(start)                       \
    X(cover)                       \
    X(split)                       \
    X(sort)                        \
    X(halve)                       \
    X(keep)                        \
    X(take)                        \
    X(screen)                      \
    X(look)                        \
    X(aim)                         \
    X(meet)                        \
    X(kth)                         \
    X(gather)                      \
    X(collect)                     \
    X(tighten)                     \
    X(arrange)                     \
    X(plan)                        \
    X(pack)                        \
    X(accept)                      \
    X(number)                      \
    X(regroup)                     \
    X(spread)                      \
    X(few)                         \
    X(lost)                        \
    X(spans)                       \
    X(rescore)                     \
    X(rescue)                      \
    X(write)                       \
    X(keys)                        \
    X(best)                        \
    X(join)                        \
    X(hits)                        \
    X(within)

typedef struct kin_screen_gpu_kernels {
#define KIN_ENTRY(name) int (*name)(kin_gpu_stream * stream, const kin_screen_gpu_##name *job);
    KIN_SCREEN_GPU_LAUNCHES(KIN_ENTRY)
#undef KIN_ENTRY
    double (*kappa)(kin_gpu_stream *stream,
                    int32_t cols);                /* the unit's error, for columns of F16 */
    bool (*takes_starts)(kin_gpu_stream *stream); /* whether its screen reads them */
} kin_screen_gpu_kernels;

#ifdef __CUDACC__
extern "C" {
#define KIN_ENTRY(name) \
    int kin_screen_gpu_launch_##name(kin_gpu_stream *stream, const kin_screen_gpu_##name *job);
KIN_SCREEN_GPU_LAUNCHES(KIN_ENTRY)
#undef KIN_ENTRY
/* Bodies of the screen: screen_tile_wgmma.cu for sm_90 alone, screen_tile_mma.cu from sm_80 on,
 * screen_tile_few.cu for costs of a few rows of bytes, where they are that. */
int kin_screen_gpu_screen_wgmma(kin_gpu_stream *stream, const kin_screen_gpu_screen *job);
int kin_screen_gpu_screen_mma(kin_gpu_stream *stream, const kin_screen_gpu_screen *job);
bool kin_screen_gpu_screen_is_few(const kin_screen_gpu_screen *job);
int kin_screen_gpu_screen_few(kin_gpu_stream *stream, const kin_screen_gpu_screen *job);
}
#endif

#endif
