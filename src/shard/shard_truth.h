/* SPDX-License-Identifier: Apache-2.0
 * Ground truth of a corpus that fits in no memory (kith_truth.h): what the job is, its lists, its
 * state on disk, and the plain reference by which it is verified. */
#ifndef KIN_SHARD_TRUTH_H
#define KIN_SHARD_TRUTH_H

#include "file/file_checksum.h"
#include "metric/metric.h"

#include <math.h>

/* How far the corpus is done: what is stored of it beside the lists. */
typedef struct kin_truth_progress {
    int32_t matrix; /* the one at work; the number of matrices: all are done */
    int32_t reserved;
    int64_t row;   /* its first row that is not done */
    int64_t first; /* the same, of the whole corpus */
    kin_fingerprint_sum sum;
    kin_fingerprint_sum whole; /* of all matrices as one, where they are of one type */
} kin_truth_progress;

/* Keys are canonical; inner_product and euclidean are asked for in the metric whose distances are
 * keys, or their negatives: see shard_job.h. */
typedef struct kin_truth {
    kith_ctx *ctx;
    kith_truth_params params; /* as this library knows them */
    kith_metric metric;       /* the caller's */
    kin_distance distance;    /* of keys */
    int64_t k;
    int32_t count;
    kith_matrix *corpus; /* strides are told */
    kith_matrix queries;
    bool filters;
    kith_filter filter;
    int64_t rows; /* of the corpus */
    bool ranged;  /* all rows within the radius, by lists of different lengths; k is 0 */
    double reach; /* the radius in the metric of `distance` */

    uint64_t *ids; /* queries x k, ascending by (key, id); KITH_ID64_NONE at key infinity */
    double *keys;
    int64_t *offsets; /* of lists of a radius: queries + 1; all zero else */
    void *lists;      /* theirs: ids and keys */
    int64_t *ties;    /* as near as the k-th, of the rows that are done; 0: the list is not full */
    uint64_t *sums;   /* of the matrices that are done */
    bool alike;       /* they are of one type, and as one they would be a matrix */
    kin_truth_progress progress;
    kith_matrix next; /* the part behind the one at work; data NULL: none, or not known */
    int64_t fits;     /* rows of a part for which there was memory, when there was none for more */
    void *block;
    kith_fingerprint asked; /* of the queries */
    uint64_t filter_sum;
    kith_truth_report report;
} kin_truth;

/* ---- Lists (shard_truth_lists.c) ------------------------------------------------------------- */

/* Rows of the corpus that were searched: of each query the `wide` nearest. */
typedef struct kin_truth_part {
    kith_matrix rows;
    int64_t first; /* of the whole corpus */
    int64_t wide;  /* at least k, or all rows */
    kith_neighbors found;
    kith_ranges *ranges; /* of a radius instead */
    kith_filter filter;  /* of these rows, where the job filters; for the search alone */
} kin_truth_part;

/* Entries beside k that a search is asked for, so that ties mostly end within them. */
enum { KIN_TRUTH_MARGIN = 16 };

void kin_truth_clear(const kin_truth *truth);
/* Merges what was found into the lists, and counts ties. */
kith_status kin_truth_take(kin_truth *truth, const kin_truth_part *part);
/* What the report says of ties, of lists that are done. */
void kin_truth_count(kin_truth *truth);

static inline bool kin_truth_negates(const kin_truth *truth)
{
    return truth->metric == KITH_INNER_PRODUCT;
}

/* As kith_search tells it. */
static inline double kin_truth_distance(const kin_truth *truth, uint64_t id, double key)
{
    const double none = kin_truth_negates(truth) ? -INFINITY : INFINITY;
    return id == KITH_ID64_NONE ? none : kin_metric_distance(truth->metric, key);
}

/* ---- The plain reference (shard_truth_lists.c) ----------------------------------------------- */

/* Told of keys of a query, an index into those that were asked, and rows of the corpus from `first`
 * on. Called by several threads, never for the same query by two. */
typedef void kin_truth_hear(void *arg, int64_t query, int64_t first, const double *keys,
                            int64_t count);
/* Canonical keys of these queries and all rows of the corpus, by rising rows. */
kith_status kin_truth_compare_all(kin_truth *truth, const uint32_t *queries, int64_t count,
                                  kin_truth_hear *hear, void *arg);
/* Whether the filter lets a query have a row; both as the filter counts them. */
bool kin_truth_allows(const kith_filter *filter, int64_t query, int64_t row);

/* ---- Lists within a radius (shard_truth_range.c) --------------------------------------------- */

/* What params say of a radius; behind metric, before k. */
kith_status kin_truth_check_radius(kin_truth *truth);
/* Whether a path is .range, else .kith. */
bool kin_truth_is_range(const char *path);
/* Room for ids and keys of as many entries as the offsets say. */
kith_status kin_truth_reserve(kin_truth *truth);
kith_status kin_truth_take_ranges(kin_truth *truth, const kin_truth_part *part);
void kin_truth_count_ranges(kin_truth *truth);
/* KITH_E_FORMAT where they do not rise. */
kith_status kin_truth_check_offsets(const kin_truth *truth, const char *path);
kith_status kin_truth_make_ranges(const kin_truth *truth, kith_ranges **out);
kith_status kin_truth_save_ranges(const kin_truth *truth, const kith_result_meta *meta);
/* The file's lists of some queries, computed anew. */
kith_status kin_truth_hold_ranges(kin_truth *truth, int64_t sample);

/* ---- Files (shard_truth_save.c) -------------------------------------------------------------- */

/* Which job it is, in lines, of kin_alloc. */
kith_status kin_truth_describe(kin_truth *truth, char **text);
/* Lists and progress of an earlier call, where there are some. */
kith_status kin_truth_resume(kin_truth *truth, const char *text);
kith_status kin_truth_store(const kin_truth *truth, const char *text);
/* KITH_E_ARGUMENT for a path that cannot take the answer; before the work. */
kith_status kin_truth_check_path(const kin_truth *truth);
/* Truth, ties and certificate. */
kith_status kin_truth_save(const kin_truth *truth);
/* The state goes. */
kith_status kin_truth_clean(const kin_truth *truth);
/* The arrays of the caller. */
void kin_truth_hand_over(const kin_truth *truth);

/* ---- The certificate (shard_truth_certificate.c) --------------------------------------------- */

/* What a ground truth says about itself: a JSON object beside it, one fact a line, always in the
 * same order, so that equal truths have equal certificates; docs/format.md has an example. */

enum { KIN_VERSION_BYTES = 32 };

/* Points that the truth was made of; name NULL: they were no file's. */
typedef struct kin_certified_points {
    const char *name;
    kith_fingerprint points;
} kin_certified_points;

/* A file that was written; name NULL: none was. */
typedef struct kin_certified_file {
    const char *name; /* as it was given */
    uint64_t bytes;
    uint64_t checksum; /* of all of them */
} kin_certified_file;

typedef struct kin_certificate {
    char library[KIN_VERSION_BYTES];
    kith_metric metric;
    kith_format format; /* of lists within a radius 0: .range */
    bool ids64;         /* the output is an array of int64, */
    bool hdf5;          /* or ann-benchmarks' file */
    bool ranged;        /* of a radius; k is 0 then */
    double radius;
    int64_t k;
    uint64_t first_id;
    kith_rule rule;
    bool filters;
    uint64_t filter; /* checksum of its bitmaps and groups */
    kin_certified_points queries;
    int32_t count;
    kin_certified_points *corpus;
    kin_certified_file output;
    kin_certified_file ties;
    kith_truth_report
        counts;  /* full, tied, tied_beyond, most_ties; of a radius found, most_found */
    void *block; /* of one that was read */
    void *names;
} kin_certificate;

/* TARGET.json, of kin_alloc. */
kith_status kin_certificate_path(kith_ctx *ctx, const char *target, char **path);
kith_status kin_certificate_save(kith_ctx *ctx, const char *path,
                                 const kin_certificate *certificate);
/* KITH_E_FORMAT for what is none. Freed on failure. */
kith_status kin_certificate_open(kith_ctx *ctx, const char *path, kin_certificate *certificate);
void kin_certificate_free(kith_ctx *ctx, kin_certificate *certificate);
/* Bytes and checksum of the file that `file` names. */
kith_status kin_certified_measure(kith_ctx *ctx, kin_certified_file *file);

/* ---- The job (shard_truth_verify.c) ---------------------------------------------------------- */

/* Checks what t->params and the points are; they stay the caller's. */
kith_status kin_truth_begin(kin_truth *truth, const kith_matrix *corpus, int32_t count,
                            const kith_matrix *queries);

/* ---- Verification (shard_truth_verify.c) ----------------------------------------------------- */

/* count 0: the points are those of the files that the certificate names. */
kith_status kin_truth_verify(kin_truth *truth, const kith_matrix *corpus, int32_t count,
                             const kith_matrix *queries);

#endif
