/* SPDX-License-Identifier: Apache-2.0
 * Read by clang-tidy before each file of src (tools/check_tidy.sh): its analyser looks at one file
 * at a time and cannot know that these functions give back the status that they were given. */
#ifndef TIDY_MODEL_H
#define TIDY_MODEL_H

#include "base/base_ctx.h"

#define kin_fail(ctx, status, ...) ((void)(kin_fail)(ctx, status, __VA_ARGS__), (status))
#define kin_fail_at(ctx, status, place, ...) \
    ((void)(kin_fail_at)(ctx, status, place, __VA_ARGS__), (status))
#define kin_fail_like(ctx, status, other) ((void)(kin_fail_like)(ctx, status, other), (status))

#endif
