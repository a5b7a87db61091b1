/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Control rows are asked of the exact engine once, against the corpus that is resident: their
 * K-th neighbours' keys are the truth. Between rounds the lists of their positions get canonical
 * keys, equal rows are expanded as at the end, and the caller counts.
 */
#include "graph/graph_run_gpu.h"

/* Idea. Some pairs of rows get canonical keys from the kernel that gives them to lists: a graph of
 * as many points as there are pairs, whose lists have one entry. */

enum {
    PAIRS = KIN_GRAPH_GPU_PAIRS, /* at a time */
    LENGTH = KIN_GRAPH_GPU_PAIR_LIST
};

/* Device memory of a batch of pairs, and what goes there. */
typedef struct batch {
    uint32_t *host_ids; /* rows `from`, then rows `to` */
    uint64_t *host_words;
    uint32_t *host_controls;
    double *host_keys;
    uint32_t *ids;
    uint64_t *words;
    uint32_t *controls;
    double *keys;
    uint32_t *entries;
} batch;

static kith_status make_batch(kin_hold *hold, kin_gpu *gpu, uint64_t most, batch *b)
{
    const char *what = "keys of some pairs";
    KIN_NEW(hold, b->host_ids, 2 * most, what);
    KIN_NEW(hold, b->host_words, most * LENGTH, what);
    KIN_NEW(hold, b->host_controls, most, what);
    KIN_NEW(hold, b->host_keys, most * LENGTH, what);
    KIN_GPU_NEW(hold, gpu, b->ids, 2 * most, what);
    KIN_GPU_NEW(hold, gpu, b->words, most * LENGTH, what);
    KIN_GPU_NEW(hold, gpu, b->controls, most, what);
    KIN_GPU_NEW(hold, gpu, b->keys, most * LENGTH, what);
    KIN_GPU_NEW(hold, gpu, b->entries, most * LENGTH, what);
    return KITH_OK;
}

static kith_status run_batch(const kin_graph_gpu_run *run, const batch *b, const uint32_t *from,
                             const uint32_t *to, int64_t count, double *keys)
{
    kith_ctx *ctx = run->on.ctx;
    kin_gpu *gpu = run->on.gpu;
    const uint64_t n = (uint64_t)count;
    for (int64_t i = 0; i < count; i++) {
        b->host_ids[i] = from[i];
        b->host_ids[count + i] = to[i];
        b->host_controls[i] = (uint32_t)i;
        b->host_words[i * LENGTH] = kin_graph_word(0, (uint32_t)(count + i), 0);
        for (int j = 1; j < LENGTH; j++) {
            b->host_words[i * LENGTH + j] = KIN_GRAPH_EMPTY;
        }
    }
    KIN_TRY(kin_gpu_upload(ctx, gpu, b->ids, b->host_ids, 2 * n * sizeof *b->ids));
    KIN_TRY(kin_gpu_upload(ctx, gpu, b->words, b->host_words, n * LENGTH * sizeof *b->words));
    KIN_TRY(kin_gpu_upload(ctx, gpu, b->controls, b->host_controls, n * sizeof *b->controls));
    const kin_graph_gpu_keys job = {.rows = run->corpus->prepared.rows,
                                    .ids = b->ids,
                                    .graph = {.points = count, .length = LENGTH, .words = b->words},
                                    .controls = b->controls,
                                    .control_count = count,
                                    .keys = b->keys,
                                    .entries = b->entries};
    KIN_TRY(KIN_GRAPH_LAUNCH(run, keys, &job, "computing keys"));
    KIN_TRY(kin_gpu_download(ctx, gpu, b->host_keys, b->keys, n * LENGTH * sizeof *b->keys));
    for (int64_t i = 0; i < count; i++) {
        keys[i] = b->host_keys[i * LENGTH];
    }
    return KITH_OK;
}

static kith_status pair_keys(const kin_graph_gpu_run *run, const uint32_t *from, const uint32_t *to,
                             int64_t count, double *keys)
{
    batch b = {0};
    const uint64_t most = (uint64_t)kin_min_i64(PAIRS, kin_max_i64(count, 1));
    KIN_HOLD(hold, run->on.ctx);
    KIN_TRY(make_batch(&hold, run->on.gpu, most, &b));
    for (int64_t first = 0; first < count; first += PAIRS) {
        KIN_TRY(run_batch(run, &b, from + first, to + first, kin_min_i64(PAIRS, count - first),
                          keys + first));
    }
    return KITH_OK;
}

kith_status kin_graph_gpu_own_keys(const kin_graph_gpu_run *run, const uint32_t *rows,
                                   int64_t count, double *keys)
{
    const kith_metric metric = run->corpus->prepared.rows.metric;
    if (kin_metric_get_traits(metric)->screen != KIN_SCREEN_DISTANCE) {
        return pair_keys(run, rows, rows, count, keys);
    }
    for (int64_t i = 0; i < count; i++) {
        keys[i] = 0.0; /* of a difference of equal rows */
    }
    return KITH_OK;
}

static const double DEGENERATE_KEY = 1.0;

/* ---- Truth ----------------------------------------------------------------------------------- */

static bool is_degenerate(const kin_groups *groups, uint32_t row)
{
    const int64_t at = kin_lower_u32(groups->degenerates, groups->degenerate, row);
    return at < groups->degenerate && groups->degenerates[at] == row;
}

/* The control rows side by side in device memory. */
static kith_status gather_rows(const kin_graph_gpu_run *run, kin_hold *hold, kith_matrix *rows)
{
    const kin_recall_control *control = run->request->control;
    const kin_fused_rows *all = &run->corpus->prepared.rows;
    const uint64_t bytes = (uint64_t)all->cols * (uint64_t)kith_dtype_bytes(all->dtype);
    const kin_gpu_ops *ops = run->on.gpu->module->ops;
    char *device = NULL;
    KIN_TRY(kin_gpu_hold_alloc(hold, run->on.gpu, &device,
                               kin_size_mul((uint64_t)control->count, bytes), "control rows"));
    for (int64_t i = 0; i < control->count; i++) {
        const char *from = (const char *)all->data + (int64_t)control->ids[i] * all->stride_bytes;
        KIN_TRY(kin_graph_gpu_check(
            run, ops->copy_within(run->on.stream, device + (uint64_t)i * bytes, from, bytes),
            "gathering control rows"));
    }
    *rows = run->corpus->points;
    rows->data = device;
    rows->rows = control->count;
    rows->stride_bytes = (int64_t)bytes;
    return KITH_OK;
}

/* neighbours: of each control its first K, host memory. The report is not of this. */
static kith_status search_truth(const kin_graph_gpu_run *run, const kith_neighbors *neighbours)
{
    kith_ctx *ctx = run->on.ctx;
    kin_gpu *gpu = run->on.gpu;
    const kin_recall_control *control = run->request->control;
    const kith_report before = ctx->report;
    kin_request request = {.distance = run->request->distance,
                           .k = control->at,
                           .flags = run->request->flags,
                           .method = KITH_METHOD_EXACT};
    const uint64_t bytes = (uint64_t)control->count * sizeof *control->ids;
    kith_matrix rows;
    uint32_t *own = NULL;
    KIN_HOLD(hold, ctx);
    KIN_TRY(gather_rows(run, &hold, &rows));
    if (kin_graph_gpu_leaves_own_out(run->request)) {
        KIN_GPU_NEW(&hold, gpu, own, (uint64_t)control->count, "own ids");
        KIN_TRY(kin_gpu_upload(ctx, gpu, own, control->ids, bytes));
        request.exclude = own;
    }
    const kith_status status = kin_fused_corpus_search(ctx, run->corpus, &rows, &request,
                                                       KIN_FUSED_DATA_ON_DEVICE, neighbours);
    ctx->report = before;
    return status;
}

/* kth: keys of the controls and their K-th neighbours; a degenerate row is at 1 from all. */
static kith_status key_truth(const kin_graph_gpu_run *run, const uint32_t *neighbours)
{
    const kin_recall_control *control = run->request->control;
    uint32_t *last = NULL;
    KIN_HOLD(hold, run->on.ctx);
    KIN_NEW(&hold, last, (uint64_t)control->count, "neighbours of control rows");
    for (int64_t i = 0; i < control->count; i++) {
        last[i] = neighbours[(i + 1) * control->at - 1];
    }
    const kith_status status = pair_keys(run, control->ids, last, control->count, control->kth);
    for (int64_t i = 0; status == KITH_OK && i < control->count; i++) {
        if (is_degenerate(run->groups, control->ids[i]) || is_degenerate(run->groups, last[i])) {
            control->kth[i] = DEGENERATE_KEY;
        }
    }
    return status;
}

static kith_status find_truth(const kin_graph_gpu_run *run)
{
    const kin_recall_control *control = run->request->control;
    kith_neighbors neighbours = {.rows = control->count, .k = control->at};
    KIN_HOLD(hold, run->on.ctx);
    KIN_NEW(&hold, neighbours.ids, kin_size_mul((uint64_t)control->count, (uint64_t)control->at),
            "neighbours of control rows");
    KIN_TRY(search_truth(run, &neighbours));
    return key_truth(run, neighbours.ids);
}

/* ---- Where controls stand -------------------------------------------------------------------- */

/* marks[row] = 1 for control rows becomes, for groups with one among them, 1 for their first too;
 * heads: the first of each control. */
static void find_firsts(const kin_graph_gpu_run *run, const uint8_t *marks, uint64_t *heads)
{
    const kin_recall_control *control = run->request->control;
    const kin_groups *groups = run->groups;
    for (int64_t i = 0; i < control->count; i++) {
        heads[i] = (uint64_t)control->ids[i] << 32 | (uint64_t)i;
    }
    if (groups->next == NULL) {
        return;
    }
    for (int64_t g = 0; g < groups->count; g++) {
        const uint32_t first = groups->firsts[g];
        for (uint32_t row = groups->next[first]; row != KITH_ID_NONE; row = groups->next[row]) {
            if (marks[row] != 0) {
                const int64_t at = kin_lower_u32(control->ids, control->count, row);
                heads[at] = (uint64_t)first << 32 | (uint64_t)at;
            }
        }
    }
}

/* The controls with this first stand at position p. heads: sorted. */
static void place_controls(kin_graph_gpu_watch *w, const uint64_t *heads, int64_t count,
                           uint32_t first, uint32_t position, uint32_t *positions)
{
    int64_t at = kin_lower_u64(heads, count, (uint64_t)first << 32);
    for (; at < count && heads[at] >> 32 == first; at++) {
        w->which[w->count] = (uint32_t)heads[at];
        w->firsts[w->count] = first;
        positions[w->count++] = position;
    }
}

static kith_status find_controls(kin_graph_gpu_run *run, kin_hold *hold)
{
    kith_ctx *ctx = run->on.ctx;
    const kin_recall_control *control = run->request->control;
    kin_graph_gpu_watch *w = &run->watch;
    const uint64_t n = (uint64_t)control->count;
    const char *what = "places of control rows";
    uint8_t *marks = NULL; /* by row */
    uint64_t *heads = NULL;
    uint32_t *ids = NULL; /* by position */
    uint32_t *positions = NULL;
    KIN_NEW_ZERO(hold, marks, (uint64_t)run->rows, what);
    KIN_NEW(hold, heads, n, what);
    KIN_NEW(hold, ids, (uint64_t)run->count, what);
    KIN_NEW(hold, positions, n, what);
    KIN_TRY(kin_gpu_download(ctx, run->on.gpu, ids, run->points.set.ids,
                             (uint64_t)run->count * sizeof *ids));
    for (int64_t i = 0; i < control->count; i++) {
        marks[control->ids[i]] = 1;
    }
    find_firsts(run, marks, heads);
    for (int64_t i = 0; i < control->count; i++) {
        marks[heads[i] >> 32] = 1;
    }
    kin_select_sort_words(heads, control->count);
    for (int64_t p = 0; p < run->count; p++) {
        if (marks[ids[p]] != 0) {
            place_controls(w, heads, control->count, ids[p], (uint32_t)p, positions);
        }
    }
    return kin_gpu_upload(ctx, run->on.gpu, w->positions, positions,
                          (uint64_t)w->count * sizeof *w->positions);
}

/* ---- Making ---------------------------------------------------------------------------------- */

void kin_graph_gpu_watch_free(kin_graph_gpu_run *run)
{
    kin_hold_end(&run->watch.hold);
    kin_answer_free(run->on.ctx, &run->watch.answer);
}

static kith_status make_room(kin_graph_gpu_run *run)
{
    kith_ctx *ctx = run->on.ctx;
    kin_gpu *gpu = run->on.gpu;
    const kin_recall_control *control = run->request->control;
    kin_graph_gpu_watch *w = &run->watch;
    const uint64_t n = (uint64_t)control->count;
    const uint64_t length =
        (uint64_t)kin_graph_gpu_longest(run->graph.length, run->request->lengthenings);
    const uint64_t cells = kin_size_mul(n, length);
    const char *what = "lists of control rows";
    w->wanted = kin_max_i64(control->at, run->request->k);
    KIN_TRY(kin_answer_make(ctx, run->groups, run->request->distance.metric,
                            kin_min_i64(w->wanted + 1, run->rows), &w->answer));
    w->hold.ctx = ctx;
    KIN_NEW(&w->hold, w->which, n, what);
    KIN_NEW(&w->hold, w->firsts, n, what);
    KIN_NEW(&w->hold, w->own, n, what);
    KIN_NEW(&w->hold, w->list, length + 1, what);
    KIN_NEW(&w->hold, w->host_keys, cells, what);
    KIN_NEW(&w->hold, w->host_entries, cells, what);
    KIN_GPU_NEW(&w->hold, gpu, w->positions, n, what);
    KIN_GPU_NEW(&w->hold, gpu, w->keys, cells, what);
    KIN_GPU_NEW(&w->hold, gpu, w->entries, cells, what);
    return KITH_OK;
}

kith_status kin_graph_gpu_watch_make(kin_graph_gpu_run *run)
{
    const kin_recall_control *control = run->request->control;
    if (control == NULL || control->count == 0) {
        return KITH_OK;
    }
    if (control->kth != NULL && run->share.part == 0) {
        KIN_TRY(find_truth(run));
    }
    return make_room(run);
}

kith_status kin_graph_gpu_watch_place(kin_graph_gpu_run *run)
{
    const kin_recall_control *control = run->request->control;
    if (control == NULL || control->count == 0) {
        return KITH_OK;
    }
    KIN_HOLD(hold, run->on.ctx);
    KIN_TRY(find_controls(run, &hold));
    return kin_graph_gpu_own_keys(run, run->watch.firsts, run->watch.count, run->watch.own);
}

/* ---- Looking --------------------------------------------------------------------------------- */

/* The answer's list without the row's own id: the first `at` keys, and the sum of the first k
 * distances. */
static double take_found(const kin_graph_gpu_run *run, int64_t which)
{
    const kin_recall_control *control = run->request->control;
    const kin_answer *answer = &run->watch.answer;
    const bool leaves = kin_graph_gpu_leaves_own_out(run->request);
    double *found = control->found + which * control->at;
    double sum = 0.0;
    int64_t taken = 0;
    for (int64_t i = 0; i < control->at; i++) {
        found[i] = INFINITY;
    }
    for (int64_t i = 0; i < answer->count && taken < run->watch.wanted; i++) {
        if (leaves && answer->list[i].id == control->ids[which]) {
            continue;
        }
        const double key = answer->list[i].key;
        if (taken < control->at) {
            found[taken] = key;
        }
        if (taken < run->request->k) {
            sum += kin_metric_distance(run->request->distance.metric, key);
        }
        taken += 1;
    }
    return sum;
}

/* The list of the i-th control that has a position. */
static double look_at(kin_graph_gpu_run *run, int64_t i)
{
    kin_graph_gpu_watch *w = &run->watch;
    const int32_t length = run->graph.length;
    int64_t count = 0;
    for (int32_t j = 0; j < length; j++) {
        const int64_t at = i * length + j;
        if (w->host_entries[at] != KITH_ID_NONE) {
            w->list[count++] = (kin_pair){w->host_keys[at], w->host_entries[at], 1};
        }
    }
    w->list[count++] = (kin_pair){w->own[i], w->firsts[i], 1};
    kin_select_sort_pairs(w->list, count);
    kin_answer_expand(&w->answer, w->list, count);
    return take_found(run, w->which[i]);
}

/* Keys and entries of the controls' lists, to the host. */
static kith_status read_lists(kin_graph_gpu_run *run)
{
    kith_ctx *ctx = run->on.ctx;
    kin_graph_gpu_watch *w = &run->watch;
    const uint64_t cells = (uint64_t)w->count * (uint64_t)run->graph.length;
    const kin_graph_gpu_keys job = {.rows = run->corpus->prepared.rows,
                                    .ids = run->points.set.ids,
                                    .graph = run->graph,
                                    .controls = w->positions,
                                    .control_count = w->count,
                                    .keys = w->keys,
                                    .entries = w->entries};
    KIN_TRY(KIN_GRAPH_LAUNCH(run, keys, &job, "computing keys"));
    KIN_TRY(kin_gpu_download(ctx, run->on.gpu, w->host_keys, w->keys, cells * sizeof *w->keys));
    KIN_TRY(kin_gpu_download(ctx, run->on.gpu, w->host_entries, w->entries,
                             cells * sizeof *w->entries));
    return kin_graph_gpu_share_watch(run);
}

/* Of a team the first member alone looks. */
static kith_status look(kin_graph_gpu_run *run, double *sum)
{
    kin_graph_gpu_watch *w = &run->watch;
    const kin_recall_control *control = run->request->control;
    *sum = 0.0;
    if (w->count > 0) {
        KIN_TRY(read_lists(run));
    }
    if (run->share.part > 0) {
        return KITH_OK;
    }
    kin_answer_degenerate(&w->answer);
    for (int64_t i = 0; i < control->count; i++) {
        if (w->count < control->count && is_degenerate(run->groups, control->ids[i])) {
            *sum += take_found(run, i);
        }
    }
    for (int64_t i = 0; i < w->count; i++) {
        *sum += look_at(run, i);
    }
    return KITH_OK;
}

/* What the first member decided, to all. */
static kith_status share_verdict(const kin_graph_gpu_run *run, kin_graph_verdict *verdict)
{
    kin_gpu *gpu = run->on.gpu;
    if (run->share.parts == 0) {
        return KITH_OK;
    }
    const kin_graph_verdict own = *verdict;
    kin_gpu_show(gpu, &own);
    KIN_TRY(kin_gpu_meet(gpu, KITH_OK));
    *verdict = *(const kin_graph_verdict *)kin_gpu_shown(gpu, 0);
    return kin_gpu_meet(gpu, KITH_OK);
}

kith_status kin_graph_gpu_judge(kin_graph_gpu_run *run, kin_graph_round *round,
                                kin_graph_verdict *verdict)
{
    const kin_graph_request *request = run->request;
    const kin_recall_control *control = request->control;
    double sum = 0.0;
    if (control != NULL && control->count > 0) {
        KIN_TRY(look(run, &sum));
        round->phi = sum * (double)run->rows / (double)control->count;
    }
    if (request->judge != NULL && run->share.part == 0) {
        KIN_TRY(request->judge(request->judge_arg, round, verdict));
    }
    return share_verdict(run, verdict);
}
