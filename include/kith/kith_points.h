/* SPDX-License-Identifier: Apache-2.0
 *
 * The course of kith.h goes on: points from files and to files, and results that are written in
 * pieces, for chapter 9. kith.h includes this file, nobody else needs to. */
#include "kith/kith.h" /* before the guard: headers behind this one need its types */

#ifndef KITH_KITH_POINTS_H
#define KITH_KITH_POINTS_H

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Files ---------------------------------------------------------------------------------- */

/* What a file may be to kith. */
enum {
    KITH_FILE_POINTS_IN = 1, /* points, labels (one column), values that are selected from */
    KITH_FILE_POINTS_OUT = 2,
    KITH_FILE_LISTS_IN = 4, /* k neighbours a row */
    KITH_FILE_LISTS_OUT = 8,
    KITH_FILE_RANGES_OUT = 16, /* lists of different lengths */
    KITH_FILE_PIECES = 32,     /* lists are put piece after piece, and an interrupted job goes on */
    KITH_FILE_CLAIMS = 64,     /* lists say their metric, of which points they are, whether exact */
    KITH_FILE_PIPE = 128,      /* points from the first byte to the last: out of a pipe, too */
    KITH_FILE_TEXT = 256       /* which has a header and columns with names */
};
#define KITH_FILE_POINTS (KITH_FILE_POINTS_IN | KITH_FILE_POINTS_OUT)
#define KITH_FILE_LISTS (KITH_FILE_LISTS_IN | KITH_FILE_LISTS_OUT | KITH_FILE_PIECES)
#define KITH_FILE_WORDS                                                         \
    (KITH_FILE_POINTS | KITH_FILE_PIPE | KITH_FILE_TEXT | KITH_FILE_LISTS_OUT | \
     KITH_FILE_RANGES_OUT)

/* The formats of files, by their extension: NAME, extension, others that are read, what it may be,
 * kind and bytes of its values where the format says them ('f' float, 'i' signed, 'u' unsigned
 * integer), layout. All lists of formats are made of these rows. */
#define KITH_FILE_MAP(X)                                                                    \
    X(NPZ, "npz", "", KITH_FILE_LISTS | KITH_FILE_CLAIMS | KITH_FILE_RANGES_OUT, 0, 0, npz) \
    X(FVECS, "fvecs", "", KITH_FILE_POINTS, 'f', 4, vecs)                                   \
    X(BVECS, "bvecs", "", KITH_FILE_POINTS, 'u', 1, vecs)                                   \
    X(IVECS, "ivecs", "", KITH_FILE_POINTS | KITH_FILE_LISTS, 'i', 4, vecs)                 \
    X(FBIN, "fbin", "", KITH_FILE_POINTS, 'f', 4, bin)                                      \
    X(U8BIN, "u8bin", "", KITH_FILE_POINTS, 'u', 1, bin)                                    \
    X(I8BIN, "i8bin", "", KITH_FILE_POINTS, 'i', 1, bin)                                    \
    X(IBIN, "ibin", "", KITH_FILE_POINTS | KITH_FILE_LISTS, 'i', 4, bin)                    \
    X(KNN, "knn", "", KITH_FILE_LISTS, 0, 0, knn)                                           \
    X(RANGE, "range", "rangeres", KITH_FILE_RANGES_OUT, 0, 0, range)                        \
    X(NPY, "npy", "", KITH_FILE_POINTS | KITH_FILE_PIPE, 0, 0, npy)                         \
    X(HDF5, "hdf5", "h5 h5ad", KITH_FILE_POINTS_IN, 0, 0, hdf5)                             \
    X(CSV, "csv", "txt csv.gz txt.gz", KITH_FILE_WORDS, 'f', 8, text)                       \
    X(TSV, "tsv", "tsv.gz", KITH_FILE_WORDS, 'f', 8, text)                                  \
    X(KITH, "kith", "",                                                                     \
      KITH_FILE_POINTS | KITH_FILE_LISTS | KITH_FILE_CLAIMS | KITH_FILE_RANGES_OUT, 0, 0, kith)

/* What points from a file are for. */
typedef enum kith_points_use {
    KITH_USE_POINTS = 0,
    KITH_USE_VALUES = 1, /* what is selected from: floats alone, else KITH_E_DATA; rows of up to
                            2^32 - 2 values (kith_points_source.values) */
    KITH_USE_COLUMN = 2  /* labels, ids: float64 whatever the file holds, rows without gaps; a .npy
                            of one axis is one column */
} kith_points_use;

/* Whether the first line of a text names the columns. */
typedef enum kith_header {
    KITH_HEADER_AUTO = 0, /* it does if no field of it is a number; what may be either is refused */
    KITH_HEADER_YES = 1,
    KITH_HEADER_NO = 2
} kith_header;

/* How a file of points is read. Every field: 0 = the library's choice. All but use are of text
 * alone, and columns of other formats is KITH_E_ARGUMENT. */
typedef struct kith_points_params {
    uint32_t struct_size; /* set by kith_points_params_default() */
    kith_points_use use;
    kith_header header;
    int32_t delimiter;   /* ',' ';' '\t' or ' ' (any run of blanks); 0 = as the lines have it */
    const char *columns; /* which, in this order: "1,4-6,9-,NAME", counted from 0; NULL = all, which
                            is refused where the first one counts the rows */
    int64_t rows; /* as many as there are to be: a first line that may be either is what makes it
                     so many; 0 = any number */
} kith_points_params;

static inline kith_points_params kith_points_params_default(void)
{
    kith_points_params params;
    memset(&params, 0, sizeof params);
    params.struct_size = sizeof params;
    return params;
}

/* Points from a file, memory-mapped where the format allows (KITH_FILE_MAP; of HDF5 FILE:DATASET,
 * of a .kith the points of a corpus). int32 becomes float64; a .npy in Fortran order or big-endian
 * is converted. Text and .npy may come from a pipe, "-" is standard input. params NULL: the
 * default. Keeps ctx. */
typedef struct kith_points kith_points;
KITH_API kith_status kith_points_open(kith_ctx *ctx, const char *path,
                                      const kith_points_params *params, kith_points **out);
/* A view of the points, valid until they are freed. It may lie in a mapped file. NULL where a row
 * is longer than a matrix has them (KITH_USE_VALUES). */
KITH_API const kith_matrix *kith_points_matrix(const kith_points *points);
/* How the file was understood; valid until the points are freed. */
struct kith_values; /* kith_select.h */
typedef struct kith_points_source {
    const struct kith_values *values; /* the points for kith_select, whose rows may be longer than a
                                         matrix' */
    int32_t header;                   /* of text, 1: its first line was taken as names of columns */
    int32_t delimiter;                /* of text, else 0: , ; \t or a blank */
    int32_t compressed;               /* 1: .gz */
    int32_t fortran_order;            /* of .npy, 1: by columns, was converted */
    int32_t big_endian;               /* of .npy, 1: was converted */
    int32_t mapped;                   /* 1: the values stand in the file */
    int64_t file_cols;                /* columns of the file, of which matrix.cols were taken */
    uint64_t bytes;    /* memory that the points hold beside the file: 0 where it is mapped */
    const char *names; /* the header, cut where it is long; "" without */
} kith_points_source;
KITH_API const kith_points_source *kith_points_get_source(const kith_points *points);
KITH_API void kith_points_free(kith_points *points);
/* Writes points; the format is that of the path's extension (KITH_FILE_MAP); "-" is standard
 * output, as csv. Values must fit the format's type exactly, else KITH_E_DATA. */
KITH_API kith_status kith_points_save(kith_ctx *ctx, const char *path, const kith_matrix *points);

/* ---- Results in pieces ----------------------------------------------------------------------- */

/* A result that is written in pieces while it is made, and goes on where it was left: what is put
 * goes to PATH.partial, and PATH.journal says how far it came. Finishing gives it its name; a
 * process that dies before leaves both, and opening the same job again goes on behind the last
 * piece. The bytes are those of kith_result_save, whatever the pieces are. Keeps ctx; put and
 * finish may come from another thread than the opener's, with a context of its own. */
typedef struct kith_result_stream kith_result_stream;

typedef struct kith_result_stream_params {
    uint32_t struct_size; /* set by kith_result_stream_params_default() */
    kith_format format;   /* all but CSR; npz, ivecs and ibin for a corpus of at most 2^31 rows */
    int64_t rows;         /* of the whole result */
    int64_t k;
    const char *job;  /* lines of text that say what else the answer depends on (files, options);
                         opening with other lines is refused. NULL = nothing */
    uint32_t restart; /* 1: begins anew, whatever is there */
    uint32_t reserved;
} kith_result_stream_params;

static inline kith_result_stream_params kith_result_stream_params_default(void)
{
    kith_result_stream_params params;
    memset(&params, 0, sizeof params);
    params.struct_size = sizeof params;
    return params;
}

/* meta.corpus_rows must be known. What is there is read and held against the journal's checksums;
 * from the first piece that is not as it was the rest is made anew. Disk space for all of it is
 * asked for here. KITH_E_ARGUMENT for another job's journal, KITH_E_FORMAT for one that is none,
 * KITH_E_IO also where another process is at it. */
KITH_API kith_status kith_result_stream_open(kith_ctx *ctx, const char *path,
                                             const kith_result_stream_params *params,
                                             const kith_result_meta *meta,
                                             kith_result_stream **out);
/* How far it came: a view that puts and finishing keep true, valid until the stream is freed. */
typedef struct kith_result_stream_state {
    int64_t rows;     /* that stand */
    const char *path; /* of the unfinished file; NULL when it is finished */
} kith_result_stream_state;
KITH_API const kith_result_stream_state *
kith_result_stream_get_state(const kith_result_stream *stream);
/* The next rows, on disk when this returns. After a failure the stream can only be freed. */
KITH_API kith_status kith_result_stream_put(kith_ctx *ctx, kith_result_stream *stream,
                                            const kith_neighbors *neighbors);
/* After the last row: the file gets its headers and its name (fsync, rename). */
KITH_API kith_status kith_result_stream_finish(kith_ctx *ctx, kith_result_stream *stream);
/* Of what is not finished rows stay on disk, if there are any. Accepts NULL. */
KITH_API void kith_result_stream_free(kith_result_stream *stream);

#ifdef __cplusplus
}
#endif

#endif
