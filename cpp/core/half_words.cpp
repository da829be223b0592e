#include "half_words.h"

#include "../simd/kernels.h"
#include "half.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace interlace {
namespace {

constexpr int kLargestBits = 5;       // the largest half is from 2^4 to 2^5, as in codec/book.py
constexpr int kLargestExponent = 100; // of the scale: it and its inverse are normal numbers

} // namespace

HalfWords::HalfWords(const Book& book) : width_(book.support.size()) {
    if (width_ < kNarrowest || book.n_tables() != 1) return;
    float largest = 0;
    for (const float value : book.words) largest = std::max(largest, std::abs(value));
    int exponent = 0;
    std::frexp(largest, &exponent);
    exponent -= kLargestBits;
    if (largest == 0 || std::abs(exponent) > kLargestExponent) return;
    const float scale = std::ldexp(1.0f, exponent), inverse = std::ldexp(1.0f, -exponent);
    Aligned<std::uint16_t> halves(kWords * width_);
    for (std::size_t d = 0; d < width_; ++d)
        for (std::size_t w = 0; w < kWords; ++w) {
            const std::size_t place = (w / kHalfColumns * width_ + d) * kHalfColumns + w % kHalfColumns;
            const float scaled = book.word(d, w) * inverse; // exact, unless it is too small
            if (!to_half(scaled, halves[place]) || scaled * scale != book.word(d, w)) return;
        }
    scale_ = scale;
    inverse_ = inverse;
    halves_ = std::move(halves);
}

// A product of x * scale and a half is the same real number as that of x and the word, so it is rounded to the same
// float, as long as x * scale is exact.
bool HalfWords::products(const float* x, float* scratch, float* out) const {
    if (halves_.empty()) return false;
    bool exact = true;
    for (std::size_t d = 0; d < width_; ++d) {
        scratch[d] = x[d] * scale_;
        exact &= scratch[d] * inverse_ == x[d];
    }
    if (!exact) return false;
    const float* const scaled = scratch;
    kernels().rotate_halves(&scaled, 1, halves_.data(), width_, kWords, &out);
    return true;
}

} // namespace interlace
