/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_source.h"

#include "cli_message.h"

#include <inttypes.h>
#include <stdio.h>

enum { SOURCES_MAX = 8, NAMES_BYTES = 160 };

typedef struct kept_source {
    const char *path;
    kith_points_source source;
    int64_t cols;
    char names[NAMES_BYTES];
} kept_source;

static kept_source kept[SOURCES_MAX];
static int kept_count = 0;

void cli_source_reset(void)
{
    kept_count = 0;
}

static bool is_plain(const kith_points_source *source)
{
    return source->delimiter == 0 && source->fortran_order == 0 && source->big_endian == 0;
}

void cli_source_keep(const char *path, const kith_points *points)
{
    const kith_points_source *source = kith_points_get_source(points);
    if (is_plain(source) || kept_count == SOURCES_MAX) {
        return;
    }
    kept_source *k = &kept[kept_count++];
    k->path = path;
    k->source = *source;
    k->cols = kith_points_values(points)->cols;
    (void)snprintf(k->names, sizeof k->names, "%s", source->names);
    cli_message_clean(k->names);
}

static const char *separator_name(int32_t delimiter)
{
    switch (delimiter) {
    case ',':
        return "comma";
    case ';':
        return "semicolon";
    case '\t':
        return "tab";
    default:
        return "blank";
    }
}

void cli_source_print(void)
{
    for (int i = 0; i < kept_count; i++) {
        const kept_source *k = &kept[i];
        (void)printf("read: %s", cli_message_safe(k->path));
        if (k->source.delimiter != 0) {
            (void)printf(", separator %s", separator_name(k->source.delimiter));
            (void)printf(k->source.header != 0 ? ", header '%s'" : ", no header", k->names);
        }
        if (k->cols != k->source.file_cols) {
            (void)printf(", %" PRId64 " of %" PRId64 " columns", k->cols, k->source.file_cols);
        }
        (void)printf("%s%s%s\n", k->source.compressed != 0 ? ", unpacked" : "",
                     k->source.fortran_order != 0 ? ", converted from Fortran order" : "",
                     k->source.big_endian != 0 ? ", converted from big-endian" : "");
    }
}

void cli_source_put(cli_json *json)
{
    if (kept_count == 0) {
        return;
    }
    cli_json_open_array(json, "read");
    for (int i = 0; i < kept_count; i++) {
        const kept_source *k = &kept[i];
        cli_json_open(json, NULL);
        cli_json_text(json, "file", k->path);
        if (k->source.delimiter != 0) {
            cli_json_text(json, "separator", separator_name(k->source.delimiter));
            cli_json_text(json, "header", k->source.header != 0 ? k->names : NULL);
        }
        cli_json_int(json, "columns", k->cols);
        cli_json_int(json, "file_columns", k->source.file_cols);
        cli_json_bool(json, "compressed", k->source.compressed != 0);
        cli_json_bool(json, "fortran_order", k->source.fortran_order != 0);
        cli_json_bool(json, "big_endian", k->source.big_endian != 0);
        cli_json_close(json);
    }
    cli_json_close_array(json);
}
