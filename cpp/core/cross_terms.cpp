#include "cross_terms.h"

#include "threads.h"

#include <algorithm>
#include <cmath>

namespace interlace {

PairTerms::PairTerms(const std::vector<Book>& books, const std::vector<bool>& overlap, std::size_t dim,
                     std::size_t threads)
    : n_books_(books.size()), of_(n_books_ * n_books_) {
    const std::size_t n = n_books_;
    std::vector<std::size_t> pairs; // i * n + j
    for (std::size_t i = 1; i < n; ++i)
        for (std::size_t j = i + 1; j < n; ++j)
            if (overlap[i * n + j]) pairs.push_back(i * n + j);
    std::vector<std::vector<float>> exact(pairs.size());
    std::vector<float> largest(pairs.size());
    parallel_for(pairs.size(), threads, [&](std::size_t p, std::size_t) {
        exact[p] = doubled_products(books[pairs[p] / n], books[pairs[p] % n], dim);
        largest[p] = largest_of(exact[p]);
    });
    // A quarter of the range, so that the encoder can add terms up in int16.
    for (const float of_pair : largest) scale_ = std::max(scale_, of_pair / 8191.0f);
    parallel_for(pairs.size(), threads, [&](std::size_t p, std::size_t) {
        Aligned<std::int16_t>& terms = of_[pairs[p]];
        terms.assign(kWords * kWords, 0);
        if (scale_ > 0) to_steps_of(exact[p].data(), exact[p].size(), scale_, terms.data());
        std::vector<float>().swap(exact[p]);
    });
}

CrossSums::CrossSums(const std::vector<Column>& columns, const Book* cells, std::size_t dim) {
    if (columns.empty()) return;
    // |sum| <= sum of the largest |w|, plus what rounding adds: half a step per book and dimension.
    float reach = 0;
    const auto add_reach = [&reach](const Book& book) {
        float square = 0;
        for (std::size_t w = 0; w < book.n_words; ++w) square = std::max(square, book.squares[w]);
        reach += std::sqrt(square);
    };
    for (const Column& column : columns) add_reach(*column.book);
    if (cells != nullptr) add_reach(*cells);
    has_cells_ = cells != nullptr;
    cells_ = columns.size() * kWords;
    const float n = static_cast<float>(columns.size() + has_cells_);
    const float step = reach / (32700.0f - 0.5f * n * std::sqrt(static_cast<float>(dim)));
    unit_ = step * step;
    width_ = (dim + kStep - 1) / kStep * kStep;
    const std::size_t n_words = cells_ + (has_cells_ ? cells->n_words : 0);
    words_.assign(n_words * width_, 0);
    squares_.assign(n_words, 0);
    for (std::size_t c = 0; c < columns.size(); ++c) {
        columns_.push_back(columns[c].column);
        add_words(*columns[c].book, c * kWords, step);
    }
    if (has_cells_) add_words(*cells, cells_, step);
}

void CrossSums::add_words(const Book& book, std::size_t first, float step) {
    for (std::size_t w = 0; w < book.n_words; ++w) {
        std::int16_t* word = words_.data() + (first + w) * width_;
        for (std::size_t d = 0; d < book.support.size() && step > 0; ++d) {
            word[book.support[d]] = to_step(book.word(d, w), step);
            squares_[first + w] += word[book.support[d]] * word[book.support[d]];
        }
    }
}

std::int32_t CrossSums::of(std::size_t cell, const std::uint8_t* codes) const {
    const std::int16_t* words[kWords + 1];
    std::int32_t squares = 0;
    std::size_t n = 0;
    const auto add = [&](std::size_t word) {
        words[n++] = words_.data() + word * width_;
        squares += squares_[word];
    };
    if (has_cells_) add(cells_ + cell);
    for (std::size_t c = 0; c < columns_.size(); ++c) add(c * kWords + codes[columns_[c]]);
    return kernels().square_of_sum(words, n, width_) - squares;
}

} // namespace interlace
