/* SPDX-License-Identifier: Apache-2.0
 * Hidden names beside a target, `.kith-HASH-N.tmp`: for the moment in which a file replaces another
 * and, where the file system has no files without names, while it is written.
 *
 * A target has the same few names always, and a name is in use as long as the file that has it is
 * locked, which ends with its process. So what a process that was killed has left is found by
 * whoever writes the same target next, and removed. */
#ifndef KIN_FILE_TEMPORARY_H
#define KIN_FILE_TEMPORARY_H

#include <stddef.h>

/* Bytes that a name needs beside those of its folder. */
enum { KIN_TEMPORARY_ROOM = 64 };

/* What dead processes have left beside target, which is the path of a file in folder. path: room
 * for a name. */
void kin_temporary_sweep(const char *folder, const char *target, char *path, size_t room);

/* Gives *file, which has none, a name (its path is written to `path`), or where *file is -1 creates
 * it with one. Returns 0, or errno; EBUSY where others hold all names for more than a second. */
int kin_temporary_take(const char *folder, const char *target, char *path, size_t room, int mode,
                       int *file);

#endif
