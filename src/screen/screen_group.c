/* SPDX-License-Identifier: Apache-2.0 */
#include "screen/screen_prepare.h"

#include "base/base_size.h"
#include "host/host_threads.h"

/* Idea. Rows are dealt by a hash to buckets whose tables fit into a core's own cache; a thread
 * takes a bucket at a time. Rows rise in each, so that the first that is found of a group is the
 * lowest, whatever the threads.
 *
 *     hashes by row -> counts by chunk and bucket -> (hash, row) by bucket -> first rows
 *
 * Cost. Some 10 ns a row and thread, and the row itself is read once; rows that are equal are
 * compared. */
enum {
    ROWS_A_TASK = 4096,
    LEAST_CHUNK = 16384,
    MOST_CHUNKS = 256,
    ROWS_A_BUCKET = 8192,
    MOST_BUCKETS = 1024
};

typedef struct dealing {
    const kin_rows *rows;
    uint64_t row_bytes;
    int64_t count;
    int64_t chunk;
    int64_t chunks;
    int64_t buckets;
    uint32_t *hashes; /* by row */
    uint64_t *words;  /* hash and row: buckets one behind the other, rows rising in each */
    uint32_t *places; /* by chunk and bucket: rows, then where the next of them goes */
    uint32_t *slots;  /* of all buckets: positions in words */
    uint32_t *firsts; /* by row: the lowest that is equal */
} dealing;

static dealing size_dealing(int64_t rows)
{
    const int64_t chunk = kin_max_i64(LEAST_CHUNK, kin_ceil_div(rows, MOST_CHUNKS));
    return (dealing){.count = rows,
                     .chunk = chunk,
                     .chunks = kin_max_i64(1, kin_ceil_div(rows, chunk)),
                     .buckets = kin_min_i64(1 + rows / ROWS_A_BUCKET, MOST_BUCKETS)};
}

/* A bucket's slots are half as many again as its rows. */
static int64_t slots_before(int64_t rows, int64_t bucket)
{
    return rows + rows / 2 + bucket;
}

static void name_dealing(kin_layout *layout, void *job)
{
    dealing *d = job;
    const uint64_t n = (uint64_t)d->count;
    d->hashes = kin_layout_array(layout, n, sizeof *d->hashes);
    d->words = kin_layout_array(layout, n, sizeof *d->words);
    d->places = kin_layout_zeros(layout, (uint64_t)(d->chunks * d->buckets), sizeof *d->places);
    d->slots =
        kin_layout_array(layout, (uint64_t)slots_before(d->count, d->buckets), sizeof *d->slots);
}

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
static uint32_t hash_bytes(const unsigned char *bytes, uint64_t count)
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
    return (uint32_t)mix(a, b);
}

/* A hash times the buckets: the bucket, and a fraction that says where in it. */
static uint64_t spread(const dealing *d, uint32_t hash)
{
    return (uint64_t)hash * (uint64_t)d->buckets;
}

static kith_status hash_row(void *arg, int64_t row, int32_t thread)
{
    (void)thread;
    const dealing *d = arg;
    d->hashes[row] = hash_bytes(row_of(d->rows, row), d->row_bytes);
    return KITH_OK;
}

static kith_status count_chunk(void *arg, int64_t chunk, int32_t thread)
{
    (void)thread;
    const dealing *d = arg;
    uint32_t *counts = d->places + chunk * d->buckets;
    const int64_t last = kin_min_i64((chunk + 1) * d->chunk, d->count);
    for (int64_t row = chunk * d->chunk; row < last; row++) {
        counts[spread(d, d->hashes[row]) >> 32] += 1;
    }
    return KITH_OK;
}

static void find_places(const dealing *d)
{
    uint32_t place = 0;
    for (int64_t bucket = 0; bucket < d->buckets; bucket++) {
        for (int64_t chunk = 0; chunk < d->chunks; chunk++) {
            uint32_t *count = &d->places[chunk * d->buckets + bucket];
            const uint32_t first = place;
            place += *count;
            *count = first;
        }
    }
}

static kith_status deal_chunk(void *arg, int64_t chunk, int32_t thread)
{
    (void)thread;
    const dealing *d = arg;
    uint32_t *places = d->places + chunk * d->buckets;
    const int64_t last = kin_min_i64((chunk + 1) * d->chunk, d->count);
    for (int64_t row = chunk * d->chunk; row < last; row++) {
        const uint32_t hash = d->hashes[row];
        d->words[places[spread(d, hash) >> 32]++] = (uint64_t)hash << 32 | (uint64_t)row;
    }
    return KITH_OK;
}

/* Where a bucket's rows end in words, when all are dealt. */
static int64_t bucket_end(const dealing *d, int64_t bucket)
{
    return d->places[(d->chunks - 1) * d->buckets + bucket];
}

/* The lowest row equal to that of words[at], among those of its bucket up to it: itself, when it is
 * new. */
static uint32_t enter(const dealing *d, int64_t at, uint32_t *slots, uint64_t size)
{
    const uint32_t hash = (uint32_t)(d->words[at] >> 32);
    const uint32_t row = (uint32_t)d->words[at];
    for (uint64_t i = (uint32_t)spread(d, hash) * size >> 32;; i = i + 1 < size ? i + 1 : 0) {
        if (slots[i] == KITH_ID_NONE) {
            slots[i] = (uint32_t)at;
            return row;
        }
        const uint64_t word = d->words[slots[i]];
        if (word >> 32 == hash && memcmp(row_of(d->rows, (uint32_t)word), row_of(d->rows, row),
                                         (size_t)d->row_bytes) == 0) {
            return (uint32_t)word;
        }
    }
}

/* Degenerate rows, of which many may be equal, are in no group. */
static kith_status find_firsts(void *arg, int64_t bucket, int32_t thread)
{
    (void)thread;
    const dealing *d = arg;
    const kin_row_transform *transforms = d->rows->transforms;
    const int64_t first = bucket > 0 ? bucket_end(d, bucket - 1) : 0;
    const int64_t end = bucket_end(d, bucket);
    uint32_t *slots = d->slots + slots_before(first, bucket);
    const int64_t size = 1 + (end - first) + (end - first) / 2;
    memset(slots, 0xff, (size_t)size * sizeof *slots);
    for (int64_t at = first; at < end; at++) {
        const uint32_t row = (uint32_t)d->words[at];
        if (transforms == NULL || transforms[row].degenerate == 0.0) {
            d->firsts[row] = enter(d, at, slots, (uint64_t)size);
        }
    }
    return KITH_OK;
}

/* ---- Groups of what is known by row ---------------------------------------------------------- */

typedef struct facts {
    bool distinct;                       /* each row is its own; or */
    const uint32_t *firsts;              /* the lowest row that it is equal to */
    const kin_row_transform *transforms; /* NULL, or they say what is degenerate; */
    const uint8_t *degenerate;           /* or these do; NULL */
} facts;

static bool is_degenerate(const facts *k, int64_t row)
{
    return k->transforms != NULL ? k->transforms[row].degenerate != 0.0
                                 : k->degenerate != NULL && k->degenerate[row] != 0;
}

/* What only groups of several rows need, made when the first of them is found. */
static kith_status make_chains(kith_ctx *ctx, uint32_t **last, kin_groups *groups)
{
    const uint64_t n = (uint64_t)groups->rows;
    KIN_TRY(kin_alloc(ctx, &groups->weights, n, sizeof(uint32_t), "groups of equal rows"));
    KIN_TRY(kin_alloc(ctx, &groups->next, n, sizeof(uint32_t), "groups of equal rows"));
    KIN_TRY(kin_alloc(ctx, last, n, sizeof(uint32_t), "groups of equal rows"));
    memset(groups->next, 0xff, (size_t)n * sizeof *groups->next);
    for (uint64_t i = 0; i < n; i++) {
        groups->weights[i] = 1;
        (*last)[i] = (uint32_t)i;
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

/* A row that is not degenerate, after those before it. last: by first, the last id of its group so
 * far; NULL while all are alone. */
static kith_status add_row(kith_ctx *ctx, uint32_t **last, uint32_t row, uint32_t first,
                           kin_groups *groups)
{
    if (first == row) {
        groups->firsts[groups->count++] = row;
        return KITH_OK;
    }
    if (*last == NULL) {
        KIN_TRY(make_chains(ctx, last, groups));
    }
    groups->next[(*last)[first]] = row;
    groups->weights[first] += 1;
    (*last)[first] = row;
    return KITH_OK;
}

/* What is known may stand where firsts go: a row is read before its group is written, which stands
 * no later. */
static kith_status collect(kith_ctx *ctx, const facts *k, kin_groups *groups)
{
    uint32_t *last = NULL;
    kith_status status = KITH_OK;
    for (int64_t i = 0; status == KITH_OK && i < groups->rows; i++) {
        const uint32_t row = (uint32_t)i;
        status = is_degenerate(k, i)
                     ? note_degenerate(ctx, row, groups)
                     : add_row(ctx, &last, row, k->distinct ? row : k->firsts[i], groups);
    }
    kin_free(ctx, last);
    return status;
}

static kith_status find_equal(kith_ctx *ctx, const kin_rows *rows, uint32_t *firsts)
{
    dealing d = size_dealing(rows->matrix.rows);
    d.rows = rows;
    d.row_bytes = (uint64_t)rows->matrix.cols * (uint64_t)kith_dtype_bytes(rows->matrix.dtype);
    d.firsts = firsts;
    KIN_HOLD(hold, ctx);
    KIN_TRY(kin_hold_layout(&hold, name_dealing, &d, "rows by their hashes"));
    KIN_TRY(kin_parallel_rows(ctx, "prepare", d.count, ROWS_A_TASK, hash_row, &d));
    KIN_TRY(kin_parallel(ctx, "prepare", d.chunks, count_chunk, &d));
    find_places(&d);
    KIN_TRY(kin_parallel(ctx, "prepare", d.chunks, deal_chunk, &d));
    return kin_parallel(ctx, "prepare", d.buckets, find_firsts, &d);
}

static kith_status make_groups(kith_ctx *ctx, const facts *k, const kin_rows *rows,
                               kin_groups *groups)
{
    facts all = *k;
    uint32_t *firsts = NULL;
    KIN_TRY(kin_alloc(ctx, &firsts, (uint64_t)groups->rows, sizeof *firsts, "distinct rows"));
    groups->firsts = firsts;
    kith_status status = KITH_OK;
    if (rows != NULL) {
        all.firsts = firsts;
        status = find_equal(ctx, rows, firsts);
    }
    KIN_THEN(status, collect(ctx, &all, groups));
    if (status != KITH_OK) {
        kin_groups_free(ctx, groups);
    }
    return status;
}

kith_status kin_groups_make(kith_ctx *ctx, const kin_rows *rows, bool distinguish,
                            kin_groups *groups)
{
    *groups = (kin_groups){.rows = rows->matrix.rows};
    return make_groups(ctx, &(facts){.distinct = distinguish, .transforms = rows->transforms},
                       distinguish ? NULL : rows, groups);
}

kith_status kin_groups_of_firsts(kith_ctx *ctx, int64_t rows, const uint32_t *firsts,
                                 const uint8_t *degenerate, kin_groups *groups)
{
    *groups = (kin_groups){.rows = rows};
    return make_groups(
        ctx, &(facts){.distinct = firsts == NULL, .firsts = firsts, .degenerate = degenerate}, NULL,
        groups);
}

void kin_groups_free(kith_ctx *ctx, kin_groups *groups)
{
    kin_free(ctx, groups->degenerates);
    kin_free(ctx, groups->next);
    kin_free(ctx, groups->weights);
    kin_free(ctx, groups->firsts);
    memset(groups, 0, sizeof *groups);
}

void kin_groups_plan(kin_layout *plan, int64_t rows, bool distinguish, kin_rows_known known)
{
    const uint64_t n = (uint64_t)rows;
    const bool chains = known.equal && !distinguish;
    dealing d = size_dealing(rows);
    kin_layout_alone(plan, n, sizeof(uint32_t)); /* firsts */
    if (!distinguish) {
        kin_layout_passing(plan, name_dealing, &d);
    }
    for (int chain = 0; chains && chain < 2; chain++) {
        kin_layout_alone(plan, n, sizeof(uint32_t));
    }
    if (known.degenerate) {
        kin_layout_alone(plan, n, sizeof(uint32_t));
    }
    if (chains) {
        const uint64_t kept = kin_layout_mark(plan);
        kin_layout_alone(plan, n, sizeof(uint32_t)); /* last */
        kin_layout_back(plan, kept);
    }
}
