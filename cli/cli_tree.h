/* SPDX-License-Identifier: Apache-2.0
 * What is told of a file of the kind tree. */
#ifndef CLI_TREE_H
#define CLI_TREE_H

#include "cli_json.h"
#include "kith/kith.h"

/* Lines for people: height, leaves, slack. */
void cli_tree_print(const kith_file_info *info);
/* As the member "tree". */
void cli_tree_put(const kith_file_info *info, cli_json *json);

#endif
