#include "kmeans.h"

#include "../simd/kernels.h"
#include "aligned.h"
#include "threads.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace interlace {
namespace {

constexpr std::size_t kGroup = 16; // rows that share a pass over the words
constexpr std::size_t kTask = 256; // rows per task

} // namespace

void nearest(const float* x, std::size_t n, std::size_t dim, const float* words, std::size_t k, std::size_t threads,
             std::int32_t* index, float* score) {
    Aligned<float> panels(dim * kWords, 0.0f), squares(kWords, std::numeric_limits<float>::infinity());
    for (std::size_t w = 0; w < k; ++w) {
        squares[w] = 0;
        for (std::size_t d = 0; d < dim; ++d) {
            panels[word_place(dim, d, w)] = words[w * dim + d];
            squares[w] += words[w * dim + d] * words[w * dim + d];
        }
    }
    parallel_for((n + kTask - 1) / kTask, threads, [&](std::size_t task, std::size_t) {
        alignas(64) float scores[kGroup][kWords];
        const std::size_t end = std::min(n, (task + 1) * kTask);
        for (std::size_t first = task * kTask; first < end; first += kGroup) {
            checkpoint();
            const std::size_t count = std::min(kGroup, end - first);
            const float* from[kGroup];
            float* to[kGroup];
            for (std::size_t i = 0; i < count; ++i) {
                from[i] = x + (first + i) * dim;
                to[i] = scores[i];
            }
            kernels().inner_products(from, count, panels.data(), dim, to);
            for (std::size_t i = 0; i < count; ++i) {
                for (std::size_t w = 0; w < kWords; ++w) scores[i][w] = squares[w] - 2.0f * scores[i][w];
                const std::size_t best = kernels().argmin(scores[i]);
                if (!std::isfinite(scores[i][best]))
                    throw std::invalid_argument("a value is not finite, or too large to be coded");
                index[first + i] = static_cast<std::int32_t>(best);
                score[first + i] = scores[i][best];
            }
        }
    });
}

void cluster_sums(const float* x, std::size_t n, std::size_t dim, const std::int32_t* labels, std::size_t k,
                  std::size_t threads, double* sums, std::int64_t* counts) {
    std::fill(sums, sums + k * dim, 0.0);
    std::fill(counts, counts + k, 0);
    for (std::size_t i = 0; i < n; ++i) ++counts[labels[i]];
    const std::size_t width =
        (dim + threads - 1) / threads; // each thread owns some dimensions, so the order of additions is fixed
    parallel_for((dim + width - 1) / width, threads, [&](std::size_t task, std::size_t) {
        const std::size_t first = task * width, last = std::min(dim, first + width);
        for (std::size_t i = 0; i < n; ++i) {
            if (i % 4096 == 0) checkpoint();
            double* sum = sums + static_cast<std::size_t>(labels[i]) * dim;
            for (std::size_t d = first; d < last; ++d) sum[d] += x[i * dim + d];
        }
    });
}

} // namespace interlace
