/* SPDX-License-Identifier: Apache-2.0
 * A search whose result is not held: queries are solved in chunks, and each is written while the
 * next is solved. An interrupted one goes on where it was. */
#ifndef CLI_STREAM_H
#define CLI_STREAM_H

#include "cli_job.h"
#include "kith/kith.h"

#include <pthread.h>
#include <stdbool.h>

/* Whether a planned job is done in chunks: by its options, or because it does not fit --memory. */
bool cli_stream_wanted(const cli_job *job);
/* Plan, solve, write. Exit code. The job has the facts for its report afterwards, that of a plan
 * where --dry-run was given. */
int cli_stream_run(cli_job *job);

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

/* The job's plan is that of one chunk of *rows, or of fewer but at least `least` where --memory
 * asks for them; *rows says how many. beside adds to each plan what the caller holds. Exit code. */
int cli_chunks_plan(cli_job *job, int64_t *rows, int64_t least,
                    void (*beside)(cli_job *job, const void *arg), const void *arg);
/* whole: the plan of all queries at once, which says what pays for them. */
void cli_chunks_begin(cli_chunks *chunks, const kith_plan *whole);
/* Solves the next chunk into a table that has room for it, and sets the table's rows. Exit code; it
 * is CLI_DONE for an answer that is certified alone. The job's report has the sums. */
int cli_chunks_solve(cli_chunks *chunks, kith_neighbors *table);
/* Accepts chunks that never began. */
void cli_chunks_end(cli_chunks *chunks);

/* ---- Chunks on their way to disk ------------------------------------------------------------- */

/* Chunks of a result on their way to disk: a thread writes one while the next is computed. Two
 * tables, so that never more than two chunks are in memory. */

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

/* ---- Whether a job is the same --------------------------------------------------------------- */

/* What a job's answer depends on beside its k, metric and format: the files that it reads, and the
 * radius. */

enum { CLI_SAME_BYTES = 1024 };

/* Lines of text, equal for equal jobs: of each file its size, when it was changed, and a checksum
 * of its beginning and end; kith's version. Exit code. */
int cli_same_describe(const cli_args *args, char text[CLI_SAME_BYTES]);
/* The line of one file, called `what`. */
int cli_same_file(const char *what, const char *path, char *text, size_t room);

#endif
