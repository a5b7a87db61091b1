/* SPDX-License-Identifier: Apache-2.0
 * The queries of a search, some rows at a time. The corpus is prepared once for all of them, where
 * the job has a prepared form. */
#ifndef CLI_CHUNKS_H
#define CLI_CHUNKS_H

#include "cli_job.h"

typedef enum cli_chunks_solver {
    CLI_CHUNKS_EACH = 0, /* kith_knn_exact, which prepares the corpus for each chunk */
    CLI_CHUNKS_PREPARED, /* the corpus, once it is there, as job->prepared or as made here */
    CLI_CHUNKS_PROBE     /* EACH for the first chunk, which shows whether the tree pays; then
                            PREPARED */
} cli_chunks_solver;

/* The caller sets the first three. */
typedef struct cli_chunks {
    cli_job *job;  /* with the plan of one chunk */
    int64_t rows;  /* of a chunk */
    int64_t first; /* row that is next */
    cli_chunks_solver by;
    kith_method method;  /* of the corpus that is made: TREE or EXACT */
    kith_corpus *corpus; /* made here */
    bool gpu;            /* planned on one */
} cli_chunks;

/* whole: the plan of all queries at once, which says what pays for them. */
void cli_chunks_begin(cli_chunks *chunks, const kith_plan *whole);
/* Solves the next chunk into a table that has room for it, and sets the table's rows. Exit code; it
 * is CLI_DONE for an answer that is certified alone. The job's report has the sums. */
int cli_chunks_solve(cli_chunks *chunks, kith_neighbors *table);
/* Accepts chunks that never began. */
void cli_chunks_end(cli_chunks *chunks);

#endif
