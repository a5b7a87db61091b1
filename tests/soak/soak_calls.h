/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SOAK_CALLS_H
#define SOAK_CALLS_H

#include "soak/soak_source.h"

/* One call, or a few that belong together; everything is freed again. */
typedef void (*soak_call)(soak *s);

/* soak_search.c, soak_graphs.c, soak_files.c: their calls, and how many. */
extern const soak_call soak_searches[];
extern const soak_call soak_graphs[];
extern const soak_call soak_files[];
extern const int soak_search_count;
extern const int soak_graph_count;
extern const int soak_file_count;

/* One of all, drawn. */
void soak_call_any(soak *s);

#endif
