// The learned arrays of an index, and all that search and coding precompute from them.
//
// A distance is  base[cell] + sum over columns j of (table[j][code_j] + scale * cell_term[cell][j][code_j]).
// Metric l2 with words w, cell word c and rotated query q:
//   base          |q - c|^2 (+ the part of |q|^2 on dimensions that no book covers)
//   table, book that shares no dimension with another:   |q - w|^2
//   table, other books:                                  |w|^2 - 2 q.w,  with scale * cell_term = 2 c.w
//   table, norm column:                                  its values: cross terms between books other than the cell's
// Cross terms between books after the first that no norm column covers are added for the rows that the crude step lets
// through (CrossSums).
// With more cells than a book has words, a search visits so many of them that making tables for each would take most of
// its time; with long codes, the tables of one cell take more time than its rows. There the cross terms with the cell
// are part of the cross sums too, and the tables are the same in all cells (folds_cells). The crude step reads a byte
// for each row that says how large its sum is at least (FixedParts).
// Metrics ip and cosine: base -(q.c) - offset, table -(q.w), no cell terms, no norm columns.
#pragma once
#include "book.h"
#include "cells.h"
#include "coarse_words.h"
#include "cross_terms.h"
#include "half_words.h"
#include "made_once.h"
#include "rotation.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace interlace {

enum class Metric { kL2, kInnerProduct, kCosine };

struct BooksSpec { // as Python passes it; checked there
    std::size_t dim;
    Metric metric;
    std::vector<float> mean;     // [dim]
    std::vector<float> rotation; // [dim][dim] or empty
    std::vector<Book> books;     // cell book first
    std::vector<Norm> norms;
    std::vector<int> columns;                        // book index, or -1 - norm index, in stored order
    std::size_t n_crude;                             // crude columns among them
    std::vector<std::vector<std::uint32_t>> ignored; // books whose cross terms count as `constant`, and cost no column
    float constant;                                  // added to every distance
    bool folded;                                     // cells are folded, also few of them
};

class Books {
public:
    static constexpr std::size_t kLongCode = 24; // columns; LONG_CODE of codec/book.py

    explicit Books(BooksSpec spec);
    Books(const Books&) = delete; // parts point to each other
    Books& operator=(const Books&) = delete;

    std::size_t dim() const { return spec_.dim; }
    Metric metric() const { return spec_.metric; }
    std::size_t n_columns() const { return spec_.columns.size(); }
    std::size_t n_crude() const { return spec_.n_crude; }
    std::size_t n_cells() const { return cells_.size(); }
    const Cells& cells() const { return cells_; }
    const std::vector<Book>& books() const { return spec_.books; }
    const std::vector<Norm>& norms() const { return spec_.norms; }
    const std::vector<int>& columns() const { return spec_.columns; }
    const Book* book_of(std::size_t column) const; // nullptr for a norm column
    const HalfWords& half_words_of(std::size_t column) const { return half_words_[column]; } // of a book's column
    const std::vector<float>& mean() const { return spec_.mean; }
    float constant() const { return spec_.constant; }
    bool has_constant() const { return !spec_.ignored.empty(); } // distances are approximate, and may be below 0
    bool folds_cells() const { return folds_cells_; }
    // Whether segments always keep the cross sum of each row: long codes take many words to add up, and four bytes are
    // little beside them. Others do where searches are re-ranked (Segment::sums).
    bool keeps_sums() const { return folds_cells_ && n_columns() >= kLongCode; }
    bool has_table_terms() const { return has_table_terms_; }   // search adds terms of the cells to tables
    const PairTerms& pair_terms(std::size_t threads = 1) const; // computed by the first call
    // The words of the cells as bytes, for l2 and many cells, computed by the first call; nullptr elsewhere.
    const CoarseWords* coarse_words() const;
    // Whether the second step adds cross terms: books overlap, and no norm column covers them. Never for other metrics.
    bool has_cross_sums() const { return !cross_sums_.empty(); }
    std::int32_t cross_sum(std::size_t cell, const std::uint8_t* codes) const { // codes [n_columns]
        return cross_sums_.of(cell, codes);
    }
    float cross_unit() const { return cross_sums_.unit(); }
    std::size_t bytes() const; // of what search precomputes; coding needs more
    bool overlap(std::size_t i, std::size_t j) const { return overlap_[i * books().size() + j]; }

    // Sum over the columns of mean - minimum of their tables [n_columns][256]; minima [n_columns].
    float span(const float* tables, const float* minima) const;

    // raw vectors [n][dim] -> (x - mean) R, or x R
    void rotate(const float* x, std::size_t n, float* out, bool centre) const {
        rotation_.apply(x, n, centre ? mean().data() : nullptr, out);
    }

private:
    void find_overlaps();
    std::vector<CrossSums::Column> columns_with_cross_terms() const;

    BooksSpec spec_;
    Rotation rotation_; // takes that of the spec
    Cells cells_;
    std::vector<std::size_t> column_sizes_; // [n_columns] words or values of each
    std::vector<HalfWords> half_words_;     // [n_columns], empty for norms
    std::vector<bool> overlap_;             // [n_books * n_books]
    bool folds_cells_ = false, has_table_terms_ = false;
    CrossSums cross_sums_;
    MadeOnce<PairTerms> pair_terms_;
    MadeOnce<CoarseWords> coarse_words_;
};

} // namespace interlace
