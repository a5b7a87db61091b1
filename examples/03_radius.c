/* SPDX-License-Identifier: Apache-2.0
 * Lesson 3: all neighbours within a radius. Lists have different lengths, so the answer is a table
 * in compressed rows: the neighbours of point i are entries offsets[i] .. offsets[i + 1] - 1.
 *
 *     03_radius examples/data/digits.u8bin 18
 */
#include <kith/kith.h>

#include <stdio.h>
#include <stdlib.h>

/* How many points have 0, 1, 2 ... neighbours, the last class being open: the shape of a data set
 * that one looks at before choosing a radius. */
static void print_degrees(const int64_t *offsets, int64_t rows)
{
    enum { CLASSES = 8 };
    int64_t counts[CLASSES] = {0};
    for (int64_t row = 0; row < rows; row++) {
        const int64_t degree = offsets[row + 1] - offsets[row];
        counts[degree < CLASSES ? degree : CLASSES - 1]++;
    }
    for (int degree = 0; degree < CLASSES; degree++) {
        printf("%lld points have %d%s neighbours\n", (long long)counts[degree], degree,
               degree == CLASSES - 1 ? " or more" : "");
    }
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "examples/data/digits.u8bin";
    kith_ctx *ctx = NULL;
    kith_points *file = NULL;
    kith_ranges *ranges = NULL;
    kith_radius_params params = kith_radius_params_default();
    params.radius = argc > 2 ? strtod(argv[2], NULL) : 18.0;

    kith_status status = kith_ctx_create(NULL, &ctx);
    if (status == KITH_OK) {
        status = kith_points_open(ctx, path, NULL, &file);
    }
    if (status == KITH_OK) {
        /* No queries: each point of the file against all others. */
        status = kith_radius(ctx, kith_points_matrix(file), NULL, &params, &ranges);
    }
    if (status == KITH_OK) {
        const kith_lists *lists = kith_ranges_lists(ranges);
        printf("%lld pairs within %g\n", (long long)lists->offsets[lists->rows], params.radius);
        print_degrees(lists->offsets, lists->rows);
    } else {
        fprintf(stderr, "03_radius: %s: %s\n", kith_status_text(status),
                ctx != NULL ? kith_ctx_detail(ctx) : "");
    }
    kith_ranges_free(ranges);
    kith_points_free(file);
    kith_ctx_free(ctx);
    return status == KITH_OK ? 0 : 1;
}
