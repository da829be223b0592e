#include "kmeans.h"

#include "book.h"
#include "nearest_words.h"
#include "threads.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace interlace {
void nearest(const float* x, std::size_t n, std::size_t dim, const float* words, std::size_t k, std::size_t threads,
             std::int32_t* index, float* score) {
    std::vector<std::uint32_t> support(dim);
    std::iota(support.begin(), support.end(), 0u);
    Book book = empty_book(support, k);
    for (std::size_t w = 0; w < k; ++w)
        for (std::size_t d = 0; d < dim; ++d) book.word(d, w) = words[w * dim + d];
    compute_squares(book);
    const Book centres = NearestWords::reads_all(book.n_tables()) ? Book{} : table_centres(book);
    std::vector<std::unique_ptr<NearestWords>> searches(threads);
    constexpr std::size_t rows = NearestWords::kRows;
    parallel_for((n + rows - 1) / rows, threads, [&](std::size_t task, std::size_t worker) {
        if (!searches[worker]) searches[worker] = std::make_unique<NearestWords>(book, centres, 1);
        const std::size_t first = task * rows, count = std::min(rows, n - first);
        const float* from[rows];
        NearestWords::Scored found[rows];
        for (std::size_t i = 0; i < count; ++i) {
            from[i] = x + (first + i) * dim;
            found[i] = {std::numeric_limits<float>::infinity(), 0}; // what a row without a finite score keeps
        }
        searches[worker]->run(from, count, found);
        for (std::size_t i = 0; i < count; ++i) {
            if (!std::isfinite(found[i].score))
                throw std::invalid_argument("a value is not finite, or too large to be coded");
            index[first + i] = static_cast<std::int32_t>(found[i].word);
            score[first + i] = found[i].score;
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

void subtract_words(float* x, std::size_t n, std::size_t dim, const std::int32_t* labels, const float* words,
                    const std::uint32_t* support, std::size_t width, std::size_t threads) {
    constexpr std::size_t rows = 256; // of a task
    const bool whole = width == dim;  // a support ascends, so it has every dimension
    parallel_for((n + rows - 1) / rows, threads, [&](std::size_t task, std::size_t) {
        for (std::size_t i = task * rows; i < std::min(n, (task + 1) * rows); ++i) {
            float* row = x + i * dim;
            const float* word = words + static_cast<std::size_t>(labels[i]) * width;
            if (whole)
                for (std::size_t d = 0; d < dim; ++d) row[d] -= word[d];
            else
                for (std::size_t d = 0; d < width; ++d) row[support[d]] -= word[d];
        }
    });
}

} // namespace interlace
