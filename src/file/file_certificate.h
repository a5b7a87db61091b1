/* SPDX-License-Identifier: Apache-2.0
 * What a ground truth says about itself: a JSON object beside it, one fact a line, always in the
 * same order, so that equal truths have equal certificates; docs/format.md has an example. This
 * file is short because a certificate is facts, and nothing is done with them but writing and
 * reading. */
#ifndef KIN_FILE_CERTIFICATE_H
#define KIN_FILE_CERTIFICATE_H

#include "base/base_ctx.h"

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
    int64_t full; /* as of kith_truth_report */
    int64_t tied;
    int64_t tied_beyond;
    int64_t most_ties;
    int64_t found; /* of a radius instead of these four */
    int64_t most_found;
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

#endif
