/* SPDX-License-Identifier: Apache-2.0 */
#include "papers/papers.h"

bool kin_papers_pipeline(kith_pipeline number, const kin_pipeline **pipeline)
{
    static const kin_pipeline pipelines[] = {
        [KITH_PIPELINE_MATRIX] = {.name = "matrix",
                                  .run = kin_papers_matrix_run,
                                  .plan = kin_papers_matrix_plan,
                                  .gpu = &kin_papers_matrix},
        [KITH_PIPELINE_HYBRID] = {.name = "hybrid", .gpu = &kin_papers_hybrid},
        [KITH_PIPELINE_BUFFER_TREE] = {.name = "buffer_tree",
                                       .run = kin_papers_buffer_tree_run,
                                       .plan = kin_papers_buffer_tree_plan,
                                       .way = &kin_papers_buffer_tree,
                                       .tree = true},
    };
    const int32_t count = (int32_t)(sizeof pipelines / sizeof pipelines[0]);
    const bool known = number >= 0 && number < count;
    *pipeline = known && number != KITH_PIPELINE_FUSED ? &pipelines[number] : NULL;
    return known;
}

#define ROW(NAME, number, name, switches) [number] = {number, #name, switches, kin_papers_##name},
static const kin_select_method methods[] = {KITH_PAPERS_SELECT_MAP(ROW)};
#undef ROW
enum { METHODS = sizeof methods / sizeof methods[0] };

const kin_select_method *kin_papers_select_method(kith_select_method number)
{
    return number >= 0 && number < METHODS && methods[number].name != NULL
               ? &methods[number]
               : kin_select_method_of(number);
}
