// Passes over the rows: the two that an iteration of k-means takes, and what its words leave of the rows.
#pragma once
#include <cstddef>
#include <cstdint>

namespace interlace {

// The nearest of k words [k][dim] for each row of x [n][dim] (NearestWords), by |w|^2 - 2 x.w; ties go to the lower
// index. score + |x|^2 is the squared distance. Throws std::invalid_argument where a score is not finite.
void nearest(const float* x, std::size_t n, std::size_t dim, const float* words, std::size_t k, std::size_t threads,
             std::int32_t* index, float* score);

// sums [k][dim] and counts [k] of the rows with each label, added up in row order for any number of threads
void cluster_sums(const float* x, std::size_t n, std::size_t dim, const std::int32_t* labels, std::size_t k,
                  std::size_t threads, double* sums, std::int64_t* counts);

// Subtracts the word of its label from each row of x [n][dim]; words [k][width] are on the dimensions `support`
// [width], which ascend.
void subtract_words(float* x, std::size_t n, std::size_t dim, const std::int32_t* labels, const float* words,
                    const std::uint32_t* support, std::size_t width, std::size_t threads);

} // namespace interlace
