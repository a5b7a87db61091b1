/* SPDX-License-Identifier: Apache-2.0
 * Chunks of a result on their way to disk: a thread writes one while the next is computed. Two
 * tables, so that never more than two chunks are in memory. */
#ifndef CLI_WRITER_H
#define CLI_WRITER_H

#include "kith/kith.h"

#include <pthread.h>
#include <stdbool.h>

typedef struct cli_writer {
    kith_ctx *ctx; /* the thread's own */
    kith_result_stream *stream;
    kith_neighbors tables[2]; /* owned */
    int next;                 /* the one that may be filled */
    pthread_t thread;
    bool running;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    const kith_neighbors *given; /* to be written; NULL: nothing */
    bool ending;
    kith_status status; /* of the first piece that failed */
    double seconds;     /* of writing */
} cli_writer;

/* Starts the thread. tables: 1 where there is one chunk alone, else 2. KITH_E_MEMORY for tables of
 * rows x k that cannot be had. */
kith_status cli_writer_start(cli_writer *writer, kith_result_stream *stream, int64_t rows,
                             int64_t k, int tables);
/* The table that may be filled; its rows are as many as were asked for at the start. */
kith_neighbors *cli_writer_table(cli_writer *writer);
/* Hands that table over, as soon as the one before is written. What comes back is the status of
 * what was written until now; kith_ctx_detail(writer.ctx) explains it. */
kith_status cli_writer_give(cli_writer *writer);
/* Waits until all is written, and ends the thread. */
kith_status cli_writer_end(cli_writer *writer);
/* Accepts one that never started. Ends it, if nobody has. */
void cli_writer_free(cli_writer *writer);

#endif
