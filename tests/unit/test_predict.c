/* SPDX-License-Identifier: Apache-2.0
 * kNN models: by hand, against a plain reading of the contract, and every mistake told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/support_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODES = KITH_PREDICT_WEIGHTED_VOTE + 1 };

static kith_ctx *new_ctx(int32_t threads)
{
    kith_ctx_params params = kith_ctx_params_default();
    params.threads = threads;
    kith_ctx *ctx = NULL;
    assert_int_equal(kith_ctx_create(&params, &ctx), KITH_OK);
    return ctx;
}

static kith_predict_params params_of(int mode)
{
    kith_predict_params params = kith_predict_params_default();
    params.mode = (kith_predict_mode)mode;
    return params;
}

static bool same_bits(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

/* One row, whose ids are 0 .. k - 1. */
static double predict_one(int mode, int64_t k, const double *labels, double *distances)
{
    uint32_t ids[8];
    for (uint32_t i = 0; i < 8; i++) {
        ids[i] = i;
    }
    kith_ctx *ctx = new_ctx(1);
    const kith_neighbors row = {.ids = ids, .distances64 = distances, .rows = 1, .k = k};
    const kith_predict_params params = params_of(mode);
    double out = NAN;
    assert_int_equal(kith_predict(ctx, &row, labels, k, &params, &out), KITH_OK);
    kith_ctx_free(ctx);
    return out;
}

static void by_hand(void **state)
{
    (void)state;
    double far[] = {1, 2, 4, 4};
    const double labels[] = {8, 1, -2, 5};
    assert_true(predict_one(KITH_PREDICT_MEAN, 4, labels, NULL) == 3.0);
    assert_true(predict_one(KITH_PREDICT_WEIGHTED, 4, labels, far) == (8 + 0.5 - 0.5 + 1.25) / 2);
    assert_true(predict_one(KITH_PREDICT_MEDIAN, 4, labels, NULL) == 3.0);
    assert_true(predict_one(KITH_PREDICT_MEDIAN, 3, labels, NULL) == 1.0);
    (void)printf("mean, weighted mean and median of a row are those of a pencil\n");
}

static void ties(void **state)
{
    (void)state;
    double far[] = {1, 2, 4, 4, 4};
    const double two_and_two[] = {7, 3, 7, 3, 9};
    assert_true(predict_one(KITH_PREDICT_VOTE, 5, two_and_two, NULL) == 3.0);
    assert_true(predict_one(KITH_PREDICT_WEIGHTED_VOTE, 5, two_and_two, far) == 7.0);
    const double negative[] = {0, -4, -9};
    assert_true(predict_one(KITH_PREDICT_VOTE, 3, negative, NULL) == -9.0);
    /* 1 / 2 = 1 / 4 + 1 / 4, in doubles too. */
    double halves[] = {2, 4, 4};
    const double even[] = {6, 5, 5};
    assert_true(predict_one(KITH_PREDICT_WEIGHTED_VOTE, 3, even, halves) == 5.0);
    const double other[] = {5, 6, 6};
    assert_true(predict_one(KITH_PREDICT_WEIGHTED_VOTE, 3, other, halves) == 5.0);
    const double large[] = {9007199254740991.0, 9007199254740992.0, 9007199254740992.0};
    assert_true(predict_one(KITH_PREDICT_VOTE, 3, large, NULL) == 9007199254740992.0);
    (void)printf("of labels with as many votes, or as much weight, the smallest wins\n");
}

static void exact_matches(void **state)
{
    (void)state;
    const double labels[] = {10, 20, 1, 1};
    double one[] = {0, 1e-9, 1e-9, 1e-9};
    double two[] = {0, 0, 1e-9, 1e-9};
    double tiny[] = {5e-324, 1e-300, 1, 1}; /* 1 / 5e-324 is beyond all doubles */
    assert_true(predict_one(KITH_PREDICT_WEIGHTED, 4, labels, one) == 10.0);
    assert_true(predict_one(KITH_PREDICT_WEIGHTED_VOTE, 4, labels, one) == 10.0);
    assert_true(predict_one(KITH_PREDICT_WEIGHTED, 4, labels, two) == 15.0);
    assert_true(predict_one(KITH_PREDICT_WEIGHTED_VOTE, 4, labels, two) == 10.0);
    assert_true(predict_one(KITH_PREDICT_WEIGHTED, 4, labels, tiny) == 10.0);
    /* Whoever is infinitely far has no weight, and does not make a NaN. */
    double half[] = {2, INFINITY, 2, INFINITY};
    assert_true(predict_one(KITH_PREDICT_WEIGHTED, 4, labels, half) == 5.5);
    (void)printf("an exact match takes all, several share it\n");
}

static void one_neighbour(void **state)
{
    (void)state;
    double far[] = {0.3};
    const double labels[] = {-41};
    for (int mode = 0; mode < MODES; mode++) {
        const double found = predict_one(mode, 1, labels, far);
        /* (label / 0.3) / (1 / 0.3) may round. */
        assert_true(mode == KITH_PREDICT_WEIGHTED ? fabs(found + 41) < 1e-13 : found == -41);
    }
    (void)printf("k = 1 is the nearest point's label in every mode\n");
}

/* ---- Against a plain reading ---------------------------------------------------------------- */

typedef struct table {
    kith_neighbors neighbors;
    double *labels;
    int64_t label_count;
} table;

static table make_table(int64_t rows, int64_t k, bool whole, uint64_t *seed)
{
    const size_t slots = (size_t)(rows * k);
    table t = {.neighbors = {.rows = rows, .k = k}, .label_count = 97};
    t.neighbors.ids = malloc(slots * sizeof(uint32_t));
    t.neighbors.distances64 = malloc(slots * sizeof(double));
    t.neighbors.distances = malloc(slots * sizeof(float));
    t.labels = malloc((size_t)t.label_count * sizeof(double));
    assert_true(t.neighbors.ids != NULL && t.neighbors.distances64 != NULL);
    assert_true(t.neighbors.distances != NULL && t.labels != NULL);
    for (int64_t i = 0; i < t.label_count; i++) {
        t.labels[i] = whole ? floor(5 * test_uniform(seed)) - 2 : 3 * test_uniform(seed) - 1;
    }
    for (size_t i = 0; i < slots; i++) {
        const bool empty = i % (size_t)k != 0 && test_uniform(seed) < 0.1;
        t.neighbors.ids[i] = empty ? KITH_ID_NONE : (uint32_t)(97 * test_uniform(seed));
        /* Few distances, 0 among them, so that weights tie; NaN where nobody is. */
        t.neighbors.distances64[i] = empty ? NAN : floor(40 * test_uniform(seed)) / 8;
        t.neighbors.distances[i] = (float)t.neighbors.distances64[i];
    }
    return t;
}

static void free_table(table *t)
{
    free(t->neighbors.ids);
    free(t->neighbors.distances64);
    free(t->neighbors.distances);
    free(t->labels);
}

/* Labels and weights of a row in the order of its list. */
static int64_t plain_row(const table *t, int64_t row, double *labels, double *weights)
{
    int64_t count = 0;
    bool zero = false;
    for (int64_t i = row * t->neighbors.k; i < (row + 1) * t->neighbors.k; i++) {
        zero = zero || (t->neighbors.ids[i] != KITH_ID_NONE && t->neighbors.distances64[i] == 0);
    }
    for (int64_t i = row * t->neighbors.k; i < (row + 1) * t->neighbors.k; i++) {
        const double distance = t->neighbors.distances64[i];
        if (t->neighbors.ids[i] != KITH_ID_NONE) {
            labels[count] = t->labels[t->neighbors.ids[i]];
            weights[count++] = zero ? (distance == 0 ? 1.0 : 0.0) : 1.0 / distance;
        }
    }
    return count;
}

/* The label that `rank` others stand before. */
static double plain_rank(const double *labels, int64_t count, int64_t rank)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t before = 0;
        for (int64_t j = 0; j < count; j++) {
            before += labels[j] < labels[i] || (labels[j] == labels[i] && j < i);
        }
        if (before == rank) {
            return labels[i];
        }
    }
    return NAN;
}

static double plain_vote(const double *labels, const double *weights, int64_t count, bool weighted)
{
    double best = NAN;
    double most = -1;
    for (int64_t i = 0; i < count; i++) {
        double sum = 0;
        for (int64_t j = 0; j < count; j++) {
            sum += labels[j] != labels[i] ? 0.0 : weighted ? weights[j] : 1.0;
        }
        if (sum > most || (sum == most && labels[i] < best)) {
            most = sum;
            best = labels[i];
        }
    }
    return best;
}

static double plain_mean(const double *labels, const double *weights, int64_t count, bool weighted)
{
    double sum = 0;
    double whole = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += weighted ? weights[i] * labels[i] : labels[i];
        whole += weighted ? weights[i] : 1.0;
    }
    return sum / whole;
}

static double plain(int mode, const double *labels, const double *weights, int64_t count)
{
    switch (mode) {
    case KITH_PREDICT_MEDIAN:
        return (plain_rank(labels, count, (count - 1) / 2) + plain_rank(labels, count, count / 2)) /
               2;
    case KITH_PREDICT_VOTE:
    case KITH_PREDICT_WEIGHTED_VOTE:
        return plain_vote(labels, weights, count, mode == KITH_PREDICT_WEIGHTED_VOTE);
    default:
        return plain_mean(labels, weights, count, mode == KITH_PREDICT_WEIGHTED);
    }
}

static int64_t check_table(const table *t, int mode, double *out, double *room)
{
    const kith_predict_params params = params_of(mode);
    const kith_neighbors *wide = &t->neighbors;
    const kith_neighbors narrow = {wide->ids, wide->distances, NULL, wide->rows, wide->k, NULL};
    for (int way = 0; way < 3; way++) {
        kith_ctx *ctx = new_ctx(way == 0 ? 1 : 3); /* threads */
        for (int64_t i = 0; i < wide->rows; i++) {
            out[i] = NAN;
        }
        assert_int_equal(
            kith_predict(ctx, way == 2 ? &narrow : wide, t->labels, t->label_count, &params, out),
            KITH_OK);
        kith_ctx_free(ctx);
        for (int64_t row = 0; row < wide->rows; row++) {
            const int64_t count = plain_row(t, row, room, room + wide->k);
            assert_true(same_bits(out[row], plain(mode, room, room + wide->k, count)));
        }
    }
    return wide->rows;
}

static void against_plain(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{1, 1},    {900, 2},  {801, 3},  {700, 10},
                                        {200, 57}, {60, 256}, {70, 1024}}; /* several tasks */
    uint64_t seed = 11;
    int64_t rows = 0;
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        for (int mode = 0; mode < MODES; mode++) {
            const bool votes = mode == KITH_PREDICT_VOTE || mode == KITH_PREDICT_WEIGHTED_VOTE;
            table t = make_table(shapes[s][0], shapes[s][1], votes, &seed);
            double *out = malloc((size_t)shapes[s][0] * sizeof *out);
            double *room = malloc(2 * (size_t)shapes[s][1] * sizeof *room);
            assert_true(out != NULL && room != NULL);
            rows += check_table(&t, mode, out, room);
            free(room);
            free(out);
            free_table(&t);
        }
    }
    (void)printf("%lld rows, k = 1 to 1024, empty slots: the bits of a plain program, with 1 and 3 "
                 "threads, from float64 and float32 distances\n",
                 (long long)rows);
}

/* ---- Mistakes ------------------------------------------------------------------------------- */

typedef struct mistake {
    uint32_t ids[4];
    double distances[4];
    double labels[5];
    kith_neighbors neighbors;
    int64_t label_count;
    kith_predict_params params;
} mistake;

/* Two rows of two, all well. */
static mistake all_well(int mode)
{
    return (mistake){.ids = {0, 1, 2, 4},
                     .distances = {1, 2, 0, 1},
                     .labels = {1, 2, 3, 4, 5},
                     .neighbors = {.rows = 2, .k = 2},
                     .label_count = 5,
                     .params = params_of(mode)};
}

static void tells(mistake *m, kith_status status, const char *says)
{
    kith_ctx *ctx = new_ctx(2);
    double out[2] = {0, 0};
    if (m->neighbors.ids == NULL) {
        m->neighbors.ids = m->ids;
    }
    m->neighbors.distances64 = m->distances;
    assert_int_equal(kith_predict(ctx, &m->neighbors, m->labels, m->label_count, &m->params, out),
                     status);
    if (strstr(kith_ctx_detail(ctx), says) == NULL) {
        fail_msg("'%s' is not in '%s'", says, kith_ctx_detail(ctx));
    }
    kith_ctx_free(ctx);
}

static void wrong_labels(void **state)
{
    (void)state;
    for (int mode = 0; mode < MODES; mode++) {
        mistake well = all_well(mode);
        tells(&well, KITH_OK, "");
        mistake none = all_well(mode);
        none.labels[3] = NAN; /* nobody's neighbour, and yet */
        tells(&none, KITH_E_DATA, "labels[3] is NaN");
        mistake endless = all_well(mode);
        endless.labels[4] = -INFINITY;
        tells(&endless, KITH_E_DATA, "labels[4] is infinite");
        mistake few = all_well(mode);
        few.label_count = 4;
        tells(&few, KITH_E_ARGUMENT, "neighbors[1, 1] is id 4, must be below 4");
        few.label_count = 0;
        tells(&few, KITH_E_ARGUMENT, "labels are none");
    }
    for (int mode = KITH_PREDICT_VOTE; mode < MODES; mode++) {
        mistake broken = all_well(mode);
        broken.labels[2] = 0.5;
        tells(&broken, KITH_E_DATA, "labels[2] is 0.5");
        broken.labels[2] = -9007199254740994.0;
        tells(&broken, KITH_E_DATA, "labels[2] is -9007199254740994");
    }
    (void)printf("NaN, infinite, broken and missing labels are errors that name the row\n");
}

static void wrong_neighbours(void **state)
{
    (void)state;
    for (int mode = 0; mode < MODES; mode++) {
        const bool weighs = mode == KITH_PREDICT_WEIGHTED || mode == KITH_PREDICT_WEIGHTED_VOTE;
        mistake negative = all_well(mode);
        negative.distances[1] = -1e-9;
        tells(&negative, weighs ? KITH_E_DATA : KITH_OK,
              weighs ? "neighbors[0, 1] has the distance -1e-09" : "");
        negative.distances[1] = NAN;
        tells(&negative, weighs ? KITH_E_DATA : KITH_OK, weighs ? "nan" : "");
        mistake far = all_well(mode);
        far.distances[2] = far.distances[3] = INFINITY;
        tells(&far, weighs ? KITH_E_DATA : KITH_OK,
              weighs ? "neighbors[1] has no neighbour at" : "");
        mistake empty = all_well(mode);
        empty.ids[0] = empty.ids[1] = KITH_ID_NONE;
        tells(&empty, KITH_E_DATA, "neighbors[0] has no neighbour at");
        mistake shape = all_well(mode);
        shape.neighbors.k = 0;
        tells(&shape, KITH_E_ARGUMENT, "neighbors is 2 x 0");
        shape.neighbors.k = 2;
        shape.neighbors.rows = -1;
        tells(&shape, KITH_E_ARGUMENT, "neighbors is -1 x 2");
        shape.neighbors.rows = 0;
        tells(&shape, KITH_OK, "");
    }
    (void)printf("rows without anybody, ids beyond the labels, distances that are none are told\n");
}

static void wrong_calls(void **state)
{
    (void)state;
    mistake m = all_well(KITH_PREDICT_WEIGHTED);
    m.neighbors.ids = m.ids;
    double out[2];
    kith_ctx *ctx = new_ctx(2);
    const kith_predict_params *params = &m.params;
    assert_int_equal(kith_predict(NULL, &m.neighbors, m.labels, 5, params, out), KITH_E_ARGUMENT);
    assert_int_equal(kith_predict(ctx, NULL, m.labels, 5, params, out), KITH_E_ARGUMENT);
    assert_int_equal(kith_predict(ctx, &m.neighbors, NULL, 5, params, out), KITH_E_ARGUMENT);
    assert_int_equal(kith_predict(ctx, &m.neighbors, m.labels, 5, NULL, out), KITH_E_ARGUMENT);
    assert_int_equal(kith_predict(ctx, &m.neighbors, m.labels, 5, params, out), KITH_E_ARGUMENT);
    assert_non_null(strstr(kith_ctx_detail(ctx), "has no distances, mode weighted"));
    m.neighbors.distances64 = m.distances;
    assert_int_equal(kith_predict(ctx, &m.neighbors, m.labels, 5, params, NULL), KITH_E_ARGUMENT);
    m.neighbors.ids = NULL;
    assert_int_equal(kith_predict(ctx, &m.neighbors, m.labels, 5, params, out), KITH_E_ARGUMENT);
    kith_ctx_free(ctx);
    mistake mode = all_well(MODES);
    tells(&mode, KITH_E_ARGUMENT, "which is no kith_predict_mode");
    mistake stamp = all_well(0);
    stamp.params.struct_size = 0;
    tells(&stamp, KITH_E_ARGUMENT, "kith_predict_params_default()");

    (void)printf("NULL and unknown modes are told\n");
}

static void little_memory(void **state)
{
    (void)state;
    mistake well = all_well(KITH_PREDICT_WEIGHTED_VOTE);
    well.neighbors.ids = well.ids;
    well.neighbors.distances64 = well.distances;
    kith_status status = KITH_E_LIMIT;
    int refused = 0;
    for (uint64_t limit = 16; status != KITH_OK; limit += 16) {
        kith_ctx_params params = kith_ctx_params_default();
        params.threads = 2;
        params.memory_limit = limit;
        kith_ctx *ctx = NULL;
        double out[2];
        assert_int_equal(kith_ctx_create(&params, &ctx), KITH_OK);
        status =
            kith_predict(ctx, &well.neighbors, well.labels, well.label_count, &well.params, out);
        assert_true(status == KITH_OK || status == KITH_E_LIMIT);
        refused += status == KITH_E_LIMIT;
        kith_ctx_free(ctx);
    }
    assert_true(refused > 0);
    (void)printf("a limit that is too low is told, %d of them\n", refused);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand),          cmocka_unit_test(ties),
        cmocka_unit_test(exact_matches),    cmocka_unit_test(one_neighbour),
        cmocka_unit_test(against_plain),    cmocka_unit_test(wrong_labels),
        cmocka_unit_test(wrong_neighbours), cmocka_unit_test(wrong_calls),
        cmocka_unit_test(little_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
