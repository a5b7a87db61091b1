/* SPDX-License-Identifier: Apache-2.0
 * A corpus made ready for the screen, and queries in its frame. */
#ifndef KIN_SCREEN_CORPUS_H
#define KIN_SCREEN_CORPUS_H

#include "screen/screen.h"
#include "screen/screen_prepare.h"

/* ---- Shadows (screen_shadow.c, screen_cast.c) ------------------------------------------------ */

/* Shadows: rows of few columns that are never farther apart than the rows themselves.
 *
 * Let U be an orthonormal basis of a subspace, and s*(x) = (Ux, the length of what U leaves of x).
 * Then |s*(x) - s*(y)| <= |x - y|: Pythagoras for the span, the triangle inequality for the rest.
 * So a screen of shadows discards with proof, and never accepts: what it lets pass is looked at in
 * full before it enters a list. Limits come from full costs and canonical keys alone, so answers
 * are the same bytes whatever the basis is; a bad one costs time (docs/notes/numerics.md,
 * "Shadows").
 *
 * What is computed differs from s*(x) by at most e(x), which is lost beside what rounding loses. */

enum { KIN_GATE_AXES = 4 * KIN_GATE_GROUPS - 1 };

/* Axes, and the kernel that shadows are screened with. */
typedef struct kin_shadow_choice {
    const kin_tile_kernel *kernel;
    int32_t axes;  /* 0: none; at most as many as a row has columns */
    bool tiles;    /* kin_shadow's: of a kernel that has a gate, of at most KIN_GATE_AXES */
    int32_t sieve; /* axes that are screened before, of a kernel that has a sieve; 0: none */
} kin_shadow_choice;

/* What a corpus is prepared for. */
typedef struct kin_shadow_job {
    int64_t k;
    double pairs; /* to be screened */
    int ends;     /* rows that a pair serves: 1 or 2 */
    bool few;     /* one query now and then, to the end of time: shadows of bytes, read from memory;
                     pairs is not read */
    /* axes above 0: these in any case; only a corpus of no rows has none */
    kin_shadow_choice given;
} kin_shadow_job;

/* Whether a corpus of this frame may have shadows: the job is long enough to learn before it. */
bool kin_shadow_may(const kin_frame *frame, int64_t points, const kin_shadow_job *job);
/* A basis from a sample of the corpus' rows, of as many axes as take least for a job, by a trial;
 * none where full rows are screened sooner. sieve: one of fewer axes that is screened before it,
 * where it has any; NULL: it is not asked for. */
kith_status kin_shadow_learn(kith_ctx *ctx, const kin_prepared *corpus, const kin_shadow_job *job,
                             kin_shadow *shadow, kin_shadow *sieve);
/* The shadows of `points` rows of `prepared`, which may be the corpus' or queries'. */
kith_status kin_shadow_cast(kith_ctx *ctx, const kin_shadow *shadow, const kin_prepared *prepared,
                            const uint32_t *ids, int64_t points, kin_set *set);
/* The shape of the shadows that take most of those that may be chosen. */
kin_shadow kin_shadow_shape(const kin_frame *frame);
/* The same of a sieve; no axes: there is none. */
kin_shadow kin_shadow_sieve_shape(const kin_frame *frame);
/* What learning holds beside the corpus' set, and leaves; and casting. */
void kin_shadow_learn_plan(kin_layout *plan, const kin_set *set, int64_t k, int32_t threads,
                           kin_shadow *shape, kin_shadow *sieve);
void kin_shadow_plan(kin_layout *plan, kin_shadow *shape);
/* rows: the set of those that are cast. */
void kin_shadow_cast_plan(kin_layout *plan, const kin_shadow *shape, const kin_set *rows,
                          kin_set *cast, int32_t threads);
void kin_shadow_free(kith_ctx *ctx, kin_shadow *shadow);

/* ---- The corpus ------------------------------------------------------------------------------ */

/* An order in which near ones stand together, the frame of a corpus and its rounded copy. integer:
 * see kin_frame_is_integer. k: ids a row that will be asked for, by which the cheap type is chosen.
 */
kith_status kin_prepare_set(kith_ctx *ctx, bool integer, int64_t k, kin_prepared *prepared);
/* And the cover, for those who skip what is far. */
kith_status kin_prepare_corpus(kith_ctx *ctx, bool integer, int64_t k, kin_prepared *prepared);
/* *use: the corpus, or where it is of bytes that wait for bytes and is asked with something else,
 * *again, which is made then; it is all zero before and the caller's to free. */
kith_status kin_prepare_corpus_for(kith_ctx *ctx, const kin_prepared *corpus,
                                   const kith_matrix *queries, int64_t k, kin_prepared *again,
                                   const kin_prepared **use);

/* Shadows of a corpus that is prepared, where they are worth it: its set then lies as lines, unless
 * whole tiles are looked at, for kin_exact_graph, kin_exact_search and kin_exact_both alone. Where
 * there is no memory for them it stays as it was. */
kith_status kin_prepare_shadows(kith_ctx *ctx, const kin_shadow_job *job, kin_prepared *prepared);
/* Where a job failed for lack of memory and its corpus has shadows: takes them away, and the
 * failure with them; *status: of that. True: it may be tried again. */
bool kin_prepare_drop_shadows(kith_ctx *ctx, kin_prepared *prepared, kith_status *status);

/* Queries `first` .. `first + count - 1` of order[] as their corpus is. May be called again for
 * other queries. */
kith_status kin_prepare_queries(kith_ctx *ctx, const kin_prepared *corpus, int64_t first,
                                int64_t count, kin_prepared *prepared);

/* ---- A glance -------------------------------------------------------------------------------- */

/* Few queries against a corpus that is kept. Whoever asks one question waits for memory: the
 * rounded rows are read once, whole. A *glance* reads shadows of bytes (screen_corpus.h) in their
 * place, a fourth of it or less, and what they cannot discard gets its canonical key. */

/* Shadows for a job of few queries, where a trial says that they are worth it, and there is memory;
 * a corpus that has them is searched with or without. After kin_prepare_corpus. Shadows that are
 * given are of kin_tile_s8_portable. */
kith_status kin_glance_make(kith_ctx *ctx, const kin_shadow_job *job, kin_prepared *prepared);

/* ---- Products (screen_glance_body.inc) ---------------------------------------------------------
 *
 * acc = product + start, as screen_tile.h has it for s8. A query is a table: of each group two
 * words of two s16, its bytes 0 and 2, and 1 and 3; so are a panel's bytes taken, as u8 in s16. */
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

/* ---- The type -------------------------------------------------------------------------------- */

/* Which cheap type a corpus is screened in. */

enum { KIN_TYPE_LADDER = 4 };

/* The types of a machine from cheap to fine, for an expanded row of `cols` components; returns how
 * many. Types that are finer and not dearer than another stand alone. */
int kin_type_ladder(kin_isa isa, int32_t cols, const kin_tile_kernel *ladder[KIN_TYPE_LADDER]);

/* The type of integer costs. */
const kin_tile_kernel *kin_type_integer(kin_isa isa);

/* Whether so few points, or so many ids wanted of them, begin at a finer type where its words take
 * little, take s16 without a try and never have shadows; and whether there are enough for a try of
 * this type. */
bool kin_type_settled(int64_t points, int64_t k);
bool kin_type_has_pilot(const kin_tile_kernel *kernel, int64_t points, int64_t k);
/* The type that comes first: of few points the finest of those that take little more than the one
 * before. */
int kin_type_first(const kin_tile_kernel *const *ladder, int64_t cols, int64_t points, int64_t k);

/* What a try says of a type: it leaves few candidates, and (almost) no list overflows; or more; or
 * so many that canonical keys of all pairs are had sooner without it. */
typedef enum kin_type_verdict {
    KIN_TYPE_FINE = 0,
    KIN_TYPE_COARSE,
    KIN_TYPE_VAIN
} kin_type_verdict;

/* Words that a kernel multiplies of a pair of rows of so many columns, as dear as those of one that
 * broadcasts them. */
double kin_type_words(const kin_tile_kernel *kernel, int64_t cols);

/* Screens a sample of the corpus' rows against its set, for k ids each. next: the type that is
 * taken where this one is coarse, or NULL. Bytes that leave more, unless costs decide, are fine,
 * too, where keys of them take less than the next type's words. */
kith_status kin_type_try(kith_ctx *ctx, const kin_prepared *prepared, int64_t k,
                         const kin_tile_kernel *next, kin_type_verdict *verdict);

/* ---- A trial --------------------------------------------------------------------------------- */

/* A few rows of a corpus, screened against all of it: what is learned of a job before it is done,
 * at a few thousandths of its price, or hundredths where it is small. */

enum { KIN_TRIAL_ROWS = KIN_BLOCK_STEP };

typedef struct kin_trial {
    uint32_t *ids; /* of the rows */
    kin_set rows;
    kin_lists lists; /* compacted: their reaches are final */
    int64_t keys_computed;
    kin_list_scratch scratch;
    int64_t capacity;
    int32_t cols;
    void *block;
} kin_trial;

/* Rows taken with a fixed seed against the corpus' set, for k ids each. With one thread: what is
 * left depends on the order in which blocks meet, and what is learned must not (approximate graphs
 * are the same bytes with any number of threads). */
kith_status kin_trial_make(kith_ctx *ctx, const kin_prepared *prepared, int64_t k,
                           kin_trial *trial);
void kin_trial_free(kith_ctx *ctx, kin_trial *trial);
/* What a trial holds, beside the corpus' set, which may be a shape. */
void kin_trial_plan(kin_layout *plan, const kin_set *set, int64_t k, int32_t threads);
/* And what one that was made keeps. */
void kin_trial_keep_plan(kin_layout *plan, const kin_set *set, int64_t k);

/* ---- Axes ------------------------------------------------------------------------------------ */

/* Axes along which the rows of a corpus differ most, from a sample: orthonormal rows, so ordered
 * that the first m span nearly what the first m principal axes span, for every m. Any axes are
 * right for those who use them; good ones save time. */

enum { KIN_AXES_SAMPLE = 2048, KIN_AXES_STEP = 16 };

/* Rows are values less their mean, in units of the corpus' frame. */
typedef struct kin_axes {
    const kin_round_ops *ops;
    int32_t count;
    int64_t wide;     /* columns of a row, rounded up to KIN_PROJECT_STEP */
    int64_t padded;   /* count, rounded up to KIN_PROJECT_AXES */
    int64_t rows_all; /* the sample, and further rows behind it */
    double *mean;     /* wide */
    double *axes;     /* count x wide */
    float *basis;     /* wide x padded: the same, as it is multiplied with */
    float *rows;      /* rows_all x wide */
    float *columns;   /* for each thread KIN_PROJECT_ROWS x sample; spare */
    float *images;    /* rows_all x padded: rows in the basis */
    double *lengths;  /* rows_all: their squares */
    double *values;   /* for each thread wide; spare */
    double *mix;      /* count x count, rounded up; spare */
    float *rests;     /* rows_all x steps: lengths of what 0, KIN_AXES_STEP, ... axes leave */
    double *sums;     /* for each thread KIN_PROJECT_ROWS x padded; spare */
    int32_t threads;
    void *block;
} kin_axes;

/* Points of which a sample is taken. */
typedef struct kin_axes_points {
    const kin_distance *distance;
    const kin_rows *rows;
    const uint32_t *ids;
    int64_t count;
    double scale; /* of the frame */
} kin_axes_points;

/* count axes, at most as many as there are columns, and the images of the sample and of `more`
 * further rows. The same on every machine but for the last bits, whatever the threads. Nearly
 * orthonormal. */
kith_status kin_axes_make(kith_ctx *ctx, const kin_axes_points *points, int32_t count,
                          const uint32_t *further, int64_t more, kin_axes *axes);
void kin_axes_free(kith_ctx *ctx, kin_axes *axes);
/* What kin_axes_make holds. */
void kin_axes_plan(kin_layout *plan, int32_t cols, int32_t count, int64_t more, int32_t threads);
/* What the first axes leave of a row, in rests. */
int32_t kin_axes_steps(int32_t count);

/* The first `rows` of the further rows against the sample. */
typedef struct kin_axes_test {
    int64_t rows;
    int types;
    const float *far; /* rows x types x steps: what is beyond the root of it does not pass */
    int32_t *passed;  /* rows x types x steps: rows of the sample that do, in so many axes */
    /* NULL, or of the sample and of the rows: those whose places are less than `apart` from each
     * other on a circle of so many are left out. */
    const int64_t *places;
    int64_t circle;
    int64_t apart;
} kin_axes_test;
kith_status kin_axes_run_test(kith_ctx *ctx, const kin_axes *axes, const kin_axes_test *test);

/* Keeps the first of the axes, and turns them at random among themselves, so that rows spread over
 * all alike; images of the sample follow. */
kith_status kin_axes_mix(kith_ctx *ctx, int32_t count, kin_axes *axes);
/* The shadow of row i of the sample: count + 1 values. */
void kin_axes_shadow(const kin_axes *axes, int64_t i, double *values);
/* |(BtB)^1/2 - 1| of the basis, at most. Writes over axes and mix. */
double kin_axes_skew(kin_axes *axes);

#endif
