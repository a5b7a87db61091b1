/* SPDX-License-Identifier: Apache-2.0
 * .gz in memory to its bytes in memory. */
#ifndef KIN_FILE_GZIP_H
#define KIN_FILE_GZIP_H

#include "base/base_ctx.h"

bool kin_gzip_begins(const unsigned char *data, uint64_t bytes);
/* All members one behind the other, as gunzip does; *block is the caller's to free. Its size is
 * counted first, so that no more is asked for than there is. */
kith_status kin_gzip_unpack(kith_ctx *ctx, const char *path, const unsigned char *data,
                            uint64_t bytes, unsigned char **block, uint64_t *unpacked);

/* For zlib's streams: memory of the context, which is their opaque pointer. */
void *kin_zlib_allocate(void *ctx, unsigned count, unsigned bytes);
void kin_zlib_release(void *ctx, void *block);

#endif
