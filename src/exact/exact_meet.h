/* SPDX-License-Identifier: Apache-2.0
 * One block of rows meets one block of points: their pairs through the unit, what passes its limits
 * to the lists of both, the limits read again. The screen deals out which blocks meet
 * (exact_screen.c). */
#ifndef KIN_EXACT_MEET_H
#define KIN_EXACT_MEET_H

#include "exact/exact_cover.h"
#include "exact/exact_list.h"
#include "exact/exact_set.h"

#include <pthread.h>

/* One end of the pairs. */
typedef struct kin_meet_side {
    const kin_set *set;
    const kin_set
        *cast;        /* its shadows (exact_corpus.h), or NULL; the set's rows lie as lines then */
    kin_lists *lists; /* NULL: not collected */
    const kin_cover *cover;
    pthread_mutex_t *locks; /* one a block */
    int64_t blocks;
} kin_meet_side;

/* What all meetings have in common. */
typedef struct kin_meet {
    const kin_frame *frame; /* of the sets */
    kin_meet_side row;
    kin_meet_side point;
    bool graph;
    int64_t block;
    const kin_round_ops *ops;
} kin_meet;

/* A block of one side: limits as the kernel reads them. */
typedef struct kin_meet_limits {
    double *reach;
    kin_word *limit;
    kin_word *half;
    kin_word *panel_half;
} kin_meet_limits;

/* A thread's room for pairs that are looked at in full. */
typedef struct kin_look {
    int64_t most;      /* pairs of a log */
    int32_t *begin;    /* block + 1: where the pairs of a row begin, by row */
    uint32_t *pairs;   /* most: a log's, row by row */
    uint16_t *which;   /* most: their points */
    kin_word *product; /* most */
} kin_look;

/* A thread's room, and what it counts. */
typedef struct kin_meet_work {
    uint32_t *rows;   /* the block for the unit, */
    int64_t packed;   /* 1 + its number, */
    bool packed_cast; /* the rows or their shadows */
    uint32_t *panels; /* of sets of lines */
    kin_word *test;
    kin_meet_limits row;
    kin_meet_limits point;
    kin_tile_log row_log;
    kin_tile_log point_log;
    kin_look look;
    kin_list_scratch scratch;
    int64_t pairs;
    int64_t skipped;
    int64_t looked;         /* pairs whose shadows passed */
    double *row_tile_reach; /* the largest reach of each coarse tile of the rows */
    int64_t tests;          /* of tiles, lately, */
    int64_t hits;           /* and how many were skipped */
    int64_t resting;        /* meetings left without tests */
} kin_meet_work;

/* The arrays of a work that is all zero. */
void kin_meet_name(kin_layout *layout, const kin_meet *r, kin_meet_work *w);

/* Any blocks in any order, each pair of them once. */
void kin_meet_blocks(const kin_meet *r, kin_meet_work *w, int64_t row_block, int64_t point_block);

#endif
