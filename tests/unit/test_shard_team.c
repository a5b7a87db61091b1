/* SPDX-License-Identifier: Apache-2.0
 * A team at one folder, its workers as threads of this program: the bytes of one process, and one
 * failure for all. tests/cli/test_cli_mpi.py has true processes, where there is an MPI. */
#include "kith/kith.h"
#include "support/support_files.h"
#include "support/support_shapes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { COLS = 4, K = 6, MOST = 4, STEPS = 15, MOST_ROWS = 12300 };

static unsigned char points[MOST_ROWS * COLS];

/* What is made of the first so many points. */
typedef struct graph_case {
    const char *name;
    int64_t rows;
    int32_t shards;
    int64_t steps;
    bool descends;
} graph_case;

static const graph_case exact_graph = {"an exact graph", 150, 5, STEPS, false};

/* What combine works on: everyone adds, waits, reads, waits. */
static struct {
    pthread_barrier_t all;
    pthread_mutex_t lock;
    unsigned char greatest[1 << 16];
} table;

typedef struct worker {
    kith_shard_team team;
    const graph_case *graph;
    const char *folder;
    const char *path;
    int stop_at; /* this call of combine: ticks from there on say so; 0: never */
    int calls;
    int64_t k;
    kith_status status;
    char detail[256];
    kith_shard_report report;
    pthread_t thread;
} worker;

static int combine(void *arg, unsigned char *bytes, uint64_t count)
{
    static const struct timespec pause = {.tv_nsec = 60000000}; /* a tick is asked for again */
    worker *w = arg;
    w->calls += 1;
    if (w->calls == w->stop_at) {
        (void)nanosleep(&pause, NULL);
    }
    assert_true(count <= sizeof table.greatest);
    (void)pthread_mutex_lock(&table.lock);
    for (uint64_t i = 0; i < count; i++) {
        table.greatest[i] = table.greatest[i] > bytes[i] ? table.greatest[i] : bytes[i];
    }
    (void)pthread_mutex_unlock(&table.lock);
    (void)pthread_barrier_wait(&table.all);
    memcpy(bytes, table.greatest, (size_t)count);
    const int turn = pthread_barrier_wait(&table.all);
    if (turn == PTHREAD_BARRIER_SERIAL_THREAD) {
        memset(table.greatest, 0, sizeof table.greatest);
    }
    (void)pthread_barrier_wait(&table.all);
    return 0;
}

static int tick(void *arg, const char *phase, double done, double total)
{
    (void)phase;
    (void)done;
    (void)total;
    const worker *w = arg;
    return w->stop_at != 0 && w->calls >= w->stop_at;
}

static void *work(void *arg)
{
    worker *w = arg;
    const kith_matrix matrix = {points, w->graph->rows, COLS, COLS, KITH_U8};
    kith_search_params exact = kith_search_params_default();
    kith_descent_params descent = kith_descent_params_default();
    kith_shard_params params = kith_shard_params_default();
    kith_ctx_params ours = kith_ctx_params_default();
    kith_ctx *ctx = NULL;
    ours.threads = w->team.workers > 0 ? 1 : 2;
    ours.device = "cpu";
    ours.progress = tick;
    ours.progress_arg = w;
    assert_int_equal(kith_ctx_create(&ours, &ctx), KITH_OK);
    exact.k = w->k;
    descent.k = w->k;
    params.exact = w->graph->descends ? NULL : &exact;
    params.descent = w->graph->descends ? &descent : NULL;
    params.format = KITH_FORMAT_KITH;
    params.shards = w->graph->shards;
    params.team = w->team.workers > 0 ? &w->team : NULL;
    w->report.struct_size = (uint32_t)sizeof w->report;
    w->status = kith_graph_shards(ctx, &matrix, &params, w->folder, w->path, &w->report);
    (void)snprintf(w->detail, sizeof w->detail, "%s", kith_ctx_detail(ctx));
    kith_ctx_free(ctx);
    return NULL;
}

static void prepare(test_folder *folder, const graph_case *graph, int workers, worker team[MOST])
{
    memset(team, 0, MOST * sizeof *team);
    for (int i = 0; i < workers; i++) {
        team[i] = (worker){.team = {.struct_size = (uint32_t)sizeof team[i].team,
                                    .workers = workers,
                                    .worker = i,
                                    .combine = combine,
                                    .arg = &team[i]},
                           .graph = graph,
                           .folder = test_path(folder, "work"),
                           .path = test_path(folder, "team.kith"),
                           .k = K};
    }
}

static void run(int workers, worker team[MOST])
{
    assert_int_equal(pthread_barrier_init(&table.all, NULL, (unsigned)workers), 0);
    for (int i = 0; i < workers; i++) {
        assert_int_equal(pthread_create(&team[i].thread, NULL, work, &team[i]), 0);
    }
    for (int i = 0; i < workers; i++) {
        assert_int_equal(pthread_join(team[i].thread, NULL), 0);
    }
    (void)pthread_barrier_destroy(&table.all);
}

static void same_bytes(const char *one, const char *other)
{
    size_t bytes[2];
    unsigned char *data[2] = {test_read(one, &bytes[0]), test_read(other, &bytes[1])};
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(data[0], data[1], bytes[0]);
    free(data[0]);
    free(data[1]);
}

static void alone(test_folder *folder, const graph_case *graph)
{
    worker one = {.graph = graph,
                  .folder = test_path(folder, "own"),
                  .path = test_path(folder, "one.kith"),
                  .k = K};
    (void)work(&one);
    assert_int_equal(one.status, KITH_OK);
    assert_int_equal(one.report.steps_done, graph->steps);
}

static void the_bytes_of_one(void **state)
{
    static const graph_case descents[] = {
        {"an approximate graph of pairs", 600, 5, STEPS, true},
        {"an approximate graph of groups", MOST_ROWS, 3, 3, true},
    };
    enum { GRAPHS = 3 };
    const graph_case *const graphs[GRAPHS] = {&exact_graph, &descents[0], &descents[1]};
    test_folder *folder = *state;
    worker team[MOST];
    for (int i = 0; i < GRAPHS; i++) {
        print_message("%s: 1 to 4 workers write the bytes of one process, and leave no folder\n",
                      graphs[i]->name);
        alone(folder, graphs[i]);
        for (int workers = 1; workers <= MOST; workers++) {
            if (test_is_sanitized_build() && graphs[i]->rows == MOST_ROWS && workers != MOST) {
                continue;
            }
            prepare(folder, graphs[i], workers, team);
            run(workers, team);
            for (int j = 0; j < workers; j++) {
                assert_int_equal(team[j].status, KITH_OK);
                assert_int_equal(team[j].report.steps_done, graphs[i]->steps);
            }
            assert_true(!graphs[i]->descends || team[0].report.recall.recall > 0.99);
            same_bytes(test_path(folder, "one.kith"), test_path(folder, "team.kith"));
            assert_int_equal(test_folder_count(folder), 2);
        }
    }
}

/* The file by which workers see that they are in one folder. */
static void a_link(void **state)
{
    test_folder *folder = *state;
    worker team[MOST];
    size_t bytes = 0;
    print_message(
        "a symbolic link in the place of shards.team is replaced, not what it points to\n");
    alone(folder, &exact_graph);
    char precious[320];
    (void)snprintf(precious, sizeof precious, "%s", test_write(folder, "precious", "precious", 8));
    assert_int_equal(mkdir(test_path(folder, "work"), 0777), 0);
    assert_int_equal(symlink(precious, test_path(folder, "work/shards.team")), 0);
    prepare(folder, &exact_graph, 2, team);
    run(2, team);
    assert_int_equal(team[0].status, KITH_OK);
    assert_int_equal(team[1].status, KITH_OK);
    same_bytes(test_path(folder, "one.kith"), test_path(folder, "team.kith"));
    unsigned char *there = test_read(precious, &bytes);
    assert_int_equal(bytes, 8);
    assert_memory_equal(there, "precious", 8);
    free(there);
    assert_int_equal(rmdir(test_path(folder, "work")), 0);
}

static void one_failure(void **state)
{
    test_folder *folder = *state;
    worker team[MOST];
    print_message("a worker that is stopped, has other parameters or no folder: all hear the same, "
                  "and other workers go on\n");
    alone(folder, &exact_graph);
    prepare(folder, &exact_graph, 3, team);
    team[2].stop_at = 21; /* the end of the builds */
    run(3, team);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(team[i].status, KITH_E_CANCELLED);
    }
    const int64_t stood = team[0].report.steps_done;
    assert_true(stood > 0 && stood < STEPS);
    prepare(folder, &exact_graph, 2, team);
    team[1].k = K - 1;
    run(2, team);
    assert_int_equal(team[0].status, KITH_E_ARGUMENT);
    assert_int_equal(team[1].status, KITH_E_ARGUMENT);
    assert_non_null(strstr(team[0].detail, "it says 'k 6', this one 'k 5'"));
    assert_non_null(strstr(team[0].detail, "[worker 1]"));
    assert_string_equal(team[0].detail, team[1].detail);
    prepare(folder, &exact_graph, 2, team);
    team[1].folder = test_path(folder, "nowhere");
    run(2, team);
    assert_int_equal(team[0].status, KITH_E_IO);
    assert_non_null(strstr(team[0].detail, "nowhere: cannot be opened as a folder"));
    assert_string_equal(team[0].detail, team[1].detail);
    prepare(folder, &exact_graph, 2, team);
    run(2, team);
    assert_int_equal(team[0].status, KITH_OK);
    assert_int_equal(team[0].report.steps_stood, stood);
    same_bytes(test_path(folder, "one.kith"), test_path(folder, "team.kith"));
}

int main(void)
{
    for (int i = 0; i < MOST_ROWS * COLS; i++) {
        points[i] = (unsigned char)((uint32_t)i * 2654435761U >> 24);
    }
    (void)pthread_mutex_init(&table.lock, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_bytes_of_one, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(a_link, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(one_failure, test_folder_setup, test_folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
