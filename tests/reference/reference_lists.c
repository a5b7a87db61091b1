/* SPDX-License-Identifier: Apache-2.0
 * Lists of candidates: tightened, sorted by what they reach, handed from one GPU to another. */
#include "reference/reference_screen.h"
#include "screen/screen_gate.h"
#include "select/select_word.h"

#include <stdlib.h>

/* ---- Tightening ------------------------------------------------------------------------------ */

/* The reach that the k entries of least cost prove. words: room for all. */
static double reach_of_list(const kin_screen_gpu_tighten *job, int64_t row, int32_t count,
                            uint64_t *words)
{
    const uint64_t *list = job->lists.words + row * job->lists.capacity;
    double reach = -(double)INFINITY;
    memcpy(words, list, (size_t)count * sizeof *words);
    kin_select_nth_word(words, count, job->lists.k - 1);
    const uint32_t kth = (uint32_t)(words[job->lists.k - 1] >> 32);
    for (int32_t i = 0; i < count; i++) {
        const uint32_t order = (uint32_t)(list[i] >> 32);
        if (order <= kth) {
            const kin_bound_row other = bounds_of(&job->cols_set, (int64_t)(uint32_t)list[i]);
            const double proven =
                proven_by(&job->set.frame, order, bounds_of(&job->set, row), other);
            reach = proven > reach ? proven : reach;
        }
    }
    return reach;
}

/* How many entries stay. */
static int32_t tighten_list(const kin_screen_gpu_tighten *job, int64_t row, int32_t count,
                            uint64_t *words)
{
    const kin_screen_gpu_frame *frame = &job->set.frame;
    uint64_t *list = job->lists.words + row * job->lists.capacity;
    double *reach = &job->lists.reach[row];
    int32_t kept = 0;
    if (count < job->lists.k) {
        return count;
    }
    const double proven = reach_of_list(job, row, count, words);
    *reach = proven < *reach ? proven : *reach;
    for (int32_t i = 0; i < count; i++) {
        const double cost = cost_of(frame->type, (uint32_t)(list[i] >> 32));
        if (is_within(frame, *reach, cost, bounds_of(&job->set, row),
                      bounds_of(&job->cols_set, (int64_t)(uint32_t)list[i]))) {
            list[kept++] = list[i];
        }
    }
    return kept;
}

static void tighten_all(const kin_screen_gpu_tighten *job)
{
    const int32_t capacity = job->lists.capacity;
    uint64_t *words = reference_room(capacity, sizeof *words);
    for (int64_t row = 0; row < job->set.points; row++) {
        const int32_t pushed = job->lists.counts[row];
        const int32_t full = job->restores ? job->before[row] : capacity;
        const int32_t count = pushed <= capacity ? pushed : full;
        const bool tight = job->before != NULL && pushed == job->before[row];
        const int32_t kept = tight ? count : tighten_list(job, row, count, words);
        job->lists.counts[row] = kept;
        job->lists.lost[row] = pushed > capacity ? 1 : job->lists.lost[row];
        if (job->before != NULL) {
            job->before[row] = kept;
        }
        if (job->kept != NULL) {
            *job->kept += (uint64_t)kept;
        }
    }
    free(words);
}

/* a + b, rounded up. */
static double add_up(double a, double b)
{
    return kin_sum_rest(a, b) > 0.0 ? nextafter(a + b, (double)INFINITY) : a + b;
}

static void raise_gate(kin_screen_gpu_type type, kin_screen_gpu_word *gate,
                       kin_screen_gpu_word other)
{
    if (type == KIN_SCREEN_GPU_S8) {
        gate->i = other.i > gate->i ? other.i : gate->i;
    } else {
        gate->f = fmaxf(gate->f, other.f);
    }
}

static kin_screen_gpu_worst worst_of(const kin_screen_gpu_tighten *job, int64_t tile)
{
    const kin_screen_gpu_frame *frame = &job->set.frame;
    kin_screen_gpu_worst worst = {.far = -INFINITY, .integer = INT32_MIN};
    const kin_screen_gpu_word closed = kin_gate_of(frame->type, frame->bound, -(double)INFINITY);
    for (int g = 0; g < KIN_SCREEN_GPU_TILE / KIN_SCREEN_GPU_GATE; g++) {
        worst.gate[g] = closed;
    }
    for (int64_t p = 0; p < KIN_SCREEN_GPU_TILE && job->gates != NULL; p++) {
        job->gates[tile * KIN_SCREEN_GPU_TILE + p] = closed;
    }
    for (int64_t p = 0; p < KIN_SCREEN_GPU_TILE && tile * KIN_SCREEN_GPU_TILE + p < job->set.points;
         p++) {
        const int64_t row = tile * KIN_SCREEN_GPU_TILE + p;
        const kin_screen_gpu_facts *facts = &job->set.facts[row];
        const double reach = job->lists.reach != NULL
                                 ? kin_screen_gpu_reach(frame, job->lists.reach[row])
                                 : (double)INFINITY;
        const double far =
            frame->bound == KIN_BOUND_DISTANCE ? add_up(reach, (double)facts->lost) : reach;
        const int32_t whole = !(reach < (double)INT32_MAX) ? INT32_MAX
                              : reach > (double)INT32_MIN  ? (int32_t)ceil(reach)
                                                           : INT32_MIN;
        worst.norm = fmaxf(worst.norm, facts->norm);
        worst.lost = fmaxf(worst.lost, facts->lost);
        worst.far = fmaxf(worst.far, kin_up_of(far));
        worst.integer = whole > worst.integer ? whole : worst.integer;
        const kin_screen_gpu_word gate =
            kin_gate_of(frame->type, frame->bound, kin_gate_set_far(&job->set, far));
        raise_gate(frame->type, &worst.gate[kin_screen_gpu_gate_of((int32_t)p)], gate);
        if (job->gates != NULL) {
            job->gates[row] = gate;
        }
    }
    return worst;
}

static void body_tighten(const kin_screen_gpu_tighten *job)
{
    if (job->set.points == 0) {
        return;
    }
    if (job->lists.words != NULL) {
        tighten_all(job);
    }
    for (int64_t t = 0; job->worst != NULL && t < job->set.padded / KIN_SCREEN_GPU_TILE; t++) {
        job->worst[t] = worst_of(job, t);
    }
}

REFERENCE_SCREEN(tighten)

/* ---- Few rows -------------------------------------------------------------------------------- */

static void clear_lists(const void *arg)
{
    const kin_screen_gpu_collect *job = arg;
    for (int64_t row = job->row0; row < job->row0 + job->rows; row++) {
        job->lists.counts[row] = 0;
        job->lists.lost[row] = 0;
        job->lists.reach[row] = (double)INFINITY;
    }
}

static void tell_lists(const void *arg)
{
    const kin_screen_gpu_collect *job = arg;
    if (job->seen != NULL) {
        *job->seen = job->own[0];
    }
    for (int64_t i = 0; job->told != NULL && i < job->rows; i++) {
        const int64_t row = job->row0 + i;
        if (job->own != NULL && job->own[row / KIN_SCREEN_GPU_BLOCK] > job->count) {
            job->lists.lost[row] = 1;
        }
        job->told[i] = job->lists.lost[row] != 0 ? -1 : job->lists.counts[row];
    }
}

int reference_screen_collect(kin_gpu_stream *stream, const kin_screen_gpu_collect *job)
{
    const kin_screen_gpu_kth kth = {.set = job->rows_set,
                                    .lists = job->lists,
                                    .row0 = job->row0,
                                    .rows = job->rows,
                                    .matrix = job->matrix,
                                    .minima = job->minima,
                                    .pitch = job->pitch,
                                    .count = job->count,
                                    .own = job->own,
                                    .col_worst = job->cols_set.worst};
    kin_screen_gpu_tighten tighten = {
        .set = job->rows_set, .cols_set = job->cols_set, .lists = job->lists};
    tighten.set.points = job->row0 + job->rows;
    int status = reference_later(stream, clear_lists, job, sizeof *job);
    status = status == 0 ? reference_screen_kth(stream, &kth) : status;
    status = status == 0 ? reference_screen_gather(stream, job) : status;
    status = status == 0 ? reference_screen_tighten(stream, &tighten) : status;
    return status == 0 ? reference_later(stream, tell_lists, job, sizeof *job) : status;
}

/* ---- Runs ------------------------------------------------------------------------------------ */

static void body_arrange(const kin_screen_gpu_arrange *job)
{
    kin_pair pairs[KIN_SCREEN_GPU_RUN];
    for (int64_t first = 0; first < job->points; first += job->run) {
        const int64_t left = job->points - first;
        const int64_t count = left < job->run ? left : job->run;
        for (int64_t i = 0; i < count; i++) {
            pairs[i] = (kin_pair){job->reach[first + i], job->ids[first + i], 0};
        }
        kin_select_sort_pairs(pairs, count);
        for (int64_t i = 0; i < count; i++) {
            const int64_t among = i - i % KIN_SCREEN_GPU_QUAD;
            const int64_t place = among + KIN_SCREEN_GPU_QUAD <= count
                                      ? among + kin_screen_gpu_gate_place((int32_t)(i - among))
                                      : i;
            job->reach[first + place] = pairs[i].key;
            job->ids[first + place] = pairs[i].id;
        }
    }
}

REFERENCE_SCREEN(arrange)

/* ---- Lists of a team ------------------------------------------------------------------------- */

/* Stands for `pushed` words of a list that overflowed. */
static uint64_t marker(int32_t pushed)
{
    return (uint64_t)UINT32_MAX << 32 | (uint32_t)pushed;
}

static void pack_list(const kin_screen_gpu_pack *job, int32_t part, int64_t row)
{
    const int32_t pushed = job->lists.counts[row];
    const bool over = pushed > job->lists.capacity;
    const int32_t stored = !over ? pushed : job->whole != 0 ? 0 : job->lists.capacity;
    const uint64_t count = (uint64_t)stored + (over ? 1 : 0);
    uint64_t *counts = job->counts + 2 * (int64_t)part;
    const uint64_t place = counts[0];
    counts[0] += count;
    if (place + count > job->room) {
        counts[1] = place < counts[1] ? place : counts[1];
        return;
    }
    const uint64_t to = (uint64_t)part * job->room + place;
    for (uint64_t i = 0; i < count; i++) {
        job->words[to + i] = i < (uint64_t)stored
                                 ? job->lists.words[row * job->lists.capacity + (int64_t)i]
                                 : marker(pushed);
        job->rows[to + i] = (uint32_t)row;
    }
    job->lists.counts[row] = 0;
}

static void body_pack(const kin_screen_gpu_pack *job)
{
    for (int32_t part = 0; part < job->parts; part++) {
        for (int64_t row = job->firsts[part]; row < job->firsts[part + 1] && row < job->points;
             row++) {
            if (part != job->part) {
                pack_list(job, part, row);
            }
        }
    }
}

REFERENCE_SCREEN(pack)

static void body_accept(const kin_screen_gpu_accept *job)
{
    for (int64_t i = 0; i < job->count; i++) {
        const uint64_t word = job->words[i];
        if ((uint32_t)(word >> 32) != UINT32_MAX) {
            push(&job->lists, job->rows[i], word);
        } else if (job->whole != 0) {
            job->lists.counts[job->rows[i]] += (int32_t)(uint32_t)word;
        } else {
            job->lists.lost[job->rows[i]] = 1;
        }
    }
}

REFERENCE_SCREEN(accept)
