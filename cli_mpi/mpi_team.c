/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "mpi_team.h"

#include "cli.h"

#include <mpi.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- Meetings -------------------------------------------------------------------------------
 * Every meeting begins with the same few numbers: what for, and how many bytes. So a rank that has
 * left the others' way, whatever was the reason, is noticed by all, and nobody waits for it. */

typedef enum meeting { AT_START = 1, AT_WORK, AT_END } meeting;

/* MPI itself ends the ranks when it fails. Its own waiting would keep a processor busy, which ranks
 * that still compute can use. */
static bool greatest(void *data, uint64_t count, MPI_Datatype type)
{
    static const struct timespec pause = {.tv_nsec = 200000};
    MPI_Request request;
    int done = 0;
    (void)MPI_Iallreduce(MPI_IN_PLACE, data, (int)count, type, MPI_MAX, MPI_COMM_WORLD, &request);
    while (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0) {
        (void)nanosleep(&pause, NULL);
    }
    return MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS; /* it is done */
}

/* Whether all are here for the same. */
static bool meet(meeting what, uint64_t count)
{
    uint64_t said[4] = {what, ~(uint64_t)what, count, ~count};
    return greatest(said, 4, MPI_UINT64_T) && said[0] == ~said[1] && said[2] == ~said[3];
}

/* At most as many bytes as an int counts. */
static int combine(void *arg, unsigned char *bytes, uint64_t count)
{
    mpi_team *team = arg;
    team->is_cut =
        team->is_cut || !meet(AT_WORK, count) || !greatest(bytes, count, MPI_UNSIGNED_CHAR);
    return team->is_cut ? 1 : 0;
}

/* The gravest code of all. */
static int ready(void *arg, int code)
{
    mpi_team *team = arg;
    unsigned char all = (unsigned char)code;
    team->is_ready = true;
    return combine(team, &all, 1) == 0 ? all : CLI_FAILED;
}

/* ---- Answers -------------------------------------------------------------------------------- */

enum { PIECE_BYTES = 1 << 20 }; /* an int counts it */

/* One way, in order. */
static void carry(char *data, uint64_t bytes, int worker, bool receives)
{
    for (uint64_t done = 0; done < bytes; done += PIECE_BYTES) {
        const uint64_t left = bytes - done;
        const int count = (int)(left < PIECE_BYTES ? left : PIECE_BYTES);
        if (receives) {
            (void)MPI_Recv(data + done, count, MPI_BYTE, worker, 0, MPI_COMM_WORLD,
                           MPI_STATUS_IGNORE);
        } else {
            (void)MPI_Send(data + done, count, MPI_BYTE, worker, 0, MPI_COMM_WORLD);
        }
    }
}

/* Who has met the others has all that it is going to send. */
static int collect(void *arg, void *data, const uint64_t *ends)
{
    mpi_team *team = arg;
    const kith_shard_team *shards = &team->team.shards;
    const int worker = shards->worker;
    team->is_cut = team->is_cut || !meet(AT_WORK, ends[shards->workers]);
    if (team->is_cut) {
        return 1;
    }
    if (worker != 0) {
        carry(data, ends[worker + 1] - ends[worker], 0, false);
        return 0;
    }
    for (int i = 1; i < shards->workers; i++) {
        carry((char *)data + ends[i], ends[i + 1] - ends[i], i, true);
    }
    return 0;
}

int mpi_team_start(mpi_team *team, int code, int command)
{
    unsigned char said[3] = {(unsigned char)code, (unsigned char)command,
                             (unsigned char)~(unsigned)command};
    team->is_cut = !meet(AT_START, sizeof said) || !greatest(said, sizeof said, MPI_UNSIGNED_CHAR);
    if (team->is_cut) {
        return CLI_FAILED;
    }
    if (said[0] != CLI_DONE) {
        return said[0];
    }
    return said[1] == (unsigned char)~(unsigned)said[2]
               ? CLI_DONE
               : cli_wrong("kith-mpi", "ranks have different commands (give all the same)");
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
    team->team.collect = collect;
    cli_message_keep(team->line);
}

/* ---- One line of all ------------------------------------------------------------------------ */

/* Whom the library's "[worker N]" at the end of a line names; -1: nobody. */
static int worker_named(const char *line)
{
    const char *at = strrchr(line, '[');
    int worker = -1;
    return at != NULL && sscanf(at, "[worker %d]", &worker) == 1 ? worker : -1;
}

/* Who shall tell: who is named; else the first who has something to say, but that others are gone.
 */
static int choose_speaker(const mpi_team *team)
{
    const kith_shard_team *shards = &team->team.shards;
    const int named = worker_named(team->line);
    int first = named >= 0 ? named : shards->worker + (team->is_cut ? shards->workers : 0);
    first = team->line[0] != '\0' ? first : 2 * shards->workers;
    (void)MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return first < 2 * shards->workers ? first % shards->workers : -1;
}

/* Rank and machine, where not all ranks have the same to say. */
static void sign(const kith_shard_team *shards, bool same, char line[CLI_LINE_BYTES])
{
    char machine[MPI_MAX_PROCESSOR_NAME + 1] = "";
    int length = 0;
    const bool named = worker_named(line) >= 0;
    const size_t used = named ? (size_t)(strrchr(line, '[') - line) : strlen(line);
    if (!named && same) {
        return;
    }
    (void)MPI_Get_processor_name(machine, &length);
    (void)snprintf(line + used, CLI_LINE_BYTES - used, "%s[rank %d on %s]", named ? "" : " ",
                   (int)shards->worker, machine);
}

static void tell(mpi_team *team)
{
    const kith_shard_team *shards = &team->team.shards;
    const int speaker = choose_speaker(team);
    char line[CLI_LINE_BYTES];
    if (speaker < 0) {
        return;
    }
    memcpy(line, team->line, sizeof line);
    (void)MPI_Bcast(line, CLI_LINE_BYTES, MPI_CHAR, speaker, MPI_COMM_WORLD);
    int same = strcmp(line, team->line) == 0;
    (void)MPI_Allreduce(MPI_IN_PLACE, &same, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    sign(shards, same != 0, team->line);
    (void)MPI_Bcast(team->line, CLI_LINE_BYTES, MPI_CHAR, speaker, MPI_COMM_WORLD);
    if (shards->worker == 0) {
        (void)fprintf(stderr, "%s\n", team->line);
        (void)fflush(stderr);
    }
}

void mpi_team_end(mpi_team *team)
{
    while (!meet(AT_END, 0)) { /* who is still at work now hears that it is over */
    }
    tell(team);
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

/* Ranks that share a GPU divide what is free there, before any of them takes something. The least
 * of all ranks is each one's, so that shards that fit one of them fit all. Asked twice: for each
 * process that opens a device the driver itself takes memory. */
static void divide_gpu_memory(const mpi_device *own, cli_args *args)
{
    const bool asks = args->gpu_memory_bytes == 0;
    uint64_t least = UINT64_MAX;
    for (int pass = 0; pass < 2; pass++) {
        const uint64_t share = asks ? mpi_device_share(own) : 0;
        least = share > 0 ? share : UINT64_MAX;
        (void)MPI_Allreduce(MPI_IN_PLACE, &least, 1, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
    }
    if (asks && least < UINT64_MAX) {
        args->gpu_memory_bytes = least;
    }
}

void mpi_team_divide(mpi_team *team, cli_args *args)
{
    MPI_Comm machine;
    int rank = 0;
    int ranks = 1;
    (void)MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, team->team.shards.worker,
                              MPI_INFO_NULL, &machine);
    (void)MPI_Comm_rank(machine, &rank);
    (void)MPI_Comm_size(machine, &ranks);
    const int32_t threads = count_threads(machine);
    (void)MPI_Comm_free(&machine);
    if (args->threads == 0) {
        args->threads = threads;
    }
    mpi_device_divide(args->device != NULL ? args->device : getenv("KITH_DEVICE"), rank, ranks,
                      &team->device);
    if (team->device.name[0] != '\0') {
        args->device = team->device.name;
    }
    divide_gpu_memory(&team->device, args);
}
