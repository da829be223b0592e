// Cross terms between the words of books that share dimensions: for coding as tables of pairs, for search as sums.
#pragma once
#include "book.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace interlace {

// 2 v.w for all words of two books after the first, in steps of scale(). Only coding needs them.
class PairTerms {
public:
    // overlap [n_books * n_books]: whether two books share dimensions
    PairTerms(const std::vector<Book>& books, const std::vector<bool>& overlap, std::size_t dim, std::size_t threads);

    // A row of 256 for each word of book i, i < j; nullptr where the books share no dimension.
    const std::int16_t* of(std::size_t i, std::size_t j) const {
        const Aligned<std::int16_t>& terms = of_[i * n_books_ + j];
        return terms.empty() ? nullptr : terms.data();
    }
    float scale() const { return scale_; } // 0: no two books overlap

private:
    std::size_t n_books_;
    std::vector<Aligned<std::int16_t>> of_; // [n_books * n_books], upper triangle
    float scale_ = 0;
};

// The cross terms of a row without pairs: |sum of its words|^2 - sum of |w|^2, in whole numbers. With the word of its
// cell among them, they are all that a distance has beside base and tables.
class CrossSums {
public:
    static constexpr std::size_t kStep = 32; // words are padded to a multiple of so many values

    struct Column {
        std::size_t column; // in stored order
        const Book* book;
    };

    CrossSums() = default; // none
    // cells: their words, where cross terms with them are part of the sums; nullptr elsewhere
    CrossSums(const std::vector<Column>& columns, const Book* cells, std::size_t dim);

    bool empty() const { return words_.empty(); }
    // codes [n_columns] in stored order -> the sum in units of unit(): words are rounded to int16 steps so fine that
    // the square of any sum of them just fits 31 bits.
    std::int32_t of(std::size_t cell, const std::uint8_t* codes) const;
    float unit() const { return unit_; }
    std::size_t bytes() const { return words_.size() * sizeof(std::int16_t) + squares_.size() * sizeof(std::int32_t); }

private:
    void add_words(const Book& book, std::size_t first, float step); // words_ and squares_ from the first-th word on

    std::vector<std::size_t> columns_; // stored columns of the books with cross terms
    std::size_t cells_ = 0;            // the first cell's word, if has_cells_
    bool has_cells_ = false;
    Aligned<std::int16_t> words_; // [column][256][width_] on all dimensions, and those of the cells [cell][width_]
    std::vector<std::int32_t> squares_; // [column][256] |w|^2, and [cell]
    std::size_t width_ = 0;             // dim, rounded up to a multiple of kStep
    float unit_ = 0;
};

} // namespace interlace
