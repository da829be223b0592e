#include "cross_terms.h"

#include <algorithm>
#include <cmath>

namespace interlace {

PairTerms::PairTerms(const std::vector<Book>& books, const std::vector<bool>& overlap, std::size_t dim)
    : n_books_(books.size()), of_(n_books_ * n_books_) {
    const std::size_t n = n_books_;
    std::vector<std::vector<float>> exact(n * n);
    float largest = 0;
    for (std::size_t i = 1; i < n; ++i)
        for (std::size_t j = i + 1; j < n; ++j)
            if (overlap[i * n + j]) {
                exact[i * n + j] = doubled_products(books[i], books[j], dim);
                largest = std::max(largest, largest_of(exact[i * n + j]));
            }
    // A quarter of the range, so that the encoder can add terms up in int16.
    scale_ = largest / 8191.0f;
    for (std::size_t i = 0; i < n * n; ++i) {
        if (exact[i].empty()) continue;
        of_[i].assign(kWords * kWords, 0);
        if (scale_ > 0)
            for (std::size_t v = 0; v < exact[i].size(); ++v) of_[i][v] = to_step(exact[i][v], scale_);
    }
}

CrossSums::CrossSums(const std::vector<Column>& columns, std::size_t dim) {
    if (columns.empty()) return;
    // |sum| <= sum of the largest |w|, plus what rounding adds: half a step per book and dimension.
    float reach = 0;
    for (const Column& column : columns) {
        float square = 0;
        for (std::size_t w = 0; w < column.book->n_words; ++w) square = std::max(square, column.book->squares[w]);
        reach += std::sqrt(square);
    }
    const float n = static_cast<float>(columns.size());
    const float step = reach / (32700.0f - 0.5f * n * std::sqrt(static_cast<float>(dim)));
    unit_ = step * step;
    width_ = (dim + 31) / 32 * 32;
    words_.assign(columns.size() * kWords * width_, 0);
    squares_.assign(columns.size() * kWords, 0);
    for (std::size_t c = 0; c < columns.size(); ++c) {
        const Book& book = *columns[c].book;
        columns_.push_back(columns[c].column);
        for (std::size_t w = 0; w < book.n_words; ++w) {
            std::int16_t* word = words_.data() + (c * kWords + w) * width_;
            for (std::size_t d = 0; d < book.support.size() && step > 0; ++d) {
                word[book.support[d]] = to_step(book.word(d, w), step);
                squares_[c * kWords + w] += word[book.support[d]] * word[book.support[d]];
            }
        }
    }
}

std::int32_t CrossSums::of(const std::uint8_t* codes) const {
    const std::int16_t* words[kWords];
    std::int32_t squares = 0;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
        const std::size_t word = c * kWords + codes[columns_[c]];
        words[c] = words_.data() + word * width_;
        squares += squares_[word];
    }
    return kernels().square_of_sum(words, columns_.size(), width_) - squares;
}

} // namespace interlace
