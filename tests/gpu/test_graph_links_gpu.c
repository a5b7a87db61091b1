/* SPDX-License-Identifier: Apache-2.0
 * A graph made ready to be walked on, on a device, against plain C: links both ways through slots,
 * connected parts; of graphs with holes, far blocks, lists that name a row twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "select/select_word.h"
#include "support/support_device.h"
#include "support/support_gpu.h"
#include "support/support_words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Links and parts, in plain C ------------------------------------------------------------- */

enum { SALT_1 = 1, SALT_2 };

static uint64_t *slot_of(uint64_t *slots, int32_t k, int which, uint32_t id, uint32_t row)
{
    const uint64_t salt = which == SALT_1 ? 0x6c696e6b31u : 0x6c696e6b32u;
    return slots + (int64_t)id * k + kin_graph_slot(kin_graph_hash(salt, row), (uint32_t)k);
}

static void plain_slots(const uint32_t *graph, int64_t points, int32_t k, uint64_t *slots)
{
    for (int which = SALT_1; which <= SALT_2; which++) {
        for (int64_t i = 0; i < points * k; i++) {
            const uint32_t row = (uint32_t)(i / k);
            const uint64_t word = (uint64_t)(i % k) << 32 | row;
            if (graph[i] == KITH_ID_NONE || graph[i] == row) {
                continue;
            }
            uint64_t *slot = slot_of(slots, k, SALT_1, graph[i], row);
            if (which == SALT_1) {
                *slot = word < *slot ? word : *slot;
            } else if (*slot != word) {
                slot = slot_of(slots, k, SALT_2, graph[i], row);
                const uint64_t later = word | (uint64_t)1 << 63;
                *slot = later < *slot ? later : *slot;
            }
        }
    }
}

static bool names(const uint32_t *list, int32_t k, uint32_t id)
{
    for (int32_t i = 0; i < k; i++) {
        if (list[i] == id) {
            return true;
        }
    }
    return false;
}

static void plain_links(const uint32_t *graph, int64_t points, int32_t k, const uint64_t *slots,
                        uint32_t *links)
{
    memset(links, 0xff, (size_t)(points * k) * 2 * sizeof *links);
    for (int64_t row = 0; row < points; row++) {
        int32_t count = 0;
        for (int32_t j = 0; j < k; j++) {
            const uint32_t id = graph[row * k + j];
            if (id != KITH_ID_NONE && id != (uint32_t)row) {
                links[row * k * 2 + count++] = id;
            }
        }
        for (int32_t j = 0; j < k; j++) {
            const uint64_t word = slots[row * k + j];
            if (word != UINT64_MAX && !names(graph + row * k, k, (uint32_t)word)) {
                links[row * k * 2 + count++] = (uint32_t)word;
            }
        }
    }
}

static int64_t plain_parts(const uint32_t *graph, int64_t points, int32_t k, uint64_t *words)
{
    uint32_t *roots = test_host_room((size_t)points * sizeof *roots);
    uint32_t *sizes = test_host_room((size_t)points * sizeof *sizes);
    int64_t count = 0;
    for (int64_t row = 0; row < points; row++) {
        roots[row] = (uint32_t)row;
    }
    for (bool changes = true; changes;) {
        changes = false;
        for (int64_t i = 0; i < points * k; i++) {
            uint32_t *a = &roots[i / k];
            uint32_t *b = graph[i] != KITH_ID_NONE ? &roots[graph[i]] : a;
            changes = changes || *a != *b;
            *a = *a < *b ? *a : *b;
            *b = *a;
        }
    }
    for (int64_t row = 0; row < points; row++) {
        sizes[roots[row]] += 1;
    }
    for (int64_t row = 0; row < points; row++) {
        if (sizes[row] > 0) {
            words[count++] = (uint64_t)(UINT32_MAX - sizes[row]) << 32 | (uint64_t)row;
        }
    }
    kin_select_sort_words(words, count);
    free(sizes);
    free(roots);
    return count;
}

static void graph_case(int64_t points, int32_t k, int64_t reach, uint32_t holes)
{
    const uint64_t entries = (uint64_t)(points * k);
    uint32_t *graph = test_host_room(entries * sizeof *graph);
    uint64_t *slots = test_host_room(entries * sizeof *slots);
    uint32_t *links = test_host_room(entries * 2 * sizeof *links);
    uint64_t *words = test_host_room((size_t)points * sizeof *words);
    for (uint64_t i = 0; i < entries; i++) {
        const int64_t row = (int64_t)i / k;
        const int64_t block = row / reach * reach;
        const int64_t last = block + reach < points ? reach : points - block;
        graph[i] = holes > 0 && test_below(holes) == 0
                       ? KITH_ID_NONE
                       : (uint32_t)(block + (int64_t)test_below((uint64_t)last));
    }
    memset(slots, 0xff, entries * sizeof *slots);
    kin_graph_gpu_link job = {.points = points,
                              .k = k,
                              .graph = test_device_copy(graph, entries * sizeof *graph),
                              .slots = test_device_copy(slots, entries * sizeof *slots),
                              .links = test_device_room(entries * 2 * sizeof *links)};
    test_launch(test_graph_gpu_kernels()->link(test_device->stream, &job), "link");
    plain_slots(graph, points, k, slots);
    plain_links(graph, points, k, slots, links);
    test_compare_words("slots", points, k, slots, job.slots, entries * sizeof *slots);
    test_compare_words("links", points, 2 * k, links, job.links, entries * 2 * sizeof *links);

    uint32_t *zeros = test_host_room((size_t)points * sizeof *zeros);
    kin_graph_gpu_parts parts = {.points = points,
                                 .k = k,
                                 .graph = job.graph,
                                 .roots = test_device_room((uint64_t)points * sizeof *zeros),
                                 .sizes = test_device_copy(zeros, (uint64_t)points * sizeof *zeros),
                                 .words = test_device_room((uint64_t)points * sizeof *words),
                                 .count = test_device_copy(zeros, sizeof *zeros)};
    uint32_t count = 0;
    test_launch(test_graph_gpu_kernels()->parts(test_device->stream, &parts), "parts");
    test_download(&count, parts.count, sizeof count);
    const int64_t want = plain_parts(graph, points, k, words);
    uint64_t *got = test_host_room((size_t)points * sizeof *got);
    if (count <= points) {
        test_download(got, parts.words, count * sizeof *got);
        kin_select_sort_words(got, count);
    }
    if (want != count || memcmp(got, words, (size_t)want * sizeof *got) != 0) {
        printf("  WRONG parts of %lld points: %u, should be %lld\n", (long long)points, count,
               (long long)want);
        test_wrong += 1;
    }
    void *blocks[] = {parts.count, parts.words, parts.sizes, parts.roots, job.links, job.slots};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        kin_gpu_free(test_device, blocks[i]);
    }
    kin_gpu_free(test_device, (void *)(uintptr_t)job.graph);
    free(got);
    free(zeros);
    free(words);
    free(links);
    free(slots);
    free(graph);
}

static void links_and_parts(void **state)
{
    (void)state;
    test_wrong = 0;
    static const int64_t cases[][4] = {
        /* points, k, in one another's reach, holes */
        {1, 1, 1, 0},       {2, 3, 2, 2},      {33, 1, 33, 0},      {500, 8, 500, 0},
        {500, 33, 7, 3},    {3000, 5, 40, 2},  {3000, 64, 3000, 0}, {20000, 12, 20000, 0},
        {20000, 2, 100, 2}, {300, 200, 300, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        graph_case(cases[i][0], (int32_t)cases[i][1], cases[i][2], (uint32_t)cases[i][3]);
    }
    printf("links and parts of %d graphs: %d differences\n", (int)(sizeof cases / sizeof cases[0]),
           test_wrong);
    assert_int_equal(test_wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(links_and_parts)};
    return test_gpu_is_absent()
               ? TEST_SKIPPED
               : cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
