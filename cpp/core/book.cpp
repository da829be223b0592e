#include "book.h"

#include "threads.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace interlace {
namespace {

constexpr std::size_t kGroup = 16; // most vectors that a call of the loops below is given

using Kernel = void(const float* const* x, std::size_t n, const float* words, std::size_t dim, float* const* out);

// The kernel for each table of 256 words
void by_tables(Kernel& kernel, const Book& book, const float* const* x, std::size_t n, float* const* out) {
    kernel(x, n, book.table(0), book.support.size(), out);
    for (std::size_t t = 1; t < book.n_tables(); ++t) {
        float* to[kGroup];
        for (std::size_t first = 0; first < n; first += kGroup) {
            const std::size_t count = std::min(kGroup, n - first);
            for (std::size_t q = 0; q < count; ++q) to[q] = out[first + q] + t * kWords;
            kernel(x + first, count, book.table(t), book.support.size(), to);
        }
    }
}

} // namespace

Book empty_book(std::vector<std::uint32_t> support, std::size_t n_words) {
    Book book{std::move(support), n_words, {}, {}};
    book.words.assign(book.padded() * book.support.size(), 0.0f);
    return book;
}

void compute_squares(Book& book) {
    book.squares.assign(book.padded(), 0.0f);
    for (std::size_t d = 0; d < book.support.size(); ++d)
        for (std::size_t w = 0; w < book.n_words; ++w) book.squares[w] += book.word(d, w) * book.word(d, w);
    for (std::size_t w = book.n_words; w < book.padded(); ++w) book.squares[w] = std::numeric_limits<float>::infinity();
}

Book table_centres(const Book& book) {
    Book centres = empty_book(book.support, book.n_tables());
    for (std::size_t t = 0; t < book.n_tables(); ++t) {
        const std::size_t first = t * kWords, last = std::min(book.n_words, first + kWords);
        for (std::size_t d = 0; d < book.support.size(); ++d) {
            float sum = 0;
            for (std::size_t w = first; w < last; ++w) sum += book.word(d, w);
            centres.word(d, t) = sum / static_cast<float>(last - first);
        }
    }
    compute_squares(centres);
    return centres;
}

void squared_distances(const Book& book, const float* const* x, std::size_t n, float* const* out) {
    by_tables(kernels().squared_distances, book, x, n, out);
}

void inner_products(const Book& book, const float* const* x, std::size_t n, float* const* out) {
    by_tables(kernels().inner_products, book, x, n, out);
}

void linear_scores(const Book& book, const float* const* x, std::size_t n, float* const* out) {
    inner_products(book, x, n, out);
    to_linear_scores(book, n, out);
}

void to_linear_scores(const Book& book, std::size_t n, float* const* out) {
    for (std::size_t q = 0; q < n; ++q)
        for (std::size_t w = 0; w < book.padded(); ++w) out[q][w] = book.squares[w] - 2.0f * out[q][w];
}

std::vector<float> doubled_products(const Book& first, const Book& second, std::size_t dim) {
    constexpr std::size_t group = 8; // words that share a pass
    std::vector<float> out(first.n_words * kWords), place(dim), values(group * second.support.size());
    for (std::size_t w = 0; w < first.n_words; w += group) {
        checkpoint();
        const std::size_t count = std::min(group, first.n_words - w);
        const float* from[group];
        float* to[group];
        for (std::size_t g = 0; g < count; ++g) {
            std::fill(place.begin(), place.end(), 0.0f);
            for (std::size_t d = 0; d < first.support.size(); ++d) place[first.support[d]] = first.word(d, w + g);
            float* x = values.data() + g * second.support.size();
            for (std::size_t d = 0; d < second.support.size(); ++d) x[d] = place[second.support[d]];
            from[g] = x;
            to[g] = out.data() + (w + g) * kWords;
        }
        inner_products(second, from, count, to);
    }
    for (float& value : out) value *= 2.0f;
    return out;
}

float largest_of(const std::vector<float>& values) {
    float largest = 0;
    for (const float value : values) largest = std::max(largest, std::abs(value));
    return largest;
}

void require_finite(const float* values, std::size_t n, const char* what) {
    constexpr float largest = 1e19f;
    bool good = true;
    for (std::size_t i = 0; i < n; ++i) good &= std::abs(values[i]) <= largest; // false for NaN
    if (!good) throw std::invalid_argument(what);
}

} // namespace interlace
