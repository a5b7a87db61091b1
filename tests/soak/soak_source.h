/* SPDX-License-Identifier: Apache-2.0
 * Calls of the public functions with arguments that are drawn: from a generator (soak, threads) or
 * from the bytes of a fuzzer. Most are right, some are nonsense; both must end in a status. What a
 * caller has to be trusted with, that its pointers point to as much as it says, always holds. */
#ifndef SOAK_SOURCE_H
#define SOAK_SOURCE_H

#include "kith/kith.h"

#include <stdatomic.h>

/* Where decisions come from: bytes, then (bytes == NULL) a generator, or zeros. */
typedef struct soak_source {
    const uint8_t *data;
    size_t bytes;
    uint64_t generator;
    int spoils; /* of 256 arguments so many are nonsense */
} soak_source;

enum { SOAK_ROWS = 80, SOAK_COLS = 9, SOAK_K = 8, SOAK_ENTRIES = 2 * SOAK_ROWS * SOAK_K };

/* Blocks that the library holds. */
typedef struct soak_memory {
    atomic_long blocks;
    atomic_long bytes;
} soak_memory;

typedef struct soak {
    soak_source from;
    kith_ctx *ctx;
    soak_memory memory;
    long own_blocks; /* of the context alone */
    char folder[256];
    char path[8][320]; /* what soak_path gave out */
    int next_path;
    double values[4][SOAK_ROWS * SOAK_COLS]; /* of up to four matrices */
    uint32_t ids[4][SOAK_ENTRIES];
    float distances[4][SOAK_ENTRIES];
    double distances64[4][SOAK_ENTRIES];
    long calls;
    long succeeded;
    long failed;
} soak;

/* Makes the folder and the context; threads: of the context. */
void soak_start(soak *s, int32_t threads);
/* Removes the folder; nothing may be held any more. */
void soak_end(soak *s);
/* Ends the program with a line unless it holds. */
void soak_require(const soak *s, int condition, const char *what);
/* What holds after every call: a failure is explained, success is not. Counts. Gives status back.
 */
kith_status soak_check(soak *s, kith_status status);
/* The same, and nothing is held but the context. */
void soak_check_memory(const soak *s);

/* 0 to bound - 1. */
uint64_t soak_below(soak *s, uint64_t bound);
int64_t soak_between(soak *s, int64_t low, int64_t high);
/* Now and then a number that breaks ranges, sums and products; else the given one. */
int64_t soak_spoil(soak *s, int64_t value);
/* Now and then NULL. */
const void *soak_null(soak *s, const void *pointer);

/* FOLDER/name; valid for eight more calls. Now and then a path that leads nowhere. */
const char *soak_path(soak *s, const char *name);

/* Matrix `place` (0 to 3) of 1 to `rows` rows. cols 0: drawn. Never spoiled. */
kith_matrix soak_matrix(soak *s, int place, int64_t rows, int32_t cols);
/* The same with a field that is wrong now and then, in ways that a check can see. */
kith_matrix soak_spoiled(soak *s, const kith_matrix *matrix);
/* Room for an answer, of place 0 to 3; now and then with a part left out or a wrong shape. */
kith_neighbors soak_room(soak *s, int place, int64_t rows, int64_t k);
/* A graph of so many rows with any ids, some of them none, and distances. */
kith_neighbors soak_graph(soak *s, int place, int64_t rows, int64_t k);
/* One of all metrics, now and then none. */
kith_metric soak_metric(soak *s);
double soak_custom(void *arg, const void *query, const void *point, int32_t cols);

/* Every id is a row below `corpus`, or none. */
void soak_check_ids(const soak *s, const kith_neighbors *out, int64_t corpus);

#endif
