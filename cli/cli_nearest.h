/* SPDX-License-Identifier: Apache-2.0
 * Which known word someone meant who wrote an unknown one. */
#ifndef CLI_NEAREST_H
#define CLI_NEAREST_H

/* Insertions, deletions and replacements between two words; long words count by their start. */
int cli_nearest_distance(const char *a, const char *b);

#endif
