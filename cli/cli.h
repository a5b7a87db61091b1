/* SPDX-License-Identifier: Apache-2.0
 * The command line: exit codes, messages, and the entry point of each command. Everything in cli/
 * knows the library by its public header alone. */
#ifndef CLI_H
#define CLI_H

#include "cli_options.h"

enum {
    CLI_DONE = 0,
    CLI_FAILED = 1,
    CLI_WRONG_USAGE = 2,
    CLI_INTERRUPTED = 130 /* 128 + SIGINT, as shells count */
};

/* Returns what is not CLI_DONE. */
#define CLI_TRY(call)             \
    do {                          \
        const int code_ = (call); \
        if (code_ != CLI_DONE) {  \
            return code_;         \
        }                         \
    } while (0)

/* What is done where all went well so far. */
#define CLI_THEN(code, call)      \
    do {                          \
        if ((code) == CLI_DONE) { \
            (code) = (call);      \
        }                         \
    } while (0)

/* ---- Messages: what goes to stderr, one line, `kith: FILE: what is wrong (what to do)` ------- */

/* Print the line and return the exit code, CLI_FAILED or CLI_WRONG_USAGE. where may be NULL. */
int cli_message(int code, const char *where, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define cli_fail(...) cli_message(CLI_FAILED, __VA_ARGS__)
#define cli_wrong(...) cli_message(CLI_WRONG_USAGE, __VA_ARGS__)
#define CLI_FAIL_IF(wrong, ...)           \
    do {                                  \
        if (wrong) {                      \
            return cli_fail(__VA_ARGS__); \
        }                                 \
    } while (0)
/* The same at the end of a check: what is right ends it well. */
#define CLI_PASS_IF(right, ...)                            \
    do {                                                   \
        return (right) ? CLI_DONE : cli_fail(__VA_ARGS__); \
    } while (0)

enum { CLI_LINE_BYTES = 2048 };
/* From now on a line is not printed but kept there, the first one: where many processes find the
 * same mistake, one of them tells it. Warnings are printed all the same. */
void cli_message_keep(char line[CLI_LINE_BYTES]);
/* Bytes that would move a terminal's cursor become '?'. */
void cli_message_clean(char *text);
/* The same for a file's name that is printed: itself where it has none of them, else a copy that is
 * valid for four more calls. */
const char *cli_message_safe(const char *text);
void cli_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* "12.5 MiB" into text, which it returns. */
enum { CLI_SIZE_BYTES = 32 };
const char *cli_message_size(uint64_t bytes, char text[CLI_SIZE_BYTES]);

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Zeros that stay until the command ends; NULL where there is no memory. */
void *cli_keep(uint64_t count, size_t bytes);
void cli_keep_end(void);
/* So many of what the pointer points to; or the message. */
#define CLI_KEEP(pointer, count, where, ...)                        \
    do {                                                            \
        (pointer) = cli_keep((uint64_t)(count), sizeof *(pointer)); \
        CLI_FAIL_IF((pointer) == NULL, where, __VA_ARGS__);         \
    } while (0)

/* ---- Commands ------------------------------------------------------------------------------- */

#define CLI_COMMAND_FUNCTION(COMMAND, function) int cli_##function(const cli_args *args);
CLI_COMMAND_MAP(CLI_COMMAND_FUNCTION)

#endif
