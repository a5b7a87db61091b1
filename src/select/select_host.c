/* SPDX-License-Identifier: Apache-2.0
 *
 * Selection on the processor. Contract: select.h.
 *
 * Many rows: a piece of work is some rows, each given to the method whole. Few long rows: a piece
 * is a run of one row, which gives its first min(k, length) words, sorted. They are then merged by
 * ranks, so that this, too, is work for all threads:
 *
 *     runs of a row   | a a a a a | b b b b b | c c c c c |      sorted, min(k, length) each
 *     ranks 0 .. k    piece 0: the first PIECE of all, piece 1: the next ...
 *
 * A cut at rank r is the least word that r words do not exceed, found by halving the range of
 * words, and how many of those equal to it stand before the cut. Two cuts bound what a piece takes
 * of each run; that is copied together and sorted. Cuts know nothing of each other, so pieces need
 * no order.
 */
#include "select/select.h"

#include "base/base_size.h"
#include "host/host_threads.h"

/* ---- Our methods ----------------------------------------------------------------------------- */

#define ROW(NAME, number, name) [number] = {number, #name, 0, kin_select_##name},
static const kin_select_method methods[] = {KITH_SELECT_MAP(ROW)};
#undef ROW
enum { METHODS = sizeof methods / sizeof methods[0] };

const kin_select_method *kin_select_method_of(kith_select_method number)
{
    return number >= 0 && number < METHODS && methods[number].name != NULL ? &methods[number]
                                                                           : NULL;
}

typedef struct rule {
    int32_t chip;
    int32_t bits; /* of a value */
    int64_t most_cols;
    int64_t most_k;
    kith_select_method method;
} rule;

#define ANY INT64_MAX
#define RULE(chip, bits, most_cols, most_k, method) \
    {chip, bits, most_cols, most_k, KITH_SELECT_##method},

/* Where no method is named the first row of the table of a chip whose class holds the job has it.
 * Rows of a class go by rising width of values, length of rows, k; the last of each is unbounded.
 */
static const rule rules[] = {
#include "select/select_tune.inc"
};

/* The first whole table of a GPU was an H200's: compute capability 9.0. */
enum { DEFAULT_CHIP = 90 };

bool kin_select_tuned(int32_t chip)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (rules[i].chip == chip) {
            return true;
        }
    }
    return false;
}

const kin_select_method *kin_select_choose(int32_t chip, const kin_select_job *job)
{
    if (job->method != NULL) {
        return job->method;
    }
    const int32_t known = kin_select_tuned(chip) ? chip : DEFAULT_CHIP;
    const int32_t bits = 8 * kin_select_type_bytes(job->dtype);
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        const rule *r = &rules[i];
        if (r->chip == known && r->bits == bits && job->cols <= r->most_cols &&
            job->k <= r->most_k) {
            return kin_select_method_of(r->method);
        }
    }
    return kin_select_method_of(KITH_SELECT_SCAN);
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

static const char *const PHASE = "select";

enum {
    ROWS_VALUES = 1 << 18,     /* a piece of short rows, some 0.1 ms of reading */
    RUN_LEAST = 1 << 16,       /* shorter runs are not worth merging */
    RUN_SHARE = 16,            /* nor those that are not so many times k */
    RUN_MOST = 1 << 23,        /* longer ones would keep cancelling waiting */
    RUN_MOST_SORTED = 1 << 20, /* likewise, where most of a run is sorted */
    PIECES_A_THREAD = 4,
    MERGE_PIECE = 1 << 16,
    PARTS_BYTES = 1 << 26 /* of runs that wait for being merged, unless one row has more */
};

/* ---- Rows that were selected from run by run ------------------------------------------------- */

/* Each run's first words, ascending, and the way from there to the row's first words by ranks.
 * Words are 8 or 16 bytes (select_word.h). */

typedef struct host {
    kith_ctx *ctx;
    kin_select_job job;
    const kin_select_body *body;
    int64_t word_bytes;
    int64_t run;       /* values, the longest */
    int64_t row_group; /* rows a piece, where they are not cut */
    char *scratch;     /* threads x scratch_bytes */
    char *words;       /* threads x words_bytes */
    uint64_t scratch_bytes;
    uint64_t words_bytes;
    /* Rows that are cut: run p of a row has the values [p * run, (p + 1) * run) and gives min(k,
     * length) words. */
    int64_t runs;
    char *parts;       /* a batch of rows x parted_row_words */
    int64_t first_row; /* of the batch */
    int64_t pieces;    /* of merging, a row */
} host;

/* At most so many; the last run may give fewer. */
static int64_t parted_row_words(const host *h)
{
    return h->runs * kin_min_i64(h->job.k, h->run);
}

static char *parted_words(const host *h, int64_t row, int64_t part)
{
    const int64_t at = row * parted_row_words(h) + part * kin_min_i64(h->job.k, h->run);
    return h->parts + at * h->word_bytes;
}

static kin_word128 word_at(const host *h, const char *words, int64_t at)
{
    kin_word64 narrow = 0;
    kin_word128 wide = 0;
    if (h->word_bytes == 8) {
        memcpy(&narrow, words + 8 * at, sizeof narrow);
        return narrow;
    }
    memcpy(&wide, words + 16 * at, sizeof wide);
    return wide;
}

typedef struct cut {
    kin_word128 word;
    int64_t equal; /* of the words that equal it, the first so many, in the order of runs */
} cut;

static int64_t part_words(const host *h, int64_t part)
{
    return kin_min_i64(h->job.k, kin_min_i64(h->run, h->job.cols - part * h->run));
}

/* How many of the run's words are below `word`; or not above it. */
static int64_t count_to(const host *h, int64_t row, int64_t part, kin_word128 word, bool with_equal)
{
    const char *words = parted_words(h, row, part);
    int64_t low = 0;
    int64_t high = part_words(h, part);
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const kin_word128 found = word_at(h, words, middle);
        if (found < word || (with_equal && found == word)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static int64_t count_all(const host *h, int64_t row, kin_word128 word, bool with_equal)
{
    int64_t count = 0;
    for (int64_t part = 0; part < h->runs; part++) {
        count += count_to(h, row, part, word, with_equal);
    }
    return count;
}

static cut cut_at(const host *h, int64_t row, int64_t rank)
{
    kin_word128 low = 0;
    kin_word128 high = h->word_bytes == 8 ? KIN_WORD64_WORST : KIN_WORD128_WORST;
    while (low < high) {
        const kin_word128 middle = low + (high - low) / 2;
        if (count_all(h, row, middle, true) >= rank) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return (cut){low, rank - count_all(h, row, low, false)};
}

/* What stands before the cut in this run; runs are asked in their order. */
static int64_t take_to(const host *h, int64_t row, int64_t part, cut *c)
{
    const int64_t below = count_to(h, row, part, c->word, false);
    const int64_t same = count_to(h, row, part, c->word, true) - below;
    const int64_t taken = kin_min_i64(same, c->equal);
    c->equal -= taken;
    return below + taken;
}

/* The words of ranks [first, last) of a row, last <= k, ascending. */
static void merge_parts(const host *h, int64_t row, int64_t first, int64_t last, void *out)
{
    cut from = cut_at(h, row, first);
    cut to = cut_at(h, row, last);
    int64_t filled = 0;
    for (int64_t part = 0; part < h->runs; part++) {
        const int64_t begin = take_to(h, row, part, &from);
        const int64_t count = take_to(h, row, part, &to) - begin;
        memcpy((char *)out + filled * h->word_bytes,
               parted_words(h, row, part) + begin * h->word_bytes, (size_t)(count * h->word_bytes));
        filled += count;
    }
    if (h->word_bytes == 8) {
        kin_select_sort_words(out, filled);
    } else {
        kin_select_sort_words128(out, filled);
    }
}

/* ---- Outputs -------------------------------------------------------------------------------- */

static void write_value(const host *h, const char *words, int64_t at, void *values, int64_t to)
{
    const kin_word128 word = word_at(h, words, at);
    if (h->job.dtype == KIN_SELECT_F64) {
        kin_word128_value(word, h->job.largest, values, to);
    } else {
        kin_word64_value((kin_word64)word, h->job.dtype, h->job.largest, values, to);
    }
}

/* Ranks [first, first + count) of a row. k-th values come from the last of all k words. */
static void write_words(const host *h, int64_t row, int64_t first, int64_t count, const char *words)
{
    const kin_select_job *job = &h->job;
    const int64_t to = row * job->k + first;
    if (job->out_kth != NULL && first + count == job->k) {
        int64_t last = 0;
        for (int64_t i = 1; i < count; i++) {
            last = word_at(h, words, i) > word_at(h, words, last) ? i : last;
        }
        write_value(h, words, last, job->out_kth, row);
    }
    for (int64_t i = 0; job->out_values != NULL && i < count; i++) {
        write_value(h, words, i, job->out_values, to + i);
    }
    for (int64_t i = 0; job->out_ids != NULL && i < count; i++) {
        job->out_ids[to + i] = (uint32_t)word_at(h, words, i);
    }
}

static kin_run run_of(const host *h, int64_t row, int64_t first, int64_t count)
{
    const kin_select_job *job = &h->job;
    const char *ids = job->ids == NULL ? NULL : job->ids + row * job->ids_stride_bytes;
    return (kin_run){.values = job->values + row * job->stride_bytes +
                               first * kin_select_type_bytes(job->dtype),
                     .ids = ids == NULL ? NULL : (const uint32_t *)(const void *)ids + first,
                     .first = first,
                     .count = count,
                     .dtype = job->dtype,
                     .largest = job->largest};
}

/* ---- Whole rows ----------------------------------------------------------------------------- */

static kith_status select_rows(void *arg, int64_t task, int32_t thread)
{
    const host *h = arg;
    const int64_t last = kin_min_i64(h->job.rows, (task + 1) * h->row_group);
    char *scratch = h->scratch + (uint64_t)thread * h->scratch_bytes;
    char *words = h->words + (uint64_t)thread * h->words_bytes;
    for (int64_t row = task * h->row_group; row < last; row++) {
        const kin_run run = run_of(h, row, 0, h->job.cols);
        h->body->select(&h->job, &run, scratch, words);
        write_words(h, row, 0, h->job.k, words);
    }
    return KITH_OK;
}

/* ---- Rows that are cut ---------------------------------------------------------------------- */

static kith_status select_run(void *arg, int64_t task, int32_t thread)
{
    const host *h = arg;
    const int64_t row = task / h->runs;
    const int64_t part = task % h->runs;
    const int64_t first = part * h->run;
    const kin_run run =
        run_of(h, h->first_row + row, first, kin_min_i64(h->run, h->job.cols - first));
    h->body->select(&h->job, &run, h->scratch + (uint64_t)thread * h->scratch_bytes,
                    parted_words(h, row, part));
    return KITH_OK;
}

static kith_status merge_piece(void *arg, int64_t task, int32_t thread)
{
    const host *h = arg;
    const int64_t row = task / h->pieces;
    const int64_t first = task % h->pieces * MERGE_PIECE;
    const int64_t last = kin_min_i64(h->job.k, first + MERGE_PIECE);
    char *words = h->words + (uint64_t)thread * h->words_bytes;
    merge_parts(h, row, first, last, words);
    write_words(h, h->first_row + row, first, last - first, words);
    return KITH_OK;
}

static kith_status select_cut(host *h, int64_t batch)
{
    h->pieces = kin_ceil_div(h->job.k, MERGE_PIECE);
    for (h->first_row = 0; h->first_row < h->job.rows; h->first_row += batch) {
        const int64_t rows = kin_min_i64(batch, h->job.rows - h->first_row);
        KIN_TRY(kin_parallel(h->ctx, PHASE, rows * h->runs, select_run, h));
        KIN_TRY(kin_parallel(h->ctx, PHASE, rows * h->pieces, merge_piece, h));
    }
    return KITH_OK;
}

/* ---- Sizes ---------------------------------------------------------------------------------- */

/* How many values a run has: all of the row, where there are enough rows for all threads and a row
 * is not too long. */
static int64_t run_values(const kith_ctx *ctx, const kin_select_job *job)
{
    const int64_t wanted = (int64_t)ctx->threads * PIECES_A_THREAD;
    const int64_t most = job->k < RUN_MOST / RUN_SHARE ? RUN_MOST : RUN_MOST_SORTED;
    int64_t runs = 1;
    if (ctx->threads > 1 && job->rows < wanted) {
        const int64_t share = kin_ceil_div(job->cols, 2 * (int64_t)ctx->threads);
        const int64_t least = kin_max_i64(RUN_LEAST, kin_min_i64(RUN_SHARE * job->k, share));
        runs = kin_max_i64(1, kin_min_i64(kin_ceil_div(wanted, job->rows), job->cols / least));
    }
    runs = kin_max_i64(runs, kin_ceil_div(job->cols, most));
    return runs == 1 ? job->cols : kin_round_up(kin_ceil_div(job->cols, runs), 64);
}

static kith_status take_memory(host *h, int64_t tasks, uint64_t words)
{
    const uint64_t threads = (uint64_t)kin_min_i64(h->ctx->threads, tasks);
    const uint64_t scratch = h->body->scratch_bytes(&h->job, h->run);
    h->scratch_bytes = kin_size_add(scratch, 63) / 64 * 64;
    h->words_bytes = kin_size_add(kin_size_mul(words, (uint64_t)h->word_bytes), 63) / 64 * 64;
    KIN_TRY(kin_alloc(h->ctx, &h->scratch, threads, h->scratch_bytes, "room to select in"));
    return kin_alloc(h->ctx, &h->words, threads, h->words_bytes, "words of selected values");
}

static kith_status prepare_rows(host *h, int64_t *tasks)
{
    const int64_t fair = h->job.rows / ((int64_t)h->ctx->threads * PIECES_A_THREAD);
    h->row_group = kin_max_i64(1, kin_min_i64(ROWS_VALUES / h->job.cols, fair));
    *tasks = kin_ceil_div(h->job.rows, h->row_group);
    return take_memory(h, *tasks, (uint64_t)h->job.k);
}

static kith_status prepare_cut(host *h, int64_t *batch)
{
    h->runs = kin_ceil_div(h->job.cols, h->run);
    h->job.sorted = true; /* merging wants runs that are */
    const int64_t row_words = parted_row_words(h);
    const int64_t fitting = PARTS_BYTES / h->word_bytes / row_words;
    *batch = kin_max_i64(1, kin_min_i64(h->job.rows, fitting));
    KIN_TRY(kin_alloc(h->ctx, &h->parts, kin_size_mul((uint64_t)*batch, (uint64_t)row_words),
                      (uint64_t)h->word_bytes, "words of runs"));
    return take_memory(h, INT64_MAX, (uint64_t)kin_min_i64(h->job.k, MERGE_PIECE));
}

kith_status kin_select_host(kith_ctx *ctx, const kin_select_job *job)
{
    host h = {.ctx = ctx, .job = *job, .word_bytes = kin_word_bytes(job->dtype)};
    kith_status status = KITH_OK;
    h.job.method = kin_select_choose(KIN_SELECT_ON_CPU, job);
    h.body = h.job.method->body(ctx->isa);
    h.run = run_values(ctx, job);
    int64_t count = 0;
    if (h.run == job->cols) {
        status = prepare_rows(&h, &count);
        KIN_THEN(status, kin_parallel(ctx, PHASE, count, select_rows, &h));
    } else {
        status = prepare_cut(&h, &count);
        KIN_THEN(status, select_cut(&h, count));
    }
    kin_free(ctx, h.parts);
    kin_free(ctx, h.scratch);
    kin_free(ctx, h.words);
    return status;
}
