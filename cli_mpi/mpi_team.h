/* SPDX-License-Identifier: Apache-2.0
 * The ranks of kith-mpi as a team of kith's: who they are, and what each of them has. Alone in
 * knowing MPI. */
#ifndef MPI_TEAM_H
#define MPI_TEAM_H

#include "cli.h"
#include "cli_job.h"
#include "mpi_device.h"

typedef struct mpi_team {
    cli_team team;
    bool is_ready; /* ready() was called */
    bool is_cut;   /* a rank has left the others' way */
    mpi_device device;
    char line[CLI_LINE_BYTES]; /* what this rank would have printed */
} mpi_team;

/* Begins, and keeps this rank's messages. */
void mpi_team_begin(int *argc, char ***argv, mpi_team *team);
/* What all ranks are going to do, unless one of them may not: the gravest exit code of all. */
int mpi_team_start(mpi_team *team, int code, int command);
/* One line of all that were kept, from worker 0. */
void mpi_team_end(mpi_team *team);

/* This rank's part of its machine: processors that it may use and does not share, and GPUs with
 * their memory. Called by all ranks. */
void mpi_team_divide(mpi_team *team, cli_args *args);

#endif
