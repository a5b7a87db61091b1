/* SPDX-License-Identifier: Apache-2.0
 * Sizes of a descent's parts, within the room that a device has. */
#ifndef KIN_CASCADE_CASCADE_NEED_H
#define KIN_CASCADE_CASCADE_NEED_H

#include "descent/descent.h"

enum {
    KIN_CASCADE_MOST_K = 1024,
    KIN_CASCADE_PAIRS = 4096,  /* whose keys are computed at a time, */
    KIN_CASCADE_PAIR_LIST = 8, /* as lists of so many places: the least there is */
    KIN_CASCADE_SMALL = 4096   /* rows: all pairs take less time than launches do */
};

/* Least entries that the start's screen proves, the own one among them. */
int64_t kin_cascade_start_k(const kin_descent_request *request);
/* Entries of a list of the start that keeps k: as many as keep it from losing any, fewer where
 * there is no room. */
int32_t kin_cascade_capacity(int64_t rows, int64_t k, uint64_t room);
/* Of so many positions, beside the points: the graph, and what rounds take. */
uint64_t kin_cascade_rounds_bytes(const kin_descent_request *request, int64_t positions);
/* Rows whose lists get canonical keys at a time, where there is no screen. */
int64_t kin_cascade_key_rows(int64_t rows, int32_t length);

#endif
