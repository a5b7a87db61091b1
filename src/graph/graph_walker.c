/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/graph_walk.h"

#include <math.h>

/* Candidates whose links are looked at together: more of them have more in flight from memory, and
 * find the same. */
enum { REMEMBERED = KIN_GRAPH_REMEMBERED, FAN = 4, TOGETHER = KIN_GRAPH_TOGETHER };

/* ---- Memory --------------------------------------------------------------------------------- */

/* A block of zeros, or NULL where none is left: there are as many as the context had threads. */
static uint32_t *take_spare(const kin_graph_spares *spares)
{
    uint32_t *block = NULL;
    for (int32_t i = 0; i < spares->count && block == NULL; i++) {
        block = atomic_exchange(&spares->blocks[i], NULL);
    }
    return block;
}

static kith_status take_notes(kith_ctx *ctx, kin_graph_way *w)
{
    const uint64_t words = kin_graph_spare_words(w->ground->points.count);
    w->met = take_spare(&w->ground->spares);
    w->borrowed = w->met != NULL;
    if (!w->borrowed) {
        KIN_TRY(kin_alloc_zero(ctx, &w->met, words, sizeof *w->met, "a walk"));
    }
    w->remembered = w->met + words - REMEMBERED;
    return KITH_OK;
}

static void name_way(kin_layout *layout, void *job)
{
    kin_graph_way *w = job;
    const int32_t cols = w->ground->prepared->distance.cols;
    const uint64_t expanded = (uint64_t)kin_round_up(cols, KIN_METRIC_LANES);
    const uint64_t wide = (uint64_t)w->wide;
    const uint64_t pairs = (uint64_t)kin_max_i64(w->length, w->answer.wanted);
    w->values = kin_layout_array(layout, expanded, sizeof *w->values);
    w->panels = kin_layout_zeros(layout, wide * KIN_PANEL, sizeof *w->panels);
    w->column = kin_layout_zeros(layout, wide * KIN_PANEL, sizeof *w->column);
    w->rows = kin_layout_zeros(layout, TOGETHER * wide, sizeof *w->rows);
    w->pairs = kin_layout_array(layout, pairs, sizeof *w->pairs);
    kin_answer_name(layout, &w->answer);
}

kith_status kin_graph_way_make(kith_ctx *ctx, const kin_graph_ground *ground, int64_t length,
                               int64_t k, kin_graph_way *walker)
{
    const kin_prepared *prepared = ground->prepared;
    const bool rounded = ground->points.kernel != NULL;
    *walker = (kin_graph_way){
        .ground = ground,
        .put = kin_graph_words_get(ctx->isa)->put,
        .wide = rounded ? kin_round_up(prepared->frame.groups, KIN_GRAPH_WIDE_STEP) : 0,
        .length = length,
        .answer = {.groups = &prepared->groups, .metric = prepared->distance.metric, .wanted = k}};
    KIN_TRY(kin_layout_make(ctx, name_way, walker, "a walk", &walker->block));
    return take_notes(ctx, walker);
}

/* ---- A query -------------------------------------------------------------------------------- */

static void take_column(kin_graph_way *w, const kin_graph_points *asked, int64_t place)
{
    const uint32_t position = (uint32_t)place;
    asked->kernel->gather(asked, &position, 1, w->wide, w->column);
    asked->kernel->transpose(w->column, w->wide, KIN_PANEL, w->panels);
    w->terms[0] = asked->terms[place].col;
    w->bound = kin_set_row(&asked->prepared->set, place);
}

void kin_graph_way_ask(kin_graph_way *walker, const kin_rows *queries, int64_t row,
                       const kin_graph_points *asked, int64_t place, uint64_t *list)
{
    kin_graph_way *w = walker;
    w->row = row;
    w->query = kin_metric_load(&w->ground->prepared->distance, queries, row, w->values);
    if (w->ground->points.kernel != NULL) {
        take_column(w, asked, place);
    }
    w->list = list;
    w->next = 0;
    w->least = KIN_GRAPH_EMPTY;
    w->waiting = 0;
}

/* ---- Costs ---------------------------------------------------------------------------------- */

static kith_status find_keys(kith_ctx *ctx, kin_graph_way *w, int32_t count)
{
    const kin_prepared *prepared = w->ground->prepared;
    kin_metric_keys(&prepared->distance, &w->query, &prepared->rows, w->ids, count, w->keys);
    for (int32_t i = 0; i < count; i++) {
        KIN_FAIL_IF(w->keys[i] != w->keys[i], ctx, KITH_E_DATA, kin_at("custom"),
                    "gave NaN for query %lld and point %lu (a distance must be a number)",
                    (long long)w->row, (unsigned long)w->ids[i]);
    }
    return KITH_OK;
}

static kith_status find_direct(kith_ctx *ctx, kin_graph_way *w)
{
    for (int32_t i = 0; i < w->waiting; i++) {
        w->ids[i] = w->ground->points.ids[w->who[i]];
    }
    KIN_TRY(find_keys(ctx, w, w->waiting));
    for (int32_t i = 0; i < w->waiting; i++) {
        w->orders[(int64_t)i * KIN_PANEL] = kin_graph_order_of_float((float)w->keys[i]);
    }
    return KITH_OK;
}

static void find_products(kin_graph_way *w)
{
    const kin_graph_points *points = &w->ground->points;
    kin_graph_take_rows(points, w->who, w->waiting, w->rows, w->row_terms);
    kin_graph_multiply(points, (kin_graph_product){.rows = w->rows,
                                                   .panels = w->panels,
                                                   .pitch = w->wide,
                                                   .before = KIN_PANEL,
                                                   .row_count = w->waiting,
                                                   .col_count = KIN_PANEL,
                                                   .row_terms = w->row_terms,
                                                   .col_terms = w->terms,
                                                   .orders = w->orders,
                                                   .stride = KIN_PANEL});
}

/* Costs of those that wait, and into the list. */
static kith_status evaluate(kith_ctx *ctx, kin_graph_way *w)
{
    if (w->waiting == 0) {
        return KITH_OK;
    }
    if (w->ground->points.kernel != NULL) {
        find_products(w);
    } else {
        KIN_TRY(find_direct(ctx, w));
    }
    for (int32_t i = 0; i < w->waiting; i++) {
        const uint64_t word = kin_graph_word(w->orders[(int64_t)i * KIN_PANEL], w->who[i], 0);
        if (word < w->list[w->length - 1]) {
            w->put(w->list, w->length, word);
            w->least = word < w->least ? word : w->least;
        }
    }
    w->evaluations += w->waiting;
    w->waiting = 0;
    return KITH_OK;
}

/* ---- A walk --------------------------------------------------------------------------------- */

static void remember(kin_graph_way *w, uint32_t word)
{
    if (w->remembered_count < REMEMBERED) {
        w->remembered[w->remembered_count] = word;
    }
    w->remembered_count += w->remembered_count <= REMEMBERED;
}

static void forget(kin_graph_way *w)
{
    if (w->remembered_count > REMEMBERED) {
        const int64_t words = kin_ceil_div(w->ground->points.count, 32);
        memset(w->met, 0, (size_t)words * sizeof *w->met);
    } else {
        for (int64_t i = 0; i < w->remembered_count; i++) {
            w->met[w->remembered[i]] = 0;
        }
    }
    w->remembered_count = 0;
}

/* There is a place: whoever fills one has emptied one before. */
static void give_spare(const kin_graph_spares *spares, uint32_t *block)
{
    for (int32_t i = 0; i < spares->count; i++) {
        uint32_t *none = NULL;
        if (atomic_compare_exchange_strong(&spares->blocks[i], &none, block)) {
            return;
        }
    }
}

void kin_graph_way_free(kith_ctx *ctx, kin_graph_way *walker)
{
    if (walker->borrowed) {
        forget(walker); /* a walk that failed has not */
        give_spare(&walker->ground->spares, walker->met);
    } else {
        kin_free(ctx, walker->met);
    }
    kin_free(ctx, walker->block);
}

void kin_graph_way_has_met(kin_graph_way *walker, int64_t run)
{
    const int64_t each = walker->ground->gate.run / 32;
    const int64_t words = kin_ceil_div(walker->ground->points.count, 32);
    const int64_t last = kin_min_i64((run + 1) * each, words);
    for (int64_t word = run * each; word < last; word++) {
        walker->met[word] = UINT32_MAX;
        remember(walker, (uint32_t)word);
    }
}

/* Of at most TOGETHER ids those that have not been met wait. Nobody can guess who: no branches. */
static void filter(kin_graph_way *w, const uint32_t *ids, int32_t count)
{
    int32_t waiting = w->waiting;
    int64_t noted = w->remembered_count;
    const bool notes = noted + count <= REMEMBERED;
    uint32_t *notebook = notes ? w->remembered + noted : w->ids; /* whose values nobody needs */
    int32_t fresh = 0;
    for (int32_t i = 0; i < count; i++) {
        const uint32_t word = ids[i] / 32;
        const uint32_t met = w->met[word];
        const uint32_t bit = (uint32_t)1 << ids[i] % 32;
        w->met[word] = met | bit;
        w->who[waiting + fresh] = ids[i];
        notebook[fresh] = word;
        fresh += (met & bit) == 0;
    }
    w->waiting = waiting + fresh;
    w->remembered_count = notes ? noted + fresh : REMEMBERED + 1;
}

/* Memory is asked for the rows of those who wait. */
static kith_status await(kith_ctx *ctx, kin_graph_way *w, const uint32_t *ids, int64_t count)
{
    const kin_graph_points *points = &w->ground->points;
    for (int64_t first = 0; first < count; first += TOGETHER) {
        const int32_t part = (int32_t)kin_min_i64(TOGETHER, count - first);
        if (w->waiting + part > TOGETHER) {
            KIN_TRY(evaluate(ctx, w));
        }
        const int32_t begin = w->waiting;
        filter(w, ids + first, part);
        kin_graph_prefetch(points, w->who + begin, w->waiting - begin);
        for (int32_t i = begin; points->terms != NULL && i < w->waiting; i++) {
            __builtin_prefetch(&points->terms[w->who[i]]);
        }
    }
    return KITH_OK;
}

kith_status kin_graph_way_meet(kith_ctx *ctx, kin_graph_way *walker, const uint32_t *ids,
                               int64_t count)
{
    KIN_TRY(await(ctx, walker, ids, count));
    return evaluate(ctx, walker);
}

/* The first of the list whose links nobody has looked at, or its length. */
static int64_t find_next(kin_graph_way *w)
{
    if (w->least != KIN_GRAPH_EMPTY) {
        w->next = kin_lower_u64(w->list, w->next, w->least);
        w->least = KIN_GRAPH_EMPTY;
    }
    while (w->next < w->length && (w->list[w->next] & 1) != 0) {
        w->next += 1;
    }
    return w->next;
}

kith_status kin_graph_way_go(kith_ctx *ctx, kin_graph_way *walker)
{
    kin_graph_way *w = walker;
    const kin_graph_links *links = &w->ground->links;
    kith_status status = KITH_OK;
    while (status == KITH_OK && find_next(w) < w->length) {
        uint32_t picked[FAN];
        int32_t count = 0;
        for (int64_t i = w->next; i < w->length && count < FAN; i++) {
            if ((w->list[i] & 1) == 0) {
                picked[count] = kin_graph_position(w->list[i]);
                const uint32_t *ids = links->ids + (int64_t)picked[count] * links->most;
                __builtin_prefetch(&links->counts[picked[count]]);
                __builtin_prefetch(ids);
                __builtin_prefetch(ids + 16);
                __builtin_prefetch(ids + 32);
                w->list[i] |= 1;
                count += 1;
            }
        }
        for (int32_t i = 0; i < count && status == KITH_OK; i++) {
            status = await(ctx, w, links->ids + (int64_t)picked[i] * links->most,
                           links->counts[picked[i]]);
        }
        status = status == KITH_OK ? evaluate(ctx, w) : status;
    }
    forget(w);
    return status;
}

/* ---- The answer ----------------------------------------------------------------------------- */

static int64_t count_words(const kin_graph_way *w)
{
    int64_t count = w->length;
    while (count > 0 && w->list[count - 1] == KIN_GRAPH_EMPTY) {
        count -= 1;
    }
    return count;
}

static double cost_of(const kin_graph_way *w, uint64_t word)
{
    const uint32_t order = (uint32_t)(word >> 32);
    return w->ground->points.kernel == NULL || kin_tile_is_float(w->ground->points.kernel->type)
               ? (double)kin_graph_float_of_order(order)
               : (double)kin_graph_int_of_order(order);
}

/* Costs that are keys. */
static int64_t pair_integers(kin_graph_way *w, int64_t count)
{
    const kin_prepared *prepared = w->ground->prepared;
    const bool product =
        kin_metric_get_traits(prepared->distance.metric)->screen == KIN_SCREEN_PRODUCT;
    for (int64_t i = 0; i < count; i++) {
        const double cost = cost_of(w, w->list[i]);
        w->pairs[i] = (kin_pair){product ? cost / 2 : cost,
                                 w->ground->points.ids[kin_graph_position(w->list[i])], 1};
    }
    return count;
}

/* No point of the list whose cost is above it can be among the first, if their last has this key:
 * the exact engine's bound; canonical keys as costs are rounded alone. */
static double limit_of(const kin_graph_way *w, double key)
{
    const kin_frame *frame = &w->ground->prepared->frame;
    const kin_bound_row worst = w->ground->prepared->set.worst;
    if (w->ground->points.kernel == NULL) {
        return (double)(float)key;
    }
    const double reach =
        kin_bound_reach_of_key(frame->bound, key, frame->key_scale, frame->scale, w->bound, worst);
    return kin_bound_limit(frame->bound, reach, frame->kappa, w->bound, worst);
}

/* Canonical keys of entries first .. last - 1 of the list. */
static kith_status pair_keys(kith_ctx *ctx, kin_graph_way *w, int64_t first, int64_t last)
{
    for (int64_t at = first; at < last; at += TOGETHER) {
        const int32_t count = (int32_t)kin_min_i64(TOGETHER, last - at);
        for (int32_t i = 0; i < count; i++) {
            w->ids[i] = w->ground->points.ids[kin_graph_position(w->list[at + i])];
        }
        KIN_TRY(find_keys(ctx, w, count));
        for (int32_t i = 0; i < count; i++) {
            w->pairs[at + i] = (kin_pair){w->keys[i], w->ids[i], 1};
        }
    }
    return KITH_OK;
}

static kith_status pair_list(kith_ctx *ctx, kin_graph_way *w, int64_t *paired)
{
    const int64_t count = count_words(w);
    if (w->ground->prepared->frame.bound == KIN_BOUND_INTEGER && w->ground->points.kernel != NULL) {
        *paired = pair_integers(w, count);
    } else {
        const int64_t first = kin_min_i64(count, w->answer.wanted);
        double last_key = -INFINITY;
        KIN_TRY(pair_keys(ctx, w, 0, first));
        for (int64_t i = 0; i < first; i++) {
            last_key = fmax(last_key, w->pairs[i].key);
        }
        *paired = first;
        if (first < count) {
            const double limit = limit_of(w, last_key);
            while (*paired < count && cost_of(w, w->list[*paired]) <= limit) {
                *paired += 1;
            }
        }
        KIN_TRY(pair_keys(ctx, w, first, *paired));
    }
    kin_select_sort_pairs(w->pairs, *paired);
    return KITH_OK;
}

/* ---- All positions -------------------------------------------------------------------------- */

static kith_status pair_all(kith_ctx *ctx, kin_graph_way *w, int64_t *paired)
{
    const kin_graph_points *points = &w->ground->points;
    *paired = 0;
    for (int64_t first = 0; first < points->count; first += TOGETHER) {
        const int32_t count = (int32_t)kin_min_i64(TOGETHER, points->count - first);
        memcpy(w->ids, points->ids + first, (size_t)count * sizeof *w->ids);
        KIN_TRY(find_keys(ctx, w, count));
        for (int32_t i = 0; i < count; i++) {
            const kin_pair pair = {w->keys[i], w->ids[i], 1};
            (void)kin_pair_insert(w->pairs, w->answer.wanted, paired, pair);
        }
    }
    w->evaluations += (double)points->count;
    return KITH_OK;
}

/* ---- Under a filter ------------------------------------------------------------------------- */

static bool is_allowed(const kin_graph_way *w, uint32_t id)
{
    return kin_allowed_has(&w->allowed, w->row, id);
}

/* Whether one of the rows that are equal to this one, the first of them, is allowed. */
static bool any_allowed(const kin_graph_way *w, uint32_t first)
{
    uint32_t id = first;
    while (id != KITH_ID_NONE && !is_allowed(w, id)) {
        id = kin_groups_next(w->answer.groups, id);
    }
    return id != KITH_ID_NONE;
}

/* The list without positions of which no row is allowed. */
static void drop_forbidden(kin_graph_way *w)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < w->length && w->list[i] != KIN_GRAPH_EMPTY; i++) {
        if (any_allowed(w, w->ground->points.ids[kin_graph_position(w->list[i])])) {
            w->list[kept++] = w->list[i];
        }
    }
    for (; kept < w->length && w->list[kept] != KIN_GRAPH_EMPTY; kept++) {
        w->list[kept] = KIN_GRAPH_EMPTY;
    }
}

static bool offer(kin_graph_way *w, double key, uint32_t id)
{
    kin_answer *answer = &w->answer;
    return !is_allowed(w, id) ||
           kin_pair_insert(answer->list, answer->wanted, &answer->count, (kin_pair){key, id, 1});
}

/* The rows that are equal to the first one, as far as they are allowed. */
static void offer_equal(kin_graph_way *w, double key, uint32_t first)
{
    bool near = true;
    for (uint32_t id = first; id != KITH_ID_NONE && near;
         id = kin_groups_next(w->answer.groups, id)) {
        near = offer(w, key, id);
    }
}

/* Rows at distance 1 (ids NULL: rows by number), as far as they are near enough. */
static void offer_ones(kin_graph_way *w, const uint32_t *ids, int64_t count)
{
    bool near = true;
    for (int64_t i = 0; i < count && near; i++) {
        near = offer(w, 1.0, ids != NULL ? ids[i] : (uint32_t)i);
    }
}

static kith_status offer_positions(kith_ctx *ctx, kin_graph_way *w)
{
    const kin_graph_points *points = &w->ground->points;
    int32_t count = 0;
    for (int64_t i = 0; i < points->count; i++) {
        if (any_allowed(w, points->ids[i])) {
            w->ids[count++] = points->ids[i];
        }
        if (count == TOGETHER || (count > 0 && i + 1 == points->count)) {
            KIN_TRY(find_keys(ctx, w, count));
            for (int32_t j = 0; j < count; j++) {
                offer_equal(w, w->keys[j], w->ids[j]);
            }
            w->evaluations += count;
            count = 0;
        }
    }
    return KITH_OK;
}

static kith_status offer_list(kith_ctx *ctx, kin_graph_way *w)
{
    int64_t count = 0;
    drop_forbidden(w);
    KIN_TRY(pair_list(ctx, w, &count));
    for (int64_t i = 0; i < count; i++) {
        offer_equal(w, w->pairs[i].key, w->pairs[i].id);
    }
    return KITH_OK;
}

static kith_status write_allowed(kith_ctx *ctx, kin_graph_way *w, bool all,
                                 const kith_neighbors *out, int64_t at)
{
    kin_answer *answer = &w->answer;
    answer->count = 0;
    if (w->query.degenerate) {
        offer_ones(w, NULL, answer->groups->rows);
    } else {
        KIN_TRY(all ? KITH_OK : offer_list(ctx, w));
        if (answer->count < answer->wanted) {
            answer->count = 0;
            KIN_TRY(offer_positions(ctx, w));
        }
        offer_ones(w, answer->groups->degenerates, answer->groups->degenerate);
    }
    (void)kin_answer_write(answer, KITH_ID_NONE, out, at);
    kin_answer_empty(answer->metric, out, at * out->k + kin_min_i64(answer->count, out->k),
                     (at + 1) * out->k);
    return KITH_OK;
}

/* ---- Without one ---------------------------------------------------------------------------- */

static kith_status write_any(kith_ctx *ctx, kin_graph_way *walker, bool all,
                             const kith_neighbors *out, int64_t at)
{
    kin_answer *answer = &walker->answer;
    int64_t count = 0;
    if (walker->query.degenerate) {
        kin_answer_degenerate(answer);
        (void)kin_answer_write(answer, KITH_ID_NONE, out, at);
        return KITH_OK;
    }
    if (!all) {
        KIN_TRY(pair_list(ctx, walker, &count));
        kin_answer_expand(answer, walker->pairs, count);
        if (answer->count == answer->wanted && kin_answer_write(answer, KITH_ID_NONE, out, at)) {
            return KITH_OK;
        }
    }
    KIN_TRY(pair_all(ctx, walker, &count));
    kin_answer_expand(answer, walker->pairs, count);
    (void)kin_answer_write(answer, KITH_ID_NONE, out, at);
    return KITH_OK;
}

kith_status kin_graph_way_write(kith_ctx *ctx, kin_graph_way *walker, bool all,
                                const kith_neighbors *out, int64_t at)
{
    return walker->allowed.filter != NULL ? write_allowed(ctx, walker, all, out, at)
                                          : write_any(ctx, walker, all, out, at);
}
