// The error along the row itself, for a loss that counts it more than the rest of the error: score-aware quantization.
//
// With the direction u of a row (not centred), the loss of a code is |e|^2 + (weight - 1) (u.e)^2 for its error e. A
// word w takes u.w from what is left of the row along u, so that it adds (weight - 1) u.w (u.w - 2 left) to the loss.
#pragma once
#include "../books.h"
#include "beam_tables.h"

#include <cstddef>
#include <vector>

namespace interlace {

struct ParallelLoss {
    float weight = 1.0f;   // of squared errors along the row; 1: the squared error
    float shortest = 0.0f; // shorter rows have no direction that tables of floats could resolve: weight 1

    bool used() const { return weight > 1.0f; }
};

class ParallelTables {
public:
    ParallelTables(const Books& books, const ParallelLoss& loss); // nothing is computed unless the loss is used

    bool used() const { return loss_.used(); }
    // rotated [dim]: the row of `tables`
    void start(const float* rotated, const BeamTables& tables);
    float left() const { return left_; } // of the centred row
    float of_cell(std::uint32_t cell) const;
    const float* of(std::size_t j) const { return along_.data() + j * kWords; } // [n_words] u.w of book j
    // scores [n] += what the first n words of a path add, with `left` before them
    void add(const float* along, std::size_t n, float left, float* scores) const;

private:
    const Books& books_;
    const ParallelLoss loss_;
    std::vector<float> origin_; // [dim] the zero vector, centred and rotated
    std::vector<float> row_;    // [dim] the row, rotated but not centred
    Aligned<float> zero_;       // [n_books][256] |w|^2 - 2 origin.w; the first book's is not used
    Aligned<float> along_;      // [n_books][256]
    float half_inverse_ = 0, left_ = 0;
};

} // namespace interlace
