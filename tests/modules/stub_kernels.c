/* SPDX-License-Identifier: Apache-2.0
 * Kernels for the device of stub_module.c: what drivers read comes out well-formed, answers mean
 * nothing. With them a driver takes every block of device memory that it takes on a GPU.
 *
 *   STUB_LOST   of a hundred rows, how many lose candidates in a launch that tightens or gathers
 * lists, or of such launches, how many find more keys than there is room for (default 0). Which
 * ones differs from launch to launch: on a GPU, too, that depends on how far seeds reach, and so on
 * the budget. */
#include "kith/kith_papers.h"
#include "papers/papers_kernels.h"
#include "screen/screen_start.h"
#include "select/select_kernels.h"

#include <stdlib.h>
#include <string.h>

extern const kin_screen_gpu_kernels stub_kernels;
extern uint32_t stub_lost(void);
extern int stub_loses(uint32_t lost);
extern const kin_select_kernels stub_select[];
extern const kin_papers_buffer_kernels stub_buffers; /* stub_buffers.c */
extern const kin_papers_kernels stub_papers;

static uint32_t next_random(void)
{
    static uint32_t state = 12345;
    state = state * 1664525U + 1013904223U;
    return state >> 8;
}

static int check(kin_gpu_stream *stream, const kin_screen_gpu_check *job)
{
    (void)stream;
    (void)job;
    return 0;
}

static int transform(kin_gpu_stream *stream, const kin_screen_gpu_transform *job)
{
    (void)stream;
    memset(job->transforms, 0, (size_t)job->rows.rows * sizeof *job->transforms);
    memset(job->degenerate, 0, (size_t)job->rows.rows);
    return 0;
}

/* No two rows are equal. */
static int group(kin_gpu_stream *stream, const kin_screen_gpu_group *job)
{
    (void)stream;
    memset(job->table, 0, (size_t)job->slots * 2 * sizeof *job->table);
    for (int64_t row = 0; row < job->rows.rows; row++) {
        job->firsts[row] = (uint32_t)row;
    }
    if (job->hashes != NULL) {
        memset(job->hashes, 0, (size_t)job->rows.rows * sizeof *job->hashes);
    }
    *job->distinct += (uint64_t)job->rows.rows;
    return 0;
}

/* No mean, values of size 1. */
static int measure(kin_gpu_stream *stream, const kin_screen_gpu_measure *job)
{
    (void)stream;
    memset(job->scratch, 0, (size_t)job->parts * 3 * (size_t)job->rows.cols * sizeof(double));
    memset(job->mean, 0, (size_t)job->rows.cols * sizeof(double));
    job->largest[0] = 1.0;
    job->largest[1] = (double)job->rows.cols;
    return 0;
}

static int round_rows(kin_gpu_stream *stream, const kin_screen_gpu_round *job)
{
    (void)stream;
    memset(job->rounded, 0, (size_t)job->padded * (size_t)job->frame.row_bytes);
    memset(job->facts, 0, (size_t)job->padded * sizeof *job->facts);
    memset(job->half, 0, (size_t)job->padded * sizeof *job->half);
    if (job->places != NULL) {
        memset(job->places, 0, (size_t)job->rows.rows * sizeof *job->places);
    }
    return 0;
}

static int cast(kin_gpu_stream *stream, const kin_screen_gpu_cast *job)
{
    const size_t points = (size_t)job->set.points;
    (void)stream;
    memset(job->values, 0, points * ((size_t)job->axes + 1) * sizeof *job->values);
    memset(job->off, 0, points * sizeof *job->off);
    return 0;
}

static bool takes_starts(kin_gpu_stream *stream)
{
    (void)stream;
    return true;
}

static int start(kin_gpu_stream *stream, const kin_screen_gpu_start *job)
{
    (void)stream;
    memset(job->starts, 0, (size_t)job->padded * KIN_START_BYTES);
    job->found->least = 0;
    return 0;
}

static int look(kin_gpu_stream *stream, const kin_screen_gpu_look *job)
{
    (void)stream;
    *job->looked += *job->passed.count;
    return 0;
}

static int cover(kin_gpu_stream *stream, const kin_screen_gpu_cover *job)
{
    const int64_t tiles = job->set.padded / KIN_SCREEN_GPU_TILE;
    (void)stream;
    memset(job->centres, 0, (size_t)tiles * (size_t)job->set.frame.cols * sizeof *job->centres);
    memset(job->radii, 0, (size_t)tiles * sizeof *job->radii);
    return 0;
}

static int split(kin_gpu_stream *stream, const kin_screen_gpu_split *job)
{
    const int64_t balls =
        KIN_SCREEN_GPU_BALLS * ((job->set.points + KIN_SCREEN_GPU_TILE - 1) / KIN_SCREEN_GPU_TILE);
    (void)stream;
    memset(job->centres, 0, (size_t)balls * (size_t)job->set.frame.cols * sizeof *job->centres);
    memset(job->radii, 0, (size_t)balls * sizeof *job->radii);
    return 0;
}

/* As they stand: any order is right. */
static int halve(kin_gpu_stream *stream, const kin_screen_gpu_halve *job)
{
    (void)stream;
    (void)job;
    return 0;
}

static int aim(kin_gpu_stream *stream, const kin_screen_gpu_aim *job)
{
    (void)stream;
    memset(job->lists.reach, 0, (size_t)job->rows.points * sizeof *job->lists.reach);
    return 0;
}

/* No tiles. */
static int meet(kin_gpu_stream *stream, const kin_screen_gpu_meet *job)
{
    const int64_t blocks = (job->rows.points + KIN_SCREEN_GPU_BLOCK - 1) / KIN_SCREEN_GPU_BLOCK;
    (void)stream;
    *job->unit_count = 0;
    memset(job->columns, 0, (size_t)blocks * sizeof *job->columns);
    return 0;
}

/* All in one cell. */
static int sort(kin_gpu_stream *stream, const kin_screen_gpu_sort *job)
{
    (void)stream;
    if (job->nearest != NULL && job->scratch == NULL) {
        *job->scratch_bytes = (uint64_t)job->points * 4 * sizeof(uint32_t);
        return 0;
    }
    for (int64_t i = 0; i < job->points; i++) {
        job->order[i] = job->ids != NULL ? job->ids[i] : (uint32_t)i;
    }
    if (job->marks != NULL) {
        memset(job->marks, 0, (size_t)kin_screen_gpu_sort_marks(job->points) * sizeof *job->marks);
    }
    return 0;
}

static int screen(kin_gpu_stream *stream, const kin_screen_gpu_screen *job)
{
    (void)stream;
    if (job->mode == KIN_SCREEN_GPU_NEAREST) {
        memset(job->nearest, 0, (size_t)job->rows.padded * sizeof *job->nearest);
    }
    return 0;
}

static double kappa(kin_gpu_stream *stream, int32_t cols)
{
    (void)stream;
    (void)cols;
    return 0x1p-20;
}

static int kth(kin_gpu_stream *stream, const kin_screen_gpu_kth *job)
{
    (void)stream;
    (void)job;
    return 0;
}

/* STUB_LOST. Asked once a launch: of every row it took a sixth of a test's time. */
uint32_t stub_lost(void)
{
    const char *text = getenv("STUB_LOST");
    return text != NULL ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

int stub_loses(uint32_t lost)
{
    return next_random() % 100 < lost ? 1 : 0;
}

/* The first k positions, or more than there is room for. */
static int gather(kin_gpu_stream *stream, const kin_screen_gpu_gather *job)
{
    const kin_screen_gpu_lists *lists = &job->lists;
    const uint32_t lost = stub_lost();
    (void)stream;
    for (int64_t row = job->row0; row < job->row0 + job->rows; row++) {
        for (int32_t i = 0; i < lists->k; i++) {
            lists->words[row * lists->capacity + i] = (uint64_t)i;
        }
        lists->counts[row] = stub_loses(lost) ? lists->capacity + 1 : lists->k;
    }
    return 0;
}

static int tighten(kin_gpu_stream *stream, const kin_screen_gpu_tighten *job)
{
    const uint32_t lost = stub_lost();
    (void)stream;
    for (int64_t row = 0; job->lists.words != NULL && row < job->set.points; row++) {
        job->lists.lost[row] |= stub_loses(lost) ? 1 : 0;
    }
    return 0;
}

static int collect(kin_gpu_stream *stream, const kin_screen_gpu_collect *job)
{
    memset(job->lists.lost + job->row0, 0, (size_t)job->rows * sizeof *job->lists.lost);
    return gather(stream, job);
}

static int take(kin_gpu_stream *stream, const kin_screen_gpu_take *job)
{
    (void)stream;
    for (int64_t i = 0; i < job->count; i++) {
        job->to_ids[i] = job->ids[job->of[i]];
        job->to_reach[i] = job->reach[job->of[i]];
    }
    return 0;
}

/* Positions alone, without owners. */
static int find_lost(kin_gpu_stream *stream, const kin_screen_gpu_lost *job)
{
    (void)stream;
    for (int64_t p = 0; p < job->points; p++) {
        if (job->lost[p] != 0) {
            if (job->ids != NULL) {
                job->ids[*job->count] = (uint32_t)p;
            }
            *job->count += 1;
        }
    }
    return 0;
}

static int arrange(kin_gpu_stream *stream, const kin_screen_gpu_arrange *job)
{
    (void)stream;
    (void)job;
    return 0;
}

static int plan(kin_gpu_stream *stream, const kin_screen_gpu_plan *job)
{
    (void)stream;
    (void)job;
    return 0;
}

/* As many neighbours as are wanted, the first ones from `first` on. */
static void write_pairs(kin_screen_gpu_pair *pairs, int32_t count, uint32_t first)
{
    for (int32_t i = 0; i < count; i++) {
        pairs[i] = (kin_screen_gpu_pair){.id = first + (uint32_t)i};
    }
}

static int rescore(kin_gpu_stream *stream, const kin_screen_gpu_rescore *job)
{
    (void)stream;
    for (int64_t row = 0; row < job->rows; row++) {
        if (job->all.keys == NULL) {
            write_pairs(job->pairs + row * job->lists.k, job->lists.k, 0);
        }
        job->count[row] = job->lists.k;
    }
    return 0;
}

static int write_rows(kin_gpu_stream *stream, const kin_screen_gpu_write *job)
{
    (void)stream;
    (void)job;
    return 0;
}

static int keys(kin_gpu_stream *stream, const kin_screen_gpu_keys *job)
{
    (void)stream;
    for (int64_t i = 0; i < job->query_count; i++) {
        job->keys[i * job->pitch + job->corpus_count - 1] = 0.0;
    }
    return 0;
}

static int best(kin_gpu_stream *stream, const kin_screen_gpu_best *job)
{
    (void)stream;
    for (int64_t row = 0; row < job->rows; row++) {
        const uint32_t first = job->after != NULL ? job->after[row * job->after_pitch].id + 1 : 0;
        write_pairs(job->pairs + row * job->pairs_pitch, job->k, first);
        job->count[row] = job->k;
    }
    return 0;
}

static int hits(kin_gpu_stream *stream, const kin_screen_gpu_hits *job)
{
    (void)stream;
    for (int64_t row = 0; row < job->rows; row++) {
        for (int64_t i = job->places[row]; i < job->places[row + 1]; i++) {
            job->hits[i] = (kin_screen_gpu_hit){.first = (uint32_t)(i - job->places[row])};
        }
    }
    return 0;
}

/* Of each row the first columns, as many as there is room for. */
static int within(kin_gpu_stream *stream, const kin_screen_gpu_within *job)
{
    const int64_t fit = job->room / (job->rows > 0 ? job->rows : 1);
    const int64_t kept = fit < job->columns ? fit : job->columns;
    (void)stream;
    for (int64_t row = 0; row < job->rows; row++) {
        for (int64_t i = 0; i < kept; i++) {
            job->hits[row * kept + i] =
                (kin_screen_gpu_hit){.query = job->query0 + (uint32_t)row, .first = (uint32_t)i};
        }
    }
    *job->count = stub_loses(stub_lost()) ? (uint64_t)job->room + 1 : (uint64_t)(job->rows * kept);
    return 0;
}

static int sample(kin_gpu_stream *stream, const kin_papers_sample *job)
{
    (void)stream;
    memset(job->sample, 0, (size_t)(job->rows * job->columns) * sizeof *job->sample);
    return 0;
}

static int join(kin_gpu_stream *stream, const kin_screen_gpu_join *job)
{
    (void)stream;
    for (int64_t i = 0; i < job->count; i++) {
        job->pairs[i] = (kin_screen_gpu_pair){.key = job->keys[i], .id = job->ids[i]};
    }
    return 0;
}

/* Some scratch for every method. */
static uint64_t select_scratch(kin_gpu_stream *stream, const kin_select_job *task)
{
    (void)stream;
    return (uint64_t)(task->rows * (task->k + task->cols / 8)) * sizeof(uint64_t);
}

/* Zeros, which stand at the first places. */
static int select_rows(kin_gpu_stream *stream, const kin_select_job *task)
{
    const size_t value = task->dtype == KIN_SELECT_F64 ? sizeof(double) : sizeof(float);
    (void)stream;
    memset(task->scratch, 0, task->scratch_bytes);
    if (task->out_kth != NULL) {
        memset(task->out_kth, 0, (size_t)task->rows * value);
    }
    if (task->out_values != NULL) {
        memset(task->out_values, 0, (size_t)(task->rows * task->k) * value);
    }
    for (int64_t i = 0; task->out_ids != NULL && i < task->rows * task->k; i++) {
        task->out_ids[i] = (uint32_t)(i % task->k);
    }
    return 0;
}

#define ROW(NAME, ...) [KITH_SELECT_##NAME] = {.scratch = select_scratch, .select = select_rows},
const kin_select_kernels stub_select[] = {KITH_SELECT_MAP(ROW) KITH_PAPERS_SELECT_MAP(ROW)};

const kin_screen_gpu_kernels stub_kernels = {.check = check,
                                             .transform = transform,
                                             .group = group,
                                             .measure = measure,
                                             .round = round_rows,
                                             .cast = cast,
                                             .start = start,
                                             .look = look,
                                             .cover = cover,
                                             .split = split,
                                             .aim = aim,
                                             .meet = meet,
                                             .sort = sort,
                                             .halve = halve,
                                             .screen = screen,
                                             .kappa = kappa,
                                             .takes_starts = takes_starts,
                                             .kth = kth,
                                             .gather = gather,
                                             .collect = collect,
                                             .tighten = tighten,
                                             .lost = find_lost,
                                             .take = take,
                                             .arrange = arrange,
                                             .plan = plan,
                                             .rescore = rescore,
                                             .write = write_rows,
                                             .keys = keys,
                                             .best = best,
                                             .join = join,
                                             .hits = hits,
                                             .within = within};

const kin_papers_kernels stub_papers = {.sample = sample, .buffers = &stub_buffers};
