/* SPDX-License-Identifier: Apache-2.0
 * A graph made ready to be walked on, and walks. */
#include "reference/reference_graph.h"
#include "reference/reference_screen.h"
#include "select/select_word.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---- Edges both ways ------------------------------------------------------------------------- */

/* Salts of the tries. */
#define FIRST_TRY 0x6c696e6b31u
#define SECOND_TRY 0x6c696e6b32u
#define OF_SECOND_TRY ((uint64_t)1 << 63)

static uint64_t *slot_of(const kin_graph_gpu_link *job, uint64_t salt, uint32_t id, uint32_t row)
{
    return job->slots + (int64_t)id * job->k +
           kin_graph_slot(kin_graph_hash(salt, row), (uint32_t)job->k);
}

static void try_slots(const kin_graph_gpu_link *job, bool again)
{
    for (int64_t i = 0; i < job->points * job->k; i++) {
        const uint32_t id = job->graph[i];
        const uint32_t row = (uint32_t)(i / job->k);
        const uint64_t word = (uint64_t)(i % job->k) << 32 | row;
        if (id == KITH_ID_NONE || id == row) {
            continue;
        }
        uint64_t *slot = slot_of(job, FIRST_TRY, id, row);
        if (!again) {
            reference_take_least(slot, word);
        } else if (*slot != word) {
            reference_take_least(slot_of(job, SECOND_TRY, id, row), word | OF_SECOND_TRY);
        }
    }
}

static bool names(const uint32_t *list, int32_t k, uint32_t id)
{
    for (int32_t j = 0; j < k; j++) {
        if (list[j] == id) {
            return true;
        }
    }
    return false;
}

void reference_graph_link(const kin_graph_gpu_link *job)
{
    try_slots(job, false);
    try_slots(job, true);
    for (int64_t row = 0; row < job->points; row++) {
        const uint32_t *list = job->graph + row * job->k;
        const uint64_t *slots = job->slots + row * job->k;
        uint32_t *links = job->links + row * job->k * 2;
        int32_t count = 0;
        for (int32_t j = 0; j < job->k; j++) {
            if (list[j] != KITH_ID_NONE && list[j] != (uint32_t)row) {
                links[count++] = list[j];
            }
        }
        for (int32_t j = 0; j < job->k; j++) {
            if (slots[j] != KIN_GRAPH_EMPTY && !names(list, job->k, (uint32_t)slots[j])) {
                links[count++] = (uint32_t)slots[j];
            }
        }
        while (count < job->k * 2) {
            links[count++] = KITH_ID_NONE;
        }
    }
}

/* ---- Parts ----------------------------------------------------------------------------------- */

static uint32_t root_of(uint32_t *roots, uint32_t row)
{
    while (roots[row] != row) {
        roots[row] = roots[roots[row]];
        row = roots[row];
    }
    return row;
}

/* The larger root is hooked to the smaller one: the root of a part is its lowest row. */
static void unite(uint32_t *roots, uint32_t row, uint32_t other)
{
    const uint32_t a = root_of(roots, row);
    const uint32_t b = root_of(roots, other);
    roots[a > b ? a : b] = a > b ? b : a;
}

void reference_graph_parts(const kin_graph_gpu_parts *job)
{
    for (int64_t row = 0; row < job->points; row++) {
        job->roots[row] = (uint32_t)row;
    }
    for (int64_t i = 0; i < job->points * job->k; i++) {
        if (job->graph[i] != KITH_ID_NONE) {
            unite(job->roots, (uint32_t)(i / job->k), job->graph[i]);
        }
    }
    for (int64_t row = 0; row < job->points; row++) {
        job->sizes[root_of(job->roots, (uint32_t)row)] += 1;
    }
    for (int64_t row = 0; row < job->points; row++) {
        if (job->sizes[row] > 0) {
            job->words[(*job->count)++] =
                (uint64_t)(UINT32_MAX - job->sizes[row]) << 32 | (uint64_t)row;
        }
    }
}

/* ---- Walks ----------------------------------------------------------------------------------- */

/* So many rows are looked at together at most; at first their links are no more than this if they
 * can be. */
enum { MOST_FAN = 8, MOST_LINKS = 128 };

/* Components of rounded rows, by position. */
typedef struct values {
    const kin_screen_gpu_set *points;
    const kin_screen_gpu_set *queries;
    float *of_points;
    float *of_queries;
} values;

static float *values_of(const kin_screen_gpu_set *set)
{
    const int32_t cols = set->frame.cols;
    float *room = reference_room(set->points * cols, sizeof *room);
    for (int64_t i = 0; i < set->points * cols; i++) {
        room[i] = rounded_of(set, i / cols, (int32_t)(i % cols));
    }
    return room;
}

static values values_make(const kin_screen_gpu_set *points, const kin_screen_gpu_set *queries)
{
    return (values){points, queries, values_of(points), values_of(queries)};
}

static void values_free(values *v)
{
    free(v->of_queries);
    free(v->of_points);
}

/* The nearest that a walk has met, in the order (key, id); `unused` of a pair: 1 once its links
 * have been looked at. */
typedef struct walker {
    const kin_graph_gpu_walk *job;      /* by rows and keys, */
    const kin_graph_gpu_follow *follow; /* or by positions and costs, */
    const values *values;               /* of their sets */
    const uint32_t *links;
    int32_t most;
    int32_t width;
    uint64_t *evaluations;
    int64_t query;
    int32_t fan;
    uint32_t *met;   /* by row: the number of the last query that met it */
    uint32_t *fresh; /* rows that are weighed, and their keys */
    double *keys;
    kin_screen_gpu_pair *list;
    int32_t count;
    int32_t next; /* nobody before it is to be looked at */
} walker;

static bool comes_before(const kin_screen_gpu_pair *a, const kin_screen_gpu_pair *b)
{
    return a->key < b->key || (a->key == b->key && a->id < b->id);
}

static void enter(walker *w, kin_screen_gpu_pair pair)
{
    int32_t at = w->count;
    if (at == w->width) {
        at -= 1;
        if (!comes_before(&pair, &w->list[at])) {
            return;
        }
    } else {
        w->count += 1;
    }
    for (; at > 0 && comes_before(&pair, &w->list[at - 1]); at--) {
        w->list[at] = w->list[at - 1];
    }
    w->list[at] = pair;
    w->next = at < w->next ? at : w->next;
}

static double product_of(const values *v, int64_t query, uint32_t position)
{
    const int32_t cols = v->points->frame.cols;
    const float *x = v->of_queries + query * cols;
    const float *y = v->of_points + (int64_t)position * cols;
    double product = 0.0;
    for (int32_t c = 0; c < cols; c++) {
        product += (double)x[c] * (double)y[c];
    }
    return product;
}

/* Of a query and a position of the points, with the query's own term or without. */
static uint32_t cost_order(const values *v, int64_t query, uint32_t position, bool own)
{
    const double product = product_of(v, query, position);
    kin_screen_gpu_word a = v->queries->facts[query].term;
    const kin_screen_gpu_word b = v->points->facts[position].term;
    a.u = own ? a.u : 0;
    return v->points->frame.type == KIN_SCREEN_GPU_S8
               ? kin_graph_order_of_int((int32_t)(a.u + b.u - 2 * (uint32_t)(int32_t)product))
               : kin_graph_order_of_float((float)((double)a.f + (double)b.f - 2.0 * product));
}

static bool has_products(const kin_screen_gpu_set *points)
{
    return points->frame.bound == KIN_BOUND_PRODUCT;
}

static uint32_t lead_order(const values *v, int64_t query, uint32_t position)
{
    if (!has_products(v->points)) {
        return cost_order(v, query, position, false);
    }
    const float norm = v->points->facts[position].norm;
    const double product = product_of(v, query, position);
    return kin_graph_order_of_float((float)(-product / (norm > 0.0F ? (double)norm : 1.0)) + 0.0F);
}

static void weigh(walker *w, int64_t some)
{
    if (w->job != NULL) {
        reference_keys(&w->job->queries, w->query, &w->job->points, w->fresh, 0, some, w->keys);
        return;
    }
    for (int64_t i = 0; i < some; i++) {
        w->keys[i] = (double)cost_order(w->values, w->query, w->fresh[i], true);
    }
}

/* Rows that were not met before are weighed. */
static void meet(walker *w, const uint32_t *rows, int64_t count)
{
    const uint32_t name = (uint32_t)w->query + 1;
    int64_t some = 0;
    for (int64_t i = 0; i < count; i++) {
        if (rows[i] != KITH_ID_NONE && w->met[rows[i]] != name) {
            w->met[rows[i]] = name;
            w->fresh[some++] = rows[i];
        }
    }
    weigh(w, some);
    *w->evaluations += (uint64_t)some;
    for (int64_t i = 0; i < some; i++) {
        enter(w, (kin_screen_gpu_pair){.key = w->keys[i], .id = w->fresh[i]});
    }
}

/* The nearest that were not looked at: how many. */
static int32_t pick(walker *w, int32_t fan, uint32_t picked[MOST_FAN])
{
    int32_t count = 0;
    for (; w->next < w->count && count < fan; w->next++) {
        kin_screen_gpu_pair *pair = &w->list[w->next];
        if (pair->unused == 0) {
            pair->unused = 1;
            picked[count++] = pair->id;
        }
    }
    return count;
}

static void look(walker *w, const uint32_t *picked, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        meet(w, w->links + (int64_t)picked[i] * w->most, w->most);
    }
}

/* The links of the first `alike` entries enter with them. */
static void walk_query(walker *w, int64_t query, const uint32_t *entries, int32_t entry_count,
                       int32_t alike)
{
    uint32_t picked[MOST_FAN];
    int32_t fan = w->fan;
    int32_t count = 0;
    w->query = query;
    w->count = 0;
    w->next = 0;
    meet(w, entries, entry_count);
    look(w, entries, alike);
    while ((count = pick(w, fan, picked)) > 0) {
        look(w, picked, count);
        fan = 2 * fan < MOST_FAN ? 2 * fan : MOST_FAN;
    }
}

/* With room for so many that are met at once; links, most, width and evaluations are set. */
static void walker_make(walker *w, int64_t rows, int32_t at_once)
{
    const int32_t fan = MOST_LINKS / w->most;
    const int32_t room = w->most > at_once ? w->most : at_once;
    w->fan = fan < 1 ? 1 : fan < MOST_FAN ? fan : MOST_FAN;
    w->met = reference_room(rows, sizeof *w->met);
    w->fresh = reference_room(room, sizeof *w->fresh);
    w->keys = reference_room(room, sizeof *w->keys);
    w->list = reference_room(w->width, sizeof *w->list);
    memset(w->met, 0, (size_t)rows * sizeof *w->met);
}

static void walker_free(walker *w)
{
    free(w->list);
    free(w->keys);
    free(w->fresh);
    free(w->met);
}

/* As graph_walk.cu does, but that all that was met is remembered: the keys that it computes again
 * change nothing. */
void reference_graph_walk(const kin_graph_gpu_walk *job)
{
    walker w = {.job = job,
                .links = job->links,
                .most = job->most,
                .width = job->width,
                .evaluations = job->evaluations};
    REFERENCE_MUST(job->width <= KIN_GRAPH_GPU_MOST_WIDTH && job->width >= job->k && job->most > 0);
    walker_make(&w, job->points.rows, job->entry_count);
    for (int64_t i = 0; i < job->count; i++) {
        walk_query(&w, job->query0 + i, job->entries, job->entry_count, 0);
        job->found[i] = w.count < job->k ? w.count : job->k;
        for (int32_t j = 0; j < job->found[i]; j++) {
            job->pairs[i * job->k + j] = w.list[j];
            job->pairs[i * job->k + j].unused = 0;
        }
    }
    walker_free(&w);
}

void reference_graph_lead(const kin_graph_gpu_lead *job)
{
    REFERENCE_MUST(job->count > 0 && job->chunks <= KIN_GRAPH_GPU_LEADS &&
                   job->chunk % KIN_GRAPH_GPU_LEADS == 0 &&
                   (int64_t)job->chunk * job->chunks >= job->count);
    REFERENCE_MUST(job->count * job->step <= job->points.points);
    values v = values_make(&job->points, &job->queries);
    for (int64_t i = 0; i < job->queries.points; i++) {
        uint64_t *words = job->words + i * job->chunks;
        memset(words, 0xff, (size_t)job->chunks * sizeof *words);
        for (int64_t place = 0; place < job->count; place++) {
            const uint32_t position = (uint32_t)kin_graph_gpu_lead_position(job, place);
            const uint32_t order = lead_order(&v, i, position);
            reference_take_least(&words[place / job->chunk], kin_graph_word(order, position, 1));
        }
    }
    values_free(&v);
}

/* As graph_follow.cu. */
void reference_graph_follow(const kin_graph_gpu_follow *job)
{
    uint64_t leads[KIN_GRAPH_GPU_LEADS];
    uint32_t entries[KIN_GRAPH_GPU_LEADS];
    const int32_t count =
        job->lead_count < KIN_GRAPH_GPU_ENTRIES ? job->lead_count : KIN_GRAPH_GPU_ENTRIES;
    const int32_t few = count < KIN_GRAPH_GPU_ALIKE ? count : KIN_GRAPH_GPU_ALIKE;
    const int32_t alike = has_products(&job->points) ? few : 0;
    values v = values_make(&job->points, &job->queries);
    walker w = {.follow = job,
                .values = &v,
                .links = job->links,
                .most = job->most,
                .width = job->width,
                .evaluations = job->evaluations};
    REFERENCE_MUST(job->width <= KIN_GRAPH_GPU_MOST_WIDTH && job->width >= job->lists.capacity &&
                   job->most > 0 && job->lead_count > 0 && job->lead_count <= KIN_GRAPH_GPU_LEADS);
    walker_make(&w, job->points.points, KIN_GRAPH_GPU_ENTRIES);
    for (int64_t i = 0; i < job->queries.points; i++) {
        memcpy(leads, job->leads + i * job->lead_count, (size_t)job->lead_count * sizeof *leads);
        kin_select_sort_words(leads, job->lead_count);
        for (int32_t j = 0; j < count; j++) {
            entries[j] = kin_graph_position(leads[j]);
        }
        walk_query(&w, i, entries, count, alike);
        job->lists.counts[i] = w.count < job->lists.capacity ? w.count : job->lists.capacity;
        for (int32_t j = 0; j < job->lists.counts[i]; j++) {
            job->lists.words[i * job->lists.capacity + j] =
                (uint64_t)(uint32_t)w.list[j].key << 32 | w.list[j].id;
        }
    }
    walker_free(&w);
    values_free(&v);
}
