/* SPDX-License-Identifier: Apache-2.0
 * Shards on disk, with an engine that computes nothing: every step once, whatever the system
 * refuses in between and whatever becomes of the files. The threads of this test are those of the
 * room: one at the disk beside the engine. */
#define _GNU_SOURCE
#include "base/base_try.h"
#include "shard/shard_run.h"
#include "support/support_disk.h"
#include "support/support_faulty.h"
#include "support/support_files.h"
#include "support/support_shapes.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 43, K = 3, MOST = 8, LOG_BYTES = 4096 };

/* ---- The engine ----------------------------------------------------------------------------- */

/* The key of a row is the set of shards that it has met, one bit each: merging twice changes
 * nothing, as in a true list. */
typedef struct fake {
    kith_ctx *ctx;
    int built[MOST];
    int met[MOST][MOST];
    int steps;
    int stop_at; /* the n-th step fails; 0: none */
    kin_shard_step last;
} fake;

static char told[LOG_BYTES];

static void hear(void *arg, int level, const char *line)
{
    (void)arg;
    (void)level;
    const size_t used = strlen(told);
    (void)snprintf(told + used, sizeof told - used, "%s\n", line);
}

static kith_status count_step(fake *f, int32_t a, int32_t b)
{
    f->steps += 1;
    if (f->steps == f->stop_at) {
        return kin_fail(f->ctx, KITH_E_CANCELLED, "stopped");
    }
    f->last = (kin_shard_step){a, b};
    return KITH_OK;
}

static kith_status build(void *arg, const kin_shard_part *a)
{
    fake *f = arg;
    KIN_TRY(count_step(f, a->shard, a->shard));
    f->built[a->shard] += 1;
    for (int64_t i = 0; i < a->rows * K; i++) {
        a->lists.ids[i] = (uint32_t)((a->first * K + i) % ROWS);
        a->lists.keys[i] = (double)(1 << a->shard);
        a->lists.own[i] = (uint32_t)(i % a->rows);
    }
    return KITH_OK;
}

static kith_status meet(void *arg, const kin_shard_part *a, const kin_shard_part *b)
{
    fake *f = arg;
    KIN_TRY(count_step(f, a->shard, b->shard));
    f->met[a->shard][b->shard] += 1;
    return KITH_OK;
}

static void join(const kin_shard_part *part, int32_t shard)
{
    for (int64_t i = 0; i < part->rows * K; i++) {
        part->lists.keys[i] = (double)((int)part->lists.keys[i] | 1 << shard);
    }
}

static kith_status merge(void *arg, const kin_shard_part *a, const kin_shard_part *b)
{
    (void)arg;
    join(a, b->shard);
    join(b, a->shard);
    return KITH_OK;
}

/* ---- One job -------------------------------------------------------------------------------- */

typedef struct checking {
    int32_t shards;
    int64_t rows;
} checking;

static kith_status check_part(void *arg, const kin_shard_part *part)
{
    checking *c = arg;
    assert_int_equal(part->first, c->rows);
    for (int64_t i = 0; i < part->rows * K; i++) {
        assert_int_equal(part->lists.ids[i], (part->first * K + i) % ROWS);
        assert_int_equal((int)part->lists.keys[i], (1 << c->shards) - 1);
        assert_int_equal(part->lists.own[i], i % part->rows);
    }
    c->rows += part->rows;
    return KITH_OK;
}

/* Runs the steps and looks at the lists. A step that failed leaves the folder. */
static kith_status run_job(test_folder *folder, int32_t shards, const char *job, bool restart,
                           fake *f)
{
    static const float points[ROWS];
    const kith_matrix matrix = {points, ROWS, sizeof(float), 1, KITH_F32};
    const kin_shard_shape shape = {job, KITH_MANHATTAN, shards, ROWS, NULL, K, true};
    kin_shard_folder work;
    kin_shard_run run = {.slot_count = 0};
    kith_ctx *disk = NULL;
    told[0] = '\0';
    f->ctx = folder->ctx;
    assert_int_equal(kith_ctx_create(NULL, &disk), KITH_OK);
    kith_status status = kin_ctx_begin(folder->ctx);
    KIN_KEEP(status, kin_shard_folder_open(folder->ctx, test_path(folder, "work"), false, &work));
    if (status == KITH_OK) {
        status = kin_shard_folder_begin(&work, &shape, restart);
    }
    if (status == KITH_OK) {
        status = kin_shard_run_make(folder->ctx, disk, &work, &run);
    }
    run.points = &matrix;
    run.engine = (kin_shard_engine){f, build, meet, merge, NULL, NULL};
    for (bool lost = true; status == KITH_OK && lost;) {
        checking c = {.shards = shards};
        status = kin_shard_run_steps(&run);
        if (status == KITH_OK) {
            assert_int_equal(kin_shard_count_done(&work), kin_shard_steps(shards));
            status = kin_shard_each(&run, check_part, &c, &lost);
            assert_true(status != KITH_OK || lost || c.rows == ROWS);
        }
    }
    kin_shard_run_free(&run);
    kin_shard_folder_close(&work);
    kith_ctx_free(disk);
    return status;
}

static kith_status run_plain(test_folder *folder, int32_t shards, fake *f)
{
    memset(f, 0, sizeof *f);
    return run_job(folder, shards, "a job\n", false, f);
}

static void disk_works(void)
{
    test_disk_works();
    test_disk.lazy = 1;
}

static const char *work_path(test_folder *folder, const char *name)
{
    char text[64];
    (void)snprintf(text, sizeof text, "work/%s", name);
    return test_path(folder, text);
}

/* The file of a shard after all steps: a version for its build and one for each pair. */
static const char *file_of(test_folder *folder, int32_t shards, int32_t shard)
{
    char text[KIN_SHARD_NAME_BYTES];
    kin_shard_name_print((kin_shard_name){shard, shards - 1}, text);
    return work_path(folder, text);
}

static void clean(test_folder *folder)
{
    fake f;
    disk_works();
    memset(&f, 0, sizeof f);
    f.stop_at = 1; /* restart removes what is there, and a job without a step leaves nothing */
    assert_int_equal(run_job(folder, 2, "clean\n", true, &f), KITH_E_CANCELLED);
    (void)rmdir(test_path(folder, "work"));
    assert_int_equal(test_folder_count(folder), 0);
}

/* ---- Schedules ------------------------------------------------------------------------------ */

static void every_pair_once(void **state)
{
    (void)state;
    print_message("1 to 40 shards: every step once, pairs share a shard with the one before, and a "
                  "tournament's rounds have every pair once and nobody twice\n");
    for (int32_t shards = 1; shards <= 40; shards++) {
        char seen[40][40] = {{0}};
        char played[40][40] = {{0}};
        kin_shard_step before = {-1, -1};
        for (int64_t n = 0; n < kin_shard_steps(shards); n++) {
            const kin_shard_step s = kin_shard_step_at(shards, n);
            assert_true(s.a >= 0 && s.a <= s.b && s.b < shards && seen[s.a][s.b]++ == 0);
            assert_int_equal(kin_shard_is_build(s), n < shards);
            if (n > shards) {
                assert_true(s.a == before.a || s.a == before.b || s.b == before.a ||
                            s.b == before.b);
            }
            before = s;
        }
        for (int32_t r = 0; r < kin_shard_rounds(shards); r++) {
            char busy[40] = {0};
            for (int32_t t = 0; t < kin_shard_tables(shards); t++) {
                kin_shard_step s;
                if (kin_shard_meeting(shards, r, t, &s)) {
                    assert_true(s.a < s.b && busy[s.a]++ == 0 && busy[s.b]++ == 0);
                    played[s.a][s.b] += 1;
                }
            }
        }
        int64_t rows = 0;
        for (int32_t a = 0; a < shards; a++) {
            for (int32_t b = a + 1; b < shards; b++) {
                assert_int_equal(played[a][b], 1);
            }
            assert_int_equal(kin_shard_first(ROWS, shards, a), rows);
            rows += kin_shard_rows(ROWS, shards, a);
            assert_in_range(kin_shard_rows(ROWS, shards, a), ROWS / shards, ROWS / shards + 1);
        }
        assert_int_equal(rows, ROWS);
    }
}

static void each_step_once(void **state)
{
    test_folder *folder = *state;
    print_message("1 to 8 shards: each is built once, each pair meets once, and the same job again "
                  "has nothing to do\n");
    for (int32_t shards = 1; shards <= MOST; shards++) {
        fake f;
        disk_works();
        assert_int_equal(run_plain(folder, shards, &f), KITH_OK);
        assert_int_equal(f.steps, kin_shard_steps(shards));
        for (int32_t a = 0; a < shards; a++) {
            assert_int_equal(f.built[a], 1);
            for (int32_t b = a + 1; b < shards; b++) {
                assert_int_equal(f.met[a][b], 1);
            }
            assert_int_equal(access(file_of(folder, shards, a), F_OK), 0);
        }
        assert_int_equal(run_plain(folder, shards, &f), KITH_OK);
        assert_int_equal(f.steps, 0);
        clean(folder);
    }
}

/* ---- Going on ------------------------------------------------------------------------------- */

static void from_every_step(void **state)
{
    test_folder *folder = *state;
    int stops = 0;
    print_message("stopped in the n-th step, each n: the next run does that step and the rest\n");
    for (int32_t shards = 2; shards <= 5; shards++) {
        const int steps = (int)kin_shard_steps(shards);
        for (int n = 1; n <= steps; n++) {
            fake f = {.stop_at = n};
            assert_int_equal(run_job(folder, shards, "a job\n", false, &f), KITH_E_CANCELLED);
            assert_int_equal(run_plain(folder, shards, &f), KITH_OK);
            assert_int_equal(f.steps, steps - n + 1);
            stops += 1;
            clean(folder);
        }
    }
    print_message("%d stops\n", stops);
}

static void full_disk_at_each_call(void **state)
{
    test_folder *folder = *state;
    enum { SHARDS = 4 };
    const int steps = (int)kin_shard_steps(SHARDS);
    const int stride = test_is_sanitized_build() ? 5 : 1;
    int tried = 0;
    int most = 0;
    print_message("the disk is full from the n-th call on, each n: an error; the next run does the "
                  "steps that were not on disk, two of those that were computed at most\n");
    kith_status status = KITH_E_IO;
    for (int n = 1; status != KITH_OK; n += stride) {
        fake f;
        fake again;
        disk_works();
        test_disk.fail_at = n;
        status = run_plain(folder, SHARDS, &f);
        disk_works();
        if (status != KITH_OK) {
            assert_int_equal(status, KITH_E_IO);
            assert_non_null(strstr(kith_ctx_detail(folder->ctx), "work/shard"));
            tried += 1;
        }
        assert_int_equal(run_plain(folder, SHARDS, &again), KITH_OK);
        const int lost = f.steps + again.steps - steps;
        most = lost > most ? lost : most;
        assert_in_range(lost, 0, 2);
        clean(folder);
    }
    print_message("%d refusals, at most %d steps twice\n", tried, most);
    assert_true(tried > 60 / stride);
}

/* ---- Damage --------------------------------------------------------------------------------- */

static void spoil(test_folder *folder, const char *path, const char *how, size_t at)
{
    size_t bytes = 0;
    unsigned char *data = test_read(path, &bytes);
    if (strcmp(how, "byte") == 0) {
        data[at * (bytes - 1) / 8] ^= 0x10;
    } else if (strcmp(how, "cut") == 0) {
        bytes = at * bytes / 9;
    }
    const char *name = path + strlen(folder->path) + 1;
    (void)test_write(folder, name, data, bytes);
    free(data);
}

static void damaged_files(void **state)
{
    test_folder *folder = *state;
    enum { SHARDS = 4 };
    fake f;
    int cases = 0;
    print_message("a shard's file with a wrong byte, cut short, or another's: named, made again "
                  "with its own steps alone\n");
    disk_works();
    for (int32_t shard = 0; shard < SHARDS; shard++) {
        for (size_t i = 0; i < 18; i++) {
            char path[320];
            assert_int_equal(run_plain(folder, SHARDS, &f), KITH_OK);
            (void)snprintf(path, sizeof path, "%s", file_of(folder, SHARDS, shard));
            spoil(folder, path, i < 9 ? "byte" : "cut", i % 9);
            assert_int_equal(run_plain(folder, SHARDS, &f), KITH_OK);
            assert_non_null(strstr(told, path));
            assert_int_equal(f.steps, SHARDS);
            assert_int_equal(f.built[shard], 1);
            cases += 1;
        }
        char other[320];
        (void)snprintf(other, sizeof other, "%s", file_of(folder, SHARDS, (shard + 1) % SHARDS));
        clean(folder);
        assert_int_equal(run_plain(folder, SHARDS, &f), KITH_OK);
        assert_int_equal(unlink(file_of(folder, SHARDS, shard)), 0);
        assert_int_equal(link(other, file_of(folder, SHARDS, shard)), 0);
        assert_int_equal(run_plain(folder, SHARDS, &f), KITH_OK);
        assert_non_null(strstr(told, "another shard"));
        assert_int_equal(f.steps, SHARDS);
        clean(folder);
    }
    print_message("%d files\n", cases);
}

/* What a crash between the two files of a pair leaves, and one before the old ones are gone. */
static void half_a_pair(void **state)
{
    test_folder *folder = *state;
    enum { SHARDS = 3, BEFORE_LAST = 5 };
    fake f = {.stop_at = BEFORE_LAST};
    char kept[SHARDS][320];
    print_message("a pair of which one file was written is done again; both, and it stands\n");
    for (int both = 0; both < 2; both++) {
        f = (fake){.stop_at = BEFORE_LAST + 1}; /* builds and (0,1) (0,2) stand, (1,2) does not */
        assert_int_equal(run_job(folder, SHARDS, "a job\n", false, &f), KITH_E_CANCELLED);
        for (int32_t i = 1; i < SHARDS; i++) {
            char name[KIN_SHARD_NAME_BYTES];
            kin_shard_name_print((kin_shard_name){i, 1}, name);
            (void)snprintf(kept[i], sizeof kept[i], "%s/kept-%d", folder->path, (int)i);
            assert_int_equal(link(work_path(folder, name), kept[i]), 0);
        }
        assert_int_equal(run_plain(folder, SHARDS, &f), KITH_OK);
        assert_int_equal(f.steps, 1);
        for (int32_t i = 1; i < SHARDS; i++) {
            char name[KIN_SHARD_NAME_BYTES];
            kin_shard_name_print((kin_shard_name){i, 1}, name);
            assert_int_equal(rename(kept[i], work_path(folder, name)), 0);
        }
        if (both == 0) {
            assert_int_equal(unlink(file_of(folder, SHARDS, 2)), 0);
        }
        assert_int_equal(run_plain(folder, SHARDS, &f), KITH_OK);
        assert_int_equal(f.steps, both == 0 ? 1 : 0);
        assert_string_equal(told, "");
        clean(folder);
    }
}

/* ---- Others --------------------------------------------------------------------------------- */

static void other_jobs(void **state)
{
    test_folder *folder = *state;
    fake f;
    disk_works();
    print_message("another job, another number of shards, no journal: refused with both lines; "
                  "restart begins anew\n");
    assert_int_equal(run_plain(folder, 3, &f), KITH_OK);
    const char *work = test_path(folder, "work");
    f = (fake){.stop_at = 0};
    test_failed(folder, run_job(folder, 3, "no job\n", false, &f), KITH_E_ARGUMENT, work,
                "it says 'a job', this one 'no job' (to begin anew add --restart");
    test_failed(folder, run_job(folder, 4, "a job\n", false, &f), KITH_E_ARGUMENT, work,
                "it says 'shards 3', this one 'shards 4'");
    assert_int_equal(f.steps, 0);
    assert_int_equal(run_job(folder, 4, "no job\n", true, &f), KITH_OK);
    assert_int_equal(f.steps, 10);
    spoil(folder, work_path(folder, "shards.journal"), "byte", 3);
    test_failed(folder, run_job(folder, 4, "no job\n", false, &f), KITH_E_FORMAT, NULL,
                "is no journal of kith, or damaged");
    assert_int_equal(unlink(work_path(folder, "shards.journal")), 0);
    f = (fake){.stop_at = 0};
    assert_int_equal(run_job(folder, 4, "no job\n", false, &f), KITH_OK);
    assert_int_equal(f.steps, 10);
    clean(folder);
}

static void two_processes(void **state)
{
    test_folder *folder = *state;
    kin_shard_folder first;
    fake f;
    print_message("a folder that somebody is at work in is refused, and left alone\n");
    assert_int_equal(kin_shard_folder_open(folder->ctx, test_path(folder, "work"), false, &first),
                     KITH_OK);
    memset(&f, 0, sizeof f);
    test_failed(folder, run_job(folder, 2, "a job\n", true, &f), KITH_E_IO,
                test_path(folder, "work"), "another process is at work in it");
    kin_shard_folder_close(&first);
    assert_int_equal(run_plain(folder, 2, &f), KITH_OK);
    (void)test_write(folder, "work/notes.txt", "mine", 4);
    kin_shard_name name;
    print_message("files that are not ours stay\n");
    for (int i = 0; i < 6; i++) {
        static const char *const names[] = {"shard-00001.kith",         "shard-1.000001.kith",
                                            "shard-99999.000001.kith",  "shard-00001.-00001.kith",
                                            "shard-00001.000001.kith~", "shards.journal"};
        assert_false(kin_shard_name_parse(names[i], &name));
    }
    f = (fake){.stop_at = 1};
    assert_int_equal(run_job(folder, 2, "clean\n", true, &f), KITH_E_CANCELLED);
    assert_int_equal(unlink(work_path(folder, "notes.txt")), 0);
    assert_int_equal(rmdir(test_path(folder, "work")), 0);
}

/* ---- Memory --------------------------------------------------------------------------------- */

static void memory_runs_out(void **state)
{
    test_folder *folder = *state;
    enum { POINTS = 90, COLS = 3 };
    static uint8_t data[POINTS * COLS];
    const int stride = test_is_sanitized_build() ? 17 : 5;
    int tried = 0;
    print_message(
        "no memory at the n-th allocation of kith_graph_shards: an error, nothing held\n");
    for (int i = 0; i < POINTS * COLS; i++) {
        data[i] = (uint8_t)(i * i % 251);
    }
    const kith_matrix points = {data, POINTS, COLS, COLS, KITH_U8};
    kith_search_params exact = kith_search_params_default();
    kith_shard_params params = kith_shard_params_default();
    exact.k = K;
    params.exact = &exact;
    params.shards = 3;
    kith_status status = KITH_E_MEMORY;
    for (long n = 1; status != KITH_OK; n += stride) {
        test_faulty faulty = {.fails_at = 0};
        kith_ctx *ctx = test_faulty_ctx("cpu", &faulty, 0);
        faulty.fails_at = atomic_load(&faulty.asked) + n;
        status = kith_graph_shards(ctx, &points, &params, test_path(folder, "work"),
                                   test_path(folder, "graph.kith"), NULL);
        assert_true(status == KITH_OK || status == KITH_E_MEMORY);
        assert_true(status == KITH_OK || kith_ctx_detail(ctx)[0] != '\0');
        kith_ctx_free(ctx);
        assert_int_equal(atomic_load(&faulty.blocks), 0);
        assert_true(++tried < 1000);
        (void)unlink(test_path(folder, "graph.kith"));
        (void)unlink(test_path(folder, "graph.kith.partial"));
        (void)unlink(test_path(folder, "graph.kith.journal"));
        clean(folder);
    }
    print_message("%d runs\n", tried);
}

static int setup(void **state)
{
    disk_works();
    const int failed = test_folder_setup(state);
    test_folder *folder = *state;
    kith_ctx_params params = kith_ctx_params_default();
    params.log = hear;
    kith_ctx_free(folder->ctx);
    return failed != 0 || kith_ctx_create(&params, &folder->ctx) != KITH_OK;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_once),
        cmocka_unit_test_setup_teardown(each_step_once, setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(from_every_step, setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(full_disk_at_each_call, setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(damaged_files, setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(half_a_pair, setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(other_jobs, setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(memory_runs_out, setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(two_processes, setup, test_folder_teardown),
    };
    return cmocka_run_group_tests_name("shards", tests, NULL, NULL);
}
