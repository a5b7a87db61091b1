/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/graph_start.h"

#include "host/host_threads.h"

enum { ROWS_A_TASK = 64, KEYS_AT_A_TIME = 256 };

/* ---- Memory --------------------------------------------------------------------------------- */

/* A list and the own position; keys of a scan. */
static int64_t capacity_of(int64_t length)
{
    return kin_max_i64(length + 1, KEYS_AT_A_TIME);
}

/* A scan sorts when it has twice the wanted groups. */
static int64_t scan_capacity(int64_t wanted)
{
    return 2 * wanted + KEYS_AT_A_TIME;
}

static void name_finishers(kin_layout *layout, void *job)
{
    kin_graph_finish *finish = job;
    const kin_prepared *prepared = finish->prepared;
    const kin_distance *distance = &prepared->distance;
    const uint64_t scanned = (uint64_t)scan_capacity(finish->wanted);
    finish->finishers =
        kin_layout_zeros(layout, (uint64_t)finish->threads, sizeof *finish->finishers);
    for (int32_t t = 0; t < finish->threads; t++) {
        kin_graph_finish_thread spare;
        kin_graph_finish_thread *f = kin_layout_item(finish->finishers, t, &spare);
        f->answer = (kin_answer){
            .groups = &prepared->groups, .metric = distance->metric, .wanted = finish->wanted};
        kin_list_scratch_name(layout, finish->capacity, distance->cols, &f->scratch);
        if (finish->points != NULL) {
            kin_graph_join_name(layout, finish->points, 1, 1, &f->matcher);
        }
        kin_answer_name(layout, &f->answer);
        f->scanned = kin_layout_array(layout, scanned, sizeof *f->scanned);
    }
}

kith_status kin_graph_finish_make(kin_hold *hold, const kin_prepared *prepared,
                                  const kin_graph_points *points, const kin_graph_lists *lists,
                                  int64_t wanted, kin_graph_finish *finish)
{
    *finish = (kin_graph_finish){.ctx = hold->ctx,
                                 .prepared = prepared,
                                 .points = points,
                                 .lists = lists,
                                 .wanted = kin_min_i64(wanted, prepared->groups.rows),
                                 .capacity = capacity_of(lists != NULL ? lists->length : 0),
                                 .threads = hold->ctx->threads};
    return kin_hold_layout(hold, name_finishers, finish, "the end of a descent");
}

void kin_graph_finish_plan(kin_layout *plan, const kin_graph_points *points, int32_t length,
                           int64_t wanted, int32_t threads)
{
    kin_graph_finish finish = {.prepared = points->prepared,
                               .points = points,
                               .wanted = wanted,
                               .capacity = capacity_of(length),
                               .threads = threads};
    kin_layout_block(plan, name_finishers, &finish);
}

/* ---- One list ------------------------------------------------------------------------------- */

static uint32_t weight_of(const kin_graph_finish *finish, uint32_t id)
{
    const uint32_t *weights = finish->prepared->groups.weights;
    return weights == NULL ? 1 : weights[id];
}

/* The entries, and the position itself, whose equals are its neighbours too, as words of
 * screen/screen_list.h. Returns how many. */
static int32_t copy_list(const kin_graph_finish *finish, kin_graph_finish_thread *f,
                         int64_t position, uint64_t *words)
{
    const bool named_by_id = finish->prepared->frame.bound == KIN_BOUND_INTEGER;
    const uint32_t *ids = finish->points->ids;
    const uint64_t *list = kin_graph_list(finish->lists, position);
    const int32_t count = kin_graph_list_count(finish->lists, position);
    const uint32_t own = (uint32_t)position;
    uint32_t own_order = 0;
    kin_graph_join_one(&f->matcher, own, &own, 1, &own_order);
    for (int32_t i = 0; i <= count; i++) {
        const uint32_t at = i < count ? kin_graph_position(list[i]) : own;
        const uint32_t order = i < count ? (uint32_t)(list[i] >> 32) : own_order;
        words[i] = (uint64_t)order << 32 | (named_by_id ? ids[at] : at);
    }
    return count + 1;
}

/* What costs cannot exclude gets its key: the end of the exact engine's lists, of a set of one. */
static int64_t finish_screened(const kin_graph_finish *finish, kin_graph_finish_thread *f,
                               int64_t position, uint64_t *words, int32_t *count)
{
    kin_set row = finish->prepared->set;
    row.ids += position;
    row.norm = row.norm == NULL ? NULL : row.norm + position;
    row.lost = row.lost == NULL ? NULL : row.lost + position;
    double reach = INFINITY;
    uint8_t reran = 0;
    kin_lists lists = {.rows = &row,
                       .points = &finish->prepared->set,
                       .weights = finish->prepared->groups.weights,
                       .k = finish->wanted,
                       .capacity = finish->capacity,
                       .words = words,
                       .counts = count,
                       .reach = &reach,
                       .reran = &reran};
    return kin_lists_finish(&lists, 0, &f->scratch);
}

static kith_status keys_of(const kin_graph_finish *finish, kin_graph_finish_thread *f,
                           int64_t position, const uint32_t *ids, int64_t count, kin_pair *pairs)
{
    const kin_prepared *prepared = finish->prepared;
    const uint32_t row = prepared->order[position];
    const kin_query query =
        kin_metric_load(&prepared->distance, &prepared->rows, row, f->scratch.query);
    kin_metric_keys(&prepared->distance, &query, &prepared->rows, ids, count, f->scratch.keys);
    f->scratch.keys_computed += count;
    for (int64_t i = 0; i < count; i++) {
        KIN_FAIL_IF(f->scratch.keys[i] != f->scratch.keys[i], finish->ctx, KITH_E_DATA,
                    kin_at("custom"),
                    "gave NaN for point %lu and point %lu (a distance must be a number)",
                    (unsigned long)row, (unsigned long)ids[i]);
        pairs[i] = (kin_pair){f->scratch.keys[i], ids[i], weight_of(finish, ids[i])};
    }
    return KITH_OK;
}

/* A position twice in a list: a caller's function that gave one pair two distances. */
static bool is_among(const uint32_t *ids, int64_t count, uint32_t id)
{
    bool found = false;
    for (int64_t i = 0; i < count; i++) {
        found |= ids[i] == id;
    }
    return found;
}

/* Direct metrics: an order is the key rounded, so who is behind the last wanted id by order is
 * behind it by key. */
static kith_status finish_direct(const kin_graph_finish *finish, kin_graph_finish_thread *f,
                                 int64_t position, int64_t *count)
{
    const uint64_t *list = kin_graph_list(finish->lists, position);
    const int32_t entries = kin_graph_list_count(finish->lists, position);
    const bool doubtful = finish->prepared->distance.metric == KITH_CUSTOM;
    uint32_t *ids = f->scratch.ids;
    int64_t found = 0;
    int64_t kept = 0;
    for (int32_t i = 0; i < entries; i++) {
        if (found >= finish->wanted && list[i] >> 32 != list[i - 1] >> 32) {
            break;
        }
        const uint32_t id = finish->points->ids[kin_graph_position(list[i])];
        if (!doubtful || !is_among(ids, kept, id)) {
            found += weight_of(finish, id);
            ids[kept++] = id;
        }
    }
    ids[kept++] = finish->points->ids[position];
    KIN_TRY(keys_of(finish, f, position, ids, kept, f->scratch.pairs));
    kin_select_sort_pairs(f->scratch.pairs, kept);
    *count = kept;
    return KITH_OK;
}

static kith_status finish_list(kin_graph_finish *finish, int64_t position, int32_t thread)
{
    kin_graph_finish_thread *f = &finish->finishers[thread];
    int64_t count = 0;
    if (finish->points->kernel != NULL) {
        int32_t entries = copy_list(finish, f, position, f->scratch.words);
        count = finish_screened(finish, f, position, f->scratch.words, &entries);
    } else {
        KIN_TRY(finish_direct(finish, f, position, &count));
    }
    kin_answer_expand(&f->answer, f->scratch.pairs, count);
    return KITH_OK;
}

/* ---- All rows ------------------------------------------------------------------------------- */

/* The first `wanted` groups are enough: each has a first, and of equal keys the lowest come first.
 */
static kith_status scan_groups(const kin_graph_finish *finish, kin_graph_finish_thread *f,
                               int64_t position, int64_t *count)
{
    const kin_groups *groups = &finish->prepared->groups;
    const int64_t capacity = scan_capacity(finish->wanted);
    double worst = INFINITY;
    *count = 0;
    for (int64_t at = 0; at < groups->count; at += KEYS_AT_A_TIME) {
        const int64_t chunk = kin_min_i64(KEYS_AT_A_TIME, groups->count - at);
        KIN_TRY(keys_of(finish, f, position, groups->firsts + at, chunk, f->scratch.pairs));
        for (int64_t i = 0; i < chunk; i++) {
            if (f->scratch.pairs[i].key <= worst) {
                f->scanned[(*count)++] = f->scratch.pairs[i];
            }
        }
        if (*count > capacity - KEYS_AT_A_TIME || at + chunk == groups->count) {
            kin_select_sort_pairs(f->scanned, *count);
            *count = kin_min_i64(*count, finish->wanted);
            worst = *count == finish->wanted ? f->scanned[*count - 1].key : worst;
        }
    }
    return KITH_OK;
}

static kith_status finish_scan(kin_graph_finish *finish, int64_t position, int32_t thread)
{
    kin_graph_finish_thread *f = &finish->finishers[thread];
    int64_t count = 0;
    KIN_TRY(scan_groups(finish, f, position, &count));
    kin_answer_expand(&f->answer, f->scanned, count);
    return KITH_OK;
}

typedef struct writing {
    kin_graph_finish *finish;
    kin_answer_target target;
} writing;

static kith_status write_rows(void *arg, int64_t position, int32_t thread)
{
    const writing *w = arg;
    kin_graph_finish *finish = w->finish;
    const kin_prepared *prepared = finish->prepared;
    const kin_answer *answer = &finish->finishers[thread].answer;
    if (finish->lists != NULL) {
        KIN_TRY(finish_list(finish, position, thread));
    }
    if (finish->lists == NULL || answer->count < finish->wanted) {
        KIN_TRY(finish_scan(finish, position, thread));
    }
    KIN_TRY(kin_answer_write_group(finish->ctx, &w->target, answer, prepared->order[position]));
    return KITH_OK;
}

kith_status kin_graph_finish_write(kin_graph_finish *finish, uint32_t flags,
                                   const kith_neighbors *out, double *keys)
{
    kith_ctx *ctx = finish->ctx;
    const kin_prepared *prepared = finish->prepared;
    writing w = {.finish = finish,
                 .target = {.groups = &prepared->groups,
                            .leaves_self_out = (flags & KITH_INCLUDE_SELF) == 0,
                            .out = out}};
    KIN_TRY(kin_parallel_rows(ctx, "rescore", prepared->groups.count, ROWS_A_TASK, write_rows, &w));
    kin_answer_write_degenerates(&w.target, &finish->finishers[0].answer);
    *keys = 0.0;
    for (int32_t t = 0; t < ctx->threads; t++) {
        *keys += (double)finish->finishers[t].scratch.keys_computed;
    }
    return KITH_OK;
}

enum { POINTS_A_TASK = 8 };

/* ---- What lists have ------------------------------------------------------------------------ */

typedef struct looking {
    kin_graph_finish finish;
    kin_graph_look at;
    double *sums; /* of each control point the distances of its first k */
} looking;

/* The ids of a control point in order, into the thread's answer. */
static kith_status list_of(looking *l, uint32_t row, int32_t thread)
{
    const uint32_t position = l->at.owner[row];
    if (position == KITH_ID_NONE) {
        kin_answer_degenerate(&l->finish.finishers[thread].answer);
        return KITH_OK;
    }
    return l->finish.lists != NULL ? finish_list(&l->finish, position, thread)
                                   : finish_scan(&l->finish, position, thread);
}

double kin_graph_control_take(const kin_graph_request *request, const kin_answer *answer,
                              int64_t which)
{
    const kin_recall_control *control = request->control;
    const bool leaves_out = kin_graph_leaves_own_out(request);
    double *found = control->found + which * control->at;
    double sum = 0.0;
    int64_t taken = 0;
    for (int64_t i = 0; i < control->at; i++) {
        found[i] = INFINITY;
    }
    for (int64_t i = 0; i < answer->count; i++) {
        const double key = answer->list[i].key;
        if (leaves_out && answer->list[i].id == control->ids[which]) {
            continue;
        }
        if (taken < control->at) {
            found[taken] = key;
        }
        if (taken < request->k) {
            sum += kin_metric_distance(request->distance.metric, key);
        }
        taken += 1;
    }
    return sum;
}

static kith_status look_at_some(void *arg, int64_t i, int32_t thread)
{
    looking *l = arg;
    const kin_recall_control *control = l->at.request->control;
    KIN_TRY(list_of(l, control->ids[i], thread));
    l->sums[i] = kin_graph_control_take(l->at.request, &l->finish.finishers[thread].answer, i);
    return KITH_OK;
}

kith_status kin_graph_control_look(kith_ctx *ctx, const kin_graph_look *look, double *phi)
{
    const kin_graph_request *request = look->request;
    const kin_recall_control *control = request->control;
    const int64_t most = kin_max_i64(request->k, control->at);
    looking l = {.at = *look};
    *phi = 0.0;
    KIN_HOLD(hold, ctx);
    KIN_NEW_ZERO(&hold, l.sums, (uint64_t)control->count, "sums of distances");
    KIN_TRY(kin_graph_finish_make(&hold, look->prepared, look->points, look->lists,
                                  most + kin_graph_leaves_own_out(request), &l.finish));
    KIN_TRY(kin_parallel_rows(ctx, "control", control->count, POINTS_A_TASK, look_at_some, &l));
    for (int64_t i = 0; i < control->count; i++) {
        *phi += l.sums[i];
    }
    *phi *= (double)look->prepared->rows.matrix.rows / (double)kin_max_i64(control->count, 1);
    return KITH_OK;
}
