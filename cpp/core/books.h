// The learned arrays in the shape the kernels want, and the tables of a query.
//
// A distance is  base[cell] + sum over columns j of (table[j][code_j] + scale_j * cell_term[cell][j][code_j]).
// Metric l2 with words w, cell word c and rotated query q:
//   base          |q - c|^2 (+ what q has on dimensions no book covers)
//   table, book that shares no dimension with another:   |q - w|^2
//   table, other books:                                  |w|^2 - 2 q.w,  with scale * cell_term = 2 c.w
//   table, norm column:                                  its values: cross terms between books other than the cell's
// Cross terms between books after the first that no norm column covers are added for the rows that the crude step lets
// through: |sum of their words|^2 - sum of |w|^2, in whole numbers.
// Metrics ip and cosine: base -(q.c) - offset, table -(q.w), no cell terms, no norm columns.
#pragma once
#include "../simd/kernels.h"
#include "aligned.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

namespace interlace {

enum class Metric { kL2, kInnerProduct, kCosine };

struct Book {
    std::vector<std::uint32_t> support; // dimensions it is not zero on, ascending
    std::size_t n_words;
    Aligned<float> words;   // on the support, as word_place tells, padded with 0
    Aligned<float> squares; // [256] |w|^2, padded with +inf
    bool alone = false;     // shares no dimension with any other book
    float word(std::size_t d, std::size_t w) const { return words[word_place(support.size(), d, w)]; }
};

struct Norm {
    std::vector<float> values;         // [256], padded with +inf
    std::vector<std::uint32_t> covers; // books whose pairwise cross terms it holds (pairs of earlier norms excluded)
};

struct BooksSpec { // as Python hands it over; checked there
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
};

// 1 / scale, or the largest float for a scale so small that it has no inverse.
inline float finite_inverse(float scale) {
    const float inverse = 1.0f / scale;
    return inverse <= std::numeric_limits<float>::max() ? inverse : std::numeric_limits<float>::max();
}

// Throws std::invalid_argument(what) unless all values are finite and so small that no table of them overflows. Python
// has checked its arrays, but another thread may write to them meanwhile, and sorting needs numbers that compare.
void require_finite(const float* values, std::size_t n, const char* what);

class Books {
public:
    explicit Books(BooksSpec spec);
    ~Books() { delete cross_.load(); }

    std::size_t dim() const { return spec_.dim; }
    Metric metric() const { return spec_.metric; }
    std::size_t n_columns() const { return spec_.columns.size(); }
    std::size_t n_crude() const { return spec_.n_crude; }
    std::size_t n_cells() const { return spec_.books[0].n_words; }
    const std::vector<Book>& books() const { return spec_.books; }
    const std::vector<Norm>& norms() const { return spec_.norms; }
    const std::vector<int>& columns() const { return spec_.columns; }
    const std::vector<float>& mean() const { return spec_.mean; }
    float constant() const { return spec_.constant; }
    bool has_constant() const { return !spec_.ignored.empty(); } // distances are approximate, and may be below 0
    bool has_cell_terms() const { return !cell_terms_.empty(); } // of any metric, for coding
    bool has_table_terms() const { return has_cell_terms() && metric() == Metric::kL2; } // search adds them to tables
    // Terms of all cells together outgrow the second-level cache, and search reads them cell by cell: int16 halves the
    // traffic, for an error below 2^-16 of the largest term. One scale for all columns, so that steps can be added up.
    const std::int16_t* cell_terms(std::size_t cell, std::size_t column) const {
        return cell_terms_.data() + (cell * n_columns() + column) * 256;
    }
    float cell_term_scale() const { return cell_term_scale_; }
    float cell_term_bound() const { return cell_term_bound_; } // sum over columns of the largest |cell term|
    // 2 w_i . w_j in steps of cross_scale(), for all words of two books after the first, i < j, that share dimensions:
    // a row of 256 for each word of i; nullptr if they share none.
    const std::int16_t* cross(std::size_t i, std::size_t j) const;
    float cross_scale() const { return cross_terms().scale; } // 0: no two of them overlap
    // Whether the second step adds cross terms: books overlap, and no norm column covers them. Never for other metrics.
    bool has_cross_sums() const { return !dense_.empty(); }
    // Sum of the cross terms of a row, codes [n_columns] in stored order, in units of cross_unit(): words are rounded
    // to int16 steps so fine that the square of any sum of them just fits 31 bits.
    std::int32_t cross_sum(const std::uint8_t* codes) const;
    float cross_unit() const { return cross_unit_; }
    std::size_t bytes() const; // of the precomputed terms
    bool overlap(std::size_t i, std::size_t j) const { return overlap_[i * books().size() + j]; }

    // Sum over the columns of mean - minimum of their tables [n_columns][256].
    float span(const float* tables) const;

    // raw vectors [n][dim] -> (x - mean) R, or x R
    void rotate(const float* x, std::size_t n, float* out, bool centre) const;

private:
    void find_overlaps();
    struct CrossTerms {
        std::vector<Aligned<std::int16_t>> of; // [n_books * n_books], upper triangle
        float scale = 0;
    };

    std::vector<float> products(std::size_t i, std::size_t j) const;
    const CrossTerms& cross_terms() const; // made when they are first asked for: only coding needs them
    std::unique_ptr<CrossTerms> compute_cross_terms() const;
    void compute_cell_terms();
    void compute_dense_words();

    BooksSpec spec_;
    std::vector<bool> overlap_;
    // No lock: what makes them can be interrupted, and a forked child would wait for a thread that it does not have.
    mutable std::atomic<const CrossTerms*> cross_{nullptr};
    std::vector<std::size_t> dense_columns_;  // stored columns of the books with cross terms
    Aligned<std::int16_t> dense_;             // [dense column][256][width_] their words on all dimensions
    std::vector<std::int32_t> dense_squares_; // [dense column][256] |w|^2
    std::size_t width_ = 0;                   // dim, rounded up
    float cross_unit_ = 0;
    Aligned<std::int16_t> cell_terms_; // [n_cells][n_columns][256]
    float cell_term_scale_ = 0, cell_term_bound_ = 0;
};

// Tables of a group of queries; reused from call to call.
class QueryTables {
public:
    static constexpr std::size_t kGroup = 8; // queries that share a pass over the words

    QueryTables(const Books& books, std::size_t n);    // for up to n <= kGroup queries
    void compute(const float* queries, std::size_t n); // raw queries [n][dim]

    const float* base(std::size_t q) const { return base_.data() + q * 256; }
    const float* tables(std::size_t q) const {
        return tables_.data() + q * books_.n_columns() * 256;
    } // [n_columns][256]
    // Lower bounds of the tables in whole steps of Books::cell_term_scale(), with cell terms only:
    // table[w] >= low + step * steps[w].
    const std::int16_t* steps(std::size_t q) const {
        return steps_.data() + q * books_.n_columns() * 256;
    } // [n_columns][256]
    const float* low(std::size_t q) const { return low_.data() + q * books_.n_columns(); } // [n_columns]
    float bound(std::size_t q) const {
        return bound_[q];
    } // sum over columns of the largest |table entry| and |cell term|

private:
    void compute_steps(std::size_t q);

    const Books& books_;
    Aligned<float> rotated_, gathered_, base_, tables_;
    Aligned<std::int16_t> steps_;
    std::vector<float> low_;
    std::array<float, kGroup> bound_{};
};

} // namespace interlace
