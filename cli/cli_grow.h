/* SPDX-License-Identifier: Apache-2.0
 * What commands share that change a graph: kith merge, kith add, kith remove. */
#ifndef CLI_GROW_H
#define CLI_GROW_H

#include "cli_work.h"

/* What --verify found. */
typedef struct cli_verified {
    const char *graph; /* NULL: it was not looked at */
    int64_t rows;
    int64_t wrong;
    int64_t first_wrong;
} cli_verified;

/* Solves all rows of a graph, whatever it says of itself. self: points compete for their own
 * lists. Exit code. */
int cli_verify(cli_session *session, const char *graph, const kith_neighbors *lists,
               const cli_points *points, kith_metric metric, bool self, cli_verified *found);
/* key: NULL in an array. Nothing of a graph that was not looked at. */
void cli_tell_verified(cli_report *r, const char *key, const cli_verified *found);

/* A graph in a file, and the points that it was built of. */
typedef struct cli_old_graph {
    const char *path;
    const kith_neighbors *lists; /* NULL: of kith add there is none */
    cli_points points;
    kith_result_meta known; /* of it, after its points were looked at, and after --verify */
    cli_verified verified;
} cli_old_graph;

typedef struct cli_grown {
    cli_args args;        /* with metric and k in force */
    cli_job job;          /* of the answer; corpus.matrix is what it is a graph of */
    cli_old_graph old[2]; /* what it is made of */
    kith_matrix points;   /* of the answer: a copy */
    const char *method;   /* "exact", "descent", "search" */
    double seconds_build; /* of a graph that had to be built first */
} cli_grown;

/* All return an exit code, and have printed why when it is not CLI_DONE. */

/* own: the command, which the steps find in job.own. */
int cli_grow_run(const cli_args *args, cli_grown *g, void *own, const cli_work *work);
/* Opens both, and checks that the graph is one of these points, as far as it says, and of the
 * metric that is asked for; of the first one that says its metric it is taken. */
int cli_grow_open(cli_grown *g, const char *graph, const char *points, cli_old_graph *old);
/* Once all graphs are open. Room for the points of the answer, `rows` of old[0]'s form; what: that
 * there is no memory for. */
int cli_grow_make_points(cli_grown *g, int64_t rows, const char *path, const char *what);
/* The points of a set, but those that are removed (a byte a point; NULL: none), at `to`, a row of
 * the answer. Returns the row behind the last one. */
int64_t cli_grow_copy_points(cli_grown *g, int64_t to, const kith_matrix *from,
                             const uint8_t *removed);
/* With --verify, of a graph that is not certified: solves its points anew. */
int cli_grow_verify(cli_grown *g, cli_old_graph *old);
/* The lists, with what is known of them. */
kith_neighbors cli_grow_lists(const cli_old_graph *old);
/* Of an answer that is not exact, where its recall is not known yet. */
int cli_grow_estimate(cli_grown *g);
/* The table to -o, the points to --points-out. */
int cli_grow_save(cli_grown *g);

void cli_grow_tell(cli_report *r, const cli_grown *g);

#endif
