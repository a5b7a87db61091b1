/* SPDX-License-Identifier: Apache-2.0 */
#include "papers/papers_pipeline.h"

bool kin_papers_pipeline(kith_pipeline number, const kin_pipeline **pipeline)
{
    static const kin_pipeline pipelines[] = {
        [KITH_PIPELINE_MATRIX] = {.name = "matrix",
                                  .run = kin_papers_matrix_run,
                                  .plan = kin_papers_matrix_plan,
                                  .fused = &kin_papers_matrix},
        [KITH_PIPELINE_HYBRID] = {.name = "hybrid", .fused = &kin_papers_hybrid},
        [KITH_PIPELINE_BUFFER_TREE] = {.name = "buffer_tree",
                                       .run = kin_papers_buffer_tree_run,
                                       .plan = kin_papers_buffer_tree_plan,
                                       .tree = true},
    };
    const int32_t count = (int32_t)(sizeof pipelines / sizeof pipelines[0]);
    const bool known = number >= 0 && number < count;
    *pipeline = known && number != KITH_PIPELINE_FUSED ? &pipelines[number] : NULL;
    return known;
}
