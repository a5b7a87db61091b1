/* SPDX-License-Identifier: Apache-2.0
 * Calls over the whole public interface, mixed and drawn with a fixed seed; in one context, or in
 * many at once. Nothing leaks, memory stays as it was after the first fifth, and every failure is
 * explained.
 *
 *     soak_calls [CALLS [threads [SEED]]]
 */
#include "soak/soak_calls.h"

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { CALLS = 10000, THREADS_MAX = 16, SPOILS = 4, WARM = 5, MOST_GROWTH = 256 << 10 };
static const uint64_t usual_seed = 20140811;

/* Nothing is brought to disk, which takes its time: no machine crashes here. */
int fsync(int file)
{
    (void)file;
    return 0;
}

int fdatasync(int file)
{
    (void)file;
    return 0;
}

typedef struct worker {
    soak state;
    long calls;
    pthread_t thread;
} worker;

/* Bytes that the C library has given out, and pages that the process has in memory. */
typedef struct usage {
    int64_t given;
    int64_t resident;
} usage;

static usage measure(void)
{
    usage now = {.given = (int64_t)mallinfo2().uordblks + (int64_t)mallinfo2().hblkhd};
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file != NULL && fscanf(file, "%*d %ld", &pages) == 1) {
        now.resident = (int64_t)pages * sysconf(_SC_PAGESIZE);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return now;
}

static void *run(void *arg)
{
    worker *w = arg;
    soak_start(&w->state, (int32_t)soak_between(&w->state, 1, 2));
    for (long i = 0; i < w->calls; i++) {
        soak_call_any(&w->state);
    }
    soak_end(&w->state);
    return NULL;
}

static int run_many(int threads, long calls, uint64_t seed)
{
    worker *workers = calloc((size_t)threads, sizeof *workers);
    long succeeded = 0;
    long failed = 0;
    if (workers == NULL) {
        return EXIT_FAILURE;
    }
    for (int i = 0; i < threads; i++) {
        workers[i].calls = calls / threads;
        workers[i].state.from = (soak_source){.generator = seed + (uint64_t)i, .spoils = SPOILS};
        soak_require(&workers[i].state,
                     pthread_create(&workers[i].thread, NULL, run, &workers[i]) == 0,
                     "a thread can be started");
    }
    for (int i = 0; i < threads; i++) {
        (void)pthread_join(workers[i].thread, NULL);
        succeeded += workers[i].state.succeeded;
        failed += workers[i].state.failed;
    }
    free(workers);
    (void)printf("%d contexts at once: %ld calls succeeded, %ld said why not, none held memory\n",
                 threads, succeeded, failed);
    return EXIT_SUCCESS;
}

static int run_one(long calls, uint64_t seed)
{
    static soak s;
    s.from = (soak_source){.generator = seed, .spoils = SPOILS};
    soak_start(&s, 2);
    for (long i = 0; i < calls / WARM; i++) {
        soak_call_any(&s);
    }
    const usage warm = measure();
    for (long i = calls / WARM; i < calls; i++) {
        soak_call_any(&s);
    }
    const usage end = measure();
    soak_end(&s);
    (void)printf("%ld mixed calls: %ld succeeded, %ld said why not, none held memory\n"
                 "given out by malloc: %+lld bytes since the first fifth; resident: %+lld KiB of "
                 "%lld\n",
                 calls, s.succeeded, s.failed, (long long)(end.given - warm.given),
                 (long long)(end.resident - warm.resident) / 1024, (long long)end.resident / 1024);
    return end.given - warm.given <= MOST_GROWTH ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int count, char **arguments)
{
    const long calls = count > 1 ? strtol(arguments[1], NULL, 10) : CALLS;
    const long threads = count > 2 ? strtol(arguments[2], NULL, 10) : 1;
    const uint64_t seed = count > 3 ? strtoull(arguments[3], NULL, 10) : usual_seed;
    if (calls < 1 || threads < 1 || threads > THREADS_MAX) {
        (void)fprintf(stderr, "usage: soak_calls [CALLS [THREADS [SEED]]]\n");
        return EXIT_FAILURE;
    }
    return threads > 1 ? run_many((int)threads, calls, seed) : run_one(calls, seed);
}
