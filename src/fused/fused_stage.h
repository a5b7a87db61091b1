/* SPDX-License-Identifier: Apache-2.0
 * The certified screen of one set of rows against one of columns, both in device memory, from the
 * seed to the tightened lists. Knows no metric and no caller: sets in, lists out. */
#ifndef KIN_FUSED_STAGE_H
#define KIN_FUSED_STAGE_H

#include "fused/fused_kernels.h"
#include "gpu/gpu.h"

/* What the launches of a device share. */
typedef struct kin_fused_device {
    kith_ctx *ctx;
    kin_gpu *gpu;
    const kin_fused_kernels *kernels;
    kin_gpu_stream *stream;
} kin_fused_device;

static inline kin_fused_device kin_fused_device_of(kith_ctx *ctx, kin_gpu *gpu)
{
    return (kin_fused_device){ctx, gpu, gpu->module->fused, gpu->stream};
}

/* Numbers that kernels count in, one block of device memory. */
typedef struct kin_fused_counters {
    uint32_t unit_count;
    uint32_t next;
    uint32_t seed_units[3]; /* of a full batch, of the last, of all blocks */
    uint32_t unused;
    uint64_t met; /* pairs of (block, tile) that were screened, and that were skipped */
    uint64_t skipped;
    uint64_t keys;
    uint64_t short_rows;
} kin_fused_counters;

/* Tiles of the columns that are near to a block of rows: first .. end - 1. */
typedef struct kin_fused_home {
    int64_t first;
    int64_t end;
} kin_fused_home;

typedef struct kin_fused_work {
    kin_fused_device on;
    kin_fused_set rows;
    kin_fused_set cols;
    bool graph;                  /* rows are the columns, each pair serves both ends */
    const kin_fused_home *homes; /* search: of each block, in host memory; NULL: not known */
    kin_fused_lists lists;
    kin_fused_worst *worst;           /* of the tiles of rows */
    const kin_fused_worst *col_worst; /* of the tiles of cols: kin_fused_worst_make */
    kin_fused_counters *counters;     /* device */
    uint32_t *tiles;
    kin_fused_unit *units;
    uint32_t *matrix;
    int64_t seed_blocks;  /* graph: blocks of a seed; search: 0 */
    int64_t seed_tiles;   /* columns of the seed's matrix, in tiles */
    int64_t batch_blocks; /* blocks of rows that one matrix holds */
    int64_t stretch;      /* offsets or tiles that a plan may take at once */
    uint32_t unit_tiles;
    bool reached; /* kin_fused_work_reach was here: tiles and units of the seeds stand ready */
    void *events[2];
    int64_t stages;    /* so far */
    double seed_pairs; /* pairs of (block, tile) in seeds */
} kin_fused_work;

/* Entries of a list that keep rows from losing candidates. */
int32_t kin_fused_capacity(int64_t k);
/* Of a search: more where rows are few and there is room. */
int32_t kin_fused_search_capacity(int64_t rows, int64_t cols, int64_t k, uint64_t room);
enum { KIN_FUSED_ORDERED_ROWS = 1024 /* fewer rows of a search are not worth an order */ };
/* Whether a search of so many rows gains by an order of its rows and homes of their blocks. */
bool kin_fused_wants_homes(int64_t rows, int64_t cols, int64_t k);
/* Device memory that a work takes at most, where so much room is left. */
uint64_t kin_fused_work_bytes(int64_t rows, int64_t cols, int64_t k, uint64_t room);

/* A row without a reach: the bytes 0x7f make a double of 10^306, whose limits keep everything. */
enum { KIN_FUSED_NO_REACH_BYTE = 0x7f };

/* Lists of k candidates for all rows of a set, empty, without reach. */
kith_status kin_fused_lists_make(const kin_fused_device *on, const kin_fused_set *set, int64_t k,
                                 int32_t capacity, kin_fused_lists *lists);
void kin_fused_lists_free(const kin_fused_device *on, kin_fused_lists *lists);
/* Norms and losses of the tiles of a set, for one-sided screens. */
kith_status kin_fused_worst_make(const kin_fused_device *on, const kin_fused_set *set,
                                 kin_fused_worst **worst);

/* work: on, rows, cols, graph, homes, col_worst are set; the rest zero. */
kith_status kin_fused_work_make(kin_fused_work *work, int64_t k, int32_t capacity);
void kin_fused_work_free(kin_fused_work *work);
/* Whether a graph is more than its seeds; reach alone, from a first pass over the seeds, by which
 * rows may then be arranged. */
bool kin_fused_work_has_stages(const kin_fused_work *work);
kith_status kin_fused_work_reach(kin_fused_work *work);
/* Seed and all stages. Returns with work under way. */
kith_status kin_fused_work_run(kin_fused_work *work);
/* The same for rows whose reach is known already: one stage of all columns. */
kith_status kin_fused_work_rerun(kin_fused_work *work);

/* flags[position], host memory that the caller frees: 1 where a row lost candidates; count: how
 * many. Waits for the work. */
kith_status kin_fused_work_lost(const kin_fused_work *work, uint8_t **flags, int64_t *count);
/* What work has done, for the report. */
typedef struct kin_fused_tally {
    double pairs; /* of (block, tile), seeds included */
    double skipped;
    double keys;   /* canonical ones */
    double reruns; /* rows */
} kin_fused_tally;
/* Adds to it; waits. */
kith_status kin_fused_work_tally(const kin_fused_work *work, kin_fused_tally *tally);

/* Positions [first, first + count) of a set; first a multiple of KIN_FUSED_BLOCK. */
kin_fused_set kin_fused_set_part(const kin_fused_set *set, int64_t first, int64_t count);

#endif
