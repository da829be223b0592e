// Books and norm columns: the learned arrays in the shape that the kernels read.
#pragma once
#include "../simd/kernels.h"
#include "aligned.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace interlace {

// At most 256 words, or any number for the first book, whose words are the cells. Its arrays hold whole tables of 256
// words.
struct Book {
    std::vector<std::uint32_t> support; // dimensions it is not zero on, ascending
    std::size_t n_words = 0;
    Aligned<float> words;   // [n_tables()][256 words on the support, in the order of word_place], padded with 0
    Aligned<float> squares; // [padded()] |w|^2, padded with +inf
    bool alone = false;     // shares no dimension with any other book

    std::size_t n_tables() const { return (n_words + kWords - 1) / kWords; }
    std::size_t padded() const { return n_tables() * kWords; }
    const float* table(std::size_t t) const { return words.data() + t * kWords * support.size(); }
    float word(std::size_t d, std::size_t w) const { return words[word_place(support.size(), d, w)]; }
    float& word(std::size_t d, std::size_t w) { return words[word_place(support.size(), d, w)]; }
};

struct Norm {
    std::vector<float> values;         // [256], padded with +inf
    std::vector<std::uint32_t> covers; // books whose pairwise cross terms it holds (pairs of earlier norms excluded)
};

// A book of n_words words of a width, which are not yet there; only the first of some books may have more than 256.
Book empty_book(std::vector<std::uint32_t> support, std::size_t n_words);
void compute_squares(Book& book); // of words that are there
// The mean of the words of each table, as a book of n_tables() words
Book table_centres(const Book& book);

// x and out: arrays of n pointers; x[q] on the support of the book, out[q] [book.padded()].
void squared_distances(const Book& book, const float* const* x, std::size_t n, float* const* out); // |x - w|^2
void inner_products(const Book& book, const float* const* x, std::size_t n, float* const* out);    // x.w
void linear_scores(const Book& book, const float* const* x, std::size_t n, float* const* out);     // |w|^2 - 2 x.w
void to_linear_scores(const Book& book, std::size_t n, float* const* out); // of x.w in their place

// 2 v.w [first.n_words][256] for the words v of the first book and w of the second, which has at most 256.
std::vector<float> doubled_products(const Book& first, const Book& second, std::size_t dim);

// The largest absolute value; 0 for no values.
float largest_of(const std::vector<float>& values);

// The nearest whole number of steps of the given size, an even one if there are two; below 2^22. Adding and subtracting
// 1.5 * 2^23 rounds like std::nearbyint, but needs no call of a function.
inline std::int16_t to_step(float value, float scale) {
    constexpr float rounds = 12582912.0f;
    return static_cast<std::int16_t>((value / scale + rounds) - rounds);
}

inline void to_steps_of(const float* values, std::size_t n, float scale, std::int16_t* out) {
    for (std::size_t i = 0; i < n; ++i) out[i] = to_step(values[i], scale);
}

// 1 / scale, or the largest float for a scale so small that it has no inverse.
inline float finite_inverse(float scale) {
    const float inverse = 1.0f / scale;
    return inverse <= std::numeric_limits<float>::max() ? inverse : std::numeric_limits<float>::max();
}

// Throws std::invalid_argument(what) unless all values are finite and so small that no table of them overflows. Python
// has checked its arrays, but another thread may have written to them since, and sorting needs numbers that compare.
void require_finite(const float* values, std::size_t n, const char* what);

} // namespace interlace
