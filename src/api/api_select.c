/* SPDX-License-Identifier: Apache-2.0
 * Selection: arguments in, one call of the room, report out. */
#include "api/api_check.h"

#include "papers/papers.h"

#include <stdio.h>

enum { DEFAULT_SAMPLE = 8, MOST_SAMPLE = 1024, IN_FLAGS = INT32_MIN };
static const int64_t MOST_COLS = (int64_t)UINT32_MAX - 1;

/* ---- Methods by name ------------------------------------------------------------------------ */

const char *kith_select_method_name(kith_select_method method)
{
    const kin_select_method *known = kin_papers_select_method(method);
    return method == KITH_SELECT_AUTO ? "auto" : known != NULL ? known->name : "unknown";
}

/* "insertion, heap, merge_queue": those that have one of these switches. */
static void list_with(uint32_t switches, char *list, size_t room)
{
    const kin_select_method *known = NULL;
    size_t used = 0;
    for (int32_t i = 1; (known = kin_papers_select_method(i)) != NULL; i++) {
        if ((known->switches & switches) != 0 && used < room) {
            used += (size_t)snprintf(list + used, room - used, "%s%s", used > 0 ? ", " : "",
                                     known->name);
        }
    }
}

/* ---- Parameters ----------------------------------------------------------------------------- */

/* What is not 0 belongs to methods that have one of these switches. */
static kith_status check_switch(kith_ctx *ctx, const kith_select_params *params, uint32_t wanted,
                                const char *name, int given)
{
    const kin_select_method *known = kin_papers_select_method(params->method);
    char list[128] = "";
    char is[16] = "";
    if (given == 0 || (known != NULL && (known->switches & wanted) != 0)) {
        return KITH_OK;
    }
    list_with(wanted, list, sizeof list);
    if (given != IN_FLAGS) {
        (void)snprintf(is, sizeof is, " is %d", given);
    }
    return kin_fail(ctx, KITH_E_ARGUMENT,
                    "%s%s, which the method %s does not have (it belongs to %s)", name, is,
                    kith_select_method_name(params->method), list);
}

static kith_status check_switches(kith_ctx *ctx, const kith_select_params *params)
{
    const int aligned = (params->flags & KITH_SELECT_ALIGNED) != 0 ? IN_FLAGS : 0;
    const int path = (params->flags & KITH_SELECT_MERGE_PATH) != 0 ? IN_FLAGS : 0;
    KIN_TRY(check_switch(ctx, params, KITH_SWITCH_QUEUE, "buffer", (int)params->buffer));
    KIN_TRY(check_switch(ctx, params, KITH_SWITCH_QUEUE, "group", params->group));
    KIN_TRY(check_switch(ctx, params, KITH_SWITCH_QUEUE, "buffer_size", params->buffer_size));
    KIN_REFUSE_IF(params->buffer_size != 0 && params->buffer == KITH_BUFFER_NONE, ctx,
                  "buffer_size", "is %d, but buffer is none (give a buffer, or leave this out)",
                  (int)params->buffer_size);
    KIN_TRY(check_switch(ctx, params, KITH_SWITCH_MERGE, "level", params->level));
    KIN_TRY(
        check_switch(ctx, params, KITH_SWITCH_ALIGNED, "flags has KITH_SELECT_ALIGNED", aligned));
    KIN_TRY(check_switch(ctx, params, KITH_SWITCH_MERGE, "flags has KITH_SELECT_MERGE_PATH", path));
    return check_switch(ctx, params, KITH_SWITCH_SAMPLE, "sample", params->sample);
}

static kith_status check_power(kith_ctx *ctx, int32_t given, const char *name, int least, int most)
{
    KIN_REFUSE_IF(given != 0 && (given < least || given > most || (given & (given - 1)) != 0), ctx,
                  name, "is %d, must be 0, or a power of two, %d to %d", (int)given, least, most);
    return KITH_OK;
}

/* Sizes of a queue. */
static kith_status check_sizes(kith_ctx *ctx, const kith_select_params *params)
{
    KIN_REFUSE_IF(params->group != 0 && params->group != 2 && params->group != 4 &&
                      params->group != 8,
                  ctx, "group", "is %d, must be 0, 2, 4 or 8", (int)params->group);
    KIN_TRY(
        check_power(ctx, params->level, "level", KITH_QUEUE_LEVEL_LEAST, KITH_QUEUE_LEVEL_MOST));
    return check_power(ctx, params->buffer_size, "buffer_size", KITH_QUEUE_BUFFER_LEAST,
                       KITH_QUEUE_BUFFER_MOST);
}

static kith_status check_params(kith_ctx *ctx, const kith_select_params *given,
                                kith_select_params *known)
{
    const uint32_t flags =
        KITH_SELECT_LARGEST | KITH_SELECT_UNSORTED | KITH_SELECT_ALIGNED | KITH_SELECT_MERGE_PATH;
    KIN_TRY(KIN_TAKE(ctx, kith_select_params, flags, given, known));
    KIN_REFUSE_IF(
        known->method != KITH_SELECT_AUTO && kin_papers_select_method(known->method) == NULL, ctx,
        "method", "is %d, which is no method of selection (use one of KITH_SELECT_MAP)",
        (int)known->method);
    KIN_TRY(kin_check_flags(ctx, known->flags, flags, "selection"));
    KIN_REFUSE_IF((int)known->buffer < KITH_BUFFER_NONE || (int)known->buffer > KITH_BUFFER_SORTED,
                  ctx, "buffer", "is %d, which is no buffer (use one of kith_select_buffer)",
                  (int)known->buffer);
    KIN_TRY(check_sizes(ctx, known));
    KIN_REFUSE_IF(known->sample < 0 || known->sample > MOST_SAMPLE, ctx, "sample",
                  "is %d, must be 0 to %d", (int)known->sample, (int)MOST_SAMPLE);
    return check_switches(ctx, known);
}

/* ---- Values --------------------------------------------------------------------------------- */

static kith_status check_address(kith_ctx *ctx, const void *address, const char *name,
                                 int64_t item_bytes)
{
    KIN_ALLOW_IF((uint64_t)(uintptr_t)address % (uint64_t)item_bytes == 0, ctx, name,
                 "is at %p, no multiple of %lld, the bytes of one (align it)", address,
                 (long long)item_bytes);
}

/* *checked: the stride, filled in where it was 0. */
static kith_status check_stride(kith_ctx *ctx, const kith_values *values, int64_t stride,
                                const char *name, int64_t item_bytes, int64_t *checked)
{
    const int64_t row_bytes = values->cols * item_bytes; /* cols is below 2^32 */
    *checked = stride != 0 ? stride : row_bytes;
    KIN_REFUSE_IF(*checked < row_bytes, ctx, name,
                  "is %lld, must be 0 or at least %lld (cols * bytes)", (long long)stride,
                  (long long)row_bytes);
    KIN_REFUSE_IF(*checked % item_bytes != 0, ctx, name,
                  "is %lld, no multiple of %lld, the bytes of one (align the rows)",
                  (long long)stride, (long long)item_bytes);
    KIN_PASS_IF(kin_size_mul((uint64_t)values->rows, (uint64_t)*checked) <= INT64_MAX, ctx,
                KITH_E_ARGUMENT, kin_at_member("values", "rows"),
                "is %lld, too many of %lld bytes to be in memory (check the shape)",
                (long long)values->rows, (long long)*checked);
}

static kith_status check_dtype(kith_ctx *ctx, kith_dtype dtype)
{
    KIN_FAIL_IF(kith_dtype_bytes(dtype) == 0, ctx, KITH_E_ARGUMENT,
                kin_at_member("values", "dtype"),
                "is %d, which is no dtype (use one of kith_dtype)", (int)dtype);
    KIN_PASS_IF(dtype != KITH_U8 && dtype != KITH_I8, ctx, KITH_E_ARGUMENT,
                kin_at_member("values", "dtype"),
                "is %s, must be float32, float64, float16 or bfloat16 (convert the values)",
                kith_dtype_name(dtype));
}

static kith_status check_values(kith_ctx *ctx, const kith_values *values, kin_select_job *job)
{
    KIN_REFUSE_IF(values == NULL, ctx, "values", "is NULL (give a matrix)");
    KIN_TRY(check_dtype(ctx, values->dtype));
    KIN_FAIL_IF(values->rows < 0, ctx, KITH_E_ARGUMENT, kin_at_member("values", "rows"),
                "is %lld, must be at least 0", (long long)values->rows);
    KIN_FAIL_IF(values->cols < 1 || values->cols > MOST_COLS, ctx, KITH_E_ARGUMENT,
                kin_at_member("values", "cols"), "is %lld, must be 1 to %lld",
                (long long)values->cols, (long long)MOST_COLS);
    KIN_FAIL_IF(values->data == NULL && values->rows > 0, ctx, KITH_E_ARGUMENT,
                kin_at_member("values", "data"), "is NULL (let it point to the first row)");
    const int64_t item_bytes = kith_dtype_bytes(values->dtype);
    KIN_TRY(check_address(ctx, values->data, "values.data", item_bytes));
    KIN_TRY(check_stride(ctx, values, values->stride_bytes, "values.stride_bytes", item_bytes,
                         &job->stride_bytes));
    KIN_TRY(check_address(ctx, values->ids, "values.ids", sizeof *values->ids));
    if (values->ids == NULL) {
        return KITH_OK;
    }
    return check_stride(ctx, values, values->ids_stride_bytes, "values.ids_stride_bytes",
                        sizeof *values->ids, &job->ids_stride_bytes);
}

/* Everything but the output. */
static kith_status check_job(kith_ctx *ctx, const kith_values *values,
                             const kith_select_params *given, kin_select_job *job)
{
    kith_select_params params;
    KIN_TRY(check_params(ctx, given, &params));
    *job = (kin_select_job){.k = params.k,
                            .method = kin_papers_select_method(params.method),
                            .buffer = params.buffer,
                            .group = params.group,
                            .sample = params.sample != 0 ? params.sample : DEFAULT_SAMPLE,
                            .level = params.level,
                            .buffer_size = params.buffer_size,
                            .aligned = (params.flags & KITH_SELECT_ALIGNED) != 0,
                            .merge_path = (params.flags & KITH_SELECT_MERGE_PATH) != 0,
                            .largest = (params.flags & KITH_SELECT_LARGEST) != 0,
                            .sorted = (params.flags & KITH_SELECT_UNSORTED) == 0};
    KIN_TRY(check_values(ctx, values, job));
    job->values = values->data;
    job->ids = (const char *)values->ids;
    job->rows = values->rows;
    job->cols = values->cols;
    job->dtype = (kin_select_type)values->dtype;
    KIN_REFUSE_IF(params.k < 1, ctx, "k", "is %lld, must be at least 1", (long long)params.k);
    KIN_ALLOW_IF(params.k <= values->cols, ctx, "k",
                 "is %lld, must be at most %lld (a row has no more values)", (long long)params.k,
                 (long long)values->cols);
}

kith_status kin_api_check_select(kith_ctx *ctx, const kith_values *values,
                                 const kith_select_params *given, const kith_selection *out,
                                 kin_select_job *job)
{
    KIN_TRY(check_job(ctx, values, given, job));
    const bool lists = out != NULL && (out->values != NULL || out->ids != NULL);
    const bool kth = out != NULL && out->kth != NULL;
    KIN_REFUSE_IF(out == NULL || (!lists && !kth && job->rows > 0), ctx, "out",
                  "%s (give room for values, ids, or both; or for kth)",
                  out == NULL ? "is NULL" : "has neither values nor ids");
    KIN_REFUSE_IF(lists && kth, ctx, "out",
                  "has kth beside values or ids (ask for lists, or for the k-th alone)");
    const int64_t item_bytes = kin_select_type_bytes(job->dtype);
    KIN_TRY(check_address(ctx, out->values, "out.values", item_bytes));
    KIN_TRY(check_address(ctx, out->ids, "out.ids", sizeof *out->ids));
    KIN_TRY(check_address(ctx, out->kth, "out.kth", item_bytes));
    job->sorted |= kth; /* one value a row has but one order */
    job->out_values = out->values;
    job->out_ids = out->ids;
    job->out_kth = out->kth;
    return KITH_OK;
}

/* ---- The calls ------------------------------------------------------------------------------ */

void kin_api_select_report(kith_ctx *ctx, const kin_gpu *gpu, const kin_select_job *job)
{
    const int32_t chip = gpu == NULL ? KIN_SELECT_ON_CPU : kin_gpu_chip(&gpu->info);
    kith_report *report = &ctx->report;
    report->exact = KITH_CERTIFIED;
    (void)snprintf(report->isa, sizeof report->isa, "%s", kin_isa_name(ctx->isa));
    (void)snprintf(report->screen, sizeof report->screen, "%s", kin_select_choose(chip, job)->name);
}

static kith_status select_lists(kith_ctx *ctx, const kith_values *values,
                                const kith_select_params *params, const kith_selection *out)
{
    kin_select_job job;
    kin_gpu *gpu = NULL;
    KIN_TRY(kin_api_check_select(ctx, values, params, out, &job));
    if (job.rows == 0) {
        return KITH_OK;
    }
    KIN_TRY(kin_device_enter_named(ctx, &gpu));
    const kith_status status =
        gpu != NULL ? kin_select_device(ctx, gpu, &job, false) : kin_select_host(ctx, &job);
    kin_device_leave(ctx, gpu);
    KIN_TRY(status);
    kin_api_select_report(ctx, gpu, &job);
    return KITH_OK;
}

kith_status kith_select(kith_ctx *ctx, const kith_values *values, const kith_select_params *params,
                        const kith_selection *out)
{
    KIN_CALL(ctx, select_lists(ctx, values, params, out));
}
