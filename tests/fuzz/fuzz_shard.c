/* SPDX-License-Identifier: Apache-2.0
 * The work folder of a graph from shards: whatever one of its files holds, the job there ends with
 * the right graph, or is refused with an error; and begins anew when it is told to. */
#include "replay_file.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* What an input is put in place of: the files of an exact job, in the order of their names, then
 * those of an approximate one; their journals; then files and journal of a job whose shards are
 * groups of near points. */
const char *const fuzz_extensions[] = {"kith", "kith",    "kith",    "kith", "kith",
                                       "kith", "journal", "journal", "kith", "kith",
                                       "kith", "journal", NULL};
enum { COUNT = sizeof fuzz_extensions / sizeof fuzz_extensions[0] - 1 };
enum { EXACT, DESCENT, GROUPS, JOBS };
enum { SHARDS = 3, COLS = 2, NAME = 64, FILE_MOST = 1 << 16 };
/* The fewest rows that are looked at for groups, with lists that are short: inputs are small. */
enum { ROWS = SHARDS * 1024, FEW_ROWS = 13, K = 2, GROUPS_K = 1 };

typedef struct content {
    char name[NAME];
    uint8_t data[FILE_MOST];
    size_t bytes;
} content;

static content files[JOBS][SHARDS + 1]; /* the journal last */
static content graphs[JOBS];
static float values[ROWS][COLS];
static const char *const folders[JOBS] = {"exact", "descent", "groups"};

static void take(const char *path, content *to)
{
    FILE *file = fopen(path, "rb");
    fuzz_require(file != NULL, "a file can be read");
    to->bytes = fread(to->data, 1, sizeof to->data, file);
    fuzz_require(to->bytes < sizeof to->data, "a file is small");
    (void)fclose(file);
}

static kith_status run(int job, uint32_t restart)
{
    const kith_matrix points = {values, job == GROUPS ? ROWS : FEW_ROWS, 0, COLS, KITH_F32};
    kith_shard_report report = {.struct_size = (uint32_t)sizeof report};
    kith_search_params exact = kith_search_params_default();
    kith_descent_params descent = kith_descent_params_default();
    kith_shard_params params = kith_shard_params_default();
    exact.k = K;
    descent.k = job == GROUPS ? GROUPS_K : K;
    descent.sample = 4;
    params.exact = job == EXACT ? &exact : NULL;
    params.descent = job == EXACT ? NULL : &descent;
    params.shards = SHARDS;
    params.keep = 1;
    params.restart = restart;
    const kith_status status = kith_graph_shards(
        fuzz_ctx(), &points, &params, fuzz_path(folders[job]), fuzz_path("graph.kith"), &report);
    fuzz_require(status != KITH_OK || (report.groups > 0) == (job == GROUPS),
                 "the job is of its kind");
    return status;
}

/* Removes what a job has left. */
static void clear(int job)
{
    DIR *entries = opendir(fuzz_path(folders[job]));
    const struct dirent *entry = NULL;
    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        (void)unlinkat(dirfd(entries), entry->d_name, 0);
    }
    if (entries != NULL) {
        (void)closedir(entries);
    }
    (void)remove(fuzz_path("graph.kith"));
    (void)remove(fuzz_path("graph.kith.partial"));
    (void)remove(fuzz_path("graph.kith.journal"));
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const content *)a)->name, ((const content *)b)->name);
}

static void list(int job)
{
    DIR *entries = opendir(fuzz_path(folders[job]));
    const struct dirent *entry = NULL;
    int count = 0;
    fuzz_require(entries != NULL, "a job has a folder");
    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        fuzz_require(count <= SHARDS, "a job has a file for each shard, and a journal");
        content *file = &files[job][count++];
        char path[NAME * 2];
        (void)snprintf(file->name, sizeof file->name, "%.63s", entry->d_name);
        (void)snprintf(path, sizeof path, "%s/%s", folders[job], file->name);
        take(fuzz_path(path), file);
    }
    (void)closedir(entries);
    fuzz_require(count == SHARDS + 1, "a job has a file for each shard, and a journal");
    qsort(files[job], SHARDS + 1, sizeof files[job][0], by_name); /* "shard-", then "shards." */
}

static void prepare(void)
{
    for (int i = 0; i < ROWS * COLS && graphs[0].bytes == 0; i++) {
        const int row = i / COLS; /* three lumps far from each other */
        const int lump = row < FEW_ROWS ? 0 : row % SHARDS;
        values[row][i % COLS] = (float)(i * 37 % (row < FEW_ROWS ? 64 : 6151) + lump * 100000);
    }
    for (int job = 0; job < JOBS && graphs[job].bytes == 0; job++) {
        fuzz_require(run(job, 0) == KITH_OK, "a job ends");
        take(fuzz_path("graph.kith"), &graphs[job]);
        list(job);
        clear(job);
    }
}

static int job_of(int extension)
{
    const int pairs = 2 * SHARDS; /* files of the two jobs of pairs, before their journals */
    return extension >= pairs + 2 ? GROUPS
                                  : (extension < pairs ? extension / SHARDS : extension - pairs);
}

static content *file_of(int extension)
{
    const int pairs = 2 * SHARDS;
    const int job = job_of(extension);
    if (job == GROUPS) {
        return &files[job][extension - pairs - 2];
    }
    return &files[job][extension < pairs ? extension % SHARDS : SHARDS];
}

int fuzz_seed(int extension, int i, const char *path)
{
    prepare();
    const content *seed = file_of(extension);
    (void)fuzz_put(strrchr(path, '/') + 1, seed->data, seed->bytes);
    return i == 0;
}

/* Forged lists with right checksums lead to a wrong graph; damage does not. */
static void check_graph(int job, int forged)
{
    static content got;
    take(fuzz_path("graph.kith"), &got);
    fuzz_require(forged || (got.bytes == graphs[job].bytes &&
                            memcmp(got.data, graphs[job].data, got.bytes) == 0),
                 "the graph has the right bytes");
}

/* The lists as they should be, but for the head and sections that nobody reads. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char path[NAME * 2];
    if (bytes == 0) {
        return 0;
    }
    prepare();
    const int which = data[0] % COUNT;
    const int job = job_of(which);
    const content *replaced = file_of(which);
    for (int i = 0; i <= SHARDS; i++) {
        const content *file = &files[job][i];
        (void)snprintf(path, sizeof path, "%s/%s", folders[job], file->name);
        (void)(file == replaced ? fuzz_put(path, data + 1, bytes - 1)
                                : fuzz_put(path, file->data, file->bytes));
    }
    const kith_status status = run(job, 0);
    fuzz_require((status == KITH_OK) == (kith_ctx_detail(fuzz_ctx())[0] == '\0'),
                 "a failure is explained");
    fuzz_require(status != KITH_E_INTERNAL, "nothing impossible happens");
    if (status == KITH_OK) {
        check_graph(job, strcmp(fuzz_extensions[which], "kith") == 0);
    } else {
        fuzz_require(run(job, 1) == KITH_OK, "the job can begin anew");
        check_graph(job, 0);
    }
    clear(job);
    return 0;
}
