/* SPDX-License-Identifier: Apache-2.0
 * Samples of a round of NN-Descent on a device against plain C: what each list gives and who leaves
 * its name where (sample), and what each point has of both in the end (collect). Each runs twice
 * and gives the same bytes. KITH_TIMES: what they take for a million points. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_random.h"
#include "select/select_word.h"
#include "support/support_device.h"
#include "support/support_gpu.h"
#include "support/support_words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t sizes[] = {1, 2, 31, 32, 33, 1000};
static const int32_t lengths[] = {8, 16, 32, 64, 72, 128, 256, KIN_GRAPH_GPU_MOST_LIST};
enum { SIZES = sizeof sizes / sizeof sizes[0], LENGTHS = sizeof lengths / sizeof lengths[0] };

/* Both sides of what sampling writes: [0] NEW, [1] OLD. */
typedef struct both_kinds {
    uint64_t *slots[2];
    uint32_t *ids[2];
    int32_t *counts[2];
} both_kinds;

typedef struct sample_case {
    int64_t points;
    int32_t length;
    int32_t forward;
    int32_t reverse;
} sample_case;

static void plain_sample(const sample_case *c, uint64_t salt, uint64_t *words,
                         const both_kinds *kinds)
{
    for (int64_t p = 0; p < c->points; p++) {
        const uint32_t hash = kin_graph_hash(salt, (uint32_t)p);
        for (int32_t i = 0; i < c->length; i++) {
            uint64_t *word = &words[p * c->length + i];
            const int kind = kin_graph_is_new(*word) != 0 ? 0 : 1;
            if (*word == KIN_GRAPH_EMPTY || kinds->counts[kind][p] == c->forward) {
                continue;
            }
            const uint32_t position = kin_graph_position(*word);
            const int64_t first = p * (c->forward + c->reverse);
            kinds->ids[kind][first + kinds->counts[kind][p]++] = position;
            *word &= ~(uint64_t)1;
            if (c->reverse > 0) {
                uint64_t *slot = &kinds->slots[kind][(int64_t)position * c->reverse +
                                                     kin_graph_slot(hash, (uint32_t)c->reverse)];
                const uint64_t offer = (uint64_t)hash << 32 | (uint64_t)p;
                *slot = offer < *slot ? offer : *slot;
            }
        }
    }
}

static bool has(const uint32_t *ids, int32_t count, uint32_t id)
{
    for (int32_t i = 0; i < count; i++) {
        if (ids[i] == id) {
            return true;
        }
    }
    return false;
}

static void plain_collect(const sample_case *c, const both_kinds *kinds)
{
    const int32_t width = c->forward + c->reverse;
    for (int64_t p = 0; p < c->points; p++) {
        for (int kind = 0; kind < 2; kind++) {
            uint32_t *ids = kinds->ids[kind] + p * width;
            uint64_t sorted[KIN_GRAPH_GPU_MOST_SAMPLES];
            int32_t count = 0;
            for (int32_t i = 0; i < width; i++) {
                const uint64_t slot =
                    i >= c->forward ? kinds->slots[kind][p * c->reverse + i - c->forward] : 0;
                const bool exists =
                    i < c->forward ? i < kinds->counts[kind][p] : slot != KIN_GRAPH_EMPTY;
                const uint32_t id = i < c->forward ? ids[i] : (uint32_t)slot;
                if (exists && id != (uint32_t)p) {
                    sorted[count++] = id;
                }
            }
            kin_select_sort_words(sorted, count);
            const uint32_t *news = kinds->ids[0] + p * width;
            int32_t kept = 0;
            for (int32_t i = 0; i < count; i++) {
                const uint32_t id = (uint32_t)sorted[i];
                if (!has(ids, kept, id) && (kind == 0 || !has(news, kinds->counts[0][p], id))) {
                    ids[kept++] = id;
                }
            }
            kinds->counts[kind][p] = kept;
            for (int32_t i = kept; i < width; i++) {
                ids[i] = UINT32_MAX;
            }
        }
    }
}

static void compare_kinds(const char *what, const sample_case *c, const both_kinds *want,
                          const kin_graph_gpu_samples *got)
{
    const uint64_t points = (uint64_t)c->points;
    const uint64_t slots = points * (uint64_t)c->reverse * 8;
    test_compare_words(what, c->points, c->length, want->slots[0], got->new_slots, slots);
    test_compare_words(what, c->points, c->length, want->slots[1], got->old_slots, slots);
    test_compare_words(what, c->points, c->length, want->counts[0], got->new_counts, points * 4);
    test_compare_words(what, c->points, c->length, want->counts[1], got->old_counts, points * 4);
}

static void free_sample(const kin_graph_gpu_sample *job)
{
    void *const device[] = {job->graph.words,       job->samples.new_slots, job->samples.old_slots,
                            job->samples.new_ids,   job->samples.old_ids,   job->samples.new_counts,
                            job->samples.old_counts};
    for (size_t i = 0; i < sizeof device / sizeof device[0]; i++) {
        kin_gpu_free(test_device, device[i]);
    }
}

static void sample_case_run(const sample_case *c, int mix)
{
    const uint64_t points = (uint64_t)c->points;
    const uint64_t ids = points * (uint64_t)(c->forward + c->reverse) * 4;
    const uint64_t slots = points * (uint64_t)c->reverse * 8;
    const uint64_t graph_bytes = points * (uint64_t)c->length * 8;
    const uint64_t salt = kin_random_next(&test_graph_gpu_seed);
    uint64_t *before = test_make_graph(c->points, c->length, points, mix);
    for (int run = 0; run < 2; run++) {
        uint64_t *words = test_host_room(graph_bytes);
        memcpy(words, before, graph_bytes);
        both_kinds want;
        for (int kind = 0; kind < 2; kind++) {
            want.slots[kind] = test_host_room(slots);
            want.ids[kind] = test_host_room(ids);
            want.counts[kind] = test_host_room(points * 4);
            memset(want.slots[kind], 0xff, slots);
        }
        const kin_graph_gpu_sample job = {
            .graph = {.points = c->points,
                      .length = c->length,
                      .words = test_device_copy(before, graph_bytes)},
            .samples = {.forward = c->forward,
                        .reverse = c->reverse,
                        .new_slots = test_device_copy(want.slots[0], slots),
                        .old_slots = test_device_copy(want.slots[1], slots),
                        .new_ids = test_device_room(ids),
                        .old_ids = test_device_room(ids),
                        .new_counts = test_device_room(points * 4),
                        .old_counts = test_device_room(points * 4)},
            .salt = salt};
        plain_sample(c, salt, words, &want);
        test_launch(test_graph_gpu_kernels()->sample(test_device->stream, &job), "sample");
        test_compare_words("sample: lists", c->points, c->length, words, job.graph.words,
                           graph_bytes);
        compare_kinds("sample", c, &want, &job.samples);
        plain_collect(c, &want);
        test_launch(test_graph_gpu_kernels()->collect(test_device->stream, &job), "collect");
        compare_kinds("collect", c, &want, &job.samples);
        test_compare_words("collect: new", c->points, c->length, want.ids[0], job.samples.new_ids,
                           ids);
        test_compare_words("collect: old", c->points, c->length, want.ids[1], job.samples.old_ids,
                           ids);
        free_sample(&job);
        for (int kind = 0; kind < 2; kind++) {
            free(want.counts[kind]);
            free(want.ids[kind]);
            free(want.slots[kind]);
        }
        free(words);
    }
    free(before);
}

static void test_sample(void **state)
{
    (void)state;
    static const int32_t samples[][2] = {{1, 1},   {8, 8},   {8, 24}, {16, 16},
                                         {12, 24}, {32, 32}, {4, 60}, {64, 0}};
    enum { SAMPLES = sizeof samples / sizeof samples[0] };
    test_wrong = 0;
    for (int s = 0; s < SIZES; s++) {
        for (int l = 0; l < LENGTHS; l++) {
            const int32_t *pair = samples[(s + l) % SAMPLES];
            const sample_case c = {sizes[s], lengths[l], pair[0], pair[1]};
            sample_case_run(&c, l % TEST_MIXES);
        }
    }
    printf("sample, collect: %d shapes, up to 64 samples of a kind: %d differences\n",
           SIZES * LENGTHS, test_wrong);
    assert_int_equal(test_wrong, 0);
}

static void test_times(void **state)
{
    (void)state;
    if (!test_times_wanted()) {
        printf("times: not asked for (KITH_TIMES)\n");
        return;
    }
    const uint64_t points = 1000000;
    const int32_t length = 32;
    const int32_t samples = 16; /* of each sort */
    uint64_t *words = test_make_graph((int64_t)points, length, points, 0);
    const uint64_t slots = points * (uint64_t)samples * 8;
    const uint64_t ids = points * (uint64_t)samples * 2 * 4;
    const kin_graph_gpu_sample job = {
        .graph = {.points = (int64_t)points,
                  .length = length,
                  .words = test_device_copy(words, points * (uint64_t)length * 8)},
        .samples = {.forward = samples,
                    .reverse = samples,
                    .new_slots = test_device_room(slots),
                    .old_slots = test_device_room(slots),
                    .new_ids = test_device_room(ids),
                    .old_ids = test_device_room(ids),
                    .new_counts = test_device_room(points * 4),
                    .old_counts = test_device_room(points * 4)},
        .salt = 5};
    test_must(kin_gpu_fill(test_device_ctx, test_device, job.samples.new_slots, 0xff, slots));
    test_must(kin_gpu_fill(test_device_ctx, test_device, job.samples.old_slots, 0xff, slots));
    test_time_begin();
    test_launch(test_graph_gpu_kernels()->sample(test_device->stream, &job), "sample");
    test_time_end("sample, 1000000 lists of 32, 16 and 16 of a kind, far away");
    test_time_begin();
    test_launch(test_graph_gpu_kernels()->collect(test_device->stream, &job), "collect");
    test_time_end("collect, 1000000 points, 16 and 16 of a kind");
    free_sample(&job);
    free(words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sample), cmocka_unit_test(test_times)};
    return test_gpu_is_absent()
               ? TEST_SKIPPED
               : cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
