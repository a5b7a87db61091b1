/* SPDX-License-Identifier: Apache-2.0
 * Few queries against a corpus that is kept. Whoever asks one question waits for memory: the
 * rounded rows are read once, whole. A *glance* reads shadows of bytes (exact_corpus.h) in their
 * place, a fourth of it or less, and what they cannot discard gets its canonical key. */
#ifndef KIN_EXACT_GLANCE_H
#define KIN_EXACT_GLANCE_H

#include "exact/exact_corpus.h"
#include "exact/exact_request.h"

/* Shadows for a job of few queries, where a trial says that they are worth it, and there is memory;
 * a corpus that has them is searched with or without. After kin_prepare_corpus. Shadows that are
 * given are of kin_tile_s8_portable. */
kith_status kin_glance_make(kith_ctx *ctx, const kin_shadow_job *job, kin_prepared *prepared);

/* Whether so many queries are best answered at a glance. */
bool kin_glance_suits(const kin_prepared *corpus, const kin_request *request, int64_t queries);

/* After kin_prepare_rows of the queries. Of any type, whatever that of the corpus. */
kith_status kin_glance_search(kith_ctx *ctx, const kin_prepared *corpus, kin_prepared *queries,
                              const kin_request *request, const kith_neighbors *out);

/* ---- Products (exact_glance_body.inc) ---------------------------------------------------------
 *
 * acc = product + start, as exact_tile.h has it for s8. A query is a table: of each group two words
 * of two s16, its bytes 0 and 2, and 1 and 3; so are a panel's bytes taken, as u8 in s16. */
typedef struct kin_glance_scan {
    const uint32_t *panels; /* from the first of them on */
    const kin_word *start;
    int64_t count; /* of panels */
    int32_t groups;
    const uint32_t *tables; /* 2 * groups words a query */
    int32_t queries;
    int32_t *most;  /* out: the largest acc of each panel, for each query */
    int64_t stride; /* from a query's to the next one's */
} kin_glance_scan;

typedef struct kin_glance_ops {
    void (*scan)(const kin_glance_scan *scan);
    /* All accs of the first panel, for the first query. */
    void (*look)(const kin_glance_scan *scan, int32_t acc[KIN_PANEL]);
} kin_glance_ops;

extern const kin_glance_ops kin_glance_ops_portable;
extern const kin_glance_ops kin_glance_ops_avx2;

const kin_glance_ops *kin_glance_get(kin_isa isa);

#endif
