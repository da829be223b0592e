// The rotation of the vectors. Where all of its numbers are float16, it is kept as such: a single query then reads half
// the memory, 4.7 MB at 1,536 dimensions. Results have the same bits as with floats.
#pragma once
#include "aligned.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace interlace {

class Rotation {
public:
    static constexpr std::size_t kSmallest = 512; // dimensions; smaller ones stay in cache (HALF_ROTATION)

    Rotation(std::vector<float> matrix, std::size_t dim); // [dim][dim], or empty: the identity
    bool in_halves() const { return !halves_.empty(); }

    // vectors [n][dim] -> (x - mean) R, or x R if mean is nullptr
    void apply(const float* x, std::size_t n, const float* mean, float* out) const;

private:
    std::size_t dim_;
    std::vector<float> floats_;     // empty if there are halves, or if it is the identity
    Aligned<std::uint16_t> halves_; // in the order of kHalfColumns
};

} // namespace interlace
