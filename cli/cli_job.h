/* SPDX-License-Identifier: Apache-2.0
 * A job, and what the steps of commands that compute share. graph and search are one command of
 * several engines: which function of the library solves. */
#ifndef CLI_JOB_H
#define CLI_JOB_H

#include "cli_report.h"
#include "cli_session.h"

/* What this process has of a search that many share (cli_part.h): some rows of the queries, or all
 * and some rows of the corpus. */
typedef struct cli_part {
    const kith_matrix *all; /* the queries; NULL: nobody shares them */
    kith_matrix rows;
    int64_t first;
    const kith_matrix *corpus; /* the whole; NULL: it is not divided */
    kith_matrix corpus_rows;
    int64_t first_of_corpus;
} cli_part;

typedef struct cli_job {
    const cli_args *args;
    void *own;                       /* of the command */
    const struct cli_engine *engine; /* of graph and search */
    cli_session session;
    cli_points corpus;
    kith_index *prepared; /* a search by the index in the corpus' file; else NULL */
    kith_index_info prepared_info;
    kith_metric own_metric; /* of the corpus' file, where that is an index */
    cli_points queries;     /* matrix NULL for a graph */
    cli_part part;
    double *period;     /* a length a column; NULL: none is given */
    kith_filter filter; /* of --allow and --groups, whose files are */
    uint8_t *allow;
    int64_t *groups;
    int64_t *query_groups;
    int64_t lists; /* of k that a row has: with rule each one a group, else 1 */
    bool planned;
    kith_plan plan;
    kith_plan whole;        /* of all queries at once, where plan is that of a chunk */
    uint64_t need_bytes;    /* the plan's peak, and points that had to be read into memory */
    int64_t first_query;    /* the row of the queries' file that the library calls 0 */
    int64_t chunk_rows;     /* of a search in chunks; 0: at once */
    bool saved;             /* while it was solved */
    bool screened;          /* chunks are, however few their rows: the corpus is prepared once */
    int64_t chunks;         /* that were solved */
    int64_t resumed_rows;   /* that an earlier run has left */
    kith_neighbors forward; /* of each query, or of each point of a graph */
    kith_neighbors back;    /* of each row of the corpus among the queries */
    kith_ranges *ranges;
    int64_t pairs;              /* found within the radius, or mutual; edges of a symmetric graph */
    bool descends;              /* a graph by NN-Descent */
    const kith_neighbors *init; /* a graph to start from; NULL: none */
    kith_descent_report descent;
    kith_shard_plan shard_plan; /* of --shards */
    kith_shard_report sharded;
    const kith_neighbors *graph; /* that a search walks on; NULL: none does */
    kith_walk_report walk;
    kith_report report;
    kith_exactness exact;    /* of the answer */
    kith_fingerprint points; /* of the corpus: what the answer is of */
    kith_fingerprint asked;  /* of the queries, where their rows are an answer, too */
    double seconds_read;
    double seconds_search; /* of queries, where something follows it, */
    double seconds_work;   /*   or of the call that the command is about */
    double seconds_write;
} cli_job;

/* Steps return an exit code, and have printed why when it is not CLI_DONE. */
typedef struct cli_engine {
    unsigned holds;             /* what a file of the answer must be able to hold, KITH_FILE_... */
    const char *output_endings; /* or: NULL: all that hold it */
    int (*plan)(cli_job *job);  /* NULL: what the answer needs is only known at the end */
    int (*solve)(cli_job *job);
    int (*save)(cli_job *job); /* NULL: the library has written it */
    const char *pairs;         /* what job.pairs counts, for people; NULL: nothing */
} cli_engine;

/* ---- For every command that computes --------------------------------------------------------- */

/* The first file. One with a tree says for which metric it was made, and is searched as it is where
 * the job is one that it can do. */
int cli_job_read_corpus(cli_job *job);
/* The index in a file, which becomes the corpus. */
int cli_job_open_index(cli_job *job, const char *path);
/* k against the most that there are; what: "points", "values in a row". */
int cli_job_check_k(const char *path, int64_t k, int64_t most, const char *what);
/* What a job on this file needs against --memory; a limit of 0 is none. */
int cli_job_check_memory(const char *path, uint64_t need_bytes, uint64_t limit_bytes);

/* ---- For engines ---------------------------------------------------------------------------- */

/* The library's parameters from the options. */
kith_search_params cli_job_params(const cli_job *job);
/* Of a descent, and of a graph that may be one. */
kith_descent_params cli_descent_params(const cli_job *job);
kith_search_params cli_graph_params(const cli_job *job, const kith_descent_params *descent);
/* Of queries in the corpus, by the index where one was opened. */
kith_status cli_job_search(cli_job *job, const kith_matrix *queries,
                           const kith_search_params *params, const kith_neighbors *table);
/* The metric that is in force, never DEFAULT: --metric, else that of a tree. */
bool cli_job_is_periodic(const cli_job *job);
kith_metric cli_job_metric(const cli_job *job);
/* need_bytes, from the plan. */
void cli_job_count_need(cli_job *job);
/* Some rows of a matrix, with the stride told. */
kith_matrix cli_job_rows(const kith_matrix *matrix, int64_t first, int64_t count);
/* kith_plan_search; where a plan matters, with --memory or --dry-run, the rows may be read. */
kith_status cli_job_plan_exact(kith_ctx *ctx, const cli_args *args, const kith_matrix *corpus,
                               const kith_matrix *queries, const kith_search_params *params,
                               kith_plan *plan);
/* Adds the plan of k neighbours for each row of queries (NULL: a graph) to the job's. */
int cli_job_plan(cli_job *job, const kith_matrix *corpus, const kith_matrix *queries);
/* Exit code of a library call, blamed on the file that it complains about. */
int cli_job_check(cli_job *job, kith_status status);
/* job.report, of the last call. */
int cli_job_take_report(cli_job *job);
/* A table of rows x k. */
int cli_job_allocate(cli_job *job, kith_neighbors *table, int64_t rows);
/* points, and asked. */
int cli_job_claim(cli_job *job);
/* Writes a table where a path was given; points: that its ids are rows of. */
int cli_job_save(cli_job *job, const char *path, const kith_neighbors *table,
                 const kith_fingerprint *points);
/* Writes the forward table to -o, and its distances to --distances. */
int cli_job_save_forward(cli_job *job);
/* *out: of both. Times are sums, or the longest; counts are sums, shares and counts of a row
 * averages, of which one's rows have this share, memory the most. */
void cli_job_add_report(const kith_report *all, const kith_report *one, double share, bool sums,
                        kith_report *out);
kith_result_meta cli_job_meta(const cli_job *job, const kith_fingerprint *points);

/* ---- The report ------------------------------------------------------------------------------ */

void cli_job_tell(cli_job *job);
/* --allow, --groups, --query-groups: job.filter, after the points. */
/* What --period says for so many columns; NULL: nothing. */
int cli_period_make(const cli_args *args, int32_t cols, double **period);
int cli_filter_read(cli_job *job);
/* For --dry-run: what the job would need. */
void cli_job_tell_plan(cli_job *job);

/* Processes that work together. */
typedef struct cli_team {
    kith_shard_team shards;
    bool divides_corpus; /* of a search; else its queries */
    /* Says that this process has come as far as the library with this exit code. Waits for all, and
     * returns CLI_DONE where all may go on. */
    int (*ready)(void *arg, int code);
    /* Brings together what the workers have: bytes ends[i] to ends[i + 1] of worker i, which stand
     * at the beginning of its data, come to their place in worker 0's. Called by all alike, with
     * the same ends; returns 0, or that they are not all there. */
    int (*collect)(void *arg, void *data, const uint64_t *ends);
} cli_team;

/* The report's part about shards. planned: of --dry-run. */
void cli_shards_tell(cli_report *r, const cli_job *job, bool planned);

#endif
