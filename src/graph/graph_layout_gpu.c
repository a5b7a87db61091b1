/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/graph_run_gpu.h"

#include <math.h>

static const uint64_t KEY_BYTES = 64u << 20; /* of keys of a batch, where there is no screen */
enum {
    START_SPARE = 2,
    LEAST_SPARE = 32, /* places of a list of the start beyond what it keeps */
    LEAST_CANDIDATES = 16
};
/* Points that the screen of the start brings to each. On an H200 a million points of 128 columns
 * take 31 ms with 3,000 or 6,000 of them, 43 with 24,000, and two rounds, of 3 ms each, gain more.
 */
static const double POINTS_TO_MEET = 6000.0;
/* Where two graphs are made one their own lists limit what passes, so that points cost little; and
 * rounds that bring less than this share of the answer cost more than they are worth. */
static const double POINTS_ACROSS = 4000.0;
static const double DELTA_ACROSS = 0.01;
static const double MOST_SHARE = 0.5;
/* Rows whose starts by relatives were measured (docs/notes/descent.md), and some more: beyond,
 * their graph takes five times the memory that the descent itself does. */
static const int64_t LEAST_RELATED = (int64_t)1 << 14;
static const int64_t MOST_RELATED = (int64_t)1 << 22;

void kin_graph_gpu_defaults(kin_graph_request *request, int64_t rows)
{
    if (request->share == 0.0) {
        const double points = request->split > 0 ? POINTS_ACROSS : POINTS_TO_MEET;
        request->share = fmin(MOST_SHARE, points / (double)kin_max_i64(rows, 1));
    }
    /* What is drawn by chance brings little at first. */
    if (request->delta == 0.0 && request->split > 0 && request->by_chance == 0 &&
        kin_metric_get_traits(request->distance.metric)->screen == KIN_SCREEN_DISTANCE) {
        request->delta = DELTA_ACROSS;
    }
    if (request->candidates == 0) {
        request->candidates = (int32_t)kin_max_i64(LEAST_CANDIDATES, request->k / 4);
    }
    if (request->all_updates == 0) {
        request->all_updates = 1;
    }
    if (request->related == 0) {
        request->related = rows >= LEAST_RELATED && rows <= MOST_RELATED ? 1 : -1;
    }
    kin_graph_defaults(request, rows);
    const int64_t least = kin_max_i64(request->k + 1, request->list);
    request->list = (int32_t)kin_min_i64(kin_round_up(least, 8), KIN_GRAPH_GPU_MOST_LIST);
    request->candidates = (int32_t)kin_max_i64(request->candidates, 1);
}

/* Lists of the screen prove fewer entries than the graph's lists hold: what passes their limits is
 * most of the start's time, and rounds find the rest. On an H200 with k = 10, of 13 entries in
 * place of 33: 24 ms for 37 of 400,000 points of 128 bytes, 34 for 43 of a million in clusters, and
 * more of the first ten are found, since fewer lists overflow. */
int64_t kin_graph_gpu_start_k(const kin_graph_request *request)
{
    return kin_min_i64(request->list, request->k + START_SPARE) + 1;
}

static uint64_t lists_bytes(int64_t rows, int32_t capacity)
{
    const uint64_t a_row =
        (uint64_t)capacity * sizeof(uint64_t) + sizeof(int32_t) + sizeof(double) + sizeof(uint8_t);
    return kin_size_mul((uint64_t)kin_round_up(rows, KIN_SCREEN_GPU_BLOCK), a_row);
}

int32_t kin_graph_gpu_capacity(int64_t rows, int64_t k, uint64_t room)
{
    const int32_t least = (int32_t)kin_round_up(k + k / 4 + LEAST_SPARE, 8);
    int32_t capacity = kin_screen_gpu_capacity(k);
    while (capacity > least && lists_bytes(rows, capacity) > room / 2) {
        capacity = (int32_t)kin_max_i64(least, kin_round_up(capacity * 3 / 4, 8));
    }
    return capacity;
}

static uint64_t graph_bytes(const kin_graph_request *request, int64_t rows)
{
    return kin_size_mul((uint64_t)rows, (uint64_t)request->list * sizeof(uint64_t));
}

void kin_graph_gpu_sample_sizes(int32_t candidates, int32_t *forward, int32_t *reverse)
{
    const int32_t most = KIN_GRAPH_GPU_MOST_SAMPLES / 2;
    *forward = candidates < most ? candidates : most;
    *reverse = *forward;
}

/* Words that slots of samples, and then offers, take a point. */
static int64_t slot_words(int32_t reverse)
{
    return kin_max_i64(2 * (int64_t)reverse, KIN_GRAPH_GPU_SLOTS);
}

void kin_graph_gpu_room_name(kin_layout *layout, void *job)
{
    kin_graph_gpu_room *r = job;
    kin_graph_gpu_samples *s = &r->samples;
    const uint64_t n = (uint64_t)r->points;
    kin_graph_gpu_sample_sizes(r->candidates, &s->forward, &s->reverse);
    const uint64_t ids = kin_size_mul(n, (uint64_t)(s->forward + s->reverse));
    const uint64_t words = kin_size_mul(n, (uint64_t)slot_words(s->reverse));
    r->bytes = kin_size_mul(words, sizeof *r->words);
    r->words = kin_layout_array(layout, words, sizeof *r->words);
    s->new_ids = kin_layout_array(layout, ids, sizeof *s->new_ids);
    s->old_ids = kin_layout_array(layout, ids, sizeof *s->old_ids);
    s->new_counts = kin_layout_array(layout, n, sizeof *s->new_counts);
    s->old_counts = kin_layout_array(layout, n, sizeof *s->old_counts);
    r->counters = kin_layout_array(layout, 1, sizeof *r->counters);
    s->new_slots = r->words;
    s->old_slots = r->words != NULL ? r->words + n * (uint64_t)s->reverse : NULL;
}

int32_t kin_graph_gpu_aside_blocks(int32_t length)
{
    return (length / 2 + KIN_GRAPH_GPU_SLOTS - 1) / KIN_GRAPH_GPU_SLOTS;
}

/* Halves of lists that a merge as published puts aside. */
static uint64_t aside_bytes(const kin_graph_request *request, int64_t rows)
{
    const uint64_t a_block = KIN_GRAPH_GPU_SLOTS * sizeof(uint64_t);
    const uint64_t blocks = (uint64_t)kin_graph_gpu_aside_blocks(request->list);
    return request->ggm != 0 ? kin_size_mul((uint64_t)rows, blocks * a_block) : 0;
}

static uint64_t rounds_bytes(const kin_graph_request *request, int64_t rows)
{
    kin_graph_gpu_room room = {.points = rows, .candidates = request->candidates};
    return kin_size_add(kin_gpu_layout_bytes(kin_graph_gpu_room_name, &room),
                        aside_bytes(request, rows));
}

uint64_t kin_graph_gpu_rounds_bytes(const kin_graph_request *request, int64_t positions)
{
    return kin_size_add(graph_bytes(request, positions), rounds_bytes(request, positions));
}

int64_t kin_graph_gpu_key_rows(int64_t rows, int32_t length)
{
    const int64_t fit = (int64_t)(KEY_BYTES / ((uint64_t)length * sizeof(double)));
    return kin_min_i64(rows, kin_max_i64(fit, 1));
}

int32_t kin_graph_gpu_longest(int32_t length, int32_t lengthenings)
{
    int64_t longest = length;
    for (int32_t i = 0; i < lengthenings && longest < KIN_GRAPH_GPU_MOST_LIST; i++) {
        longest *= 2;
    }
    return (int32_t)kin_min_i64(longest, KIN_GRAPH_GPU_MOST_LIST);
}

/* ---- The plan -------------------------------------------------------------------------------- */

/* The graph under a relative, which this engine makes beside the points. */
static uint64_t near_bytes(const kith_matrix *points, const kin_graph_request *request)
{
    if (!kin_graph_gpu_is_related(request)) {
        return 0;
    }
    const kin_graph_gpu_relative near = kin_graph_gpu_relative_of(points, request);
    return kin_size_add(near.own_bytes, kin_graph_gpu_bytes(&near.points, &near.request));
}

static uint64_t start_bytes(const kith_matrix *points, const kin_graph_request *request)
{
    const int64_t rows = points->rows;
    const uint64_t nearing = near_bytes(points, request);
    if (request->ggm != 0) { /* ids of graphs, then draws: as lists are long; places */
        const uint64_t a_row = (2 * (uint64_t)request->list + 1) * sizeof(uint32_t);
        return kin_size_add(kin_size_mul((uint64_t)rows, a_row), aside_bytes(request, rows));
    }
    if (kin_graph_gpu_is_related(request) || !kin_is_screened(&request->distance)) {
        return kin_graph_gpu_relatives_bytes(points, request, nearing, 0);
    }
    const int64_t k = kin_graph_gpu_start_k(request);
    const uint64_t found = KIN_GRAPH_GPU_SLOTS * sizeof(uint64_t);
    const uint64_t screening =
        kin_size_add(kin_screen_gpu_cut_short_bytes(
                         rows, k, kin_graph_gpu_capacity(rows, k, UINT64_MAX), UINT64_MAX),
                     request->split > 0 ? kin_size_mul((uint64_t)rows, found) : 0);
    return kin_graph_gpu_relatives_bytes(points, request, nearing, screening);
}

/* Lists that are rescored beside the graph, or a batch of keys; outputs that are not the caller's.
 */
static uint64_t end_bytes(const kin_graph_request *request, int64_t rows)
{
    if (!kin_is_screened(&request->distance)) {
        const uint64_t batch = (uint64_t)kin_graph_gpu_key_rows(rows, request->list);
        const uint64_t a_row =
            (uint64_t)request->list * (sizeof(double) + sizeof(uint32_t)) + sizeof(uint32_t);
        return kin_size_mul(batch, a_row);
    }
    return kin_size_add(lists_bytes(rows, request->list),
                        kin_exact_gpu_answers_bytes(rows, request->k));
}

uint64_t kin_graph_gpu_rest_bytes(const kin_graph_request *request, int64_t positions)
{
    const uint64_t rounds = rounds_bytes(request, positions);
    const uint64_t end = end_bytes(request, positions);
    return kin_exact_gpu_with_slack(
        kin_size_add(graph_bytes(request, positions), rounds > end ? rounds : end));
}

/* Keys of some pairs, and of the lists that are looked at. */
static uint64_t keys_bytes(const kin_graph_request *request)
{
    const uint64_t an_entry = sizeof(double) + sizeof(uint32_t);
    const uint64_t a_pair = KIN_GRAPH_GPU_PAIR_LIST * (sizeof(uint64_t) + an_entry) + 12;
    const uint64_t pairs = KIN_GRAPH_GPU_PAIRS * a_pair;
    const uint64_t controls = request->control != NULL ? (uint64_t)request->control->count : 0;
    return kin_size_add(
        pairs, kin_size_mul(controls, (uint64_t)request->list * an_entry + sizeof(uint32_t)));
}

uint64_t kin_graph_gpu_bytes(const kith_matrix *points, const kin_graph_request *request)
{
    kin_graph_request full = *request;
    const int64_t rows = points->rows;
    kin_graph_gpu_defaults(&full, rows);
    const kin_screen_gpu_prepared_need corpus = kin_screen_gpu_prepared_bytes(
        points, rows, &full.distance, points->dtype, full.place, kin_is_screened(&full.distance));
    const uint64_t parts[] = {start_bytes(points, &full), rounds_bytes(&full, rows),
                              end_bytes(&full, rows)};
    uint64_t most = 0;
    for (int i = 0; i < 3; i++) {
        most = parts[i] > most ? parts[i] : most;
    }
    const uint64_t running = kin_size_add(kin_size_add(corpus.resident, keys_bytes(&full)),
                                          kin_size_add(graph_bytes(&full, rows), most));
    return kin_exact_gpu_with_slack(running > corpus.most ? running : corpus.most);
}
