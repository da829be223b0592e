// The tables of one query in one cell, the bounds that follow from them, and their bytes for the crude scan.
//
// Where cells have terms, the tables differ from cell to cell. Most cells are skipped by their bounds and few rows of
// the others pass the crude scan, so float tables are only made for a cell once enough of its rows are looked up.
#pragma once
#include "../../simd/kernels.h"
#include "../aligned.h"
#include "../books.h"
#include "../query_tables.h"
#include "../segment.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace interlace {

class CellTables {
public:
    CellTables(const Books& books, const std::vector<SegmentView>& segments);

    void start(const QueryTables& query, std::size_t q); // before the cells of the q-th query of a group
    void find_minima();                                  // after start(), before find_floors() and common_floor()
    void enter(std::size_t cell, float base);            // before what follows
    // Lower bounds of the distances in the cell. with_sums: also what open() needs; that is faster where most cells
    // are visited, slower where most are skipped.
    void find_floors(bool with_sums);
    void open(std::uint64_t n_rows); // before the n_rows rows of the cell are scanned

    bool has_terms() const { return has_terms_; }
    bool has_cross() const { return has_cross_; } // the second step adds cross terms
    std::size_t n_columns() const { return n_columns_; }
    std::size_t n_crude() const { return n_crude_; }
    std::size_t cell() const { return cell_; }
    float base() const { return base_; }
    float crude_floor() const { return crude_floor_; } // <= any crude distance in the cell
    float rest_floor() const { return rest_floor_; }   // <= what the second step adds
    float slack() const { return slack_; }             // bounds the rounding error of a distance and its bounds
    // Where tables are the same in all cells: the sum of their smallest entries, and what an average row adds to it.
    bool one_floor() const { return !has_terms_ && !has_cross_; }
    float common_floor() const; // 0 elsewhere
    float span() const { return books_.span(tables_, minima_.data()); }
    bool few_rows() const { return few_; } // bytes and sums of the cell's own tables would cost more than they save

    // Byte tables with floor((entry - minimum) * scale), and the threshold for their sums that no row with a crude
    // distance within the limit exceeds.
    std::uint8_t quantize(float limit);
    // The same, with bytes for the coarse parts of a segment's rows; after quantize()
    const ByteTables& bytes(std::int32_t fixed_step);
    // Lower bounds of the cell's tables in steps [n_columns][256], with terms only; crude distance >= sums_base() +
    // step() * sum of the entries.
    const std::int16_t* sums() const { return sums_.data(); }
    float sums_base() const;
    float step() const { return step_; }

    // Whether n more rows of the cell look entries up one by one; if not, float tables are there.
    bool lazy_crude(std::size_t n);
    bool lazy_rest(std::size_t n);
    const float* tables() const { return has_terms_ ? cell_tables_.data() : tables_; } // [n_columns][256]
    float entry(std::size_t column, std::size_t code) const { // of a cell with terms, without its float tables
        return tables_[column * kWords + code] + static_cast<float>(terms_[column * kWords + code]) * step_;
    }

    // Distances of a row, codes [n_columns], added up in the order of the two steps. coarse: the part of the row's
    // cross sum that its byte tells (FixedParts), which differs from segment to segment: no whole distance depends on
    // it.
    float crude_distance(const std::uint8_t* codes, std::int32_t coarse) const {
        const float sum = crude_sum(codes);
        return has_fixed_ ? sum + coarse_term(coarse) : sum;
    }
    float whole_distance(const std::uint8_t* codes) const {
        float distance = crude_sum(codes);
        for (std::size_t j = n_crude_; j < n_columns_; ++j) distance += term(j, codes[j]);
        if (has_cross_) distance += cross_term(codes);
        return at_least_lowest(distance);
    }
    bool has_fixed() const { return has_fixed_; } // rows have a coarse part
    float coarse_term(std::int32_t coarse) const { return books_.cross_unit() * static_cast<float>(coarse); }
    float cross_term(const std::uint8_t* codes) const {
        return books_.cross_unit() * static_cast<float>(books_.cross_sum(cell_, codes));
    }
    // Squared distances are sums of terms of both signs, which rounding may leave below 0. Bounds are of the sums as
    // they are: a sum that exceeds tau, which is never below 0, is not changed here.
    float at_least_lowest(float sum) const { return lowest_ < sum ? sum : lowest_; }

private:
    float crude_sum(const std::uint8_t* codes) const {
        float sum = base_;
        for (std::size_t j = 0; j < n_crude_; ++j) sum += term(j, codes[j]);
        return sum;
    }
    float term(std::size_t column, std::size_t code) const {
        return has_terms_ ? entry(column, code) : tables_[column * kWords + code];
    }
    std::int32_t cross_floor() const;
    void add_steps();
    void fill(std::size_t first, std::size_t last, std::size_t& filled);

    const Books& books_;
    const std::vector<SegmentView>& segments_;
    const Kernels& kernel_;
    const std::size_t n_columns_, n_crude_;
    const float lowest_; // no distance is smaller
    const bool has_cross_, has_terms_, has_fixed_;
    Aligned<float> cell_tables_;            // [n_columns][256] of the cells that are filled
    std::vector<float> minima_;             // [n_columns] lower bounds of the tables' entries
    Aligned<float> group_minima_;           // [n_columns][kGroups], without terms
    Aligned<std::int16_t> sums_;            // [n_columns][256], with terms
    Aligned<std::int16_t> step_groups_;     // [n_columns][kGroups] their minima
    std::vector<std::int16_t> step_minima_; // [n_columns]
    const float* tables_ = nullptr;         // [n_columns][256] of the query
    const std::int16_t* steps_ = nullptr;   // their lower bounds, see QueryTables
    const float* low_ = nullptr;            // [n_columns] see QueryTables
    const std::int16_t* terms_ = nullptr;   // [n_columns][256] of the cell
    std::size_t cell_ = 0;
    std::size_t crude_filled_ = 0, rest_filled_ = 0;       // 1 + cell whose float tables are there
    std::size_t crude_looked_up_ = 0, rest_looked_up_ = 0; // rows of the cell so far
    bool few_ = false, has_sums_ = false;
    float step_ = 0, bound_ = 0, base_ = 0, crude_floor_ = 0, rest_floor_ = 0, slack_ = 0;
    float scale_ = 0;       // of bytes_; 0: not made for these tables
    float fixed_scale_ = 0; // of bytes_.fixed; and for which step:
    std::int32_t fixed_step_ = 0;
    ByteTables bytes_;
};

} // namespace interlace
