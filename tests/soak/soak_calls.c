/* SPDX-License-Identifier: Apache-2.0 */
#include "soak/soak_calls.h"

void soak_call_any(soak *s)
{
    const int searches = soak_search_count;
    const int graphs = soak_graph_count;
    const int at = (int)soak_below(s, (uint64_t)(searches + graphs + soak_file_count));
    s->calls += 1;
    if (at < searches) {
        soak_searches[at](s);
    } else if (at < searches + graphs) {
        soak_graphs[at - searches](s);
    } else {
        soak_files[at - searches - graphs](s);
    }
    soak_check_memory(s);
}
