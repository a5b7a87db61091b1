/* SPDX-License-Identifier: Apache-2.0
 * What a file holds, without reading its values. */
#ifndef KIN_FILE_INSPECT_H
#define KIN_FILE_INSPECT_H

#include "base/base_ctx.h"

/* Fills everything but struct_size. */
kith_status kin_file_inspect(kith_ctx *ctx, const char *path, const kith_points_params *params,
                             kith_file_info *info);

#endif
