// The words of many cells as bytes: lower bounds of their distances from a query, at a fraction of the price.
//
// With a step s for the words and a step m for the query, x = m i + r and w = s j + t, with whole numbers i and j:
//   |x - w|^2 = |x|^2 + |w|^2 - 2 x.w,   x.w <= m s i.j + |x| |t| + |r| |s j|     (Cauchy and Schwarz)
// Sums of products of bytes are whole numbers, so only the last step rounds; the bounds allow for it. On SIFT the bound
// is about 9 % below the distance of the nearest word, and 1.4 times as many words as needed are within it.
#pragma once
#include "aligned.h"
#include "book.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace interlace {

class CoarseWords {
public:
    static constexpr std::size_t kFewest = 512; // with fewer words, all distances cost less than choosing

    explicit CoarseWords(const Book& words); // which must outlive this object

    // x [n] pointers to queries on the support of the words, n <= kQueries. out[q] [words.padded()]:
    // at most offsets[q] + |x - w|^2, as the kernels compute it; +inf for padding. False, with nothing written, where
    // the numbers are too large.
    static constexpr std::size_t kQueries = 8;
    bool bounds(const float* const* x, std::size_t n, const float* offsets, float* const* out) const;

    // |x - w|^2 of some words, to out [words.padded()] at their numbers: the same bits as squared_distances().
    // scratch [kWords * width + kWords]
    void distances(const float* x, std::span<const std::uint32_t> words, float* scratch, float* out) const;

    std::size_t scratch_size() const;
    std::size_t bytes() const { return bytes_.size() + rows_.size() * sizeof(float); }

private:
    const Book& words_;
    std::size_t padded_width_;    // a multiple of 4
    float step_ = 0;              // of the bytes
    double error_ = 0;            // the largest |t|
    double longest_ = 0;          // the largest |s j|
    double largest_square_ = 0;   // of the words
    Aligned<std::uint8_t> bytes_; // 128 + j, [n_tables()] tables as Kernels::byte_bounds reads them
    Aligned<float> rows_;         // [n_words][width]: some words are read from end to end
};

} // namespace interlace
