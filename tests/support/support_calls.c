/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support_calls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "support/support_answers.h"

#include <string.h>

void test_works(const kith_ctx *ctx, kith_status status)
{
    if (status != KITH_OK) {
        fail_msg("%s: %s", kith_status_name(status), kith_ctx_detail(ctx));
    }
}

void test_fails(const kith_ctx *ctx, kith_status status, kith_status wanted, const char *says)
{
    if (status != wanted || strstr(kith_ctx_detail(ctx), says) == NULL) {
        fail_msg("%s, not %s: '%s' (should say '%s')", kith_status_name(status),
                 kith_status_name(wanted), kith_ctx_detail(ctx), says);
    }
}

void test_graph_refused(kith_ctx *ctx, const kith_matrix *points, const kith_search_params *params,
                        kith_status wanted, const char *says)
{
    kith_neighbors out = test_answer_make(points->rows, params->k);
    test_fails(ctx, kith_graph(ctx, points, params, &out, NULL), wanted, says);
    test_answer_free(&out);
}

kith_matrix test_part_of(const kith_matrix *all, int64_t first, int64_t rows)
{
    kith_matrix part = *all;
    part.data = (const char *)all->data + first * all->stride_bytes;
    part.rows = rows;
    return part;
}
