// The two passes over the rows that an iteration of k-means takes.
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

} // namespace interlace
