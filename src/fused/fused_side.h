/* SPDX-License-Identifier: Apache-2.0
 * One side of a search, its answers in a corpus: what graph, search and chunks have in common. */
#ifndef KIN_FUSED_SIDE_H
#define KIN_FUSED_SIDE_H

#include "base/base_size.h"
#include "fused/fused_answer.h"
#include "fused/fused_prepare.h"

/* A corpus whose set is in device memory, and what one-sided screens read of it. */
struct kin_fused_corpus {
    kin_gpu *gpu;
    kith_matrix points; /* borrowed where `place` says that it lies on the device */
    kin_distance distance;
    uint32_t place;
    kin_fused_prepared prepared;
    kin_fused_worst *worst; /* of its tiles */
    uint32_t *tiles;        /* all, for small batches (fused_batch.h) */
    kin_fused_unit *units;
    uint32_t batch_units;
};

/* Whether a job goes through the screen: its metric does, k is within the lists' reach, and there
 * is enough to screen. */
bool kin_fused_screens(const kin_request *request, int64_t corpus_rows, int64_t query_rows);

/* Queries, what is asked about them, and where the answers go. */
typedef struct kin_fused_asking {
    const kith_matrix *queries;
    const char *name; /* of the queries in messages */
    const kin_request *request;
    uint32_t place;
    const kith_neighbors *out;
} kin_fused_asking;

/* The screened lists of all positions of `queries` among those of `corpus`, to a. Many queries are
 * put into the order of the corpus first. */
kith_status kin_fused_screen_side(kin_fused_answers *a, const kin_fused_corpus *corpus,
                                  kin_fused_prepared *queries, const kin_request *request);

/* All queries, in stripes that fit: prepared, screened or computed directly, written. */
kith_status kin_fused_search_stripes(kith_ctx *ctx, const kin_fused_corpus *corpus,
                                     const kin_fused_asking *asking, kin_fused_tally *tally);

/* Rows that are solved in stripes. solve: rows first .. first + count - 1; the `next` ones behind
 * them may be brought to the device meanwhile (kin_fused_prepare_ahead). */
typedef struct kin_fused_stripes {
    kith_ctx *ctx;
    kin_gpu *gpu;
    int64_t rows;
    int64_t stripe; /* rows at a time */
    bool ahead;
    kith_status (*solve)(void *arg, int64_t first, int64_t count, int64_t next);
    void *arg;
} kin_fused_stripes;

/* A stripe that ran out of device memory is taken again without the next one's rows beside it, then
 * in halves: what the budget promised may be held by others. */
kith_status kin_fused_each_stripe(const kin_fused_stripes *all);

/* Corpora that do not fit: in chunks, lists merged. queries NULL: a graph. */
kith_status kin_fused_search_chunks(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *corpus,
                                    const kith_matrix *queries, const kin_request *request,
                                    uint32_t place, const kith_neighbors *out);

/* Rows first .. first + count - 1 of outputs or of a matrix. */
kith_neighbors kin_fused_rows_of(const kith_neighbors *out, int64_t first, int64_t count);
kith_matrix kin_fused_part_of(const kith_matrix *matrix, int64_t first, int64_t count);

/* Blocks of device memory are rounded up: small ones to powers of two, large ones to 2 MiB. */
static inline uint64_t kin_fused_with_slack(uint64_t bytes)
{
    const uint64_t most = 24u << 20;
    return kin_size_add(bytes, bytes < most ? bytes : most);
}

/* Whether a job that ended with `status` is to be done once more: it ran out of device memory, and
 * its parts can adapt to less of it. Otherwise the next job finds all of it again. */
bool kin_fused_again(kith_ctx *ctx, kin_gpu *gpu, kith_status status);

/* The least that a stripe of queries, or a chunk of a corpus, is cut down to. */
enum { KIN_FUSED_LEAST_ROWS = 256 };

static inline int64_t kin_fused_halved(int64_t rows)
{
    return kin_round_up(kin_ceil_div(rows, 2), KIN_FUSED_LEAST_ROWS);
}

/* Queries and the corpus, or the chunk of it, that they meet. */
typedef struct kin_fused_meeting {
    const kith_matrix *queries; /* NULL: the corpus' own points, which lie there */
    const kin_request *request;
    uint32_t place;
    const kin_gpu *gpu; /* whose methods of selection tell what they take */
    kith_dtype corpus_dtype;
    int64_t corpus_rows;
    bool screens; /* kin_fused_screens of the whole job */
} kin_fused_meeting;

/* Device memory that a stripe of `count` queries takes beside the corpus at most, where so much
 * room is left: the queries, their answers, the work. */
uint64_t kin_fused_stripe_bytes(const kin_fused_meeting *meeting, int64_t count, uint64_t room);

/* Rows as they are given, which are brought to the device while others are worked on. */
static inline uint64_t kin_fused_ahead_bytes(const kith_matrix *matrix, int64_t rows)
{
    return kin_size_mul((uint64_t)rows,
                        (uint64_t)matrix->cols * (uint64_t)kith_dtype_bytes(matrix->dtype));
}

/* Queries of a stripe, where so much room is left beside the corpus: all, or as many as fit; ahead:
 * beside the rows of as many more, which come next. */
int64_t kin_fused_stripe_rows(const kin_fused_meeting *meeting, uint64_t room, uint64_t scope,
                              bool ahead);

/* A job whose corpus does not fit. */
typedef struct kin_fused_chunked {
    const kith_matrix *corpus;
    kin_fused_meeting meeting; /* corpus_rows is not read */
    uint64_t room;             /* before the first chunk */
    uint64_t scope;
    int64_t chunk;  /* rows of the corpus at a time */
    int64_t stripe; /* queries at a time */
    bool ahead;     /* in: may the next ones' rows come meanwhile? out: they find room, too */
} kin_fused_chunked;

/* Sets chunk, stripe and ahead; the second with chunks of so many rows. */
void kin_fused_cut_chunks(kin_fused_chunked *chunked);
void kin_fused_cut_stripes(kin_fused_chunked *chunked, int64_t rows);

/* Sums become the context's report. */
void kin_fused_report(kith_ctx *ctx, const kin_fused_prepared *corpus, const kin_fused_tally *tally,
                      int64_t rows);

#endif
