// What each cell adds to all distances of a query: its base (books.h). For a group of queries.
//
// A search that stops early reads the bases of few cells. With many cells it therefore begins with lower bounds of all
// of them (coarse_words.h) and asks for the bases of those that may be near.
#pragma once
#include "books.h"
#include "rule.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace interlace {

class CellBases {
public:
    static constexpr std::size_t kGroup = CoarseWords::kQueries; // queries, at most

    // For up to n <= kGroup queries. Bounds stand for the bases where the rule stops after a small part of the cells.
    CellBases(const Books& books, const Rule& rule, std::size_t n);
    void compute(const float* queries, const float* rotated, std::size_t n); // [n][dim] each

    float of(std::size_t q, std::size_t cell) const { return bases_[q * padded_ + cell]; } // once it is there
    const float* all(std::size_t q) const { return bases_.data() + q * padded_; }          // [n_cells]
    bool has_all(std::size_t q) const { return !bounded_[q]; }
    // [padded] lower bounds of the bases, where not all of them are there; +inf after the last cell. The order of a
    // query's cells may raise those of cells without rows.
    float* bounds(std::size_t q) { return bounds_.data() + q * padded_; }
    std::size_t padded() const { return padded_; }

    void find(std::size_t q, std::span<const std::uint32_t> cells);
    void find_all(std::size_t q);

private:
    void add_offset(std::size_t q, float& distance) const {
        distance = l2_ ? offsets_[q] + distance : offsets_[q] - distance;
    }

    const Books& books_;
    const CoarseWords* const coarse_; // nullptr: all bases are computed at once
    const bool l2_;
    const std::size_t padded_, width_;
    std::vector<bool> covered_; // [dim] dimensions whose q^2 some table holds
    Aligned<float> x_;          // [n][width] the queries on the support of the words
    Unset<float> bases_, bounds_, scratch_;
    std::array<float, kGroup> offsets_{};
    std::array<bool, kGroup> bounded_{};
};

} // namespace interlace
