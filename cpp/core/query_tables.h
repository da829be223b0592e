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

    QueryTables(const Books& books, const Rule& rule, std::size_t n); // for up to n <= kGroup queries
    void compute(const float* queries, std::size_t n);                // raw queries [n][dim]

    CellBases& bases() { return bases_; }
    const float* tables(std::size_t q) const { return tables_.data() + offset(q); } // [n_columns][256]
    // Lower bounds of the tables in whole steps of Cells::term_scale(), [n_columns][256], where cells have terms:
    // table[w] >= low + step * steps[w].
    const std::int16_t* steps(std::size_t q) const { return steps_.data() + offset(q); }
    const float* low(std::size_t q) const { return low_.data() + q * books_.n_columns(); } // [n_columns]
    // Sum over columns of the largest |table entry| and |cell term|
    float bound(std::size_t q) const { return bound_[q]; }

private:
    std::size_t offset(std::size_t q) const { return q * books_.n_columns() * kWords; }
    void gather(const Book& book, std::size_t n, const float** x);
    void compute_column(std::size_t column, std::size_t n);
    void compute_steps(std::size_t q);

    const Books& books_;
    Aligned<float> rotated_, gathered_; // [n][dim]
    CellBases bases_;
    Aligned<float> tables_;
    Aligned<std::int16_t> steps_;
    std::vector<float> low_;
    std::array<float, kGroup> bound_{};
};

} // namespace interlace
