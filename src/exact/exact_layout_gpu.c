/* SPDX-License-Identifier: Apache-2.0
 *
 * What a job takes of a device's memory, before it starts: the same sums that the drivers cut their
 * stripes and chunks by (exact_stripe_gpu.c), for matrices that lie on the host.
 *
 * A job that runs in some budget runs in every larger one, although parts that adapt to the room
 * (seeds, tables, lists of few rows) grow with it, and are rounded up, so that they may not fit
 * together where smaller ones did. A job that ran out of memory is done again in a narrower scope
 * (kin_gpu_narrow), at last in one of nothing. There
 *   - every part has its least size, whatever the budget, and blocks are not larger than asked for;
 *   - no rows come ahead of their use (gpu/gpu.h);
 *   - a job is tried in the same ways as in any other budget: at once, in stripes down to the least
 *     rows, in chunks and stripes down to the least rows. The least rows of a way are a part of the
 *     rows of its larger stripes and chunks, and no part is larger for fewer rows;
 *   - what is held depends on the data in one place alone, where rows lost candidates: there it is
 *     less than the seed's matrix, which was held before it, beside the same blocks
 *     (exact_finish_gpu.c).
 * So the way that ran in the smaller budget, with parts of any size, held at each of its steps at
 * least what this one holds.
 */
#include "exact/exact_search_gpu.h"

#include "kith/kith_papers.h"

/* ---- Which way ------------------------------------------------------------------------------- */

/* Multiplications below which canonical keys of all pairs take less time than a screen's launches;
 * the k up to which lists are made, of pipelines and of our own; and the queries a member of which
 * fewer are done sooner than the corpus is prepared. */
static const int64_t FEW_PRODUCTS = 1 << 22;
enum { PIPELINE_K = 2048, MOST_K = 65536, LEAST_QUERIES = 1024 };

bool kin_exact_gpu_screens(const kin_request *request, int64_t corpus_rows, int64_t query_rows)
{
    const uint64_t products =
        kin_size_mul(kin_size_mul((uint64_t)corpus_rows, (uint64_t)query_rows),
                     (uint64_t)request->distance.cols);
    return kin_is_screened(&request->distance) &&
           request->k <= (request->pipeline != NULL ? PIPELINE_K : MOST_K) &&
           (products > (uint64_t)FEW_PRODUCTS || request->pipeline != NULL);
}

bool kin_exact_gpu_team_searches(const kin_gpu *gpu, int64_t queries, uint32_t place)
{
    return place == 0 && kin_gpu_team_takes(gpu, queries, LEAST_QUERIES);
}

bool kin_exact_gpu_team_graphs(const kin_gpu *gpu, const kith_matrix *points,
                               const kin_request *request, uint32_t place)
{
    return (place & KIN_GPU_DATA_ON_DEVICE) == 0 &&
           kin_gpu_team_takes(gpu, points->rows, KIN_EXACT_GPU_TEAM_ROWS) &&
           request->pipeline == NULL && (request->flags & KITH_NO_SYMMETRY) == 0 &&
           kin_exact_gpu_screens(request, points->rows, points->rows);
}

/* ---- How much -------------------------------------------------------------------------------- */

/* Rows of the corpus. */
static kin_screen_gpu_prepared_need corpus_need(const kin_exact_gpu_chunked *c, int64_t rows)
{
    const kin_exact_gpu_meeting *m = &c->meeting;
    return kin_screen_gpu_prepared_bytes(c->corpus, rows, &m->request->distance, m->queries->dtype,
                                         m->place, true);
}

static uint64_t screen_bytes(const kin_exact_gpu_meeting *m, int64_t count, uint64_t room)
{
    const int64_t k = m->request->k + 1;
    const uint64_t work = m->queries == NULL && (m->request->flags & KITH_NO_SYMMETRY) == 0
                              ? kin_screen_gpu_graph_bytes(m->gpu, count, k, room)
                              : kin_screen_gpu_work_bytes(count, m->corpus_rows, k, room);
    return kin_size_add(work, kin_exact_gpu_long_bytes(m->gpu, count, m->corpus_rows, k, room));
}

/* What is held beside corpus and queries: work and answers. Keys of all pairs adapt to the room,
 * and so count with the least, but where there is room for all. */
static uint64_t working_bytes(const kin_exact_gpu_meeting *m, int64_t count, uint64_t room)
{
    const kin_request *request = m->request;
    const kin_exact_gpu_pipeline *other =
        m->screens && request->pipeline != NULL ? request->pipeline->gpu : NULL;
    const int64_t cols = m->corpus_rows;
    if (!m->screens && room == UINT64_MAX) {
        return kin_exact_gpu_direct_bytes(count, cols, request->k);
    }
    const uint64_t bytes = !m->screens     ? kin_exact_gpu_direct_least_bytes(cols, request->k)
                           : other != NULL ? other->bytes(m->gpu, request, count, cols, room)
                                           : screen_bytes(m, count, room);
    /* Where the host writes them, the device has ids that are left out. */
    return kin_size_add(bytes, other != NULL && other->by_host
                                   ? (uint64_t)count * 2 * sizeof(uint32_t)
                                   : kin_exact_gpu_answers_bytes(count, request->k));
}

uint64_t kin_exact_gpu_stripe_bytes(const kin_exact_gpu_meeting *m, int64_t count, uint64_t room)
{
    const uint64_t queries =
        m->queries == NULL ? 0
                           : kin_screen_gpu_prepared_bytes(m->queries, count, &m->request->distance,
                                                           m->corpus_dtype, m->place, false)
                                 .most;
    return kin_size_add(queries, working_bytes(m, count, room));
}

/* Queries of a stripe: as many as fit into `room`; ahead: beside the rows of as many more. */
static int64_t stripe_rows(const kin_exact_gpu_meeting *m, uint64_t room, uint64_t scope,
                           bool ahead)
{
    int64_t stripe = m->queries->rows;
    while (stripe > KIN_EXACT_GPU_LEAST_ROWS &&
           kin_size_add(kin_exact_gpu_with_slack(kin_exact_gpu_stripe_bytes(m, stripe, scope)),
                        ahead ? kin_exact_gpu_ahead_bytes(m->queries, stripe) : 0) > room) {
        stripe = kin_exact_gpu_halved(stripe);
    }
    return stripe;
}

int64_t kin_exact_gpu_stripe_rows(const kin_exact_gpu_meeting *m, uint64_t room, uint64_t scope,
                                  bool ahead)
{
    const int64_t stripe = stripe_rows(m, room, scope, false);
    return stripe < m->queries->rows ? stripe_rows(m, room, scope, ahead) : stripe;
}

/* What a corpus whose chunks have so many rows leaves to stripes. */
static uint64_t left_beside(const kin_exact_gpu_chunked *c, int64_t rows, bool ahead)
{
    const uint64_t next = ahead ? kin_exact_gpu_ahead_bytes(c->corpus, rows) : 0;
    const uint64_t held = kin_size_add(corpus_need(c, rows).resident, next);
    return c->room > held ? c->room - held : 0;
}

/* Whether there is room for the smallest stripe. */
static bool leaves_stripe(const kin_exact_gpu_chunked *c, int64_t rows, bool ahead)
{
    kin_exact_gpu_meeting m = c->meeting;
    const int64_t least = kin_min_i64(KIN_EXACT_GPU_LEAST_ROWS, m.queries->rows);
    const uint64_t left = left_beside(c, rows, ahead);
    const uint64_t next = ahead ? kin_exact_gpu_ahead_bytes(m.queries, least) : 0;
    m.corpus_rows = rows;
    const uint64_t stripe =
        kin_exact_gpu_stripe_bytes(&m, least, left < c->scope ? left : c->scope);
    return kin_size_add(kin_exact_gpu_with_slack(stripe), next) <= left;
}

/* At most half of the device for a chunk, two thirds for a chunk and the rows of the next. Chunks
 * are of about one size. */
static int64_t chunk_rows(const kin_exact_gpu_chunked *c, bool ahead)
{
    const uint64_t most = ahead ? c->room / 3 * 2 : c->room / 2;
    const int64_t all = c->corpus->rows;
    int64_t rows = kin_exact_gpu_halved(all);
    for (; rows > KIN_EXACT_GPU_LEAST_ROWS;
         rows -= kin_max_i64(rows / 8 / KIN_EXACT_GPU_LEAST_ROWS, 1) * KIN_EXACT_GPU_LEAST_ROWS) {
        const uint64_t next = ahead ? kin_exact_gpu_ahead_bytes(c->corpus, rows) : 0;
        if (kin_size_add(corpus_need(c, rows).most, next) <= most &&
            leaves_stripe(c, rows, ahead)) {
            break;
        }
    }
    return kin_round_up(kin_ceil_div(all, kin_ceil_div(all, rows)), KIN_EXACT_GPU_LEAST_ROWS);
}

void kin_exact_gpu_cut_stripes(kin_exact_gpu_chunked *c, int64_t rows)
{
    kin_exact_gpu_meeting m = c->meeting;
    c->chunk = rows;
    m.corpus_rows = rows;
    c->ahead = c->ahead && leaves_stripe(c, rows, true);
    c->stripe = stripe_rows(&m, left_beside(c, rows, c->ahead), c->scope, c->ahead);
}

/* Chunks that are less than half as large are too much for what coming ahead saves. */
void kin_exact_gpu_cut_chunks(kin_exact_gpu_chunked *c)
{
    const int64_t alone = chunk_rows(c, false);
    const int64_t crowded = c->ahead ? chunk_rows(c, true) : 0;
    c->ahead = crowded >= kin_exact_gpu_halved(alone);
    kin_exact_gpu_cut_stripes(c, c->ahead ? crowded : alone);
}

bool kin_exact_gpu_again(kith_ctx *ctx, kin_gpu *gpu, kith_status status)
{
    if (gpu->seat != NULL) {
        return false; /* in lockstep nobody goes back alone */
    }
    if (status != KITH_E_DEVICE_MEMORY || !kin_gpu_narrow(gpu)) {
        gpu->narrowed = 0;
        return false;
    }
    kin_forgive(ctx);
    (void)kin_gpu_ahead_end(gpu);
    kin_gpu_trim(gpu);
    return true;
}

/* Within a budget of `room`, which the screen's own blocks adapt to. at_once: a graph whose lists
 * fit. */
static uint64_t sum_need(const kin_exact_gpu_chunked *c, int64_t rows, int64_t count, bool at_once,
                         uint64_t room)
{
    const kin_screen_gpu_prepared_need corpus = corpus_need(c, rows);
    kin_exact_gpu_meeting m = c->meeting;
    m.queries = at_once ? NULL : m.queries;
    m.corpus_rows = rows;
    const uint64_t running =
        kin_size_add(corpus.resident, kin_exact_gpu_stripe_bytes(&m, count, room));
    return kin_exact_gpu_with_slack(running > corpus.most ? running : corpus.most);
}

/* The smallest power of two in which the smallest batches run with an eighth to spare: idle blocks
 * of other sizes stay with the cache. */
static uint64_t least_need(const kin_exact_gpu_chunked *c)
{
    const int64_t rows = kin_min_i64(KIN_EXACT_GPU_LEAST_ROWS, c->corpus->rows);
    const int64_t count = kin_min_i64(KIN_EXACT_GPU_LEAST_ROWS, c->meeting.queries->rows);
    uint64_t room = 1u << 16;
    while (sum_need(c, rows, count, false, room) > room - room / 8 && room < (uint64_t)1 << 62) {
        room *= 2;
    }
    return room;
}

static void cut(kin_exact_gpu_chunked *c, bool graph, kin_exact_gpu_need *need)
{
    const int64_t rows = c->corpus->rows;
    const int64_t least = kin_min_i64(KIN_EXACT_GPU_LEAST_ROWS, c->meeting.queries->rows);
    if (sum_need(c, rows, least, false, c->room) > c->room) {
        kin_exact_gpu_cut_chunks(c);
    } else {
        /* The points of a graph lie there already: none come ahead. */
        const uint64_t left = left_beside(c, rows, false);
        c->chunk = rows;
        c->stripe = kin_exact_gpu_stripe_rows(&c->meeting, left, left, !graph);
    }
    need->corpus_chunks = kin_ceil_div(rows, c->chunk);
    need->query_stripes = kin_ceil_div(c->meeting.queries->rows, c->stripe);
}

kin_exact_gpu_need kin_exact_gpu_plan_need(const kith_matrix *corpus, const kith_matrix *queries,
                                           const kin_request *request, const kin_gpu *gpu,
                                           int32_t threads)
{
    const bool graph = queries == NULL;
    const kith_matrix *asked = graph ? corpus : queries;
    const bool screens = kin_exact_gpu_screens(request, corpus->rows, asked->rows);
    kin_exact_gpu_chunked c = {.corpus = corpus,
                               .meeting = {.queries = asked,
                                           .request = request,
                                           .gpu = gpu,
                                           .corpus_dtype = corpus->dtype,
                                           .corpus_rows = corpus->rows,
                                           .screens = screens},
                               .room = kin_gpu_room(gpu),
                               .scope = kin_gpu_room(gpu),
                               .ahead = true};
    kin_exact_gpu_need need = {
        .least_bytes = least_need(&c), .corpus_chunks = 1, .query_stripes = 1};
    need.whole_bytes = sum_need(&c, corpus->rows, asked->rows, graph, UINT64_MAX);
    if (!graph && screens) {
        need.whole_bytes =
            kin_size_add(need.whole_bytes, kin_exact_gpu_glance_bytes(corpus, asked->rows));
    }
    if (graph && kin_exact_gpu_team_graphs(gpu, corpus, request, 0)) { /* on each GPU */
        need.whole_bytes = kin_size_add(
            need.whole_bytes,
            kin_screen_gpu_share_bytes(corpus->rows, kin_gpu_team_count(gpu->team),
                                       kin_screen_gpu_capacity(request->k + 1), UINT64_MAX));
    }
    need.whole_bytes = need.whole_bytes > need.least_bytes ? need.whole_bytes : need.least_bytes;
    if (need.whole_bytes > c.room) {
        cut(&c, graph, &need);
    }
    if (screens && request->pipeline != NULL && request->pipeline->gpu->host_bytes != NULL) {
        need.host_bytes =
            request->pipeline->gpu->host_bytes(request, asked->rows, corpus->rows, c.room, threads);
    }
    return need;
}
