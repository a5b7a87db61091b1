/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support_settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "support/support_answers.h"

void test_setting_make(const test_setting *setting, kith_ctx *cpu, uint64_t seed,
                       test_setting_data *data)
{
    const bool nonnegative = setting->metric == KITH_KL;
    data->points = test_rows_make(setting->dtype, setting->rows, setting->cols, 0);
    data->queries = test_rows_make(setting->dtype, setting->asked, setting->cols, 0);
    test_shape_fill(&data->points, setting->shape, nonnegative, &seed);
    test_shape_fill(&data->queries, setting->shape, nonnegative, &seed);
    data->job = (test_job){.name = test_shape_name(setting->shape),
                           .call = setting->call,
                           .points = &data->points.matrix,
                           .queries = setting->call == TEST_GRAPH ? NULL : &data->queries.matrix,
                           .metric = setting->metric,
                           .k = setting->k};
    assert_int_equal(test_job_solve(cpu, &data->job, &data->wanted), KITH_OK);
}

void test_setting_free(test_setting_data *data)
{
    test_answer_free(&data->wanted);
    test_rows_free(&data->queries);
    test_rows_free(&data->points);
}
