/* SPDX-License-Identifier: Apache-2.0
 * NN-Descent on the processor, on real data under the metrics that such data are used with: recall
 * against the exact engine, of the first rows of each file. Skipped without KITH_DATA. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/support_corpora.h"
#include "support/support_descents.h"

#include <stdio.h>
#include <string.h>

typedef struct job {
    const char *name;
    kith_metric metric;
    double floor;
} job;

/* Floors are below what was found by as much as other machines' types may make. */
static const job jobs[] = {
    {"fashion_mnist_base.u8bin", KITH_EUCLIDEAN, 0.97},
    {"fashion_mnist_base.u8bin", KITH_INNER_PRODUCT, 0.95},
    {"sift_imagenet400k_base.u8bin", KITH_EUCLIDEAN, 0.97},
    {"sift_imagenet400k_base.u8bin", KITH_INNER_PRODUCT, 0.95},
    {"imdb_word2vec100_base.fbin", KITH_COSINE, 0.97},
    {"imdb_word2vec100_base.fbin", KITH_INNER_PRODUCT, 0.95},
    {"scrna_10x_g1000_base.fbin", KITH_CORRELATION, 0.97},
    {"covtype54_base.fbin", KITH_EUCLIDEAN, 0.97},
    {"covtype54_base.fbin", KITH_MANHATTAN, 0.95},
    {"skin_rgb3_base.u8bin", KITH_EUCLIDEAN, 0.97},
    {"uci_keggundirected27_base.fbin", KITH_EUCLIDEAN, 0.97},
};
enum { JOBS = (int)(sizeof jobs / sizeof *jobs) };

typedef struct telling {
    kith_ctx *ctx;
    int done;
} telling;

/* Rows of a file that stay where they are. */
static void check_corpus(const char *path, const char *name, void *arg)
{
    telling *t = arg;
    for (int i = 0; i < JOBS; i++) {
        kith_points *points = NULL;
        if (strcmp(jobs[i].name, name) != 0) {
            continue;
        }
        if (kith_points_open(t->ctx, path, NULL, &points) != KITH_OK) {
            fail_msg("%s", kith_ctx_detail(t->ctx));
        }
        const int64_t most = test_is_slow_build() ? 9000 : 20000;
        test_rows rows = {.matrix = *kith_points_matrix(points)};
        rows.map = (unsigned char *)(uintptr_t)rows.matrix.data;
        rows.matrix.rows = rows.matrix.rows < most ? rows.matrix.rows : most;
        const kin_graph_request request = test_descent_request(t->ctx, &rows, jobs[i].metric, 10);
        printf("%.14s, %s:\n", name, kith_metric_name(jobs[i].metric));
        test_descent_check(t->ctx, "real data", &rows, &request, jobs[i].floor);
        kith_points_free(points);
        t->done += 1;
    }
}

static void real_data_are_found(void **state)
{
    (void)state;
    test_need_corpora();
    telling t = {.ctx = test_descent_ctx(2)};
    test_each_corpus(check_corpus, &t);
    kith_ctx_free(t.ctx);
    printf("%d of %d sets of real data were there\n", t.done, JOBS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(real_data_are_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
