/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/graph_start.h"

#include <string.h>

/* Words that insertion sorts faster than anything else. */
enum { FEW = 24, LEAST_SLOTS = 8, MOST_SLOTS = 32, SLOTS_SHARE = 4 };

/* Most rounds offer a list a few entries; long lists wait for more. */
int32_t kin_graph_lists_slots(int32_t length)
{
    const int64_t few = kin_min_i64(kin_max_i64(length, LEAST_SLOTS), MOST_SLOTS);
    return (int32_t)kin_max_i64(few, length / SLOTS_SHARE);
}

void kin_graph_lists_name(kin_layout *layout, int64_t points, int32_t length,
                          kin_graph_lists *lists)
{
    const uint64_t n = (uint64_t)points;
    lists->points = points;
    lists->length = length;
    lists->slots = kin_graph_lists_slots(length);
    lists->words =
        kin_layout_array(layout, kin_size_mul(n, (uint64_t)length), sizeof *lists->words);
    lists->worst = kin_layout_array(layout, n, sizeof *lists->worst);
    lists->offers =
        kin_layout_array(layout, kin_size_mul(n, (uint64_t)lists->slots), sizeof *lists->offers);
}

void kin_graph_lists_clear(const kin_graph_lists *lists)
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

int32_t kin_graph_list_count(const kin_graph_lists *lists, int64_t position)
{
    return place_of(kin_graph_list(lists, position), lists->length, KIN_GRAPH_EMPTY);
}

bool kin_graph_list_holds(const kin_graph_lists *lists, int64_t position, uint64_t word)
{
    const uint64_t *list = kin_graph_list(lists, position);
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

int32_t kin_graph_list_join(const kin_graph_lists *lists, int64_t position, uint64_t *words,
                            int32_t count, uint64_t *scratch)
{
    uint64_t *list = kin_graph_list(lists, position);
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
        kin_graph_list_measure(lists, position);
    }
    return came;
}

static void become_old(uint64_t *list, int32_t length, int32_t sampled)
{
    for (int32_t i = 0; i < length && sampled > 0 && list[i] != KIN_GRAPH_EMPTY; i++) {
        sampled -= (int32_t)kin_graph_is_new(list[i]);
        list[i] &= ~(uint64_t)1;
    }
}

int32_t kin_graph_list_merge(const kin_graph_lists *lists, int64_t position, int32_t sampled,
                             uint64_t *scratch)
{
    _Atomic uint64_t *slots = lists->offers + position * lists->slots;
    int32_t count = 0;
    for (int32_t i = 0; i < lists->slots; i++) {
        const uint64_t word = atomic_load_explicit(&slots[i], memory_order_relaxed);
        if (word != KIN_GRAPH_EMPTY) {
            scratch[count++] = word;
            atomic_store_explicit(&slots[i], KIN_GRAPH_EMPTY, memory_order_relaxed);
        }
    }
    become_old(kin_graph_list(lists, position), lists->length, sampled);
    return count == 0
               ? 0
               : kin_graph_list_join(lists, position, scratch, count, scratch + lists->slots);
}

enum { KINDS = 2, SIDES = 2 /* forward and reverse */ };
static const uint32_t EMPTY = UINT32_MAX;

/* ---- Slots ---------------------------------------------------------------------------------- */

void kin_graph_samples_name(kin_layout *layout, int64_t points, int32_t most,
                            kin_graph_samples *samples)
{
    samples->points = points;
    samples->most = most;
    samples->slots = most * KIN_GRAPH_SLOTS_A_SAMPLE;
    const uint64_t cells = kin_size_mul((uint64_t)points, (uint64_t)samples->slots);
    samples->to_new = kin_layout_array(layout, cells, sizeof *samples->to_new);
    samples->to_old = kin_layout_array(layout, cells, sizeof *samples->to_old);
}

void kin_graph_samples_clear(const kin_graph_samples *samples, int64_t first, int64_t last)
{
    void *kinds[KINDS] = {samples->to_new + first * samples->slots,
                          samples->to_old + first * samples->slots};
    const size_t bytes = (size_t)((last - first) * samples->slots) * sizeof(uint32_t);
    memset(kinds[0], 0xff, bytes);
    memset(kinds[1], 0xff, bytes);
}

/* ---- Reverse edges -------------------------------------------------------------------------- */

/* The permutation of a target, and its inverse: each step can be undone, and the shifts by half of
 * the word undo themselves. The multipliers are those of MurmurHash3's mixer. */
static uint32_t code_of(uint32_t sampler, uint32_t target_hash)
{
    uint32_t x = (sampler ^ target_hash) * 0x85ebca6bu;
    x = (x ^ (x >> 16)) * 0xc2b2ae35u;
    return x ^ (x >> 16);
}

static uint32_t sampler_of(uint32_t code, uint32_t target_hash)
{
    uint32_t x = (code ^ (code >> 16)) * 0x7ed1b41du;
    x = (x ^ (x >> 16)) * 0xa5cb9243u;
    return x ^ target_hash;
}

/* A code names its slot by its upper bits, and is compared there by the others. */
static void tell(const kin_graph_samples *samples, _Atomic uint32_t *kind, uint32_t target,
                 uint32_t sampler, uint64_t salt)
{
    const uint32_t code = code_of(sampler, kin_graph_hash(salt, target));
    _Atomic uint32_t *slot =
        kind + (int64_t)target * samples->slots + kin_graph_slot(code, (uint32_t)samples->slots);
    uint32_t seen = atomic_load_explicit(slot, memory_order_relaxed);
    while (code < seen && !atomic_compare_exchange_weak_explicit(
                              slot, &seen, code, memory_order_relaxed, memory_order_relaxed)) {
    }
}

void kin_graph_samples_tell(const kin_graph_samples *samples, const kin_graph_lists *lists,
                            uint32_t position, uint64_t salt)
{
    const uint64_t *list = kin_graph_list(lists, position);
    int32_t left_new = samples->most;
    int32_t left_old = samples->most;
    for (int32_t i = 0; i < lists->length && list[i] != KIN_GRAPH_EMPTY; i++) {
        const uint32_t target = kin_graph_position(list[i]);
        if (kin_graph_is_new(list[i]) != 0) {
            if (left_new > 0) {
                tell(samples, samples->to_new, target, position, salt);
                left_new -= 1;
            }
        } else if (left_old > 0) {
            tell(samples, samples->to_old, target, position, salt);
            left_old -= 1;
        }
    }
}

/* ---- Meetings ------------------------------------------------------------------------------- */

static uint64_t seen_cells(int32_t most)
{
    uint64_t cells = 16;
    while (cells < (uint64_t)most * KINDS * SIDES * 2 + 2) {
        cells *= 2;
    }
    return cells;
}

void kin_graph_seen_name(kin_layout *layout, int32_t most, kin_graph_seen *seen)
{
    const uint64_t cells = seen_cells(most);
    seen->mask = (uint32_t)(cells - 1);
    seen->cells = kin_layout_zeros(layout, cells, sizeof *seen->cells);
}

/* Whether the position is the first of its kind at this meeting. */
static bool enters(kin_graph_seen *seen, uint32_t position)
{
    const uint64_t cell = (uint64_t)seen->meeting << 32 | position;
    uint32_t at = (position * 0x9e3779b1u) >> 16 & seen->mask;
    for (; seen->cells[at] >> 32 == seen->meeting; at = (at + 1) & seen->mask) {
        if (seen->cells[at] == cell) {
            return false;
        }
    }
    seen->cells[at] = cell;
    return true;
}

static void begin(kin_graph_seen *seen, uint32_t position)
{
    seen->meeting += 1;
    if (seen->meeting == 0) { /* after 2^32 of them: old cells would look like new ones */
        memset(seen->cells, 0, ((size_t)seen->mask + 1) * sizeof *seen->cells);
        seen->meeting = 1;
    }
    (void)enters(seen, position);
}

static int32_t add_forward(const kin_graph_lists *lists, uint32_t position, uint32_t is_new,
                           int32_t most, kin_graph_seen *seen, uint32_t *positions)
{
    const uint64_t *list = kin_graph_list(lists, position);
    int32_t count = 0;
    for (int32_t i = 0; i < lists->length && most > 0 && list[i] != KIN_GRAPH_EMPTY; i++) {
        if (kin_graph_is_new(list[i]) == is_new) {
            const uint32_t sample = kin_graph_position(list[i]);
            most -= 1;
            positions[count] = sample;
            count += enters(seen, sample) ? 1 : 0;
        }
    }
    return count;
}

static int32_t add_reverse(const kin_graph_samples *samples, const _Atomic uint32_t *kind,
                           uint32_t position, uint32_t hash, kin_graph_seen *seen,
                           uint32_t *positions)
{
    const _Atomic uint32_t *slots = kind + (int64_t)position * samples->slots;
    int32_t count = 0;
    for (int32_t i = 0; i < samples->slots && count < samples->most; i++) {
        const uint32_t code = atomic_load_explicit(&slots[i], memory_order_relaxed);
        if (code != EMPTY) {
            positions[count] = sampler_of(code, hash);
            count += enters(seen, positions[count]) ? 1 : 0;
        }
    }
    return count;
}

void kin_graph_samples_meet(const kin_graph_samples *samples, const kin_graph_lists *lists,
                            uint32_t position, uint64_t salt, kin_graph_seen *seen,
                            kin_graph_joined *meeting)
{
    const uint32_t hash = kin_graph_hash(salt, position);
    uint32_t *next = meeting->positions;
    begin(seen, position);
    next += add_forward(lists, position, 1, samples->most, seen, next);
    next += add_reverse(samples, samples->to_new, position, hash, seen, next);
    meeting->new_count = (int32_t)(next - meeting->positions);
    meeting->old_count = 0;
    if (meeting->new_count > 0) {
        next += add_forward(lists, position, 0, samples->most, seen, next);
        next += add_reverse(samples, samples->to_old, position, hash, seen, next);
        meeting->old_count = (int32_t)(next - meeting->positions) - meeting->new_count;
    }
}

kith_status kin_graph_check_orders(const kin_graph_rounds *rounds, const uint32_t *orders,
                                   int64_t count)
{
    const uint32_t least = kin_graph_order_of_float(-INFINITY);
    const uint32_t most = kin_graph_order_of_float(INFINITY);
    for (int64_t i = 0; i < count; i++) {
        KIN_FAIL_IF(orders[i] < least || orders[i] > most, rounds->ctx, KITH_E_DATA,
                    kin_at("custom"), "gave NaN for two points (a distance must be a number)");
    }
    return KITH_OK;
}
