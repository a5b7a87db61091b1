/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_output.h"

#include "cli.h"
#include "cli_message.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

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

static int check_folder(const char *path)
{
    char folder[4096];
    const char *slash = strrchr(path, '/');
    const size_t length = slash == NULL ? 1 : slash == path ? 1 : (size_t)(slash - path);
    if (length >= sizeof folder) {
        return cli_fail(path, "the name is too long (give a shorter one)");
    }
    memcpy(folder, slash == NULL ? "." : path, length);
    folder[length] = '\0';
    struct stat found;
    if (stat(folder, &found) != 0) {
        return cli_fail(path, "cannot be written, its folder: %s (make the folder first)",
                        strerror(errno));
    }
    if (!S_ISDIR(found.st_mode)) {
        return cli_fail(path, "cannot be written, %s is no folder (give another name)", folder);
    }
    if (access(folder, W_OK | X_OK) != 0) {
        return cli_fail(path, "cannot be written, its folder: %s (give another name)",
                        strerror(errno));
    }
    return CLI_DONE;
}

int cli_output_check(const char *path, const char *endings)
{
    if (path == NULL) {
        return CLI_DONE;
    }
    struct stat found;
    if (stat(path, &found) == 0) {
        if (S_ISDIR(found.st_mode)) {
            return cli_fail(path, "is a folder (give the name of a file in it)");
        }
        /* The finished file takes the name's place: a device or a pipe would be gone. */
        if (!S_ISREG(found.st_mode)) {
            return cli_fail(path, "is no regular file (give the name of a file)");
        }
    }
    if (endings != NULL && !cli_output_ends(path, endings)) {
        return cli_wrong(path, "its ending names no format for this (use one of %s)", endings);
    }
    return check_folder(path);
}

int cli_output_check_input(const char *path, const char *input)
{
    struct stat a;
    struct stat b;
    if (path == NULL || input == NULL || stat(path, &a) != 0 || stat(input, &b) != 0 ||
        a.st_dev != b.st_dev || a.st_ino != b.st_ino) {
        return CLI_DONE;
    }
    return cli_fail(path, "is input and output at once (give the output another name)");
}
