/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Control rows are asked of the exact engine once, against the corpus that is resident: their
 * K-th neighbours' keys are the truth. Between rounds the lists of their positions get canonical
 * keys, equal rows are expanded as at the end, and the caller counts.
 */
#include "graph/graph_run_gpu.h"
#include "graph/graph_start.h"

/* ---- Keys ------------------------------------------------------------------------------------ */

kith_status kin_graph_gpu_keying_make(kin_hold *hold, kin_gpu *gpu, kin_graph_gpu_keying *k)
{
    const uint64_t rows = (uint64_t)k->rows;
    const uint64_t cells = kin_size_mul(rows, (uint64_t)k->length);
    KIN_NEW(hold, k->positions, rows, k->what);
    KIN_NEW(hold, k->keys, cells, k->what);
    KIN_NEW(hold, k->entries, cells, k->what);
    KIN_GPU_NEW(hold, gpu, k->on_device.positions, rows, k->what);
    KIN_GPU_NEW(hold, gpu, k->on_device.keys, cells, k->what);
    KIN_GPU_NEW(hold, gpu, k->on_device.entries, cells, k->what);
    return KITH_OK;
}

kith_status kin_graph_gpu_key_lists(const kin_graph_gpu_run *run, const kin_graph_gpu_keying *k,
                                    const uint32_t *ids, const kin_graph_gpu_lists *graph,
                                    int64_t count)
{
    kith_ctx *ctx = run->on.ctx;
    kin_gpu *gpu = run->on.gpu;
    const uint64_t n = (uint64_t)count;
    const uint64_t cells = n * (uint64_t)graph->length;
    const kin_graph_gpu_keys job = {.rows = run->corpus->prepared.rows,
                                    .ids = ids,
                                    .graph = *graph,
                                    .controls = k->on_device.positions,
                                    .control_count = count,
                                    .keys = k->on_device.keys,
                                    .entries = k->on_device.entries};
    KIN_TRY(
        kin_gpu_upload(ctx, gpu, k->on_device.positions, k->positions, n * sizeof *k->positions));
    KIN_TRY(KIN_ROOM_LAUNCH(run, keys, &job, "computing keys"));
    KIN_TRY(kin_gpu_download(ctx, gpu, k->keys, k->on_device.keys, cells * sizeof *k->keys));
    return kin_gpu_download(ctx, gpu, k->entries, k->on_device.entries, cells * sizeof *k->entries);
}

/* Rows are a graph of their own, whose lists have one entry: the row itself. */
static kith_status key_rows(const kin_graph_gpu_run *run, const uint32_t *rows, int64_t count,
                            double *keys)
{
    enum { LENGTH = KIN_GRAPH_GPU_PAIR_LIST };
    kith_ctx *ctx = run->on.ctx;
    kin_gpu *gpu = run->on.gpu;
    const int64_t most = kin_min_i64(KIN_GRAPH_GPU_PAIRS, kin_max_i64(count, 1));
    kin_graph_gpu_keying k = {.rows = most, .length = LENGTH, .what = "keys of some pairs"};
    kin_graph_gpu_lists graph = {.points = most, .length = LENGTH};
    const uint64_t bytes = (uint64_t)(most * LENGTH) * sizeof *graph.words;
    uint64_t *words = NULL;
    uint32_t *ids = NULL;
    KIN_HOLD(hold, ctx);
    KIN_NEW(&hold, words, (uint64_t)(most * LENGTH), k.what);
    KIN_GPU_NEW(&hold, gpu, graph.words, (uint64_t)(most * LENGTH), k.what);
    KIN_GPU_NEW(&hold, gpu, ids, (uint64_t)most, k.what);
    KIN_TRY(kin_graph_gpu_keying_make(&hold, gpu, &k));
    for (int64_t i = 0; i < most * LENGTH; i++) {
        words[i] = i % LENGTH == 0 ? kin_graph_word(0, (uint32_t)(i / LENGTH), 0) : KIN_GRAPH_EMPTY;
        k.positions[i / LENGTH] = (uint32_t)(i / LENGTH);
    }
    KIN_TRY(kin_gpu_upload(ctx, gpu, graph.words, words, bytes));
    for (int64_t first = 0; first < count; first += most) {
        const int64_t some = kin_min_i64(most, count - first);
        KIN_TRY(kin_gpu_upload(ctx, gpu, ids, rows + first, (uint64_t)some * sizeof *ids));
        KIN_TRY(kin_graph_gpu_key_lists(run, &k, ids, &graph, some));
        for (int64_t i = 0; i < some; i++) {
            keys[first + i] = k.keys[i * LENGTH];
        }
    }
    return KITH_OK;
}

kith_status kin_graph_gpu_own_keys(const kin_graph_gpu_run *run, const uint32_t *rows,
                                   int64_t count, double *keys)
{
    const kith_metric metric = run->corpus->prepared.rows.metric;
    if (kin_metric_get_traits(metric)->screen != KIN_SCREEN_DISTANCE) {
        return key_rows(run, rows, count, keys);
    }
    for (int64_t i = 0; i < count; i++) {
        keys[i] = 0.0; /* of a difference of equal rows */
    }
    return KITH_OK;
}

/* ---- Truth ----------------------------------------------------------------------------------- */

/* The control rows side by side in device memory. */
static kith_status gather_controls(const kin_graph_gpu_run *run, kin_hold *hold, kith_matrix *rows)
{
    const kin_recall_control *control = run->request->control;
    const kin_screen_gpu_rows *all = &run->corpus->prepared.rows;
    const uint64_t bytes = (uint64_t)all->cols * (uint64_t)kith_dtype_bytes(all->dtype);
    char *device = NULL;
    KIN_TRY(kin_gpu_hold_alloc(hold, run->on.gpu, &device,
                               kin_size_mul((uint64_t)control->count, bytes), "control rows"));
    for (int64_t i = 0; i < control->count; i++) {
        const char *from = (const char *)all->data + (int64_t)control->ids[i] * all->stride_bytes;
        KIN_TRY(kin_gpu_copy(run->on.ctx, run->on.gpu, device + (uint64_t)i * bytes, from, bytes));
    }
    *rows = run->corpus->points;
    rows->data = device;
    rows->rows = control->count;
    rows->stride_bytes = (int64_t)bytes;
    return KITH_OK;
}

/* neighbours: of each control its first K, with keys for distances. The report is not of this. */
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
    request.distance.metric = kin_metric_of_keys(request.distance.metric);
    kith_matrix rows;
    uint32_t *own = NULL;
    KIN_HOLD(hold, ctx);
    KIN_TRY(gather_controls(run, &hold, &rows));
    if (kin_graph_leaves_own_out(run->request)) {
        KIN_GPU_NEW(&hold, gpu, own, (uint64_t)control->count, "own ids");
        KIN_TRY(kin_gpu_upload(ctx, gpu, own, control->ids, bytes));
        request.exclude = own;
    }
    const kith_status status = kin_exact_gpu_corpus_search(ctx, run->corpus, &rows, &request,
                                                           KIN_GPU_DATA_ON_DEVICE, neighbours);
    ctx->report = before;
    return status;
}

static kith_status find_truth(const kin_graph_gpu_run *run)
{
    const kin_recall_control *control = run->request->control;
    const uint64_t places = kin_size_mul((uint64_t)control->count, (uint64_t)control->at);
    const char *what = "neighbours of control rows";
    kith_neighbors found = {.rows = control->count, .k = control->at};
    KIN_HOLD(hold, run->on.ctx);
    KIN_NEW(&hold, found.ids, places, what);
    KIN_NEW(&hold, found.distances64, places, what);
    KIN_TRY(search_truth(run, &found));
    for (int64_t i = 0; i < control->count; i++) {
        const double last = found.distances64[(i + 1) * control->at - 1];
        control->kth[i] = run->request->distance.metric == KITH_INNER_PRODUCT ? -last : last;
    }
    return KITH_OK;
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
                           uint32_t first, uint32_t position)
{
    int64_t at = kin_lower_u64(heads, count, (uint64_t)first << 32);
    for (; at < count && heads[at] >> 32 == first; at++) {
        w->which[w->count] = (uint32_t)heads[at];
        w->firsts[w->count] = first;
        w->keying.positions[w->count++] = position;
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
    KIN_NEW_ZERO(hold, marks, (uint64_t)run->rows, what);
    KIN_NEW(hold, heads, n, what);
    KIN_NEW(hold, ids, (uint64_t)run->count, what);
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
            place_controls(w, heads, control->count, ids[p], (uint32_t)p);
        }
    }
    return KITH_OK;
}

/* ---- Making ---------------------------------------------------------------------------------- */

static kith_status make_room(kin_graph_gpu_run *run)
{
    kith_ctx *ctx = run->on.ctx;
    const kin_recall_control *control = run->request->control;
    kin_graph_gpu_watch *w = &run->watch;
    const uint64_t n = (uint64_t)control->count;
    const int64_t length = kin_graph_gpu_longest(run->graph.length, run->request->lengthenings);
    const char *what = "lists of control rows";
    w->keying = (kin_graph_gpu_keying){.rows = control->count, .length = length, .what = what};
    const int64_t wanted = kin_max_i64(control->at, run->request->k);
    KIN_TRY(kin_answer_make(ctx, run->groups, run->request->distance.metric,
                            kin_min_i64(wanted + 1, run->rows), &w->answer));
    w->hold.ctx = ctx;
    KIN_NEW(&w->hold, w->which, n, what);
    KIN_NEW(&w->hold, w->firsts, n, what);
    KIN_NEW(&w->hold, w->own, n, what);
    KIN_NEW(&w->hold, w->list, (uint64_t)length + 1, what);
    return kin_graph_gpu_keying_make(&w->hold, run->on.gpu, &w->keying);
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

/* The list of the i-th control that has a position. */
static double look_at(kin_graph_gpu_run *run, int64_t i)
{
    kin_graph_gpu_watch *w = &run->watch;
    const int32_t length = run->graph.length;
    int64_t count = 0;
    for (int32_t j = 0; j < length; j++) {
        const int64_t at = i * length + j;
        if (w->keying.entries[at] != KITH_ID_NONE) {
            w->list[count++] = (kin_pair){w->keying.keys[at], w->keying.entries[at], 1};
        }
    }
    w->list[count++] = (kin_pair){w->own[i], w->firsts[i], 1};
    kin_select_sort_pairs(w->list, count);
    kin_answer_expand(&w->answer, w->list, count);
    return kin_graph_control_take(run->request, &w->answer, w->which[i]);
}

/* A list is not empty where its owner is. */
static void take_lists(const kin_graph_gpu_run *run, const kin_graph_gpu_keying *own,
                       const kin_graph_gpu_keying *theirs)
{
    const int32_t length = run->graph.length;
    for (int64_t i = 0; i < run->watch.count; i++) {
        const int64_t at = i * length;
        if (theirs->entries[at] != KITH_ID_NONE) {
            memcpy(own->keys + at, theirs->keys + at, (size_t)length * sizeof *own->keys);
            memcpy(own->entries + at, theirs->entries + at, (size_t)length * sizeof *own->entries);
        }
    }
}

/* The first member gets the keys and entries of control rows that the others have read. */
static kith_status share_watch(kin_graph_gpu_run *run)
{
    kin_gpu *gpu = run->on.gpu;
    if (run->share.parts == 0) {
        return KITH_OK;
    }
    kin_gpu_show(gpu, &run->watch.keying);
    KIN_TRY(kin_gpu_meet(gpu, KITH_OK));
    for (int32_t p = 1; p < run->share.parts && run->share.part == 0; p++) {
        take_lists(run, &run->watch.keying, kin_gpu_shown(gpu, p));
    }
    return kin_gpu_meet(gpu, KITH_OK);
}

/* Keys and entries of the controls' lists, to the host. */
static kith_status read_lists(kin_graph_gpu_run *run)
{
    const kin_graph_gpu_watch *w = &run->watch;
    KIN_TRY(kin_graph_gpu_key_lists(run, &w->keying, run->points.set.ids, &run->graph, w->count));
    return share_watch(run);
}

static bool is_degenerate(const kin_groups *groups, uint32_t row)
{
    const int64_t at = kin_lower_u32(groups->degenerates, groups->degenerate, row);
    return at < groups->degenerate && groups->degenerates[at] == row;
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
            *sum += kin_graph_control_take(run->request, &w->answer, i);
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
