// SPDX-License-Identifier: Apache-2.0
// std::nth_element on pairs of value and id, then std::sort of the first k: the peer that every
// compiler brings along. Compiled by select_peers.py when it is wanted.
#include <algorithm>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

namespace {

void solve(const float *values, int64_t first, int64_t last, int64_t cols, int64_t k,
           float *out_values, uint32_t *out_ids)
{
    std::vector<std::pair<float, uint32_t>> row(static_cast<size_t>(cols));
    for (int64_t i = first; i < last; i++) {
        for (int64_t j = 0; j < cols; j++) {
            row[static_cast<size_t>(j)] = {values[i * cols + j], static_cast<uint32_t>(j)};
        }
        std::nth_element(row.begin(), row.begin() + (k - 1), row.end());
        std::sort(row.begin(), row.begin() + k);
        for (int64_t j = 0; j < k; j++) {
            out_values[i * k + j] = row[static_cast<size_t>(j)].first;
            out_ids[i * k + j] = row[static_cast<size_t>(j)].second;
        }
    }
}

} // namespace

extern "C" void nth_rows(const float *values, int64_t rows, int64_t cols, int64_t k, int32_t threads,
                         float *out_values, uint32_t *out_ids)
{
    std::vector<std::thread> others;
    for (int32_t t = 0; t < threads; t++) {
        others.emplace_back(solve, values, rows * t / threads, rows * (t + 1) / threads, cols, k,
                            out_values, out_ids);
    }
    for (std::thread &other : others) {
        other.join();
    }
}
