/* SPDX-License-Identifier: Apache-2.0 */
#include "exact/exact_store.h"

#include "base/base_size.h"
#include "base/base_try.h"

/* ---- Writing -------------------------------------------------------------------------------- */

void kin_store_add(kin_storing *storing, const char *tag, const void *data, int64_t rows,
                   uint64_t row_bytes)
{
    if (data != NULL) {
        storing->sections[storing->count++] = (kin_section){
            .tag = tag, .data = data, .bytes = kin_size_mul((uint64_t)rows, row_bytes)};
    }
}

void kin_store_add_groups(kin_storing *storing, const kin_groups *groups)
{
    kin_store_add(storing, "firsts", groups->firsts, groups->count, sizeof(uint32_t));
    kin_store_add(storing, "weights", groups->weights, groups->rows, sizeof(uint32_t));
    kin_store_add(storing, "next", groups->next, groups->rows, sizeof(uint32_t));
    kin_store_add(storing, "degenerates", groups->degenerates, groups->degenerate,
                  sizeof(uint32_t));
}

/* ---- Reading -------------------------------------------------------------------------------- */

kith_status kin_store_fail_damaged(const kin_viewing *viewing, const char *what)
{
    return kin_fail_at(viewing->ctx, KITH_E_FORMAT,
                       kin_at_file(kin_container_path(viewing->container)),
                       "%s (it is damaged: make it again)", what);
}

kith_status kin_store_view_array(const kin_viewing *viewing, const char *tag, int64_t rows,
                                 uint64_t row_bytes, void *out)
{
    union {
        const void *read;
        void *own;
    } block = {NULL};
    KIN_TRY(kin_container_table(viewing->ctx, viewing->container, tag, (uint64_t)rows, row_bytes,
                                &block.read));
    memcpy(out, &block.own, sizeof block.own);
    return KITH_OK;
}

/* Numbers of rows, rising. */
static bool rises(const uint32_t *ids, int64_t count, int64_t rows)
{
    for (int64_t i = 0; i < count; i++) {
        if ((int64_t)ids[i] >= rows || (i > 0 && ids[i - 1] >= ids[i])) {
            return false;
        }
    }
    return true;
}

bool kin_store_all_below(const uint32_t *numbers, int64_t count, int64_t limit)
{
    for (int64_t i = 0; i < count; i++) {
        if ((int64_t)numbers[i] >= limit) {
            return false;
        }
    }
    return true;
}

/* Links lead forward, so every chain ends; weights of firsts are what their chains hold. */
static bool chains_end(const kin_groups *groups)
{
    for (int64_t i = 0; i < groups->rows; i++) {
        const uint32_t next = groups->next[i];
        if (next != KITH_ID_NONE && ((int64_t)next >= groups->rows || (int64_t)next <= i)) {
            return false;
        }
    }
    int64_t total = groups->degenerate;
    for (int64_t i = 0; i < groups->count; i++) {
        int64_t length = 0;
        for (uint32_t id = groups->firsts[i]; id != KITH_ID_NONE && total < groups->rows;
             id = groups->next[id]) {
            length += 1;
            total += 1;
        }
        if (groups->weights[groups->firsts[i]] != length) {
            return false;
        }
    }
    return total == groups->rows;
}

kith_status kin_store_view_groups(const kin_viewing *viewing, bool equal, kin_groups *groups)
{
    const int64_t rows = groups->rows;
    KIN_TRY(
        kin_store_view_array(viewing, "firsts", groups->count, sizeof(uint32_t), &groups->firsts));
    bool good = rises(groups->firsts, groups->count, rows);
    if (groups->degenerate > 0) {
        KIN_TRY(kin_store_view_array(viewing, "degenerates", groups->degenerate, sizeof(uint32_t),
                                     &groups->degenerates));
        good = good && rises(groups->degenerates, groups->degenerate, rows);
    }
    if (equal) {
        KIN_TRY(kin_store_view_array(viewing, "weights", rows, sizeof(uint32_t), &groups->weights));
        KIN_TRY(kin_store_view_array(viewing, "next", rows, sizeof(uint32_t), &groups->next));
        good = good && chains_end(groups);
    } else {
        good = good && groups->count + groups->degenerate == rows;
    }
    return good ? KITH_OK
                : kin_store_fail_damaged(viewing, "its groups of equal rows are not consistent");
}
