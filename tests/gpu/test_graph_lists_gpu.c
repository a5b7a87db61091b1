/* SPDX-License-Identifier: Apache-2.0
 * Lists of NN-Descent on a device against plain C: the screen's lists become a graph (adopt), what
 * points were offered enters their lists (merge), and the way back (hand). Each runs twice and
 * gives the same bytes. KITH_TIMES: what each of them takes for a million points. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_size.h"
#include "support/support_device.h"
#include "support/support_gpu.h"
#include "support/support_words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = KIN_GRAPH_GPU_SLOTS, MOST = KIN_GRAPH_GPU_MOST_LIST };

static const int64_t sizes[] = {1, 2, 31, 32, 33, 1000};
static const int32_t lengths[] = {8, 16, 32, 64, 72, 128, 256, KIN_GRAPH_GPU_MOST_LIST};
enum { SIZES = sizeof sizes / sizeof sizes[0], LENGTHS = sizeof lengths / sizeof lengths[0] };

/* An entry that was met twice takes two of the places among which the kernel looks. */
static int64_t window_of(int32_t length)
{
    return length <= 32 ? 32 : length <= 64 ? 64 : length <= 128 ? 128 : length;
}

/* ---- adopt and hand -------------------------------------------------------------------------- */

static void adopt_case(int64_t points, int32_t length, int32_t capacity, int mix)
{
    const size_t words = (size_t)(points * capacity);
    uint64_t *lists = test_host_room(words * sizeof *lists);
    int32_t *counts = test_host_room((size_t)points * sizeof *counts);
    uint64_t *want = test_host_room((size_t)(points * length) * sizeof *want);
    uint64_t *sorted = test_host_room((size_t)capacity * sizeof *sorted);
    for (int64_t p = 0; p < points; p++) {
        const int32_t count = (int32_t)test_below((uint64_t)capacity + 9);
        counts[p] = p % 7 == 0 ? 0 : p % 7 == 1 ? capacity + 3 : count;
        int32_t there = 0;
        for (int32_t i = 0; i < capacity; i++) {
            const bool own = i == (int32_t)p % 40;
            const uint32_t position = own ? (uint32_t)p : test_below(0x7fffffff);
            uint64_t word = (uint64_t)test_random_order(mix) << 32 | position;
            if (i > 0 && test_below(9) == 0) {
                word = lists[p * capacity + (int64_t)test_below((uint64_t)i)]; /* met twice */
            }
            lists[p * capacity + i] = word;
            if (i < counts[p] && (uint32_t)word != (uint32_t)p) {
                sorted[there++] = kin_graph_word((uint32_t)(word >> 32), (uint32_t)word, 1);
            }
        }
        (void)test_tidy(sorted, there, window_of(length), length, want + p * length);
    }
    const uint64_t bytes = (uint64_t)(points * length) * sizeof *want;
    kin_graph_gpu_adopt job = {.lists = {.rows = points,
                                         .capacity = capacity,
                                         .words = test_device_copy(lists, words * sizeof *lists),
                                         .counts = test_device_copy(counts, (uint64_t)points * 4)},
                               .type = mix == 1 ? KIN_SCREEN_GPU_S8 : KIN_SCREEN_GPU_F16,
                               .graph = {.points = points, .length = length}};
    for (int run = 0; run < 2; run++) {
        job.graph.words = test_device_room(bytes);
        test_must(kin_gpu_fill(test_device_ctx, test_device, job.graph.words, 0x5a, bytes));
        test_launch(test_graph_gpu_kernels()->adopt(test_device->stream, &job), "adopt");
        test_compare_words("adopt", points, length, want, job.graph.words, bytes);
        kin_gpu_free(test_device, job.graph.words);
    }
    kin_gpu_free(test_device, job.lists.words);
    kin_gpu_free(test_device, job.lists.counts);
    free(sorted);
    free(want);
    free(counts);
    free(lists);
}

static void test_adopt(void **state)
{
    (void)state;
    int cases = 0;
    test_wrong = 0;
    for (int s = 0; s < SIZES; s++) {
        for (int l = 0; l < LENGTHS; l++) {
            const int32_t capacities[] = {lengths[l] + 1, 3 * lengths[l] + 5, 2300, 5000};
            const int c = (s + l) % (sizes[s] < 100 ? 4 : 3);
            adopt_case(sizes[s], lengths[l], (int32_t)kin_max_i64(capacities[c], lengths[l] + 1),
                       cases % TEST_MIXES);
            cases += 1;
        }
    }
    printf(
        "adopt: %d shapes, counts from 0 beyond the capacity, entries that were met twice, costs "
        "random and tied: %d differences\n",
        cases, test_wrong);
    assert_int_equal(test_wrong, 0);
}

static void hand_case(int64_t points, int32_t length, int mix)
{
    const int32_t capacity = length + 3;
    const int64_t rows = kin_round_up(points, KIN_SCREEN_GPU_BLOCK);
    uint64_t *words = test_make_graph(points, length, 0x7fffffff, mix);
    uint64_t *want = test_host_room((size_t)(rows * capacity) * sizeof *want);
    int32_t *counts = test_host_room((size_t)rows * sizeof *counts);
    memset(want, 0x5a, (size_t)(rows * capacity) * sizeof *want);
    for (int64_t p = 0; p < points; p++) {
        while (counts[p] < length && words[p * length + counts[p]] != KIN_GRAPH_EMPTY) {
            const uint64_t word = words[p * length + counts[p]];
            want[p * capacity + counts[p]++] = word >> 32 << 32 | kin_graph_position(word);
        }
    }
    const uint64_t bytes = (uint64_t)(rows * capacity) * sizeof *want;
    kin_graph_gpu_hand job = {
        .graph = {.points = points,
                  .length = length,
                  .words = test_device_copy(words, (uint64_t)(points * length) * 8)},
        .lists = {.rows = rows,
                  .capacity = capacity,
                  .words = test_device_room(bytes),
                  .counts = test_device_room((uint64_t)rows * 4)}};
    test_must(kin_gpu_fill(test_device_ctx, test_device, job.lists.words, 0x5a, bytes));
    test_must(
        kin_gpu_fill(test_device_ctx, test_device, job.lists.counts, 0x5a, (uint64_t)rows * 4));
    test_launch(test_graph_gpu_kernels()->hand(test_device->stream, &job), "hand");
    test_compare_words("hand", points, length, want, job.lists.words, bytes);
    test_compare_words("hand: counts", points, length, counts, job.lists.counts,
                       (uint64_t)rows * 4);
    kin_gpu_free(test_device, job.lists.counts);
    kin_gpu_free(test_device, job.lists.words);
    kin_gpu_free(test_device, job.graph.words);
    free(counts);
    free(want);
    free(words);
}

static void test_hand(void **state)
{
    (void)state;
    test_wrong = 0;
    for (int s = 0; s < SIZES; s++) {
        for (int l = 0; l < LENGTHS; l++) {
            hand_case(sizes[s], lengths[l], l % TEST_MIXES);
        }
    }
    printf("hand: %d shapes: %d differences\n", SIZES * LENGTHS, test_wrong);
    assert_int_equal(test_wrong, 0);
}

/* ---- merge ----------------------------------------------------------------------------------- */

/* Offers of a point: new positions, positions that its list has with the same cost or another one,
 * and none; two offers never share a position, since a position names its slot. */
static void make_offers(int64_t point, const uint64_t *list, int32_t length, int mix,
                        uint64_t *offers)
{
    const uint32_t share = point % 3 == 0 ? 0 : point % 3 == 1 ? 4 : 30; /* of SLOTS */
    for (uint32_t s = 0; s < SLOTS; s++) {
        offers[s] = KIN_GRAPH_EMPTY;
        if (test_below(SLOTS) < share) {
            offers[s] = kin_graph_word(test_random_order(mix), SLOTS * test_below(1 << 26) + s, 1);
        }
    }
    for (int i = 0; share > 0 && i < 6; i++) {
        const uint64_t word = list[test_below((uint64_t)length)];
        if (word != KIN_GRAPH_EMPTY) {
            const uint32_t position = kin_graph_position(word);
            const uint32_t order =
                test_below(2) == 0 ? (uint32_t)(word >> 32) : test_random_order(mix);
            offers[position % SLOTS] = kin_graph_word(order, position, 1);
        }
    }
}

/* Returns how many came to stand among the first `counted`. */
static uint64_t plain_merge(uint64_t *list, int32_t length, int32_t counted, const uint64_t *offers)
{
    uint64_t words[MOST + SLOTS];
    int32_t count = 0;
    while (count < length && list[count] != KIN_GRAPH_EMPTY) {
        words[count] = list[count];
        count++;
    }
    const int32_t had = count;
    uint64_t fresh[SLOTS];
    int32_t fresh_count = 0;
    for (int s = 0; s < SLOTS; s++) {
        bool known = offers[s] == KIN_GRAPH_EMPTY;
        for (int32_t i = 0; i < had && !known; i++) {
            known = kin_graph_position(words[i]) == kin_graph_position(offers[s]);
        }
        if (!known) {
            words[count++] = offers[s];
            fresh[fresh_count++] = offers[s];
        }
    }
    const int32_t kept = test_tidy(words, count, count, length, list);
    uint64_t entered = 0;
    for (int32_t i = 0; i < fresh_count; i++) {
        entered += kept > 0 && fresh[i] <= list[(kept < counted ? kept : counted) - 1];
    }
    return entered;
}

/* Lists in front of longer ones. */
static void stretch_case(int64_t points, int32_t length, const uint64_t *words)
{
    const int32_t longer = length + 8 + length / 2;
    const uint64_t bytes = (uint64_t)(points * longer) * 8;
    uint64_t *want = test_host_room(bytes);
    memset(want, 0xff, bytes);
    for (int64_t i = 0; i < points * length; i++) {
        want[i / length * longer + i % length] = words[i] | 1u;
    }
    const kin_graph_gpu_stretch job = {
        .from = {.points = points,
                 .length = length,
                 .words = test_device_copy(words, (uint64_t)(points * length) * 8)},
        .to = {.points = points, .length = longer, .words = test_device_room(bytes)}};
    test_launch(test_graph_gpu_kernels()->stretch(test_device->stream, &job), "stretch");
    test_compare_words("stretch", points, longer, want, job.to.words, bytes);
    kin_gpu_free(test_device, job.to.words);
    kin_gpu_free(test_device, job.from.words);
    free(want);
}

static void merge_case(int64_t points, int32_t length, int mix)
{
    const uint64_t graph_bytes = (uint64_t)(points * length) * 8;
    const uint64_t offer_bytes = (uint64_t)points * SLOTS * 8;
    uint64_t *words = test_make_graph(points, length, 0x7fffffff, mix);
    uint64_t *want = test_host_room(graph_bytes);
    uint64_t *offers = test_host_room(offer_bytes);
    uint64_t *none = test_host_room(offer_bytes);
    const int32_t counted = mix % 2 == 0 ? length : 1 + length / 3;
    uint64_t updates = 5;
    memcpy(want, words, graph_bytes);
    memset(none, 0xff, offer_bytes);
    for (int64_t p = 0; p < points; p++) {
        make_offers(p, words + p * length, length, mix, offers + p * SLOTS);
        updates += plain_merge(want + p * length, length, counted, offers + p * SLOTS);
    }
    stretch_case(points, length, words);
    for (int run = 0; run < 2; run++) {
        const uint64_t before = 5;
        const kin_graph_gpu_merge job = {.graph = {.points = points,
                                                   .length = length,
                                                   .words = test_device_copy(words, graph_bytes)},
                                         .offers = test_device_copy(offers, offer_bytes),
                                         .counted = counted,
                                         .updates = test_device_copy(&before, 8)};
        test_launch(test_graph_gpu_kernels()->merge(test_device->stream, &job), "merge");
        test_compare_words("merge", points, length, want, job.graph.words, graph_bytes);
        test_compare_words("merge: offers", points, length, none, job.offers, offer_bytes);
        test_compare_words("merge: updates", points, length, &updates, job.updates, 8);
        kin_gpu_free(test_device, job.updates);
        kin_gpu_free(test_device, job.offers);
        kin_gpu_free(test_device, job.graph.words);
    }
    free(none);
    free(offers);
    free(want);
    free(words);
}

static void test_merge(void **state)
{
    (void)state;
    test_wrong = 0;
    for (int s = 0; s < SIZES; s++) {
        for (int l = 0; l < LENGTHS; l++) {
            merge_case(sizes[s], lengths[l], (s + l) % TEST_MIXES);
        }
    }
    printf("merge: %d shapes, lists empty and full, offers none, few, many, known ones: %d "
           "differences\n",
           SIZES * LENGTHS, test_wrong);
    assert_int_equal(test_wrong, 0);
}

/* ---- Times ----------------------------------------------------------------------------------- */

static void time_length(int64_t points, int32_t length)
{
    const int32_t capacity = 2 * length;
    const uint64_t graph_bytes = (uint64_t)(points * length) * 8;
    uint64_t *words = test_host_room(2 * graph_bytes);
    int32_t *counts = test_host_room((size_t)points * sizeof *counts);
    for (int64_t i = 0; i < points * capacity; i++) {
        words[i] = (uint64_t)test_random_order(0) << 32 | test_below((uint64_t)points);
    }
    for (int64_t p = 0; p < points; p++) {
        counts[p] = length + (int32_t)test_below((uint64_t)length);
    }
    const kin_graph_gpu_adopt adopt = {
        .lists = {.rows = points,
                  .capacity = capacity,
                  .words = test_device_copy(words, 2 * graph_bytes),
                  .counts = test_device_copy(counts, (uint64_t)points * sizeof *counts)},
        .type = KIN_SCREEN_GPU_F16,
        .graph = {.points = points, .length = length, .words = test_device_room(graph_bytes)}};
    char what[80];
    (void)snprintf(what, sizeof what, "adopt, %lld lists of %d..%d", (long long)points, length,
                   capacity - 1);
    test_time_begin();
    test_launch(test_graph_gpu_kernels()->adopt(test_device->stream, &adopt), "adopt");
    test_time_end(what);
    (void)snprintf(what, sizeof what, "hand, %lld lists of %d", (long long)points, length);
    const kin_graph_gpu_hand hand = {.graph = adopt.graph, .lists = adopt.lists};
    test_time_begin();
    test_launch(test_graph_gpu_kernels()->hand(test_device->stream, &hand), "hand");
    test_time_end(what);
    const uint64_t none = 0;
    const uint64_t offer_bytes = (uint64_t)points * SLOTS * 8;
    uint64_t *offers = test_host_room(offer_bytes);
    kin_graph_gpu_merge merge = {.graph = adopt.graph,
                                 .offers = test_device_room(offer_bytes),
                                 .counted = length,
                                 .updates = test_device_copy(&none, sizeof none)};
    static const uint32_t shares[] = {32, 8, 1, 0}; /* of SLOTS */
    for (size_t s = 0; s < sizeof shares / sizeof shares[0]; s++) {
        for (int64_t i = 0; i < points * SLOTS; i++) {
            const uint32_t position = SLOTS * test_below((uint64_t)points / SLOTS);
            offers[i] =
                test_below(SLOTS) < shares[s]
                    ? kin_graph_word(test_random_order(0), position + (uint32_t)(i % SLOTS), 1)
                    : KIN_GRAPH_EMPTY;
        }
        test_must(kin_gpu_upload(test_device_ctx, test_device, merge.offers, offers, offer_bytes));
        (void)snprintf(what, sizeof what, "merge, %lld lists of %d, %u offers each",
                       (long long)points, length, shares[s]);
        test_time_begin();
        test_launch(test_graph_gpu_kernels()->merge(test_device->stream, &merge), "merge");
        test_time_end(what);
    }
    kin_gpu_free(test_device, merge.updates);
    kin_gpu_free(test_device, merge.offers);
    kin_gpu_free(test_device, adopt.graph.words);
    kin_gpu_free(test_device, adopt.lists.counts);
    kin_gpu_free(test_device, adopt.lists.words);
    free(offers);
    free(counts);
    free(words);
}

static void test_times(void **state)
{
    (void)state;
    if (!test_times_wanted()) {
        printf("times: not asked for (KITH_TIMES)\n");
        return;
    }
    time_length(1000000, 32);
    time_length(1000000, 64);
    time_length(200000, 256);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_adopt), cmocka_unit_test(test_hand),
                                       cmocka_unit_test(test_merge), cmocka_unit_test(test_times)};
    return test_gpu_is_absent()
               ? TEST_SKIPPED
               : cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
