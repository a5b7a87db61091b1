/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_session.h"

#include "cli.h"
#include "cli_output.h"
#include "cli_report.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Errors come back as a status, and information belongs to the report: warnings alone are left. */
static void log_line(void *arg, int level, const char *line)
{
    enum { WARNING = 1 };
    if (level == WARNING) {
        cli_progress_clear(arg);
        cli_warn("%s", line);
    }
}

/* What no file system takes would not leave room for what is wrong with it. */
static int check_names(const cli_args *args)
{
    const char *const more[] = {args->init, args->points, args->truth, args->shards};
    const int count = args->path_count + (int)(sizeof more / sizeof *more);
    for (int i = 0; i < count; i++) {
        const char *name = i < args->path_count ? args->paths[i] : more[i - args->path_count];
        CLI_FAIL_IF(name != NULL && strlen(name) >= PATH_MAX, name,
                    "the name is too long (give a shorter one)");
    }
    return CLI_DONE;
}

int cli_session_open(cli_session *session, const cli_args *args)
{
    CLI_TRY(check_names(args));
    session->start = cli_clock_now();
    session->read = kith_points_params_default();
    session->read.header = args->header;
    session->read.delimiter = args->delimiter;
    session->read.columns = args->columns;
    cli_source_reset();
    cli_signal_install();
    cli_progress_start(&session->progress, cli_given(args, CLI_OPT_QUIET));
    kith_ctx_params params = kith_ctx_params_default();
    params.threads = args->threads;
    params.memory_limit = args->memory_bytes;
    params.device = args->device;
    params.gpu_memory_limit = args->gpu_memory_bytes;
    params.progress = cli_progress_tick;
    params.progress_arg = &session->progress;
    params.log = log_line;
    params.log_arg = &session->progress;
    const kith_status status = kith_ctx_create(&params, &session->ctx);
    CLI_PASS_IF(status == KITH_OK, NULL, "%s", kith_status_text(status));
}

/* A file that was opened: points or a result. */
typedef struct cli_owned {
    kith_points *points;
    kith_result *result;
    struct cli_owned *before;
} cli_owned;

static int own(cli_session *session, cli_owned **file)
{
    CLI_KEEP(*file, 1, NULL, "no memory for a file (free some memory)");
    (*file)->before = session->owned;
    session->owned = *file;
    return CLI_DONE;
}

void cli_session_close(cli_session *session)
{
    cli_progress_clear(&session->progress);
    for (const cli_owned *file = session->owned; file != NULL; file = file->before) {
        kith_points_free(file->points);
        kith_result_free(file->result);
    }
    kith_ctx_free(session->ctx);
    session->ctx = NULL;
}

/* Whether it is that file, one in that folder, or one that is called after it. */
static bool begins_with(const char *file, const char *path)
{
    const size_t bytes = strlen(path);
    return strncmp(file, path, bytes) == 0 && strchr("/.-", file[bytes]) != NULL;
}

/* The file to blame; text: room for its rows. */
static const char *find_file(const kith_where *told, const char *where, size_t count,
                             const cli_called *files, char text[CLI_LINE_BYTES])
{
    const cli_called *found = NULL;
    for (size_t i = 0; i < count; i++) {
        const cli_called *f = &files[i];
        if (f->argument != NULL && strcmp(told->argument, f->argument) == 0 &&
            (f->origin <= 0 || told->row >= f->origin)) {
            found = f;
        }
    }
    if (found == NULL || found->origin == 0) {
        return found != NULL ? found->path : where;
    }
    (void)snprintf(text, CLI_LINE_BYTES,
                   found->origin < 0 ? "%s, rows from %" PRId64 " on"
                                     : "%s, whose rows count from %" PRId64 " on",
                   found->path, found->origin < 0 ? -found->origin : found->origin);
    return text;
}

int cli_session_blame(cli_session *session, kith_status status, const char *where, size_t count,
                      const cli_called *files)
{
    cli_progress_clear(&session->progress);
    if (status == KITH_OK) {
        return CLI_DONE;
    }
    if (status == KITH_E_CANCELLED || cli_signal_came()) {
        if (!session->silent) {
            (void)cli_fail(NULL, "interrupted (no unfinished file is left)");
        }
        return CLI_INTERRUPTED;
    }
    char text[CLI_LINE_BYTES];
    kith_where told = {.struct_size = (uint32_t)sizeof told};
    (void)kith_ctx_where(session->ctx, &told);
    if (strcmp(told.argument, "memory_limit") == 0) {
        return cli_fail(where, "--memory %s", told.reason);
    }
    /* The rooms that read and write files name the file themselves, and so are variables named. */
    const bool alone = count > 0 || (where != NULL && begins_with(told.file, where));
    const bool named =
        (told.file[0] != '\0' && alone) || strncmp(told.argument, "KITH_", strlen("KITH_")) == 0;
    const char *detail = kith_ctx_detail(session->ctx);
    return cli_fail(named ? NULL : find_file(&told, where, count, files, text), "%s",
                    detail[0] != '\0' ? detail : kith_status_text(status));
}

int cli_session_check(cli_session *session, kith_status status, const char *where)
{
    return cli_session_blame(session, status, where, 0, NULL);
}

int cli_session_saved(cli_session *session, kith_status status, const char *path)
{
    const int code = cli_session_check(session, status, path);
    if (code == CLI_DONE) {
        cli_output_step_aside(path);
    }
    return code;
}

/* ---- Points that are written ---------------------------------------------------------------- */

int cli_points_save(cli_session *session, const char *path, const kith_matrix *points)
{
    return path == NULL
               ? CLI_DONE
               : cli_session_saved(session, kith_points_save(session->ctx, path, points), path);
}

int cli_distances_save(cli_session *session, const char *path, const kith_neighbors *lists,
                       const char *from)
{
    const kith_matrix distances = {.data = lists->distances,
                                   .rows = lists->rows,
                                   .cols = (int32_t)lists->k,
                                   .dtype = KITH_F32};
    CLI_FAIL_IF(path != NULL && lists->distances == NULL, from,
                "holds ids without distances (leave --distances out)");
    return cli_points_save(session, path, &distances);
}

/* ---- Devices --------------------------------------------------------------------------------- */

/* The reason has its own way out in brackets, mostly; the processor is always one. */
static int refuse_device(const char *where, const char *reason)
{
    const size_t length = strlen(reason);
    CLI_FAIL_IF(length > 0 && reason[length - 1] == ')', where, "%.*s; or use --device cpu)",
                (int)length - 1, reason);
    return cli_fail(where, "%s (use --device cpu)", reason);
}

/* "cuda" means every GPU, of which the first that can be used is taken; so does the entry "cuda" of
 * kith devices, which stands for all that are not there. */
static int check_device(const char *where, const char *name)
{
    const bool any = strcmp(name, "cuda") == 0 || strcmp(name, "cuda:all") == 0;
    kith_device refused = {0};
    kith_device device = {.struct_size = (uint32_t)sizeof device};
    for (int32_t i = 0; kith_device_get(i, &device) == KITH_OK; i++) {
        if (any || strcmp(device.name, "cuda") == 0 ? strncmp(device.name, "cuda", 4) == 0
                                                    : strcmp(device.name, name) == 0) {
            if (device.available != 0) {
                return CLI_DONE;
            }
            refused = device;
        }
    }
    return refused.text[0] != '\0'
               ? refuse_device(where, refused.text)
               : cli_fail(where, "there is no such device (kith devices lists what there is; use "
                                 "--device cpu)");
}

int cli_device_check(const char *given)
{
    const char *name = given != NULL ? given : getenv("KITH_DEVICE");
    const char *where = given != NULL ? given : "KITH_DEVICE";
    if (name == NULL || name[0] == '\0' || strcmp(name, "auto") == 0 || strcmp(name, "cpu") == 0) {
        return CLI_DONE;
    }
    CLI_FAIL_IF(!cli_value_is_device(name), where,
                "'%s' is no device (use auto, cpu, cuda, cuda:N, cuda:N,M or cuda:all)", name);
    if (strchr(name, ',') == NULL) {
        return check_device(where, name);
    }
    int code = CLI_DONE;
    for (const char *at = name + strlen("cuda:"); *at != '\0' && code == CLI_DONE;) {
        char one[16];
        const size_t digits = strcspn(at, ",");
        (void)snprintf(one, sizeof one, "cuda:%.*s", (int)digits, at);
        code = check_device(where, one);
        at += digits + (at[digits] == ',' ? 1 : 0);
    }
    return code;
}

/* ---- Points and results ---------------------------------------------------------------------- */

static int read_points(cli_session *session, const char *path, const kith_points_params *params,
                       cli_points *points)
{
    cli_owned *file = NULL;
    points->path = path;
    CLI_TRY(own(session, &file));
    CLI_TRY(cli_session_check(session, kith_points_open(session->ctx, path, params, &file->points),
                              path));
    points->handle = file->points;
    points->matrix = kith_points_matrix(points->handle);
    cli_source_keep(path, points->handle);
    return CLI_DONE;
}

int cli_session_read(cli_session *session, const char *path, cli_points *points)
{
    return read_points(session, path, &session->read, points);
}

void cli_points_close(cli_session *session, cli_points *points)
{
    for (cli_owned *file = session->owned; file != NULL; file = file->before) {
        file->points = file->points == points->handle ? NULL : file->points;
    }
    kith_points_free(points->handle);
    points->handle = NULL;
    points->matrix = NULL;
}

int cli_points_check_like(const char *path, const kith_matrix *points, const char *other_path,
                          const kith_matrix *other, bool type)
{
    CLI_FAIL_IF(points->cols != other->cols, path,
                "has %" PRId32 " columns, %s has %" PRId32 " (give points of one dimension)",
                points->cols, other_path, other->cols);
    CLI_PASS_IF(!type || points->dtype == other->dtype, path,
                "holds %s, %s holds %s (kith convert changes the type)",
                kith_dtype_name(points->dtype), other_path, kith_dtype_name(other->dtype));
}

int cli_session_result(cli_session *session, const char *path, const kith_neighbors **lists)
{
    cli_owned *file = NULL;
    CLI_TRY(own(session, &file));
    CLI_TRY(cli_session_check(session, kith_result_open(session->ctx, path, &file->result), path));
    *lists = kith_result_neighbors(file->result);
    return CLI_DONE;
}

int cli_session_inspect(cli_session *session, const char *path, const kith_points_params *params,
                        kith_file_info *info)
{
    info->struct_size = (uint32_t)sizeof *info;
    return cli_session_check(session, kith_file_inspect(session->ctx, path, params, info), path);
}

/* ---- Labels and ids -------------------------------------------------------------------------- */

/* All columns. rows: as many as there are to be, 0 where nobody knows. */
static int read_numbers(cli_session *session, const char *path, int64_t rows, cli_numbers *numbers)
{
    kith_points_params params = session->read;
    params.use = KITH_USE_COLUMN;
    params.columns = NULL;
    params.rows = rows;
    CLI_TRY(read_points(session, path, &params, &numbers->points));
    const kith_matrix *m = numbers->points.matrix;
    numbers->count = m->rows * m->cols;
    numbers->values = m->data;
    return CLI_DONE;
}

int cli_column_read(cli_session *session, const char *path, const cli_points *of,
                    cli_numbers *column)
{
    CLI_TRY(read_numbers(session, path, of->matrix->rows, column));
    const kith_matrix *m = column->points.matrix;
    CLI_FAIL_IF(m->cols != 1, path,
                "has %" PRId32 " columns, must have one (give a number for each row)", m->cols);
    CLI_PASS_IF(m->rows == of->matrix->rows, path,
                "has %" PRId64 " numbers, %s has %" PRId64 " rows (give one for each row)", m->rows,
                of->path, of->matrix->rows);
}

int64_t cli_numbers_check(const cli_numbers *numbers, double most)
{
    int64_t i = 0;
    while (i < numbers->count && numbers->values[i] >= 0.0 && numbers->values[i] <= most &&
           numbers->values[i] == floor(numbers->values[i])) {
        i++;
    }
    return i;
}

int cli_ids_read(cli_session *session, const char *path, const char *of, int64_t rows, cli_ids *ids)
{
    cli_numbers given;
    CLI_TRY(read_numbers(session, path, 0, &given));
    const kith_matrix *m = given.points.matrix;
    ids->count = given.count;
    const int64_t wrong = cli_numbers_check(&given, (double)(rows - 1));
    CLI_FAIL_IF(wrong < given.count, path,
                "row %" PRId64 ", column %" PRId64 " holds %.17g, which is no row of %s (give "
                "whole numbers from 0 to %" PRId64 ")",
                wrong / m->cols, wrong % m->cols, given.values[wrong], of, rows - 1);
    CLI_KEEP(ids->values, ids->count, path,
             "no memory for %" PRId64 " x %" PRId32 " ids (give fewer)", m->rows, m->cols);
    for (int64_t i = 0; i < ids->count; i++) {
        ids->values[i] = (uint32_t)given.values[i];
    }
    cli_points_close(session, &given.points);
    return CLI_DONE;
}

/* ---- Which points ---------------------------------------------------------------------------- */

int cli_claim_make(cli_session *session, const cli_points *points, kith_fingerprint *out)
{
    return cli_session_check(session, kith_fingerprint_make(session->ctx, points->matrix, out),
                             points->path);
}

int cli_claim_check(cli_session *session, const char *path, const kith_result_meta *meta,
                    const cli_points *points)
{
    char texts[2][CLI_CLAIM_BYTES];
    kith_fingerprint given;
    if (meta->points.rows == 0) {
        return CLI_DONE;
    }
    CLI_TRY(cli_claim_make(session, points, &given));
    if (cli_claim_equal(&meta->points, &given)) {
        return CLI_DONE;
    }
    return cli_fail(path,
                    "was made of points %s, %s holds %s (give the points that it was made of, in "
                    "their type)",
                    cli_claim_name(&meta->points, texts[0]), points->path,
                    cli_claim_name(&given, texts[1]));
}
