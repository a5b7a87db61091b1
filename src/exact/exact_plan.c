/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A job is a sequence of phases. Each adds blocks to what earlier ones keep, and frees the
 * blocks that only it needs; the peak is the largest sum. The phases stand here in the order of
 * screen_prepare.c, screen_type.c and exact_search.c; what each holds is what it names
 * (base_mem.h).
 *
 * Limits. Which type a corpus of many points is rounded to, and whether it has shadows, depends on
 * its values: the plan tells what the way needs that needs most, and the one that needs least.
 */

#include "base/base_size.h"
#include "exact/exact_search.h"
#include "kith/kith_papers.h"

typedef struct planning {
    const kith_matrix *corpus;
    const kith_matrix *queries; /* NULL: a graph */
    const kin_request *request;
    kin_rows_known known;
    int32_t threads;
    kin_layout plan;
    uint64_t plain; /* the peak without shadows, of the last type */
    uint64_t least; /* the peak with what takes least; 0: there is one way */
    uint64_t least_prepared;
    uint64_t made;       /* with the last type: what is prepared, */
    uint64_t plain_made; /* and without shadows */
    uint64_t prepared;
    uint64_t state;
} planning;

static void plan_rows(planning *p, const kith_matrix *matrix, bool distinguish)
{
    const kin_distance *distance = &p->request->distance;
    const kin_rows_known known =
        matrix == p->corpus ? p->known : kin_prepare_unknown(matrix, distance);
    kin_prepare_rows_plan(&p->plan, matrix->rows, distance, distinguish, known);
}

/* Lists of `rows` for ids among `points`. Of several types that the job may take, the one that
 * keeps most is told. */
static void plan_lists(planning *p, kin_screen *screen, int64_t wanted)
{
    const uint64_t kept = kin_layout_mark(&p->plan);
    kin_exact_plan_screen(&p->plan, screen, wanted, p->threads);
    p->made = kept;
    const uint64_t all = kin_layout_mark(&p->plan);
    if (all > kin_size_add(p->prepared, p->state)) {
        p->prepared = kept;
        p->state = all - kept;
    }
    kin_layout_back(&p->plan, kept);
}

/* Of rows that no type tells apart all pairs are compared, beside what was made for nothing. */
static void plan_vain(planning *p)
{
    const kin_distance *distance = &p->request->distance;
    const kith_matrix *asked = p->queries != NULL ? p->queries : p->corpus;
    const kin_prepared corpus = {.rows = {.matrix = *p->corpus}, .distance = *distance};
    const kin_prepared queries = {.rows = {.matrix = *asked}, .distance = *distance};
    const uint64_t before = kin_layout_mark(&p->plan);
    kin_direct_plan(&p->plan, &corpus, p->queries != NULL ? &queries : &corpus, p->request,
                    p->threads);
    kin_layout_back(&p->plan, before);
}

/* Pairs of the whole job, and the ids that are asked for. */
static kin_shadow_job job_of(const planning *p)
{
    const double rows = (double)p->known.distinct;
    return p->queries == NULL
               ? (kin_shadow_job){.k = p->request->k + 1, .pairs = 0.5 * rows * rows, .ends = 2}
               : (kin_shadow_job){
                     .k = p->request->k, .pairs = rows * (double)p->queries->rows, .ends = 1};
}

/* What is made of a corpus. */
typedef struct made {
    const kin_set *set;
    const kin_cover *cover;
    const kin_shadow *shadow; /* NULL: the set is screened itself */
    const kin_set *cast;
    const kin_shadow *sieve; /* no axes: none */
    const kin_set *sieved;
} made;

/* After the corpus has its set: for a graph its own lists, for a search the queries'. */
static void plan_job(planning *p, const made *of)
{
    const kin_request *request = p->request;
    const kin_set *set = of->set;
    const bool graph = p->queries == NULL;
    const int64_t wanted = kin_request_ids(request, graph, p->corpus->rows);
    const kin_meet_side own = {
        .set = set, .cast = of->cast, .sieve = of->sieved, .cover = of->cover};
    kin_screen screen = {.row = own,
                         .point = own,
                         .block = graph ? kin_screen_graph_block(set->frame, p->corpus->rows)
                                        : kin_screen_block(set->frame)};
    kin_lists both;
    if (graph) {
        plan_vain(p);
        screen.point.lists = (request->flags & KITH_NO_SYMMETRY) == 0 ? &both : NULL;
        plan_lists(p, &screen, wanted);
        return;
    }
    const int64_t stripe = kin_min_i64(kin_exact_stripe(set->frame, wanted), p->queries->rows);
    kin_set asked =
        set->line > 0 ? kin_set_shape_lines(set->frame, stripe) : kin_set_shape(set->frame, stripe);
    kin_set asked_cast = {0};
    kin_set asked_sieve = {0};
    kin_cover balls;
    plan_rows(p, p->queries, true);
    plan_vain(p);
    kin_order_plan(&p->plan, p->queries->rows, p->queries->cols, false, p->threads);
    kin_set_plan(&p->plan, &asked, p->threads);
    if (of->cast != NULL) {
        asked_cast = kin_set_shape(&of->shadow->frame, stripe);
        kin_shadow_cast_plan(&p->plan, of->shadow, &asked, &asked_cast, p->threads);
        screen.row.cast = &asked_cast;
    }
    if (of->sieved != NULL) {
        asked_sieve = kin_set_shape(&of->sieve->frame, stripe);
        kin_shadow_cast_plan(&p->plan, of->sieve, &asked, &asked_sieve, p->threads);
        screen.row.sieve = &asked_sieve;
    }
    kin_cover_plan(&p->plan, &asked, p->threads, &balls);
    screen.row.set = &asked;
    screen.row.cover = &balls;
    plan_lists(p, &screen, wanted);
}

/* Lists of fewer rows may be longer: by less than an entry for each of all rows. */
static void plan_unknown(planning *p, int64_t points)
{
    if (!p->known.counted) {
        kin_layout_alone(&p->plan, (uint64_t)points, sizeof(uint64_t));
    }
}

/* The job with shadows: chosen beside the set in panels, which then gives way to lines,
 * unless tiles are looked at. */
static void plan_shadows(planning *p, const kin_frame *frame)
{
    const kin_shadow_job job = job_of(p);
    const uint64_t before = kin_layout_mark(&p->plan);
    kin_set panels = kin_set_shape(frame, p->known.distinct);
    kin_shadow shadow = kin_shadow_shape(frame);
    kin_shadow sieve = kin_shadow_sieve_shape(frame);
    const bool sieves = sieve.axes > 0;
    kin_set rows = shadow.tiles ? panels : kin_set_shape_lines(frame, p->known.distinct);
    kin_set cast = kin_set_shape(&shadow.frame, p->known.distinct);
    kin_set sieved = kin_set_shape(&sieve.frame, sieves ? p->known.distinct : 0);
    kin_cover cover;
    plan_unknown(p, panels.points);
    kin_cover_plan(&p->plan, &panels, p->threads, &cover);
    const uint64_t covered = kin_layout_mark(&p->plan);
    kin_set_plan(&p->plan, &panels, p->threads);
    kin_shadow_learn_plan(&p->plan, &panels, job.k, p->threads, &shadow, &sieve);
    kin_layout_back(&p->plan, covered);
    kin_shadow_plan(&p->plan, &shadow);
    if (sieves) {
        kin_shadow_plan(&p->plan, &sieve);
    }
    kin_set_plan(&p->plan, &rows, p->threads);
    kin_shadow_cast_plan(&p->plan, &shadow, &rows, &cast, p->threads);
    if (sieves) {
        kin_shadow_cast_plan(&p->plan, &sieve, &rows, &sieved, p->threads);
    }
    plan_job(p, &(made){&rows, &cover, &shadow, &cast, &sieve, sieves ? &sieved : NULL});
    kin_layout_back(&p->plan, before);
}

/* The job with a corpus of this frame, as one of several that may be. k: of a try; 0: it is not
 * tried. */
static void plan_frame(planning *p, const kin_frame *frame, int64_t k)
{
    const kin_shadow_job job = job_of(p);
    const uint64_t before = kin_layout_mark(&p->plan);
    kin_set set = kin_set_shape(frame, p->known.distinct);
    kin_cover cover;
    plan_unknown(p, set.points);
    kin_set_plan(&p->plan, &set, p->threads);
    if (k > 0) {
        kin_trial_plan(&p->plan, &set, k, p->threads);
    }
    kin_cover_plan(&p->plan, &set, p->threads, &cover);
    plan_job(p, &(made){.set = &set, .cover = &cover});
    kin_layout_back(&p->plan, before);
    p->plain = p->plan.peak;
    p->plain_made = p->made;
    if ((p->request->flags & KITH_NO_SKIP) == 0 && kin_shadow_may(frame, p->known.distinct, &job)) {
        plan_shadows(p, frame);
    }
}

static void note_least(planning *p, bool first)
{
    p->least = first || p->plain < p->least ? p->plain : p->least;
    p->least_prepared =
        first || p->plain_made < p->least_prepared ? p->plain_made : p->least_prepared;
}

static void plan_types(planning *p)
{
    const kin_distance *distance = &p->request->distance;
    const int64_t k = p->request->k + (p->queries == NULL ? 1 : 0);
    const kin_frame_stats stats = {.largest = 1.0, .largest_norm = 1.0};
    const int64_t points = p->known.distinct;
    const kin_tile_kernel *ladder[KIN_TYPE_LADDER];
    const int count = kin_type_ladder(distance->isa, distance->cols, ladder);
    const int first = kin_type_first(ladder, distance->cols, points, k);
    int last = count - 1;
    if (kin_type_settled(points, k)) { /* fewer distinct rows may take a finer one */
        const bool sure = p->known.counted && !kin_type_has_pilot(ladder[first], points, k);
        last = sure ? first : kin_type_first(ladder, distance->cols, 0, k);
    }
    kin_frame_measure_plan(&p->plan, distance->cols, p->threads);
    const uint64_t before = p->plan.peak;
    uint64_t most = before;
    for (int i = first; i <= last; i++) {
        const kin_frame frame = kin_frame_make(distance, ladder[i], false, &stats);
        p->plan.peak = before;
        plan_frame(p, &frame, kin_type_has_pilot(ladder[i], points, k) ? k : 0);
        note_least(p, i == first);
        most = p->plan.peak > most ? p->plan.peak : most;
    }
    p->plan.peak = most;
}

static void plan_screened(planning *p)
{
    const kin_distance *distance = &p->request->distance;
    const kith_matrix *asked = p->queries != NULL ? p->queries : p->corpus;
    plan_rows(p, p->corpus, false);
    if (!p->request->unordered) {
        kin_order_plan(&p->plan, p->known.distinct, distance->cols, p->queries == NULL, p->threads);
    }
    if (kin_frame_is_integer(distance, p->corpus, asked)) {
        const kin_frame frame =
            kin_frame_make(distance, kin_type_integer(distance->isa), true, NULL);
        plan_frame(p, &frame, 0);
        if (p->plan.peak > p->plain) {
            note_least(p, true);
        }
    } else {
        plan_types(p);
    }
}

static void plan_all_pairs(planning *p)
{
    const kin_request *request = p->request;
    const kith_matrix *asked = p->queries != NULL ? p->queries : p->corpus;
    const kin_prepared corpus = {.rows = {.matrix = *p->corpus}, .distance = request->distance};
    const kin_prepared queries = {.rows = {.matrix = *asked}, .distance = request->distance};
    plan_rows(p, p->corpus, true);
    if (p->queries != NULL) {
        plan_rows(p, p->queries, true);
    }
    p->prepared = kin_layout_mark(&p->plan);
    const bool other = request->pipeline != NULL && request->pipeline->plan != NULL;
    (other ? request->pipeline->plan : kin_direct_plan)(
        &p->plan, &corpus, p->queries != NULL ? &queries : &corpus, request, p->threads);
    p->state = kin_layout_mark(&p->plan) - p->prepared;
}

static kin_plan plan_of(planning *p)
{
    const bool screens = kin_exact_job_screens(p->request);
    if (screens) {
        plan_screened(p);
    } else {
        plan_all_pairs(p);
    }
    return (kin_plan){.screens = screens,
                      .prepared_bytes = p->prepared,
                      .state_bytes = p->state,
                      .peak_bytes = p->plan.peak,
                      .least_bytes = p->least != 0 ? p->least : p->plan.peak,
                      .least_prepared_bytes = p->least != 0 ? p->least_prepared : p->prepared};
}

/* One job or the other. */
static void either(kin_plan *plan, const kin_plan *other)
{
    if (other->prepared_bytes + other->state_bytes > plan->prepared_bytes + plan->state_bytes) {
        plan->prepared_bytes = other->prepared_bytes;
        plan->state_bytes = other->state_bytes;
    }
    plan->peak_bytes = other->peak_bytes > plan->peak_bytes ? other->peak_bytes : plan->peak_bytes;
    if (other->least_bytes < plan->least_bytes) {
        plan->least_bytes = other->least_bytes;
        plan->least_prepared_bytes = other->least_prepared_bytes;
    }
}

kin_plan kin_plan_exact(const kith_matrix *corpus, const kith_matrix *queries,
                        const kin_request *request, kin_rows_known known, int32_t threads)
{
    const planning job = {.corpus = corpus,
                          .queries = queries,
                          .request = request,
                          .known = known,
                          .threads = threads};
    planning rows = job;
    planning bytes = job;
    kith_matrix points = *corpus;
    kith_matrix asked = queries != NULL ? *queries : *corpus;
    bytes.corpus = &points;
    bytes.known.equal = true; /* zeros of either sign are one byte */
    bytes.known.counted = false;
    bytes.queries = queries != NULL ? &asked : NULL;
    kin_plan plan = plan_of(&rows);
    if (plan.screens && known.bytes &&
        kin_bytes_plan(&bytes.plan, &request->distance, threads, &points,
                       queries != NULL ? &asked : NULL)) {
        const kin_plan taken = plan_of(&bytes);
        either(&plan, &taken);
    }
    return plan;
}
