/* SPDX-License-Identifier: Apache-2.0
 *
 * Source. Gieseke, Heinermann, Oancea, Igel 2014, "Buffer k-d trees": the bodies of its algorithms
 * were made again from what its text says of them. One thread is the paper's sequential program
 * bufferkdtree(cpu); several divide what its GPU divides: the queries of a batch, and the packets
 * of all buffers.
 *
 *   top tree        tree/: medians, nodes 2i and 2i + 1 under node i
 *   leaf structure  its leaves, each in one piece
 *   buffers         one a leaf, of leaf_buffer queries at most (B)
 *   input queue     the queries of a chunk that have not begun, in their order: a counter
 *   reinsert queue  those that are under way and wait in no leaf: a ring
 *
 *   algorithm 1     take a batch of 5 B, from input where reinsert is empty; find the next leaf of
 *                   each; who has one waits in its buffer, who has none is done; when a buffer is
 *                   half full, or nothing is left to take, empty all of them, and all who waited go
 *                   to reinsert
 *   algorithm 2     the next leaf: down by medians, and up to what was put off, if it is near
 * enough algorithm 3, 4  the queries of a buffer against all points of its leaf, sixteen at a time
 *
 * The state of a traversal. papers_kernels.h: a leaf and a bit a level.
 *
 * Buffers. A query waits in one leaf at most, so a buffer is a chain through one number a query,
 * and leaf_buffer only says when it is full.
 *
 * What differs. Nodes have boxes (tree/), which are asked where the paper asks median planes:
 * before what was put off is gone down, and once more at the leaf. At the end the paper compares
 * the few queries that remain with all points; here each of them goes to its last leaves alone.
 *
 * Exactness. tree_bound.h: that of a box is the same for any order of its operations, as its
 * roundings are those that the bound counts.
 */
#include "papers/papers.h"

#include "host/host_clock.h"
#include "host/host_threads.h"
#include "tree/tree_walk.h"

enum { QUERIES_A_TASK = 256, ROWS_A_TASK = 64 };
static const int64_t CHUNK_BYTES = 256 << 20; /* state of the queries of a chunk */
static const uint32_t NO_LEAF = UINT32_MAX;

typedef struct buffer {
    uint32_t last; /* who came last; `before` has who came before */
    uint32_t count;
} buffer;

/* Queries of one buffer that are compared together. */
typedef struct packet {
    uint32_t leaf;
    uint32_t count;
    int64_t first; /* place in the reinsert queue */
} packet;

typedef struct worker {
    kin_tree_walk walk;
    kin_answer answer;
} worker;

typedef struct lazy_search {
    kith_ctx *ctx;
    const kin_tree *tree;
    const kin_prepared *corpus;
    const kin_prepared *asked;
    const kin_request *request;
    kin_answer_target target;
    int32_t threads;
    int64_t wanted;
    int64_t most;  /* queries a chunk */
    int64_t full;  /* of a buffer */
    int64_t batch; /* queries that are taken at a time */
    kin_tree_queries queries;
    worker *workers;
    void *block;
    /* By query of the chunk. */
    kin_tree_list *lists;
    uint64_t *words; /* of the lists */
    float *reaches;
    kin_traversal *traversals;
    uint32_t *before; /* in its buffer */
    /* Queues, the batch, buffers. */
    int64_t begun; /* input: those from here on have not */
    uint32_t *reinsert;
    int64_t reinsert_first;
    int64_t reinsert_count;
    uint32_t *taken;
    uint32_t *leaves; /* of who was taken: the next one, or NO_LEAF */
    int64_t taken_count;
    buffer *buffers;  /* by leaf */
    uint32_t *filled; /* leaves whose buffers are not empty */
    int64_t filled_count;
    int64_t fullest; /* count of a buffer */
    packet *packets;
    int64_t packet_count;
} lazy_search;

/* ---- Algorithm 2: the next leaf -------------------------------------------------------------- */

/* Whether a node may have something for the query: mostly a few columns tell that it has not. */
static bool is_near(const lazy_search *s, int64_t node, const float *row, float reach)
{
    const kin_tree *tree = s->tree;
    const int32_t cols = tree->cols;
    const float *low = kin_tree_box(tree, node);
    const float *high = low + cols;
    const float limit = kin_tree_limit(tree->norm, reach, tree->lost[node], tree->widen);
    float value = 0.0F;
    for (int32_t c = 0; c < cols && !(value > limit); c++) {
        const float below = low[c] - row[c];
        const float above = row[c] - high[c];
        const float gap = below > 0.0F ? below : above > 0.0F ? above : 0.0F;
        value = tree->norm == KIN_NORM_TWO   ? value + gap * gap
                : tree->norm == KIN_NORM_ONE ? value + gap
                : gap > value                ? gap
                                             : value;
    }
    return !(value > limit);
}

/* False: the traversal has come back to the root, and the list of the query is complete. */
static bool next_leaf(const lazy_search *s, uint32_t query)
{
    const kin_tree *tree = s->tree;
    kin_traversal *t = &s->traversals[query];
    const float *row = s->queries.rows + (int64_t)query * tree->cols;
    const float reach = s->reaches[query];
    while (t->put_off != 0) {
        int32_t level = 0;
        const int64_t node = kin_traversal_up(t, tree->height, &level);
        if (is_near(s, node, row, reach)) {
            const int64_t leaf = kin_tree_leaf_below(tree, node, level, row);
            kin_traversal_down(t, tree->height, level, (uint32_t)leaf);
            if (level == tree->height || is_near(s, t->leaf, row, reach)) {
                return true;
            }
        }
    }
    return false;
}

static kith_status find_some(void *arg, int64_t i, int32_t thread)
{
    (void)thread;
    const lazy_search *s = arg;
    const uint32_t query = s->taken[i];
    s->leaves[i] = next_leaf(s, query)
                       ? s->traversals[query].leaf - (uint32_t)kin_tree_leaves(s->tree)
                       : NO_LEAF;
    return KITH_OK;
}

static kith_status find_leaf_batch(lazy_search *s)
{
    const int64_t start = kin_clock_ns();
    const kith_status status =
        kin_parallel_rows(s->ctx, "screen", s->taken_count, QUERIES_A_TASK, find_some, s);
    s->ctx->report.seconds_select += kin_clock_since(start);
    return status;
}

/* ---- Algorithms 3 and 4: buffers against leaves ---------------------------------------------- */

static uint32_t waiting_at(const lazy_search *s, int64_t place)
{
    return s->reinsert[place % s->most];
}

/* A query takes a place in a thread's packet, and leaves it with what it has found. */
static void enter(const lazy_search *s, kin_tree_walk *walk, int64_t place, uint32_t query)
{
    const int64_t cols = s->tree->cols;
    memcpy(walk->rows + place * cols, s->queries.rows + query * cols,
           (size_t)cols * sizeof *walk->rows);
    walk->lists[place] = s->lists[query];
    walk->reach[place] = s->reaches[query];
}

static void leave(const lazy_search *s, const kin_tree_walk *walk, int64_t place, uint32_t query)
{
    s->lists[query] = walk->lists[place];
    s->reaches[query] = walk->reach[place];
}

static kith_status compare_packet(void *arg, int64_t task, int32_t thread)
{
    const lazy_search *s = arg;
    const packet *p = &s->packets[task];
    kin_tree_walk *walk = &s->workers[thread].walk;
    for (int64_t i = 0; i < p->count; i++) {
        enter(s, walk, i, waiting_at(s, p->first + i));
    }
    kin_tree_walk_leaf(walk, kin_tree_leaves(s->tree) + p->leaf,
                       0xffffu >> (KIN_PACKET - p->count));
    for (int64_t i = 0; i < p->count; i++) {
        leave(s, walk, i, waiting_at(s, p->first + i));
    }
    return KITH_OK;
}

/* All who wait for a leaf go to the reinsert queue, side by side. */
static void empty_buffer(lazy_search *s, uint32_t leaf)
{
    buffer *b = &s->buffers[leaf];
    for (uint32_t in_packet = 0; b->count > 0; b->count--, in_packet++) {
        const int64_t place = s->reinsert_first + s->reinsert_count++;
        if (in_packet % KIN_PACKET == 0) {
            s->packets[s->packet_count++] = (packet){.leaf = leaf, .first = place};
        }
        s->packets[s->packet_count - 1].count += 1;
        s->reinsert[place % s->most] = b->last;
        b->last = s->before[b->last];
    }
}

static kith_status process_all_buffers(lazy_search *s)
{
    const int64_t start = kin_clock_ns();
    s->packet_count = 0;
    for (int64_t i = 0; i < s->filled_count; i++) {
        empty_buffer(s, s->filled[i]);
    }
    s->filled_count = s->fullest = 0;
    const kith_status status = kin_parallel(s->ctx, "screen", s->packet_count, compare_packet, s);
    s->ctx->report.seconds_screen += kin_clock_since(start);
    return status;
}

/* ---- Algorithm 1 ----------------------------------------------------------------------------- */

static void take_batch(lazy_search *s)
{
    for (s->taken_count = 0; s->taken_count < s->batch; s->taken_count++) {
        if (s->reinsert_count > 0) {
            s->taken[s->taken_count] = waiting_at(s, s->reinsert_first);
            s->reinsert_first = (s->reinsert_first + 1) % s->most;
            s->reinsert_count -= 1;
        } else if (s->begun < s->queries.count) {
            s->taken[s->taken_count] = (uint32_t)s->begun++;
        } else {
            return;
        }
    }
}

static void put_into_buffer(lazy_search *s, uint32_t query, uint32_t leaf)
{
    buffer *b = &s->buffers[leaf];
    if (b->count == 0) {
        s->filled[s->filled_count++] = leaf;
    }
    s->before[query] = b->last;
    b->last = query;
    b->count += 1;
    s->fullest = kin_max_i64(s->fullest, b->count);
}

/* A buffer that is full cannot take one more. */
static kith_status fill_buffers(lazy_search *s)
{
    for (int64_t i = 0; i < s->taken_count; i++) {
        if (s->leaves[i] != NO_LEAF) {
            if (s->buffers[s->leaves[i]].count == s->full) {
                KIN_TRY(process_all_buffers(s));
            }
            put_into_buffer(s, s->taken[i], s->leaves[i]);
        }
    }
    return KITH_OK;
}

/* One of the few that remain, to its end. */
static kith_status go_alone(void *arg, int64_t task, int32_t thread)
{
    const lazy_search *s = arg;
    kin_tree_walk *walk = &s->workers[thread].walk;
    const uint32_t query = waiting_at(s, s->reinsert_first + task);
    while (next_leaf(s, query)) {
        enter(s, walk, 0, query);
        kin_tree_walk_leaf(walk, s->traversals[query].leaf, 1);
        leave(s, walk, 0, query);
    }
    return KITH_OK;
}

static kith_status search_chunk(lazy_search *s)
{
    const int64_t few = (int64_t)KIN_PACKET * s->threads;
    do {
        take_batch(s);
        KIN_TRY(find_leaf_batch(s));
        KIN_TRY(fill_buffers(s));
        const bool none_left = s->reinsert_count == 0 && s->begun == s->queries.count;
        if (2 * s->fullest >= s->full || none_left) {
            KIN_TRY(process_all_buffers(s));
        }
    } while (s->begun < s->queries.count || s->reinsert_count > few || s->filled_count > 0);
    return kin_parallel(s->ctx, "screen", s->reinsert_count, go_alone, s);
}

/* ---- Chunks of queries ----------------------------------------------------------------------- */

static kith_status begin_some(void *arg, int64_t q, int32_t thread)
{
    (void)thread;
    const lazy_search *s = arg;
    const int64_t capacity = kin_tree_list_capacity(s->wanted);
    s->lists[q].words = s->words + q * capacity;
    kin_tree_list_begin(s->tree, s->wanted, s->queries.first + q, s->queries.lost[q], &s->lists[q]);
    s->reaches[q] = INFINITY;
    s->traversals[q] = (kin_traversal){.put_off = KIN_PUT_OFF_ROOT};
    return KITH_OK;
}

static kith_status begin_chunk(lazy_search *s, int64_t first)
{
    const int64_t start = kin_clock_ns();
    const int64_t count = kin_min_i64(s->most, s->asked->rows.matrix.rows - first);
    KIN_TRY(kin_tree_queries_load(s->ctx, &s->queries, first, count));
    s->begun = s->reinsert_first = s->reinsert_count = s->filled_count = s->fullest = 0;
    const kith_status status =
        kin_parallel_rows(s->ctx, "tree", count, QUERIES_A_TASK, begin_some, s);
    s->ctx->report.seconds_prepare += kin_clock_since(start);
    return status;
}

static kith_status write_some(void *arg, int64_t q, int32_t thread)
{
    const lazy_search *s = arg;
    worker *own = &s->workers[thread];
    const int64_t count = kin_tree_list_finish(&s->lists[q], &own->walk.keys);
    kin_answer_expand(&own->answer, own->walk.keys.pairs, count);
    KIN_TRY(
        kin_answer_write_group(s->ctx, &s->target, &own->answer, (uint32_t)(s->queries.first + q)));
    return KITH_OK;
}

static kith_status write_chunk(lazy_search *s)
{
    const int64_t start = kin_clock_ns();
    const kith_status status =
        kin_parallel_rows(s->ctx, "rescore", s->queries.count, ROWS_A_TASK, write_some, s);
    s->ctx->report.seconds_rescore += kin_clock_since(start);
    return status;
}

static kith_status search_chunks(lazy_search *s)
{
    for (int64_t first = 0; first < s->asked->rows.matrix.rows; first += s->most) {
        KIN_TRY(begin_chunk(s, first));
        KIN_TRY(search_chunk(s));
        KIN_TRY(write_chunk(s));
    }
    return KITH_OK;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void name_workers(kin_layout *layout, lazy_search *s)
{
    s->workers = kin_layout_zeros(layout, (uint64_t)s->threads, sizeof *s->workers);
    for (int32_t t = 0; t < s->threads; t++) {
        worker spare;
        worker *w = kin_layout_item(s->workers, t, &spare);
        w->walk.keys = (kin_tree_keys){.tree = s->tree,
                                       .distance = &s->request->distance,
                                       .corpus = &s->corpus->rows,
                                       .queries = &s->asked->rows};
        w->answer = (kin_answer){.groups = &s->corpus->groups,
                                 .metric = s->request->distance.metric,
                                 .wanted = s->wanted};
        kin_tree_walk_name(layout, s->tree, s->request->distance.isa, s->wanted, &w->walk);
        kin_answer_name(layout, &w->answer);
    }
}

static void name_room(kin_layout *layout, void *job)
{
    lazy_search *s = job;
    const uint64_t most = (uint64_t)s->most;
    const uint64_t batch = (uint64_t)s->batch;
    const uint64_t leaves = (uint64_t)kin_tree_leaves(s->tree);
    const uint64_t filled = leaves < most ? leaves : most;
    const uint64_t words = kin_size_mul(most, (uint64_t)kin_tree_list_capacity(s->wanted));
    s->lists = kin_layout_array(layout, most, sizeof *s->lists);
    s->words = kin_layout_array(layout, words, sizeof *s->words);
    s->reaches = kin_layout_array(layout, most, sizeof *s->reaches);
    s->traversals = kin_layout_array(layout, most, sizeof *s->traversals);
    s->before = kin_layout_array(layout, most, sizeof *s->before);
    s->reinsert = kin_layout_array(layout, most, sizeof *s->reinsert);
    s->taken = kin_layout_array(layout, batch, sizeof *s->taken);
    s->leaves = kin_layout_array(layout, batch, sizeof *s->leaves);
    s->buffers = kin_layout_zeros(layout, leaves, sizeof *s->buffers);
    s->filled = kin_layout_array(layout, filled, sizeof *s->filled);
    s->packets = kin_layout_array(layout, most / KIN_PACKET + filled, sizeof *s->packets);
    name_workers(layout, s);
}

/* All but the context, the target and what is made. Of the rows only their shape is read. */
static lazy_search search_of(const kin_tree *tree, const kin_prepared *corpus,
                             const kin_prepared *asked, const kin_request *request, int32_t threads)
{
    lazy_search s = {.tree = tree,
                     .corpus = corpus,
                     .asked = asked,
                     .request = request,
                     .threads = threads,
                     .full = kin_buffer_full(request->leaf_buffer, tree->height)};
    const bool leaves_out =
        corpus == asked ? (request->flags & KITH_INCLUDE_SELF) == 0 : request->exclude != NULL;
    s.wanted = kin_min_i64(request->k + (leaves_out ? 1 : 0), tree->points);
    const int64_t numbers = 8 * (int64_t)sizeof(uint32_t) + (int64_t)sizeof(kin_traversal);
    const int64_t a_query = (int64_t)sizeof(float) * tree->cols + numbers +
                            (int64_t)sizeof(kin_tree_list) +
                            (int64_t)sizeof(uint64_t) * kin_tree_list_capacity(s.wanted);
    s.most = kin_min_i64(asked->rows.matrix.rows, kin_max_i64(CHUNK_BYTES / a_query, KIN_PACKET));
    s.batch = kin_min_i64(s.most, KIN_BATCH_OF_BUFFER * s.full);
    return s;
}

static int64_t leaf_points_of(const kin_prepared *corpus, const kin_request *request)
{
    const kith_matrix *points = &corpus->rows.matrix;
    return kin_tree_leaf_points_of(points->cols, points->rows, request->tree_height);
}

void kin_papers_buffer_tree_plan(kin_layout *plan, const kin_prepared *corpus,
                                 const kin_prepared *queries, const kin_request *request,
                                 int32_t threads)
{
    const kith_matrix *points = &corpus->rows.matrix;
    kin_tree tree = kin_tree_shape(points->rows, points->cols, leaf_points_of(corpus, request));
    lazy_search s = search_of(&tree, corpus, queries, request, threads);
    kin_tree_plan_make(plan, &tree, threads);
    kin_tree_queries_plan(plan, &tree, s.most, threads);
    kin_layout_block(plan, name_room, &s);
}

/* ---- All of it ------------------------------------------------------------------------------- */

static void report(const lazy_search *s)
{
    kith_report *r = &s->ctx->report;
    const double rows = (double)s->asked->rows.matrix.rows;
    double pairs = 0.0;
    double keys = 0.0;
    for (int32_t t = 0; t < s->threads; t++) {
        pairs += s->workers[t].walk.pairs;
        keys += (double)s->workers[t].walk.keys.computed;
    }
    kin_exact_report(s->ctx, s->corpus);
    r->exact = KITH_CERTIFIED;
    r->candidates = keys / rows;
    r->skipped_share = fmax(0.0, 1.0 - pairs / (rows * (double)s->tree->points));
    r->distinct_rows = s->corpus->groups.count;
    kin_exact_note_pipeline(s->ctx, s->request->pipeline);
}

kith_status kin_papers_buffer_tree_run(kith_ctx *ctx, const kin_prepared *corpus,
                                       const kin_prepared *queries, const kin_request *request,
                                       const kith_neighbors *out)
{
    const int64_t start = kin_clock_ns();
    kin_tree tree;
    KIN_TRY(kin_tree_make(ctx, corpus, leaf_points_of(corpus, request), &tree));
    ctx->report.seconds_prepare += kin_clock_since(start);
    lazy_search s = search_of(&tree, corpus, queries, request, ctx->threads);
    kith_status status = KITH_OK;
    s.ctx = ctx;
    s.target = (kin_answer_target){.groups = &queries->groups,
                                   .exclude = request->exclude,
                                   .leaves_self_out = corpus == queries &&
                                                      (request->flags & KITH_INCLUDE_SELF) == 0,
                                   .out = out};
    KIN_TRY_GOTO(
        status,
        kin_tree_queries_make(ctx, &tree, &corpus->distance, &queries->rows, s.most, &s.queries),
        done);
    KIN_TRY_GOTO(status, kin_layout_make(ctx, name_room, &s, "queries of a buffer tree", &s.block),
                 done);
    KIN_TRY_GOTO(status, search_chunks(&s), done);
    report(&s);
done:
    kin_free(ctx, s.block);
    kin_tree_queries_free(ctx, &s.queries);
    kin_tree_free(ctx, &tree);
    return status;
}
