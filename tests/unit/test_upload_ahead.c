/* SPDX-License-Identifier: Apache-2.0
 * Uploads ahead of their use and answers behind their making, on the reference device, whose copies
 * are slow or fail at will: rows arrive, threads and memory come back on every way out, errors are
 * told where the rows are wanted and nowhere else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gpu/gpu.h"
#include "support/support_reference.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- A context and a device ------------------------------------------------------------------ */

typedef struct bench {
    kith_ctx *ctx;
    kin_gpu *gpu;
} bench;

static const uint64_t BUDGET = UINT64_C(1) << 30;
static int stop_at_once; /* what the progress function says */

static int progress(void *arg, const char *phase, double done, double total)
{
    (void)arg;
    assert_string_equal(phase, "copy");
    assert_true(done <= total);
    return stop_at_once;
}

static void bench_open(bench *b, int32_t threads)
{
    kith_ctx_params params = kith_ctx_params_default();
    params.device = "cpu";
    params.threads = threads;
    params.progress = progress;
    stop_at_once = 0;
    assert_int_equal(kith_ctx_create(&params, &b->ctx), KITH_OK);
    b->gpu = test_reference_gpu(b->ctx, BUDGET);
}

/* Everything that was taken is back. */
static void bench_close(bench *b)
{
    assert_int_equal(b->gpu->held, 0);
    kin_gpu_close(b->ctx, b->gpu);
    test_reference_is_empty();
    assert_int_equal(atomic_load(&b->ctx->held_bytes), 0);
    kith_ctx_free(b->ctx);
}

static kin_gpu_rows rows_make(int64_t count, int64_t row_bytes, int64_t stride_bytes)
{
    const size_t bytes = (size_t)(count * stride_bytes);
    uint32_t *words = malloc(bytes + sizeof *words);
    assert_non_null(words);
    for (size_t i = 0; i <= bytes / sizeof *words; i++) {
        words[i] = (uint32_t)i * 2654435761U;
    }
    return (kin_gpu_rows){words, count, row_bytes, stride_bytes};
}

static void rows_free(const kin_gpu_rows *rows)
{
    free((void *)(uintptr_t)rows->from);
}

/* Whether work of the stream reads the rows in a block. */
static bool rows_arrived(bench *b, const kin_gpu_rows *rows, const unsigned char *block)
{
    const unsigned char *from = rows->from;
    assert_int_equal(kin_gpu_wait(b->ctx, b->gpu), KITH_OK);
    for (int64_t i = 0; i < rows->count; i++) {
        if (memcmp(block + i * rows->row_bytes, from + i * rows->stride_bytes,
                   (size_t)rows->row_bytes) != 0) {
            return false;
        }
    }
    return true;
}

/* ---- Rows arrive ----------------------------------------------------------------------------- */

static void rows_arrive(void **state)
{
    (void)state;
    static const struct {
        int64_t count, row_bytes, stride_bytes;
    } shapes[] = {{1, 1, 1},          {1000, 128, 128},      {1000, 100, 128},
                  {300000, 512, 512}, {3, 5 << 19, 3 << 20}, {40, 3 << 20, 3 << 20},
                  {70000, 4, 12}};
    for (int32_t threads = 1; threads <= 4; threads += 3) {
        bench b;
        bench_open(&b, threads);
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            const kin_gpu_rows rows =
                rows_make(shapes[i].count, shapes[i].row_bytes, shapes[i].stride_bytes);
            void *block = NULL;
            kin_gpu_ahead_begin(b.ctx, b.gpu, &rows, 1);
            assert_non_null(test_counts.follower); /* the other stream waits */
            assert_ptr_not_equal(test_counts.follower, b.gpu->stream);
            assert_int_equal(kin_gpu_ahead_take(b.ctx, b.gpu, &rows, &block), KITH_OK);
            assert_non_null(block);
            assert_true(rows_arrived(&b, &rows, block));
            kin_gpu_free(b.gpu, block);
            assert_int_equal(kin_gpu_ahead_take(b.ctx, b.gpu, &rows, &block), KITH_OK);
            assert_null(block); /* taken once */
            rows_free(&rows);
        }
        assert_int_equal(b.gpu->ahead_tally.uploads, sizeof shapes / sizeof *shapes);
        assert_true(b.gpu->ahead_tally.copying_ns > 0);
        assert_false(kin_gpu_ahead_end(b.gpu));
        bench_close(&b);
    }
    printf("rows of 7 shapes, 1 and 4 threads: on the device, byte for byte, and taken once\n");
}

/* The main thread works with the device meanwhile; eight uploads at a time, a ninth hint is not
 * taken, and one of the same rows begins nothing. The thread sanitizer watches. */
static void beside_work(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, 4);
    test_faults.copy_ns = 200000;
    const kin_gpu_rows first = rows_make(100000, 128, 128);
    const kin_gpu_rows second = rows_make(50000, 100, 128);
    enum { FEW = 7 };
    kin_gpu_rows few[FEW];
    for (int i = 0; i < FEW; i++) {
        few[i] = rows_make(10 + 10 * i, 8, 8);
    }
    unsigned char small[3000];
    unsigned char back[3000];
    for (size_t i = 0; i < sizeof small; i++) {
        small[i] = (unsigned char)(i % 251);
    }
    for (int round = 0; round < 4; round++) {
        void *block = NULL;
        kin_gpu_ahead_begin(b.ctx, b.gpu, &first, 1);
        kin_gpu_ahead_begin(b.ctx, b.gpu, &second, 2);
        kin_gpu_ahead_begin(b.ctx, b.gpu, &first, 1);
        for (int i = 0; i < FEW; i++) {
            kin_gpu_ahead_begin(b.ctx, b.gpu, &few[i], FEW);
        }
        for (int i = 0; i < 20; i++) {
            void *mine = NULL;
            assert_int_equal(kin_gpu_alloc(b.ctx, b.gpu, &mine, sizeof small, 1, "mine"), KITH_OK);
            assert_int_equal(kin_gpu_upload(b.ctx, b.gpu, mine, small, sizeof small), KITH_OK);
            assert_int_equal(kin_gpu_download(b.ctx, b.gpu, back, mine, sizeof back), KITH_OK);
            assert_memory_equal(back, small, sizeof small);
            kin_gpu_free(b.gpu, mine);
            kin_gpu_trim(b.gpu);
        }
        for (int i = 0; i < FEW; i++) {
            assert_int_equal(kin_gpu_ahead_take(b.ctx, b.gpu, &few[i], &block), KITH_OK);
            assert_true(i + 1 < FEW ? rows_arrived(&b, &few[i], block) : block == NULL);
            kin_gpu_free(b.gpu, block);
        }
        assert_int_equal(kin_gpu_ahead_take(b.ctx, b.gpu, &second, &block), KITH_OK);
        assert_true(rows_arrived(&b, &second, block));
        kin_gpu_free(b.gpu, block);
        assert_int_equal(kin_gpu_ahead_take(b.ctx, b.gpu, &first, &block), KITH_OK);
        assert_true(rows_arrived(&b, &first, block));
        kin_gpu_free(b.gpu, block);
    }
    assert_int_equal(b.gpu->ahead_tally.uploads, 32);
    rows_free(&first);
    rows_free(&second);
    for (int i = 0; i < FEW; i++) {
        rows_free(&few[i]);
    }
    bench_close(&b);
    printf("eight uploads beside the main thread's own copies and allocations: all bytes right\n");
}

/* ---- Given up -------------------------------------------------------------------------------- */

static void given_up(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, 2);
    test_faults.copy_ns = 5000000; /* half a second in all, however late this thread is woken */
    const kin_gpu_rows rows = rows_make(400000, 512, 512);
    kin_gpu_rows others = rows;
    void *block = NULL;
    others.count -= 1;
    kin_gpu_ahead_begin(b.ctx, b.gpu, &rows, 1);
    assert_int_equal(kin_gpu_ahead_take(b.ctx, b.gpu, &others, &block), KITH_OK);
    assert_null(block);
    while (atomic_load(&test_counts.copies) == 0) {
        (void)sched_yield();
    }
    assert_true(kin_gpu_ahead_end(b.gpu));
    assert_false(kin_gpu_ahead_end(b.gpu));
    assert_true(atomic_load(&test_counts.copies) < 400000 * 512 / (1 << 20));
    printf("given up after %d of %d pieces\n", (int)atomic_load(&test_counts.copies),
           400000 * 512 / (1 << 20));
    assert_int_equal(b.gpu->held, 0);

    /* The progress function says stop while somebody waits. */
    kin_gpu_ahead_begin(b.ctx, b.gpu, &rows, 1);
    stop_at_once = 1;
    b.ctx->progress_ns = 0;
    assert_int_equal(kin_gpu_ahead_take(b.ctx, b.gpu, &rows, &block), KITH_E_CANCELLED);
    assert_null(block);
    assert_true(kin_gpu_ahead_end(b.gpu));

    /* Closed with an upload under way. */
    kin_gpu_ahead_begin(b.ctx, b.gpu, &rows, 1);
    kin_gpu_ahead_close(b.gpu);
    assert_int_equal(b.gpu->held, 0);
    rows_free(&rows);
    bench_close(&b);
    printf("other rows, a cancelled call, a closed device: threads joined, memory back\n");
}

/* ---- Failures -------------------------------------------------------------------------------- */

static void failing_copies(void **state)
{
    (void)state;
    /* 147 pieces in portions of 64, 64 and 19. */
    static const int64_t places[] = {1, 2, 64, 65, 147, 148};
    const kin_gpu_rows rows = rows_make(300000, 512, 512);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const int64_t at = places[i];
        bench b;
        bench_open(&b, 3);
        test_faults.failing_copy = at;
        void *block = NULL;
        kin_gpu_ahead_begin(b.ctx, b.gpu, &rows, 1);
        assert_int_equal(b.ctx->failure.status, KITH_OK); /* nobody was told so far */
        assert_int_equal(kin_gpu_ahead_take(b.ctx, b.gpu, &rows, &block),
                         at <= 147 ? KITH_E_DEVICE : KITH_OK);
        assert_true(at > 147 || strstr(kith_ctx_detail(b.ctx), "broken on purpose") != NULL);
        assert_true((block == NULL) == (at <= 147));
        kin_gpu_free(b.gpu, block);

        /* What is given up takes its error along. */
        kin_forgive(b.ctx);
        kin_gpu_ahead_begin(b.ctx, b.gpu, &rows, 1);
        assert_true(kin_gpu_ahead_end(b.gpu));
        assert_int_equal(b.ctx->failure.status, KITH_OK);
        bench_close(&b);
    }
    rows_free(&rows);
    printf("copies that fail are told where the rows are wanted, with the device's words\n");
}

/* What a hint lacks is nobody's error: the rows are not there, that is all. */
static void no_means(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, 2);
    const kin_gpu_rows rows = rows_make(1000, 64, 64);
    void *block = &b;
    for (int lack = 0; lack < 6; lack++) {
        test_faults.no_stream = lack == 0;
        test_faults.no_event = lack == 1;
        test_faults.no_pinned = lack == 2;
        b.gpu->budget = lack == 3 ? 60000 : lack == 4 ? 64000 : BUDGET; /* 65,536 are taken */
        b.gpu->ahead_off = lack == 5;
        kin_gpu_ahead_begin(b.ctx, b.gpu, &rows, 1);
        assert_int_equal(b.ctx->failure.status, KITH_OK);
        assert_int_equal(kin_gpu_ahead_take(b.ctx, b.gpu, &rows, &block), KITH_OK);
        assert_null(block);
        assert_int_equal(b.gpu->held, 0);
        assert_false(kin_gpu_ahead_end(b.gpu));
    }
    assert_int_equal(b.gpu->ahead_tally.uploads, 0);
    b.gpu->ahead_off = false;
    kin_gpu_ahead_begin(b.ctx, b.gpu, &rows, 1);
    assert_int_equal(kin_gpu_ahead_take(b.ctx, b.gpu, &rows, &block), KITH_OK);
    assert_true(rows_arrived(&b, &rows, block));
    kin_gpu_free(b.gpu, block);
    rows_free(&rows);
    bench_close(&b);
    printf("no stream, event, pinned memory or room: no upload, no error; afterwards it works\n");
}

/* ---- Answers behind -------------------------------------------------------------------------- */

enum { PARTS = 2, PART_BYTES = 40 << 20 };

/* Two arrays in one block, of bytes that tell the round. */
static void *block_make(bench *b, int round, kin_gpu_fetches *f, unsigned char *to[PARTS])
{
    unsigned char *block = NULL;
    assert_int_equal(kin_gpu_alloc(b->ctx, b->gpu, &block, PARTS, PART_BYTES, "answers"), KITH_OK);
    *f = (kin_gpu_fetches){.count = PARTS};
    for (int i = 0; i < PARTS; i++) {
        f->parts[i] = (kin_gpu_fetch){to[i], block + (int64_t)i * PART_BYTES, PART_BYTES};
        assert_int_equal(kin_gpu_fill(b->ctx, b->gpu, block + (int64_t)i * PART_BYTES,
                                      10 * round + i, PART_BYTES),
                         KITH_OK);
    }
    return block;
}

static bool blocks_arrived(unsigned char *to[PARTS], int round)
{
    bool same = true;
    for (int i = 0; i < PARTS; i++) {
        for (int64_t at = 0; at < PART_BYTES; at += at % 4096 == 0 ? 4095 : 1) {
            same = same && to[i][at] == 10 * round + i;
        }
    }
    return same;
}

static void answers_behind(void **state)
{
    (void)state;
    bench b;
    kin_gpu_fetches f;
    unsigned char *to[PARTS] = {calloc(PART_BYTES, 1), calloc(PART_BYTES, 1)};
    assert_true(to[0] != NULL && to[1] != NULL);
    bench_open(&b, 3);
    assert_int_equal(kin_gpu_behind_end(b.ctx, b.gpu, true), KITH_OK); /* of nothing */
    for (int round = 1; round < 4; round++) {
        for (int twice = 0; twice < 2; twice++) { /* the second waits for the first */
            void *block = block_make(&b, round, &f, to);
            assert_int_equal(kin_gpu_behind_begin(b.ctx, b.gpu, &f, block), KITH_OK);
        }
        if (round == 2) {
            assert_true(kin_gpu_ahead_end(b.gpu)); /* who needs memory has it */
            assert_int_equal(b.gpu->held, 0);
        }
        assert_int_equal(kin_gpu_behind_end(b.ctx, b.gpu, true), KITH_OK);
        assert_true(blocks_arrived(to, round));
        assert_int_equal(b.gpu->held, 0);
    }
    /* Without means it is fetched at once. */
    bench_close(&b);
    for (int lack = 0; lack < 2; lack++) {
        bench_open(&b, 3);
        test_faults.no_stream = lack == 0;
        test_faults.no_event = lack == 1;
        void *block = block_make(&b, 4, &f, to);
        const kith_status status = kin_gpu_behind_begin(b.ctx, b.gpu, &f, block);
        assert_int_equal(b.gpu->held, 0);
        assert_int_equal(status, lack == 0 ? KITH_OK : KITH_E_DEVICE); /* slots have events */
        assert_true(status != KITH_OK || blocks_arrived(to, 4));
        bench_close(&b);
    }
    /* A copy that fails is told once, by whoever waits, and by the end of the device to nobody. */
    for (int way = 0; way < 3; way++) {
        bench_open(&b, 3);
        void *block = block_make(&b, 5, &f, to);
        test_faults.failing_copy = atomic_load(&test_counts.copies) + 50;
        assert_int_equal(kin_gpu_behind_begin(b.ctx, b.gpu, &f, block), KITH_OK);
        if (way == 0) {
            assert_int_equal(kin_gpu_behind_end(b.ctx, b.gpu, true), KITH_E_DEVICE);
        } else if (way == 1) {
            block = block_make(&b, 6, &f, to);
            assert_int_equal(kin_gpu_behind_begin(b.ctx, b.gpu, &f, block), KITH_E_DEVICE);
            assert_non_null(strstr(kith_ctx_detail(b.ctx), "broken on purpose"));
        } else {
            kin_gpu_ahead_close(b.gpu);
        }
        kin_forgive(b.ctx);
        assert_int_equal(kin_gpu_behind_end(b.ctx, b.gpu, true), KITH_OK);
        bench_close(&b);
    }
    free(to[0]);
    free(to[1]);
    printf(
        "answers of three rounds, without means, with copies that fail: bytes and memory back\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_arrive), cmocka_unit_test(beside_work),
        cmocka_unit_test(given_up),    cmocka_unit_test(failing_copies),
        cmocka_unit_test(no_means),    cmocka_unit_test(answers_behind)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
