/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "mpi_team.h"

#include "cli.h"

#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* At most 4096 x 4096 bytes, which an int counts. MPI itself ends the ranks when it fails. Its own
 * waiting would keep a processor busy, which ranks that still compute can use. */
static int combine(void *arg, unsigned char *bytes, uint64_t count)
{
    static const struct timespec pause = {.tv_nsec = 200000};
    MPI_Request request;
    int done = 0;
    (void)arg;
    (void)MPI_Iallreduce(MPI_IN_PLACE, bytes, (int)count, MPI_UNSIGNED_CHAR, MPI_MAX,
                         MPI_COMM_WORLD, &request);
    while (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0) {
        (void)nanosleep(&pause, NULL);
    }
    return MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS ? 0 : 1; /* it is done */
}

/* The gravest code of all. */
static int ready(void *arg, int code)
{
    mpi_team *team = arg;
    unsigned char all = (unsigned char)code;
    team->is_ready = true;
    return combine(team, &all, 1) == 0 ? all : CLI_FAILED;
}

void mpi_team_begin(int *argc, char ***argv, mpi_team *team)
{
    kith_shard_team *shards = &team->team.shards;
    memset(team, 0, sizeof *team);
    (void)MPI_Init(argc, argv);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &shards->workers);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &shards->worker);
    shards->struct_size = (uint32_t)sizeof *shards;
    shards->combine = combine;
    shards->arg = team;
    team->team.ready = ready;
    cli_message_keep(team->line);
}

void mpi_team_end(mpi_team *team)
{
    const kith_shard_team *shards = &team->team.shards;
    int first = team->line[0] != '\0' ? shards->worker : shards->workers;
    (void)MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (first < shards->workers) {
        (void)MPI_Bcast(team->line, CLI_LINE_BYTES, MPI_CHAR, first, MPI_COMM_WORLD);
    }
    if (first < shards->workers && shards->worker == 0) {
        (void)fprintf(stderr, "%s\n", team->line);
        (void)fflush(stderr);
    }
    (void)MPI_Finalize();
}

/* ---- One machine's ranks -------------------------------------------------------------------- */

/* Ranks that may use the same processors divide them evenly. */
static int32_t count_threads(MPI_Comm machine)
{
    cpu_set_t mine;
    cpu_set_t all;
    if (sched_getaffinity(0, sizeof mine, &mine) != 0) {
        return 0;
    }
    int sum = CPU_COUNT(&mine);
    (void)MPI_Allreduce(&mine, &all, (int)sizeof mine, MPI_BYTE, MPI_BOR, machine);
    (void)MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, machine);
    const int32_t threads = (int32_t)((int64_t)CPU_COUNT(&mine) * CPU_COUNT(&all) / sum);
    return threads > 1 ? threads : 1;
}

/* The GPU with this number among those that can be used, counted round and round. */
static void choose_gpu(int rank, mpi_team *team, cli_args *args)
{
    kith_device device = {.struct_size = (uint32_t)sizeof device};
    int usable = 0;
    for (int pass = 0; pass < 2; pass++) {
        int seen = 0;
        for (int32_t i = 0; i < kith_device_count(); i++) {
            const bool gpu = kith_device_get(i, &device) == KITH_OK && device.available != 0 &&
                             strncmp(device.name, "cuda:", 5) == 0;
            if (gpu && usable > 0 && seen == rank % usable) {
                (void)snprintf(team->device, sizeof team->device, "%s", device.name);
                args->device = team->device;
            }
            seen += gpu;
        }
        usable = seen;
    }
}

void mpi_team_divide(mpi_team *team, cli_args *args)
{
    const char *device = args->device != NULL ? args->device : getenv("KITH_DEVICE");
    const bool any = device == NULL || device[0] == '\0' || strcmp(device, "auto") == 0 ||
                     strcmp(device, "cuda") == 0 || strcmp(device, "cuda:all") == 0;
    MPI_Comm machine;
    int rank = 0;
    (void)MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, team->team.shards.worker,
                              MPI_INFO_NULL, &machine);
    (void)MPI_Comm_rank(machine, &rank);
    const int32_t threads = count_threads(machine);
    (void)MPI_Comm_free(&machine);
    if (args->threads == 0) {
        args->threads = threads;
    }
    if (any) {
        choose_gpu(rank, team, args);
    }
}
