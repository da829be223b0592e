// The tables of a group of queries (books.h has the formulas); buffers are reused from call to call.
#pragma once
#include "books.h"
#include "cell_bases.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace interlace {

class QueryTables {
public:
    static constexpr std::size_t kGroup = CellBases::kGroup; // queries that share a pass over the words
    static constexpr std::size_t kRotated = 32;              // that share one over the rotation, which is larger

    // For up to n <= kRotated queries; with_steps: steps() and low() are read
    QueryTables(const Books& books, const Rule& rule, std::size_t n, bool with_steps = true);
    void rotate(const float* queries, std::size_t n); // raw queries [n][dim], which are read by compute()
    // Tables of n <= kGroup of the rotated queries, from `first` on; below they are numbered from 0.
    void compute(std::size_t first, std::size_t n);

    CellBases& bases() { return bases_; }
    const float* tables(std::size_t q) const { return tables_.data() + offset(q); } // [n_columns][256]
    // Lower bounds of the tables in whole steps of Cells::term_scale(), [n_columns][256], where cells have terms:
    // table[w] >= low + step * steps[w].
    const std::int16_t* steps(std::size_t q) const { return steps_.empty() ? nullptr : steps_.data() + offset(q); }
    const float* low(std::size_t q) const { return low_.data() + q * books_.n_columns(); } // [n_columns]
    // Sum over columns of the largest |table entry| and |cell term|
    float bound(std::size_t q) const { return bound_[q]; }

private:
    std::size_t offset(std::size_t q) const { return q * books_.n_columns() * kWords; }
    void gather(const Book& book, std::size_t n, const float** x);
    void compute_column(std::size_t column, std::size_t n);
    void compute_steps(std::size_t q);

    const Books& books_;
    const float* queries_ = nullptr; // raw ones that rotated_ is made of
    std::size_t first_ = 0;          // of them: the first of the group
    Aligned<float> rotated_;         // [kRotated][dim]
    Aligned<float> gathered_;        // [kGroup][dim]
    Aligned<float> scaled_;          // [dim] scratch of HalfWords
    CellBases bases_;
    Aligned<float> tables_;
    Aligned<std::int16_t> steps_;
    std::vector<float> low_;
    std::array<float, kGroup> bound_{};
};

} // namespace interlace
