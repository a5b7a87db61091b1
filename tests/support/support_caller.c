/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support_caller.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/support_answers.h"

#include <string.h>

test_caller test_caller_open(void)
{
    test_caller c = {.ops = kin_gpu_get_module()->ops};
    assert_int_equal(c.ops->make_current(kin_gpu_first()), 0);
    assert_int_equal(c.ops->open(kin_gpu_first(), NULL, &c.stream), 0);
    memcpy(&c.handle, c.stream, sizeof c.handle);
    return c;
}

void test_caller_close(test_caller *c)
{
    c->ops->close(c->stream);
}

void *test_caller_room(const test_caller *c, uint64_t bytes)
{
    void *block = NULL;
    assert_int_equal(c->ops->allocate(c->stream, bytes, &block), 0);
    assert_int_equal(c->ops->fill(c->stream, block, 0xee, bytes), 0);
    assert_int_equal(c->ops->wait(c->stream), 0);
    return block;
}

void test_caller_release(const test_caller *c, const void *block)
{
    c->ops->release(c->stream, (void *)(uintptr_t)block);
}

uint64_t test_matrix_bytes(const kith_matrix *m)
{
    const int64_t row = (int64_t)m->cols * kith_dtype_bytes(m->dtype);
    const int64_t stride = m->stride_bytes != 0 ? m->stride_bytes : row;
    return (uint64_t)((m->rows - 1) * stride + row);
}

kith_matrix test_caller_copy(const test_caller *c, const kith_matrix *host)
{
    kith_matrix device = *host;
    const uint64_t bytes = test_matrix_bytes(host);
    void *block = test_caller_room(c, bytes);
    assert_int_equal(c->ops->copy_in(c->stream, block, host->data, bytes), 0);
    assert_int_equal(c->ops->wait(c->stream), 0);
    device.data = block;
    return device;
}

kith_neighbors test_caller_answer(const test_caller *c, int64_t rows, int64_t k)
{
    const uint64_t count = (uint64_t)(rows * k);
    return (kith_neighbors){.ids = test_caller_room(c, count * sizeof(uint32_t)),
                            .distances = test_caller_room(c, count * sizeof(float)),
                            .distances64 = test_caller_room(c, count * sizeof(double)),
                            .rows = rows,
                            .k = k};
}

static void take(const test_caller *c, void *to, const void *from, uint64_t bytes)
{
    assert_int_equal(c->ops->copy_out(c->stream, to, from, bytes), 0);
    assert_int_equal(c->ops->wait(c->stream), 0);
    test_caller_release(c, from);
}

kith_neighbors test_caller_fetch(const test_caller *c, const kith_neighbors *device)
{
    const uint64_t count = (uint64_t)(device->rows * device->k);
    kith_neighbors host = test_answer_make(device->rows, device->k);
    take(c, host.ids, device->ids, count * sizeof(uint32_t));
    take(c, host.distances, device->distances, count * sizeof(float));
    take(c, host.distances64, device->distances64, count * sizeof(double));
    return host;
}
