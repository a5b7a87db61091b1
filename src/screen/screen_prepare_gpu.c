/* SPDX-License-Identifier: Apache-2.0
 *
 *   upload -> check, transforms, hash -> lists of equal and degenerate rows (screen_group_gpu.c)
 *          -> means and scale -> order (screen_order_gpu.c) -> rounded rows -> balls
 *
 * The host waits three times: for what was found in the values, for the frame, for the worst row.
 */
#include "screen/screen_prepare_gpu.h"

#include "host/host_clock.h"
#include "screen/screen_start.h"

/* What is like another loses at most so many times as much in that frame. */
enum { LIKE_LOST = 2 };

/* What kernels find, one block of device memory. */
typedef struct findings {
    uint64_t bad;
    uint64_t distinct;
    uint64_t degenerate;
    double largest[2];
    float worst[2];
    uint32_t misfits;
    kin_screen_gpu_starts starts;
} findings;

/* Things that live while a matrix is prepared. */
typedef struct preparing {
    kin_screen_gpu_device on;
    int64_t start; /* of the clock */
    kin_screen_gpu_prepared *out;
    const kin_screen_gpu_source *source;
    uint64_t *bad; /* the source's */
    const kin_screen_gpu_prepared *like;
    int64_t known; /* of the rows the first ones, which like has: their values are known */
    kin_screen_gpu_past past;
    int64_t room;    /* positions that the rounded copy has room for, at least */
    findings *found; /* device */
    findings seen;   /* host */
    kin_screen_gpu_equal equal;
    uint32_t *listed; /* firsts of groups, ascending; NULL: all rows */
    double *scratch;
} preparing;

/* ---- Layout ---------------------------------------------------------------------------------- */

static void name_rows(kin_layout *layout, void *prepared)
{
    kin_screen_gpu_prepared *p = prepared;
    const uint64_t n = (uint64_t)p->rows.rows;
    if (kin_metric_get_traits(p->distance.metric)->transforms) {
        p->transforms = kin_layout_array(layout, n, sizeof *p->transforms);
        p->degenerate = kin_layout_array(layout, n, sizeof *p->degenerate);
    }
    if (p->measured) {
        p->mean = kin_layout_array(layout, (uint64_t)p->rows.cols, sizeof *p->mean);
    }
    if (p->grows) {
        p->hashes = kin_layout_array(layout, n, sizeof *p->hashes);
        p->places = p->measured ? kin_layout_array(layout, n, sizeof *p->places) : NULL;
    }
    if (p->distance.period != NULL) {
        p->rows.period = kin_layout_array(layout, (uint64_t)p->rows.cols, sizeof *p->rows.period);
    }
}

/* Room for balls, which the next rounding fills. */
static void name_balls(kin_layout *layout, void *prepared)
{
    kin_screen_gpu_prepared *p = prepared;
    const uint64_t tiles = (uint64_t)(p->set.padded / KIN_SCREEN_GPU_TILE);
    p->centres = kin_layout_array(layout, tiles, (uint64_t)p->rows.cols * sizeof *p->centres);
    p->radii = kin_layout_array(layout, tiles, sizeof *p->radii);
    p->set.centres = p->centres;
    p->set.radii = p->radii;
}

static void name_set(kin_layout *layout, void *prepared)
{
    kin_screen_gpu_prepared *p = prepared;
    const uint64_t n = (uint64_t)p->set.padded;
    p->set.ids = p->ids = kin_layout_array(layout, n, sizeof *p->ids);
    p->set.facts = p->facts = kin_layout_array(layout, n, sizeof *p->facts);
    p->set.half = p->half = kin_layout_array(layout, n, sizeof *p->half);
    if (p->covered) {
        name_balls(layout, p);
        p->marks = kin_layout_array(layout, (uint64_t)kin_screen_gpu_sort_marks(p->set.points),
                                    sizeof *p->marks);
        p->nearest = p->grows
                         ? kin_layout_array(layout, n + KIN_SCREEN_GPU_BLOCK, sizeof *p->nearest)
                         : NULL;
    }
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* What the caller's next call will ask for comes behind what this one began with. */
static void bring_coming(const preparing *p)
{
    kith_matrix *coming = &p->on.ctx->coming;
    if (coming->data != NULL) {
        const kin_gpu_rows rows = kin_gpu_rows_of(coming, 0, coming->rows);
        coming->data = NULL;
        kin_gpu_ahead_promise(p->on.ctx, p->on.gpu, &rows);
    }
}

static kith_status take_rows(preparing *p, int64_t first, int64_t count)
{
    kin_screen_gpu_prepared *out = p->out;
    const kith_matrix *m = p->source->matrix;
    const kin_gpu_rows rows = kin_gpu_rows_of(m, first, count);
    out->first = first;
    out->rows = (kin_screen_gpu_rows){.data = rows.from,
                                      .rows = count,
                                      .stride_bytes = m->stride_bytes,
                                      .cols = m->cols,
                                      .dtype = m->dtype,
                                      .metric = out->distance.metric};
    if ((p->source->place & KIN_GPU_DATA_ON_DEVICE) != 0) {
        return KITH_OK;
    }
    KIN_TRY(kin_gpu_bring(p->on.ctx, p->on.gpu, &rows, &out->data));
    bring_coming(p);
    out->rows.data = out->data;
    out->rows.stride_bytes = rows.row_bytes;
    return KITH_OK;
}

static kith_status clear_findings(preparing *p)
{
    KIN_TRY(kin_gpu_alloc(p->on.ctx, p->on.gpu, &p->found, 1, sizeof *p->found, "findings"));
    KIN_TRY(kin_gpu_fill(p->on.ctx, p->on.gpu, p->found, 0, sizeof *p->found));
    return kin_gpu_fill(p->on.ctx, p->on.gpu, &p->found->bad, 0xff, sizeof p->found->bad);
}

static kith_status see_findings(preparing *p)
{
    return kin_gpu_download(p->on.ctx, p->on.gpu, &p->seen, p->found, sizeof p->seen);
}

/* The rows behind those that are known. */
static kin_screen_gpu_rows new_rows(const preparing *p)
{
    kin_screen_gpu_rows rows = p->out->rows;
    rows.data = (const char *)rows.data + p->known * rows.stride_bytes;
    rows.rows -= p->known;
    return rows;
}

static kith_status start_check(const preparing *p)
{
    const bool bytes_serve = p->found != NULL && kin_screen_gpu_are_bytes(p->source, 0);
    const kin_screen_gpu_check job = {.rows = new_rows(p),
                                      .bad = p->found != NULL ? &p->found->bad : p->bad,
                                      .misfits = bytes_serve ? &p->found->misfits : NULL};
    const uint64_t bytes = (uint64_t)job.rows.cols * sizeof *job.rows.period;
    void *period = (void *)(uintptr_t)job.rows.period;
    KIN_TRY(kin_metric_takes(p->on.ctx, p->source->matrix, job.rows.metric, p->source->name));
    KIN_TRY(job.rows.period == NULL
                ? KITH_OK
                : kin_gpu_upload(p->on.ctx, p->on.gpu, period, p->out->distance.period, bytes));
    return KIN_SCREEN_LAUNCH(&p->on, check, &job, "checking values");
}

/* The processor's own sentence for the value that was found; new rows are counted from 0. */
static kith_status complain(const preparing *p)
{
    const kin_screen_gpu_rows rows = new_rows(p);
    kith_ctx *ctx = p->on.ctx;
    const int64_t row = (int64_t)((p->seen.bad & ~KIN_SCREEN_GPU_OUTSIDE) / (uint64_t)rows.cols);
    const uint64_t bytes = (uint64_t)rows.cols * (uint64_t)kith_dtype_bytes(rows.dtype);
    void *copy = NULL;
    KIN_HOLD(hold, ctx);
    KIN_TRY(kin_hold_alloc(&hold, &copy, bytes, 1, "a row"));
    KIN_TRY(kin_gpu_download(ctx, p->on.gpu, copy,
                             (const char *)rows.data + row * rows.stride_bytes, bytes));
    return kin_metric_complain(ctx, p->source->matrix, copy, p->out->first + row, &p->out->distance,
                               p->source->name);
}

static kith_status start_transforms(const preparing *p)
{
    kin_screen_gpu_prepared *out = p->out;
    const uint64_t known = (uint64_t)p->known;
    if (out->transforms == NULL) {
        return KITH_OK;
    }
    if (known > 0) {
        KIN_TRY(kin_gpu_copy(p->on.ctx, p->on.gpu, out->transforms, p->like->transforms,
                             known * sizeof *out->transforms));
        KIN_TRY(kin_gpu_copy(p->on.ctx, p->on.gpu, out->degenerate, p->like->degenerate, known));
    }
    const kin_screen_gpu_transform job = {.rows = new_rows(p),
                                          .transforms = out->transforms + known,
                                          .degenerate = out->degenerate + known,
                                          .count = &p->found->degenerate};
    KIN_TRY(KIN_SCREEN_LAUNCH(&p->on, transform, &job, "normalising rows"));
    out->rows.transforms = out->transforms;
    return KITH_OK;
}

/* ---- Groups ---------------------------------------------------------------------------------- */

static kith_status finish_groups(preparing *p)
{
    kin_groups *groups = &p->out->groups;
    const int64_t rows = p->out->rows.rows;
    p->equal.distinct = p->seen.distinct;
    p->equal.degenerate =
        p->seen.degenerate + (p->known > 0 ? (uint64_t)p->like->groups.degenerate : 0);
    p->equal.is_degenerate = p->out->degenerate;
    if (rows - (int64_t)p->seen.distinct <= p->source->apart) {
        p->equal.firsts = NULL; /* all are taken as distinct */
    }
    p->out->plain = kin_screen_gpu_equal_is_plain(&p->equal, rows);
    KIN_TRY(kin_screen_gpu_equal_lists(&p->on, &p->equal, rows, groups));
    if (p->out->plain || groups->count == 0) {
        return KITH_OK;
    }
    const uint64_t bytes = (uint64_t)groups->count * sizeof *groups->firsts;
    KIN_TRY(kin_gpu_alloc(p->on.ctx, p->on.gpu, &p->listed, bytes, 1, "distinct rows"));
    return kin_gpu_upload(p->on.ctx, p->on.gpu, p->listed, groups->firsts, bytes);
}

/* ---- The frame ------------------------------------------------------------------------------- */

/* The frame of one type, after the columns were measured. */
static void take_type(const preparing *p, kin_screen_gpu_type type, kin_screen_gpu_frame *frame)
{
    const kin_frame_stats stats = {.largest = p->seen.largest[0],
                                   .largest_norm = p->seen.largest[1]};
    const bool is_float = type == KIN_SCREEN_GPU_F16;
    frame->type = type;
    frame->row_bytes = kin_screen_gpu_type_bytes_of(type, frame->cols);
    frame->scale = kin_frame_scale(is_float ? KIN_TILE_F32 : KIN_TILE_S8, frame->cols, &stats);
    frame->kappa = is_float ? p->on.kernels->kappa(p->on.stream, frame->cols) : 0.0;
    frame->mean = frame->bound == KIN_BOUND_DISTANCE ? p->out->mean : NULL;
}

static kith_status measure(preparing *p, kin_screen_gpu_frame *frame)
{
    kin_screen_gpu_prepared *out = p->out;
    const int32_t cols = frame->cols;
    const int32_t parts = kin_screen_gpu_measure_parts(cols);
    KIN_TRY(kin_gpu_alloc(p->on.ctx, p->on.gpu, &p->scratch, (uint64_t)parts * 3 * (uint64_t)cols,
                          sizeof(double), "column statistics"));
    const kin_screen_gpu_measure job = {.rows = out->rows,
                                        .shifts = frame->bound == KIN_BOUND_DISTANCE ? 1 : 0,
                                        .norms = 1, /* bytes want them */
                                        .parts = parts,
                                        .scratch = p->scratch,
                                        .mean = out->mean,
                                        .largest = p->found->largest};
    KIN_TRY(KIN_SCREEN_LAUNCH(&p->on, measure, &job, "measuring columns"));
    KIN_TRY(see_findings(p));
    take_type(p, frame->type, frame);
    return KITH_OK;
}

static kith_status make_frame(preparing *p, kith_dtype asked, kin_screen_gpu_frame *frame)
{
    const kith_matrix *m = p->source->matrix;
    const kin_metric_traits *traits = kin_metric_get_traits(p->out->distance.metric);
    const bool bytes = p->found != NULL && kin_screen_gpu_are_bytes(p->source, p->seen.misfits);
    const kin_screen_gpu_type type =
        bytes ? KIN_SCREEN_GPU_S8 : kin_screen_gpu_type_of(&p->out->distance, m, asked);
    *frame =
        (kin_screen_gpu_frame){.type = type,
                               .bound = KIN_BOUND_INTEGER,
                               .cols = m->cols,
                               .row_bytes = kin_screen_gpu_type_bytes_of(type, m->cols),
                               .shift = bytes && (p->seen.misfits & KIN_BYTES_U8) == 0 ? 128 : 0,
                               .scale = 1.0,
                               .key_scale = traits->key_scale,
                               .reach_scale = 1.0};
    p->out->measured = p->out->measured && !bytes;
    if (!p->out->measured) {
        return KITH_OK;
    }
    frame->bound = traits->screen == KIN_SCREEN_DISTANCE ? KIN_BOUND_DISTANCE : KIN_BOUND_PRODUCT;
    return measure(p, frame);
}

/* ---- The set --------------------------------------------------------------------------------- */

/* Starts of bytes stand behind the rows. */
static kith_status allocate_rounded(const preparing *p)
{
    kin_screen_gpu_set *set = &p->out->set;
    const bool starts = p->bad == NULL && set->frame.type == KIN_SCREEN_GPU_S8 &&
                        p->on.kernels->takes_starts(p->on.stream);
    const uint64_t bytes = (uint64_t)set->frame.row_bytes + (starts ? KIN_START_BYTES : 0);
    KIN_TRY(kin_gpu_alloc(p->on.ctx, p->on.gpu, &p->out->rounded,
                          (uint64_t)kin_max_i64(set->padded, p->room), bytes,
                          "the rounded copy of the points"));
    set->rounded = p->out->rounded;
    p->out->starts = starts ? p->out->rounded + set->padded * set->frame.row_bytes : NULL;
    return KITH_OK;
}

static kith_status allocate_set(const preparing *p, const kin_screen_gpu_frame *frame,
                                int64_t points)
{
    kin_screen_gpu_prepared *out = p->out;
    out->set = (kin_screen_gpu_set){
        .frame = *frame, .points = points, .padded = kin_round_up(points, KIN_SCREEN_GPU_BLOCK)};
    KIN_TRY(kin_gpu_layout_make(p->on.ctx, p->on.gpu, name_set, out, "the order of the points",
                                &out->set_block));
    return allocate_rounded(p);
}

static kith_status start_columns(const preparing *p)
{
    const kin_screen_gpu_prepared *out = p->out;
    const kin_screen_gpu_starts none = {INT32_MAX, 0};
    const kin_screen_gpu_start job = {.half = out->half,
                                      .points = out->set.points,
                                      .padded = out->set.padded,
                                      .starts = out->starts,
                                      .found = &p->found->starts};
    KIN_TRY(kin_gpu_upload(p->on.ctx, p->on.gpu, &p->found->starts, &none, sizeof none));
    return KIN_SCREEN_LAUNCH(&p->on, start, &job, "starting columns");
}

/* Rows of set.ids into the set's buffers, and their balls. */
static kith_status start_round(const preparing *p)
{
    const kin_screen_gpu_prepared *out = p->out;
    const kin_screen_gpu_set *set = &out->set;
    const kin_screen_gpu_round job = {.rows = out->rows,
                                      .frame = set->frame,
                                      .ids = out->ids,
                                      .points = set->points,
                                      .padded = set->padded,
                                      .rounded = out->rounded,
                                      .facts = out->facts,
                                      .half = out->half,
                                      .past = p->past,
                                      .places = out->places,
                                      .worst = p->bad == NULL ? p->found->worst : NULL};
    KIN_TRY(KIN_SCREEN_LAUNCH(&p->on, round, &job, "rounding points"));
    if (out->centres != NULL && (p->source == NULL || !p->source->arranged)) {
        const kin_screen_gpu_cover cover = {
            .set = *set, .centres = out->centres, .radii = out->radii};
        KIN_TRY(KIN_SCREEN_LAUNCH(&p->on, cover, &cover, "covering tiles"));
    }
    return out->starts != NULL ? start_columns(p) : KITH_OK;
}

/* And the worst of them. */
static kith_status round_set(preparing *p)
{
    kin_screen_gpu_prepared *out = p->out;
    kin_screen_gpu_set *set = &out->set;
    KIN_TRY(start_round(p));
    if (p->bad != NULL) {
        return KITH_OK;
    }
    KIN_TRY(see_findings(p));
    const kin_bound_row past = p->past.known > 0 ? p->past.set.worst : (kin_bound_row){0.0, 0.0};
    set->worst = (kin_bound_row){fmax(past.norm, (double)p->seen.worst[0]),
                                 fmax(past.lost, (double)p->seen.worst[1])};
    set->starts = NULL;
    if (out->starts != NULL) {
        kin_screen_gpu_set_start(set, out->starts, &p->seen.starts);
    }
    return KITH_OK;
}

/* Of rows so short a product is a small part of a pair's work: halves lose less, and an H200
 * compares floats faster than integers. */
enum { SHORT_COLS = 32 };

/* Bytes are taken where they leave at most half as many candidates again as there are neighbours.
 * Measured on an H200: at two and a half times as many, 262,144 x 128 took 54 ms instead of 29,
 * since lists overflow. As a shadow they may leave more. */
static bool is_fine(double candidates, int64_t k)
{
    return candidates <= 1.5 * (double)k + 2.0;
}

/* Halves give way to bytes where those are fine enough. */
static kith_status try_bytes(preparing *p, int64_t k)
{
    kin_screen_gpu_prepared *out = p->out;
    kin_screen_gpu_set *set = &out->set;
    kin_screen_gpu_frame frame = set->frame;
    if (frame.type != KIN_SCREEN_GPU_F16) {
        return KITH_OK;
    }
    take_type(p, KIN_SCREEN_GPU_S8, &frame);
    out->byte_frame = frame;
    if (frame.cols <= SHORT_COLS || set->points < KIN_SCREEN_GPU_TYPE_POINTS ||
        k > KIN_SCREEN_GPU_TYPE_K) {
        return KITH_OK;
    }
    double candidates = 0.0;
    KIN_TRY(kin_screen_gpu_type_try(&p->on, out, &frame, k, &candidates));
    out->byte_candidates = candidates <= KIN_SCREEN_GPU_TYPE_TELLS ? candidates : 0.0;
    out->byte_k = k;
    if (!is_fine(candidates, k)) {
        return KITH_OK;
    }
    kin_gpu_free(p->on.gpu, out->rounded);
    out->rounded = NULL;
    set->frame = frame;
    return allocate_rounded(p);
}

/* ---- All of it ------------------------------------------------------------------------------- */

static void free_preparing(preparing *p)
{
    kin_gpu_free(p->on.gpu, p->scratch);
    kin_gpu_free(p->on.gpu, p->listed);
    kin_screen_gpu_equal_free(&p->on, &p->equal);
    kin_gpu_free(p->on.gpu, p->found);
}

/* Values, transforms and groups: one wait. */
static kith_status look(preparing *p, bool grouped)
{
    KIN_TRY(kin_gpu_layout_make(p->on.ctx, p->on.gpu, name_rows, p->out, "facts of rows",
                                &p->out->row_block));
    const bool waits = p->bad == NULL || p->out->transforms != NULL;
    p->seen.bad = UINT64_MAX;
    KIN_TRY(waits ? clear_findings(p) : KITH_OK);
    KIN_TRY(start_check(p));
    KIN_TRY(start_transforms(p));
    if (grouped) {
        p->equal.hashes = p->out->hashes;
        p->equal.known = p->known;
        KIN_TRY(p->known == 0 ? KITH_OK
                              : kin_gpu_copy(p->on.ctx, p->on.gpu, p->out->hashes, p->like->hashes,
                                             (uint64_t)p->known * sizeof *p->out->hashes));
        KIN_TRY(kin_screen_gpu_equal_start(&p->on, &p->out->rows, &p->found->distinct, &p->equal));
    }
    KIN_TRY(waits ? see_findings(p) : KITH_OK);
    if (p->seen.bad != UINT64_MAX) {
        return complain(p);
    }
    KIN_TRY(finish_groups(p));
    kin_screen_gpu_equal_free(&p->on, &p->equal);
    return KITH_OK;
}

/* Whether a frame and pivots will do for what there is now: of about as many points. */
static bool is_like(const preparing *p)
{
    const kin_screen_gpu_prepared *like = p->like;
    const int64_t points = p->out->groups.count;
    return like != NULL && like->set.points > 0 && points <= kin_screen_gpu_room_of(like->framed) &&
           kin_screen_gpu_is_covered(&p->out->distance, points) == like->covered;
}

/* In the frame, type and cells of another. Any row may be rounded in any frame; *serves is false
 * where the new ones lose much more there than those of before. */
static kith_status prepare_like(preparing *p, bool *serves)
{
    kin_screen_gpu_prepared *out = p->out;
    const kin_screen_gpu_prepared *like = p->like;
    kin_screen_gpu_frame frame = like->set.frame;
    const uint64_t bytes = (uint64_t)out->rows.cols * sizeof *out->mean;
    KIN_TRY(!out->measured ? KITH_OK
                           : kin_gpu_copy(p->on.ctx, p->on.gpu, out->mean, like->mean, bytes));
    frame.mean = frame.mean != NULL ? out->mean : NULL;
    out->byte_frame = like->byte_frame;
    out->byte_frame.mean = like->byte_frame.mean != NULL ? out->mean : NULL;
    out->byte_candidates = like->byte_candidates;
    out->byte_k = like->byte_k;
    out->framed = like->framed;
    out->covered = like->covered;
    p->room = kin_screen_gpu_room_of(like->framed);
    p->past = (kin_screen_gpu_past){like->set, like->places, like->places != NULL ? p->known : 0};
    KIN_TRY(allocate_set(p, &frame, out->groups.count));
    KIN_TRY(
        kin_screen_gpu_order_points(&p->on, out, p->listed, 0, like->pivots != NULL ? like : NULL));
    KIN_TRY(round_set(p));
    out->framed_lost = like->framed_lost;
    *serves = out->set.worst.lost <= (double)LIKE_LOST * like->framed_lost;
    return KITH_OK;
}

/* Of what was prepared in another's frame, the set. */
static void drop_set(preparing *p)
{
    kin_screen_gpu_prepared *out = p->out;
    kin_gpu_free(p->on.gpu, out->rounded);
    kin_gpu_free(p->on.gpu, out->set_block);
    kin_gpu_free(p->on.gpu, out->pivots);
    out->rounded = NULL;
    out->set_block = NULL;
    out->pivots = NULL;
    out->byte_candidates = 0.0;
    p->room = 0;
    p->past.known = 0;
}

static kith_status prepare_corpus(preparing *p, kith_dtype asked, int64_t k)
{
    kin_screen_gpu_prepared *out = p->out;
    kin_screen_gpu_frame frame;
    out->measured = kin_screen_gpu_is_measured(&out->distance, p->source->matrix, asked);
    KIN_TRY(look(p, kin_is_screened(&out->distance)));
    if (!kin_is_screened(&out->distance)) {
        return KITH_OK;
    }
    if (is_like(p)) {
        bool serves = false;
        const kith_status status = prepare_like(p, &serves);
        if (status != KITH_E_DEVICE_MEMORY && (status != KITH_OK || serves)) {
            return status;
        }
        kin_forgive(p->on.ctx);
        drop_set(p);
        KIN_TRY(kin_gpu_fill(p->on.ctx, p->on.gpu, p->found->worst, 0, sizeof p->found->worst));
    }
    KIN_TRY(make_frame(p, asked, &frame));
    out->set = (kin_screen_gpu_set){.frame = frame};
    out->framed = out->groups.count;
    if (out->groups.count == 0) {
        return KITH_OK;
    }
    kin_gpu_free(p->on.gpu, p->scratch);
    p->scratch = NULL;
    out->covered = kin_screen_gpu_is_covered(&out->distance, out->groups.count);
    KIN_TRY(allocate_set(p, &frame, out->groups.count));
    KIN_TRY(kin_screen_gpu_order_points(&p->on, out, p->listed, p->source->askers, NULL));
    KIN_TRY(try_bytes(p, k));
    KIN_TRY(round_set(p));
    out->framed_lost = out->set.worst.lost;
    return KITH_OK;
}

static kith_status prepare_queries(preparing *p, const kin_screen_gpu_frame *frame)
{
    kin_screen_gpu_prepared *out = p->out;
    KIN_TRY(look(p, false));
    if (frame == NULL) {
        return KITH_OK;
    }
    out->set = (kin_screen_gpu_set){.frame = *frame};
    if (out->groups.count == 0) {
        return KITH_OK;
    }
    KIN_TRY(allocate_set(p, frame, out->groups.count));
    KIN_TRY(kin_screen_gpu_order_points(&p->on, out, p->listed, 0, NULL)); /* as they are listed */
    return round_set(p);
}

static kith_status prepare_spread(preparing *p, kith_dtype asked, const kin_screen_gpu_frame *given,
                                  const kin_screen_gpu_spread *spread)
{
    kin_screen_gpu_prepared *out = p->out;
    kin_screen_gpu_frame frame = given != NULL ? *given : (kin_screen_gpu_frame){0};
    kin_screen_gpu_spread job = *spread;
    out->measured =
        given == NULL && kin_screen_gpu_is_measured(&out->distance, p->source->matrix, asked);
    KIN_TRY(look(p, false));
    if (!out->plain) {
        return KITH_OK;
    }
    KIN_TRY(given != NULL ? KITH_OK : make_frame(p, asked, &frame));
    KIN_TRY(allocate_set(p, &frame, spread->blocks * KIN_SCREEN_GPU_BLOCK));
    out->starts = NULL; /* padding among rows has none */
    job.ids = out->ids;
    KIN_TRY(KIN_SCREEN_LAUNCH(&p->on, spread, &job, "putting rows by group"));
    return round_set(p);
}

/* The rows on the device. */
static kith_status begin(preparing *p, const kin_screen_gpu_device *on,
                         const kin_screen_gpu_source *source)
{
    p->start = kin_clock_ns();
    p->on = *on;
    p->source = source;
    p->bad = source->bad;
    p->like = source->like;
    p->known = source->like != NULL ? source->like->rows.rows : 0;
    memset(p->out, 0, sizeof *p->out);
    p->out->distance = *source->distance;
    p->out->grows = source->grows;
    return take_rows(p, source->first, source->count > 0 ? source->count : source->matrix->rows);
}

/* Frees what is not part of the outcome, and on failure that too; else tells how long it took. */
static kith_status finish(preparing *p, kith_status status)
{
    free_preparing(p);
    if (status != KITH_OK) {
        kin_screen_gpu_prepared_free(p->on.ctx, p->on.gpu, p->out);
        return status;
    }
    p->on.ctx->report.seconds_prepare += kin_clock_since(p->start);
    return KITH_OK;
}

kith_status kin_screen_gpu_prepare_corpus(kith_ctx *ctx, kin_gpu *gpu,
                                          const kin_screen_gpu_source *source, kith_dtype asked,
                                          int64_t k, kin_screen_gpu_prepared *out)
{
    const kin_screen_gpu_device on = kin_screen_gpu_device_of(ctx, gpu);
    preparing p = {.out = out};
    kith_status status = begin(&p, &on, source);
    KIN_THEN(status, prepare_corpus(&p, asked, k));
    return finish(&p, status);
}

kith_status kin_screen_gpu_prepare_groups(kith_ctx *ctx, kin_gpu *gpu,
                                          const kin_screen_gpu_source *source,
                                          kin_screen_gpu_prepared *out)
{
    const kin_screen_gpu_device on = kin_screen_gpu_device_of(ctx, gpu);
    preparing p = {.out = out};
    kith_status status = begin(&p, &on, source);
    if (status == KITH_OK) {
        status = look(&p, true);
        out->firsts = p.listed;
        p.listed = NULL;
    }
    return finish(&p, status);
}

kith_status kin_screen_gpu_prepare_queries(const kin_screen_gpu_device *on,
                                           const kin_screen_gpu_source *source,
                                           const kin_screen_gpu_frame *frame,
                                           kin_screen_gpu_prepared *out)
{
    preparing p = {.out = out};
    kith_status status = begin(&p, on, source);
    KIN_THEN(status, prepare_queries(&p, frame));
    return finish(&p, status);
}

kith_status kin_screen_gpu_prepare_spread(const kin_screen_gpu_device *on,
                                          const kin_screen_gpu_source *source, kith_dtype asked,
                                          const kin_screen_gpu_frame *frame,
                                          const kin_screen_gpu_spread *spread,
                                          kin_screen_gpu_prepared *out)
{
    preparing p = {.out = out};
    kith_status status = begin(&p, on, source);
    KIN_THEN(status, prepare_spread(&p, asked, frame, spread));
    return finish(&p, status);
}

kith_status kin_screen_gpu_prepare_listed(const kin_screen_gpu_device *on,
                                          const kin_screen_gpu_listing *listing,
                                          kin_screen_gpu_prepared *out)
{
    preparing p = {.start = kin_clock_ns(),
                   .on = *on,
                   .out = out,
                   .room = listing->room,
                   .past = listing->past};
    kith_status status = clear_findings(&p);
    KIN_THEN(status, allocate_set(&p, &listing->frame, out->groups.count));
    KIN_THEN(status, listing->list(listing->arg, on, out));
    KIN_THEN(status, round_set(&p));
    return finish(&p, status);
}

uint64_t kin_screen_gpu_set_bytes(const kin_screen_gpu_prepared *bytes)
{
    kin_screen_gpu_prepared shape = *bytes;
    const uint64_t wide = (uint64_t)bytes->set.frame.row_bytes + KIN_START_BYTES;
    return kin_size_add(kin_size_mul((uint64_t)bytes->set.padded, wide),
                        kin_gpu_layout_bytes(name_set, &shape));
}

kith_status kin_screen_gpu_prepared_round(kith_ctx *ctx, kin_gpu *gpu,
                                          kin_screen_gpu_prepared *prepared)
{
    preparing p = {.on = kin_screen_gpu_device_of(ctx, gpu), .out = prepared};
    kith_status status = clear_findings(&p);
    KIN_THEN(status, prepared->set.points > 0 ? start_round(&p) : KITH_OK);
    free_preparing(&p);
    return status;
}

kith_status kin_screen_gpu_prepared_frame(const kin_screen_gpu_device *on,
                                          const kin_screen_gpu_frame *frame,
                                          kin_screen_gpu_prepared *prepared)
{
    preparing p = {.on = *on, .out = prepared};
    kin_gpu_free(on->gpu, prepared->rounded);
    prepared->rounded = NULL;
    prepared->set.frame = *frame;
    kith_status status = clear_findings(&p);
    KIN_THEN(status, allocate_rounded(&p));
    KIN_THEN(status, round_set(&p));
    free_preparing(&p);
    return status;
}

kith_status kin_screen_gpu_prepared_order(const kin_screen_gpu_device *on,
                                          const kin_screen_gpu_prepared *corpus,
                                          kin_screen_gpu_prepared *queries,
                                          kin_screen_gpu_home **homes)
{
    KIN_TRY(kin_screen_gpu_order_queries(on, corpus, queries, homes));
    if (*homes == NULL) {
        return KITH_OK;
    }
    kith_status status = KITH_OK;
    if (queries->centres == NULL && corpus->set.centres != NULL) {
        status = kin_gpu_layout_make(on->ctx, on->gpu, name_balls, queries, "balls of tiles",
                                     &queries->ball_block);
    }
    KIN_THEN(status, kin_screen_gpu_prepared_round(on->ctx, on->gpu, queries));
    if (status != KITH_OK) {
        kin_free(on->ctx, *homes);
        *homes = NULL;
    }
    return status;
}

void kin_screen_gpu_prepared_free(kith_ctx *ctx, kin_gpu *gpu, kin_screen_gpu_prepared *prepared)
{
    void *const blocks[] = {prepared->ball_block, prepared->rounded,
                            prepared->set_block,  prepared->row_block,
                            prepared->data,       prepared->borrows ? NULL : prepared->pivots,
                            prepared->firsts};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        kin_gpu_free(gpu, blocks[i]);
    }
    kin_groups_free(ctx, &prepared->groups);
    memset(prepared, 0, sizeof *prepared);
}

/* The rows where they are ours. */
static uint64_t own_bytes(const kith_matrix *matrix, int64_t rows, uint32_t place)
{
    const uint64_t slack = 1u << 16;
    const uint64_t a_row = (uint64_t)matrix->cols * (uint64_t)kith_dtype_bytes(matrix->dtype);
    return (place & KIN_GPU_DATA_ON_DEVICE) != 0
               ? slack
               : kin_size_add(slack, kin_size_mul((uint64_t)rows, a_row));
}

kin_screen_gpu_prepared_need kin_screen_gpu_groups_bytes(const kith_matrix *matrix, uint32_t place)
{
    const uint64_t rows = own_bytes(matrix, matrix->rows, place);
    const uint64_t firsts = kin_size_mul((uint64_t)matrix->rows, sizeof(uint32_t));
    return (kin_screen_gpu_prepared_need){
        .resident = kin_size_add(rows, firsts),
        .most = kin_size_add(rows, kin_size_add(firsts, kin_screen_gpu_equal_bytes(matrix->rows)))};
}

kin_screen_gpu_prepared_need kin_screen_gpu_prepared_bytes(const kith_matrix *matrix, int64_t rows,
                                                           const kin_distance *distance,
                                                           kith_dtype asked, uint32_t place,
                                                           bool corpus)
{
    const kin_screen_gpu_type type = kin_screen_gpu_type_of(distance, matrix, asked);
    const int32_t row_bytes = kin_screen_gpu_type_bytes_of(type, matrix->cols);
    const uint64_t ids = (uint64_t)rows * sizeof(uint32_t);
    const uint64_t order = kin_screen_gpu_order_bytes(rows, row_bytes, corpus);
    kin_screen_gpu_prepared shape = {
        .distance = *distance,
        .rows = {.rows = rows, .cols = matrix->cols},
        .measured = corpus && kin_screen_gpu_is_measured(distance, matrix, asked),
        .covered = corpus ? kin_screen_gpu_is_covered(distance, rows) : order > 0,
        .set = {.points = rows, .padded = kin_round_up(rows, KIN_SCREEN_GPU_BLOCK)}};
    const uint64_t given =
        kin_size_add(own_bytes(matrix, rows, place), kin_gpu_layout_bytes(name_rows, &shape));
    kin_screen_gpu_prepared_need need = {given, given};
    if (!kin_is_screened(distance)) {
        return need;
    }
    const int32_t as_bytes =
        kin_screen_gpu_type_bytes_of(KIN_SCREEN_GPU_S8, matrix->cols) + KIN_START_BYTES;
    const int32_t most = type == KIN_SCREEN_GPU_S8 || as_bytes > row_bytes ? as_bytes : row_bytes;
    const uint64_t rounded = kin_size_mul((uint64_t)shape.set.padded, (uint64_t)most);
    need.resident =
        kin_size_add(given, kin_size_add(kin_gpu_layout_bytes(name_set, &shape), rounded));
    need.most = kin_size_add(need.resident, kin_size_add(order, ids));
    if (!corpus) {
        return need;
    }
    /* Other moments: the table of groups and the columns' statistics before the set is there, the
     * pilot beside it. */
    const uint64_t parts = (uint64_t)kin_screen_gpu_measure_parts(matrix->cols);
    const uint64_t pilot = rows < KIN_SCREEN_GPU_TYPE_POINTS
                               ? 0
                               : kin_screen_gpu_type_bytes(
                                     kin_screen_gpu_type_bytes_of(KIN_SCREEN_GPU_S8, matrix->cols),
                                     KIN_SCREEN_GPU_TYPE_K);
    const uint64_t moments[] = {
        kin_size_add(given, kin_size_add(kin_screen_gpu_equal_bytes(rows), ids)),
        kin_size_add(given, parts * 3 * (uint64_t)matrix->cols * sizeof(double)),
        kin_size_add(need.resident, pilot)};
    for (size_t i = 0; i < sizeof moments / sizeof moments[0]; i++) {
        need.most = moments[i] > need.most ? moments[i] : need.most;
    }
    return need;
}
