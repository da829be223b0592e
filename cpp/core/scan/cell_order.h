// The order in which a query visits the cells, and where it stops (rule.h).
#pragma once
#include "../books.h"
#include "../rule.h"
#include "../segment.h"
#include "cell_tables.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace interlace {

// What a rule measures a query by.
struct QuerySize {
    float length; // for metric ip, 1 elsewhere
    float square; // squared distance from the mean of the data, infinite for metric ip
};

class CellOrder {
public:
    CellOrder(const Books& books, const std::vector<SegmentView>& segments, const Rule& rule);

    // Cells with rows that may be found, in ascending order of base [n_cells], which must live until the next call.
    // Only the first ones are sorted at once: most queries visit few of thousands of cells.
    void start(const float* base);
    std::size_t size() const { return order_.size(); }
    std::size_t cell(std::size_t rank) {
        if (rank >= sorted_) sort_until(rank);
        return order_[rank] & 0xffffffffu;
    }
    float base(std::size_t rank) { return base_[cell(rank)]; }
    float base_of(std::size_t cell) const { return base_[cell]; }
    std::uint64_t rows_in(std::size_t cell) const { // allowed rows of all segments
        std::uint64_t n = 0;
        for (const SegmentView& view : segments_) n += view.size(cell);
        return n;
    }

    // Applies the rule to the query. rows_needed: as many rows are visited in any case.
    void find_stop(const QuerySize& query, std::size_t rows_needed, const CellTables& tables);
    // Bases ascend and tau does not rise: where one cell is too far, so are all cells after it.
    bool ends_at(std::size_t rank, float tau) { return rank >= near_ && beyond_slack(base(rank), tau); }
    bool beyond_slack(float base, float tau) const {
        if (one_floor_) return base + common_floor_ - tau > slack_;
        return std::sqrt(std::max(base, 0.0f)) - std::sqrt(std::max(tau, 0.0f)) > slack_;
    }
    bool unlike() const { return unlike_; }    // the rule was not calibrated for such queries: this one is exact
    float share() const { return share_; }     // of the rule, or 1 for such a query
    std::size_t near() const { return near_; } // number of cells that are visited for any tau
    float gap_above_nearest(std::size_t rank) { return base(rank) - base(0); }
    float allowed_gap(std::size_t rank) const { return spread_[rank] * unit_; } // where the rule stops

private:
    void sort_until(std::size_t rank); // at least
    void take_apart(std::size_t end);  // the first `end` cells, and a few more
    std::vector<std::uint64_t>::iterator at(std::size_t i) { return order_.begin() + static_cast<std::ptrdiff_t>(i); }

    const Books& books_;
    const std::vector<SegmentView>& segments_;
    const Rule& rule_;
    std::span<const float> spread_;       // by rank; empty where the rule never stops
    std::vector<std::uint64_t> order_;    // Cells::sort_key
    std::size_t sorted_ = 0;              // of them, the smallest ones
    std::size_t apart_ = 0;               // of them, before the others but not sorted
    std::vector<std::uint32_t> occupied_; // cells with rows that may be found, ascending
    const float* base_ = nullptr;
    std::size_t near_ = 0;
    bool one_floor_ = false; // tables are the same in all cells
    bool unlike_ = false;
    float share_ = 1, common_floor_ = 0, slack_ = 0, unit_ = 0;
};

} // namespace interlace
