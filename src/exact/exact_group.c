/* SPDX-License-Identifier: Apache-2.0 */
#include "exact/exact_prepare.h"

#include "base/base_size.h"
#include "host/host_threads.h"

enum { ROWS_A_TASK = 4096 };

typedef struct hashing {
    const kin_rows *rows;
    uint64_t row_bytes;
    uint64_t *hashes;
} hashing;

static const unsigned char *row_of(const kin_rows *rows, int64_t row)
{
    const unsigned char *data = rows->matrix.data;
    return data + row * rows->matrix.stride_bytes;
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    const unsigned __int128 product = (unsigned __int128)(a ^ 0x9e3779b97f4a7c15u) * (b | 1);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Two independent chains, so that the multiplier is busy. Equal bytes give equal hashes; a
 * collision costs a comparison, not an answer. */
static uint64_t hash_bytes(const unsigned char *bytes, uint64_t count)
{
    uint64_t a = 0xd6e8feb86659fd93u;
    uint64_t b = 0xa0761d6478bd642fu;
    uint64_t words[2];
    uint64_t i = 0;
    for (; i + sizeof words <= count; i += sizeof words) {
        memcpy(words, bytes + i, sizeof words);
        a = mix(a, words[0]) + words[0];
        b = mix(b, words[1]) + words[1];
    }
    memset(words, 0, sizeof words);
    memcpy(words, bytes + i, (size_t)(count - i));
    a = mix(a, words[0] ^ count);
    b = mix(b, words[1]);
    return mix(a, b);
}

static kith_status hash_rows(void *arg, int64_t row, int32_t thread)
{
    (void)thread;
    const hashing *h = arg;
    h->hashes[row] = hash_bytes(row_of(h->rows, row), h->row_bytes);
    return KITH_OK;
}

static bool is_degenerate(const kin_rows *rows, int64_t row)
{
    return rows->transforms != NULL && rows->transforms[row].degenerate != 0.0;
}

/* An open table of firsts, at most half full. Rows are entered in rising id, so that the first that
 * is found is the lowest. */
typedef struct table {
    uint32_t *slots;
    uint64_t mask;
    uint32_t *last; /* by first: the last id of its group so far; NULL while all are alone */
} table;

static uint64_t table_slots(int64_t rows)
{
    uint64_t slots = 16;
    while (slots < 2 * (uint64_t)rows) {
        slots *= 2;
    }
    return slots;
}

/* The group of a row: its first, which is the row itself when it is new. */
static uint32_t enter(const table *t, const hashing *h, uint32_t row)
{
    for (uint64_t at = h->hashes[row] & t->mask;; at = (at + 1) & t->mask) {
        const uint32_t first = t->slots[at];
        if (first == KITH_ID_NONE) {
            t->slots[at] = row;
            return row;
        }
        if (h->hashes[first] == h->hashes[row] &&
            memcmp(row_of(h->rows, first), row_of(h->rows, row), (size_t)h->row_bytes) == 0) {
            return first;
        }
    }
}

/* Where rows are entered one after the other, each waits for its slot: it is asked for this many
 * rows before. */
enum { ROWS_AHEAD = 16 };

static void ask_ahead(const table *t, const hashing *h, int64_t row)
{
    if (row + ROWS_AHEAD < h->rows->matrix.rows) {
        __builtin_prefetch(&t->slots[h->hashes[row + ROWS_AHEAD] & t->mask], 1);
    }
}

/* What only groups of several rows need, made when the first of them is found. */
static kith_status make_chains(kith_ctx *ctx, table *t, kin_groups *groups)
{
    const uint64_t n = (uint64_t)groups->rows;
    KIN_TRY(kin_alloc(ctx, &groups->weights, n, sizeof(uint32_t), "groups of equal rows"));
    KIN_TRY(kin_alloc(ctx, &groups->next, n, sizeof(uint32_t), "groups of equal rows"));
    KIN_TRY(kin_alloc(ctx, &t->last, n, sizeof(uint32_t), "groups of equal rows"));
    memset(groups->next, 0xff, (size_t)n * sizeof *groups->next);
    for (uint64_t i = 0; i < n; i++) {
        groups->weights[i] = 1;
        t->last[i] = (uint32_t)i;
    }
    return KITH_OK;
}

static kith_status note_degenerate(kith_ctx *ctx, uint32_t row, kin_groups *groups)
{
    if (groups->degenerates == NULL) {
        KIN_TRY(kin_alloc(ctx, &groups->degenerates, (uint64_t)groups->rows, sizeof(uint32_t),
                          "degenerate rows"));
    }
    groups->degenerates[groups->degenerate++] = row;
    return KITH_OK;
}

/* A row that is not degenerate, after those before it. */
static kith_status add_row(kith_ctx *ctx, table *t, uint32_t row, uint32_t first,
                           kin_groups *groups)
{
    if (first == row) {
        groups->firsts[groups->count++] = row;
        return KITH_OK;
    }
    if (t->last == NULL) {
        KIN_TRY(make_chains(ctx, t, groups));
    }
    groups->next[t->last[first]] = row;
    groups->weights[first] += 1;
    t->last[first] = row;
    return KITH_OK;
}

static kith_status collect(kith_ctx *ctx, const hashing *h, table *t, kin_groups *groups)
{
    for (int64_t i = 0; i < groups->rows; i++) {
        const uint32_t row = (uint32_t)i;
        ask_ahead(t, h, i);
        if (is_degenerate(h->rows, i)) {
            KIN_TRY(note_degenerate(ctx, row, groups));
            continue;
        }
        KIN_TRY(add_row(ctx, t, row, enter(t, h, row), groups));
    }
    return KITH_OK;
}

/* Every row that is not degenerate is a group. */
static kith_status list_rows(kith_ctx *ctx, const kin_rows *rows, kin_groups *groups)
{
    for (int64_t i = 0; i < groups->rows; i++) {
        if (is_degenerate(rows, i)) {
            KIN_TRY(note_degenerate(ctx, (uint32_t)i, groups));
        } else {
            groups->firsts[groups->count++] = (uint32_t)i;
        }
    }
    return KITH_OK;
}

static kith_status find_groups(kith_ctx *ctx, hashing *h, table *t, kin_groups *groups)
{
    const uint64_t slots = table_slots(groups->rows);
    KIN_TRY(kin_alloc(ctx, &h->hashes, (uint64_t)groups->rows, sizeof(uint64_t), "hashes of rows"));
    KIN_TRY(kin_alloc(ctx, &t->slots, slots, sizeof(uint32_t), "a table of rows"));
    t->mask = slots - 1;
    memset(t->slots, 0xff, (size_t)slots * sizeof *t->slots);
    KIN_TRY(kin_parallel_rows(ctx, "prepare", groups->rows, ROWS_A_TASK, hash_rows, h));
    return collect(ctx, h, t, groups);
}

kith_status kin_groups_make(kith_ctx *ctx, const kin_rows *rows, bool distinguish,
                            kin_groups *groups)
{
    *groups = (kin_groups){.rows = rows->matrix.rows};
    hashing h = {.rows = rows,
                 .row_bytes =
                     (uint64_t)rows->matrix.cols * (uint64_t)kith_dtype_bytes(rows->matrix.dtype)};
    table t = {0};
    kith_status status =
        kin_alloc(ctx, &groups->firsts, (uint64_t)groups->rows, sizeof(uint32_t), "distinct rows");
    KIN_THEN(status, distinguish ? list_rows(ctx, rows, groups) : find_groups(ctx, &h, &t, groups));
    kin_free(ctx, t.slots);
    kin_free(ctx, h.hashes);
    kin_free(ctx, t.last);
    if (status != KITH_OK) {
        kin_groups_free(ctx, groups);
    }
    return status;
}

kith_status kin_groups_of_firsts(kith_ctx *ctx, int64_t rows, const uint32_t *firsts,
                                 const uint8_t *degenerate, kin_groups *groups)
{
    table t = {0};
    *groups = (kin_groups){.rows = rows};
    kith_status status =
        kin_alloc(ctx, &groups->firsts, (uint64_t)rows, sizeof *groups->firsts, "distinct rows");
    for (int64_t i = 0; status == KITH_OK && i < rows; i++) {
        const uint32_t row = (uint32_t)i;
        status = degenerate != NULL && degenerate[i] != 0
                     ? note_degenerate(ctx, row, groups)
                     : add_row(ctx, &t, row, firsts != NULL ? firsts[i] : row, groups);
    }
    kin_free(ctx, t.last);
    if (status != KITH_OK) {
        kin_groups_free(ctx, groups);
    }
    return status;
}

void kin_groups_free(kith_ctx *ctx, kin_groups *groups)
{
    kin_free(ctx, groups->degenerates);
    kin_free(ctx, groups->next);
    kin_free(ctx, groups->weights);
    kin_free(ctx, groups->firsts);
    memset(groups, 0, sizeof *groups);
}

static void plan_kept(kin_layout *plan, uint64_t n, kin_rows_known known)
{
    kin_layout_alone(plan, n, sizeof(uint32_t)); /* firsts */
    for (int chain = 0; known.equal && chain < 2; chain++) {
        kin_layout_alone(plan, n, sizeof(uint32_t));
    }
    if (known.degenerate) {
        kin_layout_alone(plan, n, sizeof(uint32_t));
    }
}

void kin_groups_plan(kin_layout *plan, int64_t rows, bool distinguish, kin_rows_known known)
{
    const uint64_t n = (uint64_t)rows;
    known.equal = known.equal && !distinguish;
    plan_kept(plan, n, known);
    if (distinguish) {
        return;
    }
    const uint64_t kept = kin_layout_mark(plan);
    kin_layout_alone(plan, n, sizeof(uint64_t));
    kin_layout_alone(plan, table_slots(rows), sizeof(uint32_t));
    if (known.equal) {
        kin_layout_alone(plan, n, sizeof(uint32_t)); /* last */
    }
    kin_layout_back(plan, kept);
}
