/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. First all shadows are read, in order, and of each panel of 16 rows the best product is
 * kept: 4 bytes a query, no threshold, no branch. Then each query takes the k best panels, whose
 * rows' canonical keys give a threshold that is nearly final; the panels that pass it, the best
 * first, are looked at row by row, and what passes gets its key.
 *
 *      shadows, 16 rows a panel  ->  the best of each  ->  best of 32 panels each
 *      k best panels -> keys -> reach -> panels that pass, best first -> rows that pass -> keys
 *
 * Why it is right. A row is left out only where its shadow costs more than the limit that a reach
 * gives (screen_bound.h), the reach being that of the k-th of k different rows' keys, or what the
 * caller knows. Keys are canonical, so the answer does not depend on the order of the work.
 *
 * Lists hold groups of equal rows by their first; the first k groups hold the first k ids. */

#include "base/base_mem.h"
#include "base/base_size.h"
#include "exact/exact_search.h"
#include "host/host_clock.h"
#include "host/host_threads.h"
#include "kith/kith_papers.h"

/* Panels of a section, whose shadows stay in the first two levels while all queries read them;
 * sections a task; panels that give the first threshold, for each id; panels that are fetched while
 * one is looked at; rows whose keys are computed at a time. */
enum { SECTION = 32, SECTIONS_A_TASK = 16, PANELS_AN_ID = 4, AHEAD = 6, BATCH = 64 };
/* Queries beyond which a screen of all rows is sooner, of bytes and of wider types, and ids. */
enum { MOST_QUERIES_S8 = 2, MOST_QUERIES = 24, MOST_IDS = 256 };
/* What the best of panels may take: as many queries as that read the shadows together, or as share
 * what is read of a panel. */
static const int64_t MOST_BYTES = 4 << 20;
enum { LEAST_TOGETHER = 4 };

/* ---- Shadows that are kept ------------------------------------------------------------------- */

static void set_lost(const kin_set *cast, float *lost)
{
    for (int64_t p = 0; p < cast->padded; p++) {
        const float own = fabsf(cast->lost[p]);
        float *of_panel = &lost[p / KIN_PANEL];
        *of_panel = p % KIN_PANEL == 0 || own > *of_panel ? own : *of_panel;
    }
}

static kith_status make(kith_ctx *ctx, const kin_shadow_job *job, kin_prepared *p)
{
    kin_glance *glance = &p->glance;
    KIN_TRY(kin_shadow_learn(ctx, p, job, &glance->shadow, NULL));
    if (glance->shadow.axes == 0) {
        return KITH_OK;
    }
    KIN_TRY(kin_shadow_cast(ctx, &glance->shadow, p, p->order, p->groups.count, &glance->cast));
    KIN_TRY(kin_alloc(ctx, &glance->lost, (uint64_t)(glance->cast.padded / KIN_PANEL),
                      sizeof *glance->lost, "shadows of the points"));
    set_lost(&glance->cast, glance->lost);
    return KITH_OK;
}

kith_status kin_glance_make(kith_ctx *ctx, const kin_shadow_job *job, kin_prepared *prepared)
{
    const int64_t start = kin_clock_ns();
    if (prepared->groups.count == 0 || prepared->vain) {
        return KITH_OK;
    }
    kith_status status = make(ctx, job, prepared);
    if (status == KITH_E_MEMORY || status == KITH_E_LIMIT) {
        kin_glance_free(ctx, &prepared->glance);
        kin_forgive(ctx);
        status = KITH_OK;
    }
    prepared->seconds_prepare += kin_clock_since(start);
    return status;
}

bool kin_glance_suits(const kin_prepared *corpus, const kin_request *request, int64_t queries)
{
    const kin_tile_kernel *kernel = corpus->frame.kernel;
    const bool bytes = kernel != NULL && kernel->type == KIN_TILE_S8;
    return corpus->glance.shadow.axes > 0 && kin_exact_job_screens(request) &&
           (request->flags & KITH_NO_SKIP) == 0 &&
           queries <= (bytes ? MOST_QUERIES_S8 : MOST_QUERIES) && request->k <= MOST_IDS &&
           !kin_type_settled(corpus->groups.count, request->k);
}

/* ---- One search ------------------------------------------------------------------------------ */

/* A thread's room for one query. */
typedef struct worker {
    KIN_APART double *query;
    uint64_t *best;  /* of sections, then of panels: the worst last */
    uint64_t *words; /* of panels that pass */
    uint32_t ids[BATCH];
    double keys[BATCH];
    kin_pair *list; /* wanted + BATCH */
    kin_answer answer;
    int64_t looked; /* rows that passed, of all queries */
} worker;

typedef struct glancing {
    kith_ctx *ctx;
    const kin_prepared *corpus;
    const kin_prepared *queries;
    const kin_request *request;
    kin_answer_target target;
    const kin_glance_ops *ops;
    kin_set asked; /* shadows of the queries of this turn, */
    int64_t first; /* and where they begin in queries->order */
    int64_t panels;
    int64_t sections;
    int64_t wanted;
    int64_t together; /* queries a turn, at most */
    uint32_t *tables; /* by query of the turn */
    int32_t *most;    /* together x panels; INT32_MIN: looked at */
    int32_t threads;  /* that answer: no more than queries of a turn */
    worker *workers;
} glancing;

/* One query on its way. */
typedef struct glance {
    const glancing *g;
    worker *w;
    kin_query query;
    int64_t row;   /* of the shadows */
    double worst;  /* no key above it is needed */
    double reach;  /* of it, in units of the shadows */
    int64_t count; /* of the list */
    int64_t held;  /* ids whose keys are not computed yet */
    int32_t *most;
} glance;

/* ---- The first pass -------------------------------------------------------------------------- */

/* As screen_corpus.h has them, of panels of u8 = s8 + 128. */
static void set_table(const kin_set *asked, int64_t row, uint32_t *table)
{
    const int64_t groups = asked->frame->groups;
    const uint32_t *cells = asked->panels + row / KIN_PANEL * groups * KIN_PANEL + row % KIN_PANEL;
    for (int64_t g = 0; g < groups; g++) {
        const uint32_t word = cells[g * KIN_PANEL];
        for (int odd = 0; odd < 2; odd++) {
            const int32_t low = (int32_t)(word >> (8 * odd) & 0xff) - 128;
            const int32_t high = (int32_t)(word >> (8 * odd + 16) & 0xff) - 128;
            table[2 * g + odd] = ((uint32_t)low & 0xffff) | (uint32_t)high << 16;
        }
    }
}

static kin_glance_scan scan_of(const glancing *g, int64_t panel, int64_t query)
{
    const kin_set *cast = &g->corpus->glance.cast;
    const int32_t groups = cast->frame->groups;
    return (kin_glance_scan){.panels = cast->panels + panel * groups * KIN_PANEL,
                             .start = cast->start + panel * KIN_PANEL,
                             .groups = groups,
                             .tables = g->tables + query * groups * 2,
                             .most = g->most + query * g->panels + panel,
                             .stride = g->panels};
}

static kith_status scan_sections(void *arg, int64_t section, int32_t thread)
{
    const glancing *g = arg;
    (void)thread;
    kin_glance_scan scan = scan_of(g, section * SECTION, 0);
    scan.count = kin_min_i64(SECTION, g->panels - section * SECTION);
    scan.queries = (int32_t)g->asked.points;
    g->ops->scan(&scan);
    return KITH_OK;
}

/* ---- Thresholds ------------------------------------------------------------------------------ */

static void set_worst(glance *l, double key)
{
    const kin_prepared *corpus = l->g->corpus;
    const kin_bound_row none = {0.0, 0.0}; /* of a distance neither is read */
    l->worst = key;
    l->reach = kin_bound_reach_of_key(KIN_BOUND_DISTANCE, key, corpus->frame.key_scale,
                                      corpus->frame.scale, none, none) /
               l->g->asked.frame->scale * KIN_BOUND_WIDEN;
}

/* The largest cost that a row which lost so much must be kept for. */
static double limit_of(const glance *l, double lost)
{
    return kin_bound_limit(KIN_BOUND_DISTANCE, l->reach, 0.0, kin_set_row(&l->g->asked, l->row),
                           (kin_bound_row){0.0, lost});
}

/* And the least acc that it may have, or one less. */
static int32_t least_acc(const glance *l, double lost)
{
    const double least = ((double)l->g->asked.row_term[l->row].i - limit_of(l, lost)) / 2.0 - 1.0;
    return least > (double)-INT32_MAX ? (int32_t)least : -INT32_MAX;
}

/* ---- Keys ------------------------------------------------------------------------------------ */

/* Of the ids that are held; what is wanted goes to the list, whose end is a threshold. */
static void compute_keys(glance *l)
{
    worker *w = l->w;
    const int64_t before = l->count;
    kin_metric_keys(&l->g->request->distance, &l->query, &l->g->corpus->rows, w->ids, l->held,
                    w->keys);
    for (int64_t i = 0; i < l->held; i++) {
        if (!(w->keys[i] > l->worst)) {
            w->list[l->count++] = (kin_pair){w->keys[i], w->ids[i], 1};
        }
    }
    w->looked += l->held;
    l->held = 0;
    if (l->count > before) {
        kin_select_sort_pairs(w->list, l->count);
        l->count = kin_min_i64(l->count, l->g->wanted);
    }
    if (l->count == l->g->wanted && w->list[l->count - 1].key < l->worst) {
        set_worst(l, w->list[l->count - 1].key);
    }
}

/* ---- Rows of a panel ------------------------------------------------------------------------- */

static void fetch_panel(const glance *l, int64_t panel)
{
    const kin_glance_scan scan = scan_of(l->g, panel, l->row);
    kin_tile_fetch(scan.panels, (int64_t)scan.groups * KIN_PANEL * (int64_t)sizeof *scan.panels);
    kin_tile_fetch(scan.start, KIN_PANEL * (int64_t)sizeof *scan.start);
    kin_tile_fetch(l->g->corpus->order + panel * KIN_PANEL, 1);
}

static void hold(glance *l, uint32_t id)
{
    kin_rows_fetch(&l->g->corpus->rows, id);
    l->w->ids[l->held++] = id;
}

static void look_at_panel(glance *l, int64_t panel)
{
    const glancing *g = l->g;
    const int32_t least = least_acc(l, (double)g->corpus->glance.lost[panel]);
    if (l->most[panel] < least) {
        return;
    }
    l->most[panel] = INT32_MIN;
    int32_t acc[KIN_PANEL];
    const kin_glance_scan scan = scan_of(g, panel, l->row);
    const int64_t first = panel * KIN_PANEL;
    const int64_t count = kin_min_i64(KIN_PANEL, g->corpus->groups.count - first);
    g->ops->look(&scan, acc);
    for (int64_t i = 0; i < count; i++) {
        if (acc[i] >= least) {
            hold(l, g->corpus->order[first + i]);
        }
    }
    if (l->held > BATCH - KIN_PANEL) {
        compute_keys(l);
    }
}

/* Of words in the order in which panels are looked at. */
static void look_at_panels(glance *l, int64_t count)
{
    const uint64_t *words = l->w->words;
    for (int64_t i = 0; i < count; i++) {
        if (i + AHEAD < count) {
            fetch_panel(l, (int64_t)(words[i + AHEAD] & UINT32_MAX));
        }
        look_at_panel(l, (int64_t)(words[i] & UINT32_MAX));
    }
    compute_keys(l);
}

/* The best first. */
static uint64_t word_of(int32_t acc, int64_t number)
{
    return (uint64_t)((uint32_t)INT32_MAX - (uint32_t)acc) << 32 | (uint64_t)number;
}

static int32_t most_of(const glance *l, int64_t section)
{
    int32_t most = INT32_MIN;
    const int64_t last = kin_min_i64((section + 1) * SECTION, l->g->panels);
    for (int64_t p = section * SECTION; p < last; p++) {
        most = l->most[p] > most ? l->most[p] : most;
    }
    return most;
}

/* The best panels, some for each id that is wanted: they are in as many best sections. Each has a
 * row at least, so that then there is a threshold. */
static void look_at_best(glance *l)
{
    const glancing *g = l->g;
    uint64_t *best = l->w->best;
    uint64_t *words = l->w->words;
    const int64_t sections = kin_min_i64(g->wanted * PANELS_AN_ID, g->sections);
    for (int64_t s = 0; s < g->sections; s++) {
        best[s] = word_of(most_of(l, s), s);
    }
    kin_select_nth_word(best, g->sections, sections - 1);
    int64_t count = 0;
    for (int64_t i = 0; i < sections; i++) {
        const int64_t first = (int64_t)(best[i] & UINT32_MAX) * SECTION;
        for (int64_t p = first; p < kin_min_i64(first + SECTION, g->panels); p++) {
            words[count++] = word_of(l->most[p], p);
        }
    }
    const int64_t panels = kin_min_i64(g->wanted * PANELS_AN_ID, count);
    kin_select_nth_word(words, count, panels - 1);
    kin_select_sort_words(words, panels);
    look_at_panels(l, panels);
}

/* Those that pass by the threshold there is, in the order of memory. */
static void look_at_passing(glance *l)
{
    const glancing *g = l->g;
    const float *lost = g->corpus->glance.lost;
    const int32_t least = least_acc(l, g->corpus->glance.cast.worst.lost);
    int64_t count = 0;
    for (int64_t p = 0; p < g->panels; p++) {
        if (l->most[p] >= least && l->most[p] >= least_acc(l, (double)lost[p])) {
            l->w->words[count++] = (uint64_t)p;
        }
    }
    look_at_panels(l, count);
}

static kith_status answer(void *arg, int64_t task, int32_t thread)
{
    const glancing *g = arg;
    worker *w = &g->workers[thread];
    const uint32_t id = g->queries->order[g->first + task];
    const kin_within within = g->request->within[0];
    glance l = {.g = g,
                .w = w,
                .query = kin_metric_load(&g->request->distance, &g->queries->rows, id, w->query),
                .row = task,
                .most = g->most + task * g->panels};
    set_worst(&l, within.keys != NULL ? within.keys[id * within.step] : (double)INFINITY);
    look_at_best(&l);
    look_at_passing(&l);
    kin_answer_expand(&w->answer, w->list, l.count);
    return kin_answer_write_group(g->ctx, &g->target, &w->answer, id);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void name_arrays(kin_layout *layout, void *job)
{
    glancing *g = job;
    const kin_frame *frame = &g->corpus->glance.shadow.frame;
    const uint64_t wide = (uint64_t)kin_round_up(g->corpus->distance.cols, KIN_METRIC_LANES);
    const uint64_t rows = (uint64_t)g->together;
    g->tables = kin_layout_array(layout, rows * 2 * (uint64_t)frame->groups, sizeof *g->tables);
    g->most = kin_layout_array(layout, rows * (uint64_t)g->panels, sizeof *g->most);
    g->workers = kin_layout_zeros(layout, (uint64_t)g->threads, sizeof *g->workers);
    for (int32_t t = 0; t < g->threads; t++) {
        worker spare;
        worker *w = kin_layout_item(g->workers, t, &spare);
        w->query = kin_layout_array(layout, wide, sizeof *w->query);
        w->best = kin_layout_array(layout, (uint64_t)g->sections, sizeof *w->best);
        w->words = kin_layout_array(layout, (uint64_t)g->panels, sizeof *w->words);
        w->list = kin_layout_array(layout, (uint64_t)(g->wanted + BATCH), sizeof *w->list);
        w->answer = (kin_answer){.groups = &g->corpus->groups,
                                 .metric = g->corpus->distance.metric,
                                 .wanted = g->wanted};
        kin_answer_name(layout, &w->answer);
    }
}

/* ---- All of it ------------------------------------------------------------------------------- */

static kith_status run_turn(kith_ctx *ctx, glancing *g, int64_t count)
{
    int64_t start = kin_clock_ns();
    KIN_TRY(kin_shadow_cast(ctx, &g->corpus->glance.shadow, g->queries,
                            g->queries->order + g->first, count, &g->asked));
    for (int64_t i = 0; i < count; i++) {
        set_table(&g->asked, i, g->tables + i * 2 * g->asked.frame->groups);
    }
    kith_status status =
        kin_parallel_rows(ctx, "screen", g->sections, SECTIONS_A_TASK, scan_sections, g);
    ctx->report.seconds_screen += kin_clock_since(start);
    start = kin_clock_ns();
    KIN_THEN(status, kin_parallel(ctx, "rescore", count, answer, g));
    ctx->report.seconds_rescore += kin_clock_since(start);
    kin_set_free(ctx, &g->asked);
    return status;
}

static void finish_report(const glancing *g)
{
    kith_report *report = &g->ctx->report;
    const double queries = (double)kin_max_i64(g->queries->groups.count, 1);
    double looked = 0.0;
    for (int32_t t = 0; t < g->threads; t++) {
        looked += (double)g->workers[t].looked;
    }
    report->exact = KITH_CERTIFIED;
    report->candidates = looked / queries;
    report->looked_share = looked / queries / (double)g->corpus->groups.count;
    report->shadow_axes = g->corpus->glance.shadow.axes;
    report->distinct_rows = g->corpus->groups.count;
    kin_prepared_report(g->ctx, g->corpus);
}

kith_status kin_glance_search(kith_ctx *ctx, const kin_prepared *corpus, kin_prepared *queries,
                              const kin_request *request, const kith_neighbors *out)
{
    const int64_t panels = kin_ceil_div(corpus->groups.count, KIN_PANEL);
    const int64_t fitting =
        kin_max_i64(LEAST_TOGETHER, MOST_BYTES / (panels * (int64_t)sizeof(int32_t)));
    const int64_t together = kin_min_i64(queries->groups.count, fitting);
    glancing g = {.ctx = ctx,
                  .corpus = corpus,
                  .queries = queries,
                  .request = request,
                  .target = {.groups = &queries->groups,
                             .exclude = request->exclude,
                             .may_be_short = request->within[0].keys != NULL,
                             .out = out},
                  .ops = kin_glance_get(ctx->isa),
                  .panels = panels,
                  .sections = kin_ceil_div(panels, SECTION),
                  .wanted = kin_request_ids(request, false, corpus->rows.matrix.rows),
                  .together = together,
                  .threads = (int32_t)kin_max_i64(1, kin_min_i64(ctx->threads, together))};
    queries->frame = corpus->frame; /* whose units shadows are in */
    KIN_HOLD(hold, ctx);
    KIN_TRY(kin_hold_layout(&hold, name_arrays, &g, "a glance at the points"));
    kith_status status = KITH_OK;
    for (; g.first < queries->groups.count && status == KITH_OK; g.first += g.together) {
        status = run_turn(ctx, &g, kin_min_i64(g.together, queries->groups.count - g.first));
    }
    if (status == KITH_OK) {
        kin_answer_write_degenerates(&g.target, &g.workers[0].answer);
        finish_report(&g);
    }
    return status;
}
