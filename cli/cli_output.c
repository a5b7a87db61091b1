/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cli_output.h"
#include "cli.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* "-" */
static bool is_standard(const char *path)
{
    return path != NULL && strcmp(path, "-") == 0;
}

bool cli_output_ends(const char *path, const char *endings)
{
    const char *slash = strrchr(path, '/');
    const char *ending = strrchr(slash != NULL ? slash : path, '.');
    if (ending == NULL || ending[1] == '\0') {
        return false;
    }
    const size_t length = strlen(ending);
    for (const char *known = endings; known != NULL; known = strchr(known + 1, '.')) {
        const size_t known_length = strcspn(known, " ");
        if (known_length == length && strncasecmp(known, ending, length) == 0) {
            return true;
        }
    }
    return false;
}

#define ROW(NAME, name, endings, holds, kind, bytes, layout) {"." name, (holds)},
static const struct {
    const char *ending;
    unsigned holds;
} formats[] = {KITH_FILE_MAP(ROW)};
#undef ROW
enum { FORMATS = sizeof formats / sizeof formats[0] };

const char *cli_output_endings(unsigned holds)
{
    enum { TEXTS = 4, TEXT_BYTES = 160 };
    static char texts[TEXTS][TEXT_BYTES];
    static int next = 0;
    char *text = texts[next++ % TEXTS];
    size_t used = 0;
    for (int i = 0; i < FORMATS && used < TEXT_BYTES; i++) {
        if ((formats[i].holds & holds) != 0) {
            used += (size_t)snprintf(text + used, TEXT_BYTES - used, "%s%s", used > 0 ? " " : "",
                                     formats[i].ending);
        }
    }
    return text;
}

unsigned cli_output_holds(const char *path)
{
    for (int i = 0; i < FORMATS; i++) {
        if (cli_output_ends(is_standard(path) ? ".csv" : path, formats[i].ending)) {
            return formats[i].holds;
        }
    }
    return 0;
}

enum { FOLDER_BYTES = 4096 };

/* The folder that a file is in; false where its name is too long. */
static bool folder_of(const char *path, char folder[FOLDER_BYTES])
{
    const char *slash = strrchr(path, '/');
    const size_t length = slash == NULL || slash == path ? 1 : (size_t)(slash - path);
    if (length >= FOLDER_BYTES) {
        return false;
    }
    memcpy(folder, slash == NULL ? "." : path, length);
    folder[length] = '\0';
    return true;
}

static const char *name_in_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static int check_folder(const char *path)
{
    char folder[FOLDER_BYTES];
    CLI_FAIL_IF(!folder_of(path, folder), path, "the name is too long (give a shorter one)");
    struct stat found;
    CLI_FAIL_IF(stat(folder, &found) != 0, path,
                "cannot be written, its folder %s: %s (make the folder first)", folder,
                strerror(errno));
    CLI_FAIL_IF(!S_ISDIR(found.st_mode), path,
                "cannot be written, %s is no folder (give another name)", folder);
    CLI_FAIL_IF(access(folder, W_OK | X_OK) != 0, path,
                "cannot be written, its folder %s: %s (write to another one)", folder,
                strerror(errno));
    return CLI_DONE;
}

void cli_output_step_aside(const char *path)
{
    if (is_standard(path)) {
        (void)fflush(stdout);
        (void)dup2(STDERR_FILENO, STDOUT_FILENO);
    }
}

/* What may be written to, although a finished file cannot take its name. */
static bool takes_text(const char *path, const struct stat *found, const char *endings)
{
    return endings != NULL && S_ISFIFO(found->st_mode) && cli_output_ends(path, ".csv .tsv");
}

int cli_output_check(const char *path, const char *endings)
{
    if (path == NULL) {
        return CLI_DONE;
    }
    if (is_standard(path)) {
        return endings == NULL || strstr(endings, ".csv") != NULL
                   ? CLI_DONE
                   : cli_wrong(path,
                               "standard output takes text alone, and this is written as %s "
                               "(give the name of a file)",
                               endings);
    }
    struct stat found;
    if (stat(path, &found) == 0) {
        CLI_FAIL_IF(S_ISDIR(found.st_mode), path, "is a folder (give the name of a file in it)");
        /* The finished file takes the name's place: a device or a pipe would be gone. */
        CLI_FAIL_IF(!S_ISREG(found.st_mode) && !takes_text(path, &found, endings), path,
                    "is no regular file (give the name of a file)");
    }
    if (endings != NULL && !cli_output_ends(path, endings)) {
        return cli_wrong(path, "its ending names no format for this (use one of %s)", endings);
    }
    const int code = check_folder(path);
    CLI_FAIL_IF(code == CLI_DONE && strlen(name_in_folder(path)) > NAME_MAX, path,
                "the name is too long (give one of at most %d bytes)", NAME_MAX);
    return code;
}

static bool are_one(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

int cli_output_check_other(const char *path, const char *other)
{
    char folders[2][FOLDER_BYTES];
    struct stat a;
    struct stat b;
    if (path == NULL || other == NULL) {
        return CLI_DONE;
    }
    const bool one_file = stat(path, &a) == 0 && stat(other, &b) == 0 && are_one(&a, &b);
    const bool one_name = strcmp(name_in_folder(path), name_in_folder(other)) == 0 &&
                          folder_of(path, folders[0]) && folder_of(other, folders[1]) &&
                          stat(folders[0], &a) == 0 && stat(folders[1], &b) == 0 && are_one(&a, &b);
    return one_file || one_name ? cli_wrong(path, "is named for two outputs (give two names)")
                                : CLI_DONE;
}

/* FILE of FILE:DATASET, where there is nothing of the whole name; name: room for it. */
static const char *file_of(const char *path, char name[FOLDER_BYTES])
{
    struct stat info;
    const char *colon = strrchr(path, ':');
    if (stat(path, &info) == 0 || colon == NULL || colon - path >= FOLDER_BYTES) {
        return path;
    }
    memcpy(name, path, (size_t)(colon - path));
    name[colon - path] = '\0';
    return name;
}

int cli_output_check_input(const char *path, const char *input)
{
    char name[FOLDER_BYTES];
    struct stat a;
    struct stat b;
    if (path == NULL || input == NULL || stat(path, &a) != 0 ||
        stat(file_of(input, name), &b) != 0 || !are_one(&a, &b)) {
        return CLI_DONE;
    }
    return cli_fail(path, "is input and output at once (give the output another name)");
}

int cli_output_check_all(const cli_output *outputs, int count, const char *const *inputs,
                         int input_count)
{
    for (int i = 0; i < count; i++) {
        CLI_TRY(cli_output_check(outputs[i].path, outputs[i].endings));
        for (int j = 0; j < input_count; j++) {
            CLI_TRY(cli_output_check_input(outputs[i].path, inputs[j]));
        }
        for (int j = 0; j < i; j++) {
            CLI_TRY(cli_output_check_other(outputs[i].path, outputs[j].path));
        }
    }
    return CLI_DONE;
}

int cli_output_check_args(const cli_args *args, const char *endings)
{
    const char *inputs[CLI_MAX_PATHS + 6] = {args->init,  args->truth,  args->points,
                                             args->allow, args->groups, args->query_groups};
    const char *own = cli_given(args, CLI_OPT_FORMAT) ? NULL : endings;
    const cli_output outputs[] = {{args->output, own},
                                  {args->output_back, own},
                                  {args->distances, CLI_ENDINGS_DISTANCES},
                                  {args->points_out, cli_output_endings(KITH_FILE_POINTS_OUT)},
                                  {args->map, CLI_ENDINGS_MAP},
                                  {args->components, CLI_ENDINGS_MAP},
                                  {args->kept, CLI_ENDINGS_MAP},
                                  {args->html, CLI_ENDINGS_PAGE}};
    for (int i = 0; i < args->path_count; i++) { /* the first word of kith index is no file */
        inputs[6 + i] = args->command == CLI_INDEX && i == 0 ? NULL : args->paths[i];
    }
    return cli_output_check_all(outputs, (int)(sizeof outputs / sizeof *outputs), inputs,
                                6 + args->path_count);
}

/* ---- A page --------------------------------------------------------------------------------- */

static void put_escaped(FILE *to, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        const char *name = text[i] == '&'   ? "&amp;"
                           : text[i] == '<' ? "&lt;"
                           : text[i] == '>' ? "&gt;"
                                            : NULL;
        (void)(name != NULL ? fputs(name, to) : putc(text[i], to));
    }
}

static void put_row(FILE *to, const char *line, size_t bytes)
{
    const char *colon = memchr(line, ':', bytes);
    const size_t key = colon != NULL ? (size_t)(colon - line) : 0;
    const size_t value = colon != NULL ? key + 1 + strspn(colon + 1, " ") : 0;
    (void)fputs("<tr><th>", to);
    put_escaped(to, line, key);
    (void)fputs("</th><td>", to);
    put_escaped(to, line + value, bytes - value);
    (void)fputs("</td></tr>\n", to);
}

static void put_page(FILE *to, const char *title, const char *lines)
{
    (void)fprintf(to,
                  "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                  "<meta name=\"viewport\" content=\"width=device-width\">\n<title>%s</title>\n"
                  "<style>\n:root { color-scheme: light dark; }\n"
                  "body { font: 16px/1.5 sans-serif; max-width: 50em; margin: 2em auto; "
                  "padding: 0 1em; }\n"
                  "th { text-align: left; vertical-align: top; padding-right: 1.5em; }\n"
                  "td { overflow-wrap: anywhere; }\n</style>\n</head>\n<body>\n<h1>%s</h1>\n"
                  "<table>\n",
                  title, title);
    for (const char *line = lines; *line != '\0';) {
        const size_t bytes = strcspn(line, "\n");
        put_row(to, line, bytes);
        line += bytes + (line[bytes] == '\n');
    }
    (void)fputs("</table>\n</body>\n</html>\n", to);
}

static bool put_bytes(int file, const char *bytes, size_t count)
{
    while (count > 0) {
        const ssize_t put = write(file, bytes, count);
        if (put < 0 && errno != EINTR) {
            return false;
        }
        bytes += put > 0 ? put : 0;
        count -= put > 0 ? (size_t)put : 0;
    }
    return true;
}

static int make_empty(int file)
{
    return ftruncate(file, 0);
}

/* Asks again where a signal came between. */
static bool has_done(int (*call)(int file), int file)
{
    int code = -1;
    do {
        code = call(file);
    } while (code != 0 && errno == EINTR);
    return code == 0;
}

/* The hidden file that becomes the page. Its name is always the same, so that a process which is
 * killed leaves one at most, and the next takes it; a lock, where there are locks, keeps it to one
 * process at a time. */
static int open_half(const char *half)
{
    struct stat mine;
    struct stat named;
    const int file = open(half, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (file < 0) {
        return -1;
    }
    const bool busy = flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (!busy && fstat(file, &mine) == 0 && stat(half, &named) == 0 && are_one(&mine, &named) &&
        has_done(make_empty, file)) {
        return file;
    }
    (void)close(file);
    errno = EBUSY;
    return -1;
}

static bool write_half(int file, const char *half, const char *path, const char *page, size_t bytes)
{
    if (put_bytes(file, page, bytes) && has_done(fsync, file) && rename(half, path) == 0) {
        return true;
    }
    const int reason = errno;
    (void)unlink(half);
    errno = reason;
    return false;
}

int cli_output_page(const char *path, const char *title, const char *lines)
{
    char folder[FOLDER_BYTES];
    char half[FOLDER_BYTES + NAME_MAX];
    char *page = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&page, &bytes);
    CLI_FAIL_IF(to == NULL, path, "no memory for the page (free some memory)");
    put_page(to, title, lines);
    const bool made = ferror(to) == 0;
    (void)folder_of(path, folder); /* was looked at by cli_output_check */
    (void)snprintf(half, sizeof half, "%s/.kith-%.200s.tmp", folder, name_in_folder(path));
    const int file = fclose(to) == 0 && made ? open_half(half) : -1;
    const bool good = file >= 0 && write_half(file, half, path, page, bytes);
    const int code =
        good ? CLI_DONE
             : cli_fail(path, "cannot be written: %s (make room, or try again)", strerror(errno));
    if (file >= 0) {
        (void)close(file);
    }
    free(page);
    return code;
}

/* ---- Whether a job is the same --------------------------------------------------------------- */

enum { PIECE_BYTES = 65536 };

/* FNV-1a. */
static uint64_t add(uint64_t sum, const unsigned char *data, ssize_t bytes)
{
    for (ssize_t i = 0; i < bytes; i++) {
        sum = (sum ^ data[i]) * 0x100000001b3u;
    }
    return sum;
}

/* All of them, whatever the system gives at a time; fewer where the file has been shortened. */
static ssize_t read_at(int file, unsigned char *to, size_t bytes, off_t offset)
{
    size_t done = 0;
    while (done < bytes) {
        const ssize_t got = pread(file, to + done, bytes - done, offset + (off_t)done);
        if (got == 0) {
            break;
        }
        if (got > 0) {
            done += (size_t)got;
        } else if (errno != EINTR) {
            return -1;
        }
    }
    return (ssize_t)done;
}

/* Of the first and the last piece. */
static bool sum_ends(int file, off_t bytes, uint64_t *sum)
{
    unsigned char piece[PIECE_BYTES];
    const off_t last = bytes > PIECE_BYTES ? bytes - PIECE_BYTES : 0;
    *sum = 0xcbf29ce484222325u;
    for (int i = 0; i < 2; i++) {
        const ssize_t got = read_at(file, piece, sizeof piece, i == 0 ? 0 : last);
        if (got < 0) {
            return false;
        }
        *sum = add(*sum, piece, got);
    }
    return true;
}

int cli_same_file(const char *what, const char *path, char *text, size_t room)
{
    struct stat info;
    char name[FOLDER_BYTES];
    uint64_t sum = 0;
    if (path == NULL) {
        return CLI_DONE;
    }
    const size_t used = strlen(text);
    const char *dataset = strrchr(path, ':');
    CLI_FAIL_IF(strcmp(path, "-") == 0 || (stat(path, &info) == 0 && S_ISFIFO(info.st_mode)), path,
                "is a pipe, and a job in chunks looks for its files again when it "
                "goes on (give a file, or more --memory)");
    const int file = open(file_of(path, name), O_RDONLY | O_CLOEXEC);
    const bool known = file >= 0 && fstat(file, &info) == 0 && sum_ends(file, info.st_size, &sum);
    const int error = errno;
    if (file >= 0) {
        (void)close(file);
    }
    CLI_FAIL_IF(!known, path, "cannot be read: %s (check the file)", strerror(error));
    (void)snprintf(text + used, room - used,
                   "%s %" PRId64 " bytes, file %" PRIu64 ", changed %" PRId64 ".%09ld and %" PRId64
                   ".%09ld, ends %016" PRIx64 "%.64s\n",
                   what, (int64_t)info.st_size, (uint64_t)info.st_ino, (int64_t)info.st_mtim.tv_sec,
                   (long)info.st_mtim.tv_nsec, (int64_t)info.st_ctim.tv_sec,
                   (long)info.st_ctim.tv_nsec, sum, dataset != NULL ? dataset : "");
    return CLI_DONE;
}

int cli_same_describe(const cli_args *args, char text[CLI_SAME_BYTES])
{
    (void)snprintf(text, CLI_SAME_BYTES, "kith %s\nradius %.17g\nperiod %.512s\n", kith_version(),
                   args->radius, args->period != NULL ? args->period : "none");
    CLI_TRY(cli_same_file("corpus", args->paths[0], text, CLI_SAME_BYTES));
    return cli_same_file("queries", args->paths[1], text, CLI_SAME_BYTES);
}
