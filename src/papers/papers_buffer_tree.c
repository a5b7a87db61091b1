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

typedef struct lazy_search {
    kin_tree_job job; /* its queries are those of a chunk */
    bool graph;
    int64_t full;  /* of a buffer */
    int64_t batch; /* queries that are taken at a time */
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
    const kin_tree *tree = s->job.tree;
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
    const kin_tree *tree = s->job.tree;
    kin_traversal *t = &s->traversals[query];
    const float *row = s->job.sorted.rows + (int64_t)query * tree->cols;
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
                       ? s->traversals[query].leaf - (uint32_t)kin_tree_leaves(s->job.tree)
                       : NO_LEAF;
    return KITH_OK;
}

static kith_status find_leaf_batch(lazy_search *s)
{
    const int64_t start = kin_clock_ns();
    const kith_status status =
        kin_parallel_rows(s->job.ctx, "screen", s->taken_count, QUERIES_A_TASK, find_some, s);
    s->job.ctx->report.seconds_select += kin_clock_since(start);
    return status;
}

/* ---- Algorithms 3 and 4: buffers against leaves ---------------------------------------------- */

static uint32_t waiting_at(const lazy_search *s, int64_t place)
{
    return s->reinsert[place % s->job.most];
}

/* A query takes a place in a thread's packet, and leaves it with what it has found. */
static void enter(const lazy_search *s, kin_tree_walk *walk, int64_t place, uint32_t query)
{
    const int64_t cols = s->job.tree->cols;
    memcpy(walk->rows + place * cols, s->job.sorted.rows + query * cols,
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
    kin_tree_walk *walk = &s->job.workers[thread].walk;
    for (int64_t i = 0; i < p->count; i++) {
        enter(s, walk, i, waiting_at(s, p->first + i));
    }
    kin_tree_walk_leaf(walk, kin_tree_leaves(s->job.tree) + p->leaf,
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
        s->reinsert[place % s->job.most] = b->last;
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
    const kith_status status =
        kin_parallel(s->job.ctx, "screen", s->packet_count, compare_packet, s);
    s->job.ctx->report.seconds_screen += kin_clock_since(start);
    return status;
}

/* ---- Algorithm 1 ----------------------------------------------------------------------------- */

static void take_batch(lazy_search *s)
{
    for (s->taken_count = 0; s->taken_count < s->batch; s->taken_count++) {
        if (s->reinsert_count > 0) {
            s->taken[s->taken_count] = waiting_at(s, s->reinsert_first);
            s->reinsert_first = (s->reinsert_first + 1) % s->job.most;
            s->reinsert_count -= 1;
        } else if (s->begun < s->job.sorted.count) {
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
    kin_tree_walk *walk = &s->job.workers[thread].walk;
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
    const int64_t few = (int64_t)KIN_PACKET * s->job.threads;
    do {
        take_batch(s);
        KIN_TRY(find_leaf_batch(s));
        KIN_TRY(fill_buffers(s));
        const bool none_left = s->reinsert_count == 0 && s->begun == s->job.sorted.count;
        if (2 * s->fullest >= s->full || none_left) {
            KIN_TRY(process_all_buffers(s));
        }
    } while (s->begun < s->job.sorted.count || s->reinsert_count > few || s->filled_count > 0);
    return kin_parallel(s->job.ctx, "screen", s->reinsert_count, go_alone, s);
}

/* ---- Chunks of queries ----------------------------------------------------------------------- */

static kith_status begin_some(void *arg, int64_t q, int32_t thread)
{
    (void)thread;
    const lazy_search *s = arg;
    const int64_t capacity = kin_tree_list_capacity(s->job.wanted);
    s->lists[q].words = s->words + q * capacity;
    kin_tree_list_begin(s->job.tree, s->job.wanted, s->job.sorted.first + q, s->job.sorted.lost[q],
                        &s->lists[q]);
    s->reaches[q] = INFINITY;
    s->traversals[q] = (kin_traversal){.put_off = KIN_PUT_OFF_ROOT};
    return KITH_OK;
}

static kith_status begin_chunk(lazy_search *s)
{
    const int64_t start = kin_clock_ns();
    s->begun = s->reinsert_first = s->reinsert_count = s->filled_count = s->fullest = 0;
    const kith_status status =
        kin_parallel_rows(s->job.ctx, "tree", s->job.sorted.count, QUERIES_A_TASK, begin_some, s);
    s->job.ctx->report.seconds_prepare += kin_clock_since(start);
    return status;
}

static kith_status write_some(void *arg, int64_t q, int32_t thread)
{
    const lazy_search *s = arg;
    return kin_tree_job_write(&s->job, &s->job.workers[thread], &s->lists[q]);
}

static kith_status write_chunk(lazy_search *s)
{
    const int64_t start = kin_clock_ns();
    const kith_status status =
        kin_parallel_rows(s->job.ctx, "rescore", s->job.sorted.count, ROWS_A_TASK, write_some, s);
    s->job.ctx->report.seconds_rescore += kin_clock_since(start);
    return status;
}

static kith_status send_chunk(kin_tree_job *job)
{
    lazy_search *s = (lazy_search *)job;
    KIN_TRY(begin_chunk(s));
    KIN_TRY(search_chunk(s));
    return write_chunk(s);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void name_room(kin_layout *layout, kin_tree_job *job)
{
    lazy_search *s = (lazy_search *)job;
    const uint64_t most = (uint64_t)job->most;
    const uint64_t batch = (uint64_t)s->batch;
    const uint64_t leaves = (uint64_t)kin_tree_leaves(job->tree);
    const uint64_t filled = leaves < most ? leaves : most;
    const uint64_t words = kin_size_mul(most, (uint64_t)kin_tree_list_capacity(job->wanted));
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
}

/* Sizes, when the tree is known. Of the rows only their shape is read. */
static kith_status open_chunks(kin_tree_job *job)
{
    lazy_search *s = (lazy_search *)job;
    const kin_tree *tree = job->tree;
    const kin_request *request = job->about;
    const int64_t rows = job->asked->matrix.rows;
    job->wanted_ids = kin_request_ids(request, s->graph, tree->points);
    const int64_t numbers = 8 * (int64_t)sizeof(uint32_t) + (int64_t)sizeof(kin_traversal);
    const int64_t a_query = (int64_t)sizeof(float) * tree->cols + numbers +
                            (int64_t)sizeof(kin_tree_list) +
                            (int64_t)sizeof(uint64_t) * kin_tree_list_capacity(job->wanted_ids);
    job->most = kin_min_i64(rows, kin_max_i64(CHUNK_BYTES / a_query, KIN_PACKET));
    s->full = kin_buffer_full(request->leaf_buffer, tree->height);
    s->batch = kin_min_i64(job->most, KIN_BATCH_OF_BUFFER * s->full);
    return KITH_OK;
}

static lazy_search search_of(const kin_prepared *corpus, const kin_prepared *asked,
                             const kin_request *request, int32_t threads)
{
    return (lazy_search){.job = {.distance = &request->distance,
                                 .corpus = corpus,
                                 .asked = &asked->rows,
                                 .height = request->tree_height,
                                 .pipeline = request->pipeline,
                                 .about = request,
                                 .open = open_chunks,
                                 .room = name_room,
                                 .send = send_chunk,
                                 .threads = threads},
                         .graph = corpus == asked};
}

void kin_papers_buffer_tree_plan(kin_layout *plan, const kin_prepared *corpus,
                                 const kin_prepared *queries, const kin_request *request,
                                 int32_t threads)
{
    const kith_matrix *points = &corpus->rows.matrix;
    const int64_t leaf = kin_tree_leaf_points_of(points->cols, points->rows, request->tree_height);
    kin_tree tree = kin_tree_shape(points->rows, points->cols, leaf);
    lazy_search s = search_of(corpus, queries, request, threads);
    s.job.tree = &tree;
    (void)open_chunks(&s.job);
    kin_tree_plan_make(plan, &tree, threads);
    kin_tree_job_plan(plan, &s.job, queries->rows.matrix.rows);
}

/* ---- All of it ------------------------------------------------------------------------------- */

kith_status kin_papers_buffer_tree_run(kith_ctx *ctx, const kin_prepared *corpus,
                                       const kin_prepared *queries, const kin_request *request,
                                       const kith_neighbors *out)
{
    bool declined = false;
    lazy_search s = search_of(corpus, queries, request, ctx->threads);
    s.job.ctx = ctx;
    s.job.target =
        (kin_answer_target){.groups = &queries->groups,
                            .exclude = request->exclude,
                            .leaves_self_out = s.graph && kin_request_leaves(request, true),
                            .out = out};
    return kin_tree_job_run(&s.job, NULL, NULL, &declined);
}
