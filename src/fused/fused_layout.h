/* SPDX-License-Identifier: Apache-2.0
 * Which way a job takes, and what it takes of a device's memory: the same sums for the drivers,
 * which cut their stripes and chunks by them, and for plans. */
#ifndef KIN_FUSED_NEED_H
#define KIN_FUSED_NEED_H

#include "base/base_size.h"
#include "exact/exact_search.h"
#include "gpu/gpu.h"

/* Whether a job goes through the screen: its metric does, k is within the lists' reach, and there
 * is enough to screen. */
bool kin_fused_screens(const kin_request *request, int64_t corpus_rows, int64_t query_rows);

/* Whether a search, or both directions of one, is divided: there is a team, and rows for it. */
bool kin_fused_team_searches(const kin_gpu *gpu, int64_t queries, uint32_t place);
/* Fewer rows a member are nearly all in the seeds of a graph. */
enum { KIN_FUSED_TEAM_ROWS = 1024 };
/* Whether a graph is divided: pairs of blocks, each of which serves both ends. */
bool kin_fused_team_graphs(const kin_gpu *gpu, const kith_matrix *points,
                           const kin_request *request, uint32_t place);

/* Blocks of device memory are rounded up: small ones by a quarter, large ones to 2 MiB. */
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

/* Device memory: what a job wants at its best, and the least it runs in, by its pipeline; gpu is
 * the device that it would run on. queries NULL: a graph. */
typedef struct kin_fused_need {
    uint64_t whole_bytes;  /* everything resident */
    uint64_t least_bytes;  /* smallest batches */
    int64_t corpus_chunks; /* batches within the budget of gpu */
    int64_t query_stripes;
    uint64_t host_bytes; /* of a pipeline's batches within the budget, pinned memory with it */
} kin_fused_need;
kin_fused_need kin_fused_plan_need(const kith_matrix *corpus, const kith_matrix *queries,
                                   const kin_request *request, const kin_gpu *gpu, int32_t threads);

#endif
