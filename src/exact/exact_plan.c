/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A job is a sequence of phases. Each adds blocks to what earlier ones keep, and frees the
 * blocks that only it needs; the peak is the largest sum. The phases stand here in the order of
 * exact_prepare.c and exact_search.c.
 *
 * Limits. Which type a corpus of many points is rounded to depends on its values, and so does how
 * many rows are equal: the plan takes the largest, and is then above what the job will take.
 */
#include "exact/exact_plan.h"

#include "base/base_size.h"
#include "exact/exact_direct.h"
#include "exact/exact_order.h"
#include "exact/exact_schedule.h"
#include "exact/exact_screen.h"
#include "exact/exact_type.h"

/* Blocks are padded and carry their size (base_mem.h): a job has some dozen, and as many a thread.
 */
enum { SLACK_JOB = 16384, SLACK_THREAD = 8192 };

typedef struct planning {
    const kin_request *request;
    const kin_metric_traits *traits;
    uint64_t threads;
    uint64_t kept; /* so far */
    uint64_t peak;
    uint64_t prepared;
    uint64_t state;
} planning;

static uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* A phase that holds so much beside what is kept. */
static void phase(planning *p, uint64_t beside)
{
    p->peak = max_u64(p->peak, kin_size_add(p->kept, beside));
}

static void keep(planning *p, uint64_t bytes)
{
    p->kept = kin_size_add(p->kept, bytes);
    phase(p, 0);
}

/* A row of doubles, padded for every reader. */
static uint64_t wide_row(const planning *p)
{
    return (uint64_t)kin_round_up(p->request->distance.cols, 32) * sizeof(double);
}

/* kin_prepare_rows: transforms, groups, order. */
static void plan_rows(planning *p, int64_t rows, bool distinguish)
{
    const uint64_t n = (uint64_t)rows;
    const bool transforms = p->traits->transforms;
    keep(p, transforms ? kin_size_mul(n, sizeof(kin_row_transform)) : 0);
    phase(p, kin_groups_bytes(rows));
    const uint64_t a_row = (distinguish ? 2u : 4u) + (transforms ? 1u : 0u);
    keep(p, kin_size_mul(n, a_row * sizeof(uint32_t)));
}

static void plan_order(planning *p, int64_t rows)
{
    phase(p, kin_size_add(kin_order_bytes(rows), kin_size_mul(p->threads + 1, wide_row(p))));
}

/* The rounded copy and the balls around its tiles, which both stay. */
static void plan_set(planning *p, const kin_frame *frame, int64_t points)
{
    const uint64_t row_bytes = max_u64(wide_row(p), (uint64_t)frame->groups * 32);
    const bool covers = p->traits->screen == KIN_SCREEN_DISTANCE;
    const uint64_t cover = covers ? kin_cover_bytes(points, frame->cols) : 0;
    keep(p, kin_set_bytes(frame, points));
    phase(p, kin_size_mul(p->threads, 3 * row_bytes));
    keep(p, cover);
    phase(p, cover > 0 ? kin_size_mul(p->threads * KIN_COARSE_STEP, wide_row(p)) : 0);
}

/* What the screen keeps of blocks: a lock each, and the order in which they meet. */
static uint64_t blocks_bytes(const planning *p, const kin_frame *frame, int64_t rows,
                             int64_t points)
{
    const int64_t block = kin_screen_block(frame);
    const uint64_t blocks = (uint64_t)(kin_ceil_div(rows, block) + kin_ceil_div(points, block));
    const uint64_t locks = blocks * sizeof(pthread_mutex_t);
    if (p->traits->screen != KIN_SCREEN_DISTANCE) {
        return locks;
    }
    const uint64_t sorting = kin_size_mul(p->threads, blocks * sizeof(uint64_t));
    return kin_size_add(locks + sorting, kin_schedule_bytes(rows, points, block, frame->cols));
}

/* The rows of the other set that a thread looks at last: keys, and the answer. */
static uint64_t writing_bytes(const planning *p, int64_t wanted, int64_t rows)
{
    const uint64_t an_entry =
        sizeof(kin_pair) + sizeof(double) + sizeof(uint32_t) + sizeof(uint64_t);
    const uint64_t an_answer = 2 * sizeof(kin_pair) + sizeof(uint32_t);
    const uint64_t a_thread =
        kin_size_add(kin_size_mul((uint64_t)kin_lists_capacity(wanted, rows), an_entry),
                     kin_size_mul((uint64_t)wanted, an_answer));
    return kin_size_mul(p->threads, kin_size_add(a_thread, wide_row(p)));
}

/* Lists of `rows` for ids among `points`, screened and written. */
static void plan_screen(planning *p, const kin_frame *frame, int64_t wanted, int64_t rows,
                        int64_t points)
{
    const uint64_t lists = kin_lists_bytes(wanted, rows);
    const uint64_t screen = kin_screen_bytes(frame, wanted, (int32_t)p->threads);
    const uint64_t blocks = blocks_bytes(p, frame, rows, points);
    phase(p, kin_size_add(lists, kin_size_add(screen, blocks)));
    phase(p, kin_size_add(lists, writing_bytes(p, wanted, rows)));
}

/* Of several types that the job may take, the one that keeps most. */
static void note_state(planning *p, int64_t wanted, int64_t rows)
{
    const uint64_t lists = kin_lists_bytes(wanted, rows);
    if (kin_size_add(p->kept, lists) > kin_size_add(p->prepared, p->state)) {
        p->prepared = p->kept;
        p->state = lists;
    }
}

/* One type of the ladder is tried with one tile of rows (kin_type_try). */
static void plan_pilot(planning *p, const kin_frame *frame, int64_t k, int64_t points)
{
    const uint64_t before = p->kept;
    keep(p, kin_set_bytes(frame, points));
    keep(p, kin_set_bytes(frame, KIN_BLOCK_STEP));
    phase(p, kin_size_mul(p->threads, 3 * wide_row(p)));
    plan_screen(p, frame, k, KIN_BLOCK_STEP, points);
    phase(p, kin_size_add(kin_lists_bytes(k, KIN_BLOCK_STEP),
                          kin_size_add(writing_bytes(p, k, KIN_BLOCK_STEP),
                                       kin_screen_bytes(frame, k, (int32_t)p->threads))));
    p->kept = before;
}

/* After the corpus has its frame: for a graph its own lists, for a search the queries'. */
static void plan_job(planning *p, const kin_frame *frame, int64_t points,
                     const kith_matrix *queries)
{
    const kin_request *request = p->request;
    if (queries == NULL) {
        const int64_t leaves_out = (request->flags & KITH_INCLUDE_SELF) == 0;
        const int64_t wanted = kin_min_i64(request->k + leaves_out, points);
        note_state(p, wanted, points);
        plan_screen(p, frame, wanted, points, points);
        return;
    }
    const int64_t wanted = kin_min_i64(request->k + (request->exclude != NULL ? 1 : 0), points);
    const int64_t stripe = kin_min_i64(kin_exact_stripe(frame, wanted), queries->rows);
    plan_rows(p, queries->rows, true);
    plan_order(p, queries->rows);
    plan_set(p, frame, stripe);
    note_state(p, wanted, stripe);
    plan_screen(p, frame, wanted, stripe, points);
}

/* The job with a corpus of this frame, as one of several that may be. */
static void plan_frame(planning *p, const kin_frame *frame, int64_t points,
                       const kith_matrix *queries)
{
    const uint64_t before = p->kept;
    plan_set(p, frame, points);
    plan_job(p, frame, points, queries);
    p->kept = before;
}

static void plan_types(planning *p, const kith_matrix *corpus, const kith_matrix *queries)
{
    const kin_distance *distance = &p->request->distance;
    const int64_t k = p->request->k + (queries == NULL ? 1 : 0);
    const kin_frame_stats stats = {.largest = 1.0, .largest_norm = 1.0};
    const bool settled = kin_type_settled(corpus->rows, k);
    const kin_tile_kernel *ladder[KIN_TYPE_LADDER];
    const int count = kin_type_ladder(distance->isa, distance->cols, ladder);
    keep(p, wide_row(p));
    phase(p, kin_size_mul(p->threads, 4 * wide_row(p)));
    for (int i = 0; i < count; i++) {
        const kin_frame frame = kin_frame_make(distance, ladder[i], false, &stats);
        plan_frame(p, &frame, corpus->rows, queries);
        if (settled || i + 1 == count) {
            break;
        }
        plan_pilot(p, &frame, k, corpus->rows);
    }
}

static void plan_screened(planning *p, const kith_matrix *corpus, const kith_matrix *queries)
{
    const kin_distance *distance = &p->request->distance;
    const bool integer = kin_frame_is_integer(distance, corpus, queries != NULL ? queries : corpus);
    plan_rows(p, corpus->rows, false);
    plan_order(p, corpus->rows);
    if (integer) {
        const kin_frame frame =
            kin_frame_make(distance, kin_type_integer(distance->isa), true, NULL);
        plan_frame(p, &frame, corpus->rows, queries);
    } else {
        plan_types(p, corpus, queries);
    }
}

static void plan_direct(planning *p, const kith_matrix *corpus, const kith_matrix *queries)
{
    plan_rows(p, corpus->rows, true);
    if (queries != NULL) {
        plan_rows(p, queries->rows, true);
    }
    const int64_t asked = queries != NULL ? queries->rows : corpus->rows;
    const int64_t k = p->request->k + 1;
    const int32_t threads = (int32_t)p->threads;
    p->prepared = p->kept;
    const kin_pipeline *other = p->request->pipeline;
    p->state = other != NULL && other->bytes != NULL
                   ? other->bytes(k, corpus->rows, asked, corpus->cols, threads)
                   : kin_direct_bytes(k, corpus->rows, asked, corpus->cols, threads);
    phase(p, p->state);
}

kin_plan kin_plan_exact(const kith_matrix *corpus, const kith_matrix *queries,
                        const kin_request *request, int32_t threads)
{
    planning p = {.request = request,
                  .traits = kin_metric_get_traits(request->distance.metric),
                  .threads = (uint64_t)threads};
    const bool screens = kin_exact_job_screens(request);
    if (screens) {
        plan_screened(&p, corpus, queries);
    } else {
        plan_direct(&p, corpus, queries);
    }
    return (kin_plan){.screens = screens,
                      .prepared_bytes = p.prepared,
                      .state_bytes = p.state,
                      .peak_bytes =
                          kin_size_add(p.peak, SLACK_JOB + SLACK_THREAD * (uint64_t)threads)};
}
