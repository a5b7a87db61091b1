/* SPDX-License-Identifier: Apache-2.0
 * Lesson 5: the same from C++ (11 and later; here nothing beyond it).
 *
 * kith.h is a C header that C++ reads as it is. What C++ adds is that handles free themselves, last
 * made first, whichever way the function is left. Structs are filled field by field behind {} or
 * the functions whose names end in _default(), which no compiler warns of.
 *
 *     05_cpp examples/data/digits.u8bin
 */
#include <kith/kith.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace
{

struct free_handle {
    void operator()(kith_ctx *ctx) const { kith_ctx_free(ctx); }
    void operator()(kith_points *points) const { kith_points_free(points); }
    void operator()(kith_index *index) const { kith_index_free(index); }
};

template <typename T> using handle = std::unique_ptr<T, free_handle>;

/* A failure as an exception, with the sentence of the context. */
void check(const kith_ctx *ctx, kith_status status)
{
    if (status != KITH_OK) {
        throw std::runtime_error(std::string(kith_status_text(status)) + ": " +
                                 (ctx != nullptr ? kith_ctx_detail(ctx) : ""));
    }
}

handle<kith_ctx> make_ctx()
{
    kith_ctx *ctx = nullptr;
    check(nullptr, kith_ctx_create(nullptr, &ctx));
    return handle<kith_ctx>(ctx);
}

/* A matrix of the program's own as points: nothing is copied. */
kith_matrix view(const std::vector<float> &values, std::int64_t rows, std::int32_t cols)
{
    kith_matrix matrix{};
    matrix.data = values.data();
    matrix.rows = rows;
    matrix.cols = cols;
    matrix.dtype = KITH_F32;
    return matrix;
}

void search(kith_ctx *ctx, const kith_index *index, const kith_matrix &queries, std::int64_t k)
{
    std::vector<std::uint32_t> ids(static_cast<std::size_t>(queries.rows * k));
    std::vector<float> distances(ids.size());
    kith_neighbors found{};
    found.ids = ids.data();
    found.distances = distances.data();
    found.rows = queries.rows;
    found.k = k;
    kith_search_params params = kith_search_params_default();
    params.k = k;
    check(ctx, kith_index_search(ctx, index, &queries, &params, &found, nullptr));
    for (std::size_t i = 0; i < ids.size(); i++) {
        std::printf("%s%u at %.4f", i == 0 ? "a blank image: " : "  ", ids[i],
                    static_cast<double>(distances[i]));
    }
    std::printf("\n");
}

void run(const char *path)
{
    const handle<kith_ctx> ctx = make_ctx();
    kith_points *opened = nullptr;
    check(ctx.get(), kith_points_open(ctx.get(), path, nullptr, &opened));
    const handle<kith_points> points(opened);
    const kith_matrix *matrix = kith_points_matrix(points.get());
    const kith_index_params params = kith_index_params_default();
    kith_index *made = nullptr;
    check(ctx.get(), kith_index_create(ctx.get(), matrix, &params, &made));
    const handle<kith_index> index(made);
    const std::vector<float> blank(static_cast<std::size_t>(matrix->cols), 0.0F);
    search(ctx.get(), index.get(), view(blank, 1, matrix->cols), 3);
}

} // namespace

int main(int argc, char **argv)
{
    try {
        run(argc > 1 ? argv[1] : "examples/data/digits.u8bin");
    } catch (const std::exception &error) {
        std::fprintf(stderr, "05_cpp: %s\n", error.what());
        return 1;
    }
    return 0;
}
