/* SPDX-License-Identifier: Apache-2.0 */
#include "descent/descent_lists.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "select/select_pairs.h"

#include <string.h>

/* Words that insertion sorts faster than anything else. */
enum { FEW = 24, LEAST_SLOTS = 8, MOST_SLOTS = 32, SLOTS_SHARE = 4 };

/* Most rounds offer a list a few entries; long lists wait for more. */
int32_t kin_descent_lists_slots(int32_t length)
{
    const int64_t few = kin_min_i64(kin_max_i64(length, LEAST_SLOTS), MOST_SLOTS);
    return (int32_t)kin_max_i64(few, length / SLOTS_SHARE);
}

void kin_descent_lists_name(kin_layout *layout, int64_t points, int32_t length,
                            kin_descent_lists *lists)
{
    const uint64_t n = (uint64_t)points;
    lists->points = points;
    lists->length = length;
    lists->slots = kin_descent_lists_slots(length);
    lists->words =
        kin_layout_array(layout, kin_size_mul(n, (uint64_t)length), sizeof *lists->words);
    lists->worst = kin_layout_array(layout, n, sizeof *lists->worst);
    lists->offers =
        kin_layout_array(layout, kin_size_mul(n, (uint64_t)lists->slots), sizeof *lists->offers);
}

void kin_descent_lists_clear(const kin_descent_lists *lists)
{
    const size_t n = (size_t)lists->points;
    void *offers = lists->offers;
    memset(lists->words, 0xff, n * (size_t)lists->length * sizeof *lists->words);
    memset(lists->worst, 0xff, n * sizeof *lists->worst);
    memset(offers, 0xff, n * (size_t)lists->slots * sizeof *lists->offers);
}

/* The first entry that is not below `word`. */
static int32_t place_of(const uint64_t *list, int32_t length, uint64_t word)
{
    int32_t first = 0;
    for (int32_t left = length; left > 0;) {
        const int32_t half = left / 2;
        const bool below = list[first + half] < word;
        first = below ? first + half + 1 : first;
        left = below ? left - half - 1 : half;
    }
    return first;
}

int32_t kin_descent_list_count(const kin_descent_lists *lists, int64_t position)
{
    return place_of(kin_descent_list(lists, position), lists->length, KIN_DESCENT_EMPTY);
}

bool kin_descent_list_holds(const kin_descent_lists *lists, int64_t position, uint64_t word)
{
    const uint64_t *list = kin_descent_list(lists, position);
    const int32_t at = place_of(list, lists->length, word & ~(uint64_t)1);
    return at < lists->length && (list[at] | 1) == (word | 1);
}

static void sort_words(uint64_t *words, int32_t count)
{
    if (count > FEW) {
        kin_select_sort_words(words, count);
        return;
    }
    for (int32_t i = 1; i < count; i++) {
        const uint64_t word = words[i];
        int32_t at = i;
        for (; at > 0 && words[at - 1] > word; at--) {
            words[at] = words[at - 1];
        }
        words[at] = word;
    }
}

static bool same_entry(uint64_t a, uint64_t b)
{
    return (a | 1) == (b | 1);
}

int32_t kin_descent_list_join(const kin_descent_lists *lists, int64_t position, uint64_t *words,
                              int32_t count, uint64_t *scratch)
{
    uint64_t *list = kin_descent_list(lists, position);
    int32_t at = 0;
    int32_t next = 0;
    int32_t came = 0;
    int32_t made = 0;
    sort_words(words, count);
    while (made < lists->length) {
        /* Of two with one position the OLD one, which is the lower word, comes first. */
        const bool known = made > 0 && next < count && same_entry(scratch[made - 1], words[next]);
        if (known) {
            next += 1;
        } else if (next < count && words[next] < list[at]) {
            if (!same_entry(words[next], list[at])) {
                scratch[made++] = words[next];
                came += 1;
            }
            next += 1;
        } else {
            scratch[made++] = list[at++];
        }
    }
    if (came > 0) {
        memcpy(list, scratch, (size_t)made * sizeof *list);
        kin_descent_list_measure(lists, position);
    }
    return came;
}

static void become_old(uint64_t *list, int32_t length, int32_t sampled)
{
    for (int32_t i = 0; i < length && sampled > 0 && list[i] != KIN_DESCENT_EMPTY; i++) {
        sampled -= (int32_t)kin_descent_is_new(list[i]);
        list[i] &= ~(uint64_t)1;
    }
}

int32_t kin_descent_list_merge(const kin_descent_lists *lists, int64_t position, int32_t sampled,
                               uint64_t *scratch)
{
    _Atomic uint64_t *slots = lists->offers + position * lists->slots;
    int32_t count = 0;
    for (int32_t i = 0; i < lists->slots; i++) {
        const uint64_t word = atomic_load_explicit(&slots[i], memory_order_relaxed);
        if (word != KIN_DESCENT_EMPTY) {
            scratch[count++] = word;
            atomic_store_explicit(&slots[i], KIN_DESCENT_EMPTY, memory_order_relaxed);
        }
    }
    become_old(kin_descent_list(lists, position), lists->length, sampled);
    return count == 0
               ? 0
               : kin_descent_list_join(lists, position, scratch, count, scratch + lists->slots);
}

bool kin_descent_list_is_sound(const kin_descent_lists *lists, int64_t position)
{
    const uint64_t *list = kin_descent_list(lists, position);
    const int32_t count = kin_descent_list_count(lists, position);
    bool sound = lists->worst[position] == (uint32_t)(list[lists->length - 1] >> 32);
    for (int32_t i = 0; i < lists->length; i++) {
        const uint32_t there = kin_descent_position(list[i]);
        sound &= i == 0 || list[i - 1] < list[i] || i > count;
        sound &=
            i < count ? there < lists->points && there != position : list[i] == KIN_DESCENT_EMPTY;
        for (int32_t j = 0; j < i && i < count; j++) {
            sound &= kin_descent_position(list[j]) != there;
        }
    }
    return sound;
}
