/* SPDX-License-Identifier: Apache-2.0
 * A search whose result is not held: queries are solved in chunks, and each is written while the
 * next is solved. An interrupted one goes on where it was. */
#ifndef CLI_STREAM_H
#define CLI_STREAM_H

#include "cli_job.h"
#include "kith/kith.h"

#include <stdbool.h>

/* Whether a planned job is done in chunks: by its options, or because it does not fit --memory. */
bool cli_stream_wanted(const cli_job *job);
/* These return an exit code; the job has the facts for its report afterwards. The plan is that of a
 * chunk; what is solved is written. */
int cli_stream_plan(cli_job *job);
int cli_stream_solve(cli_job *job);

/* ---- Chunks ---------------------------------------------------------------------------------- */

/* The queries of a search, some rows at a time. The corpus is prepared once for all of them, where
 * the job has a prepared form. */

typedef enum cli_chunks_solver {
    CLI_CHUNKS_EACH = 0, /* kith_search, which prepares the corpus for each chunk */
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
    kith_method method; /* of the corpus that is made: TREE or EXACT */
    kith_index *corpus; /* made here */
    bool gpu;           /* planned on one */
} cli_chunks;

/* The job's plan becomes job.whole, and is that of one chunk of *rows, or of fewer but at least
 * `least` where --memory asks for them; *rows says how many. beside adds to each plan what the
 * caller holds. Exit code. */
int cli_chunks_plan(cli_job *job, int64_t *rows, int64_t least, void (*beside)(cli_job *job));
/* job.whole says what pays for all queries. */
void cli_chunks_begin(cli_chunks *chunks);
/* Solves the next chunk into a table that has room for it, and sets the table's rows. Exit code; it
 * is CLI_DONE for an answer that is certified alone. The job's report has the sums. */
int cli_chunks_solve(cli_chunks *chunks, kith_neighbors *table);
/* Accepts chunks that never began. */
void cli_chunks_end(cli_chunks *chunks);

#endif
