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

    // Cells with rows that may be found, in ascending order of their bases for the q-th query, which must live until
    // the next call. Only the first ones are sorted at once: most queries visit few of thousands of cells.
    void start(CellBases& bases, std::size_t q);
    std::size_t size() const { return size_; }
    std::size_t cell(std::size_t rank) {
        if (rank >= sorted_) sort_until(rank);
        asked_ = std::max(asked_, rank);
        return order_[rank] & 0xffffffffu;
    }
    float base(std::size_t rank) { return base_of(cell(rank)); }
    float base_of(std::size_t cell) const { return bases_->of(q_, cell); } // of a cell whose rank was asked for
    std::uint64_t rows_in(std::size_t cell) const {                        // allowed rows of all segments
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
    void find_empty();
    void list_all(); // with their bases
    // visit(cell) for all others than the empty ones, ascending
    template <typename Visit> void for_each_cell(const Visit& visit) const {
        std::size_t next = 0;
        for (const std::uint32_t empty : empty_) {
            for (; next < empty; ++next) visit(next);
            ++next;
        }
        for (; next < books_.n_cells(); ++next) visit(next);
    }
    void sort_until(std::size_t rank); // at least
    void take_apart(std::size_t end);  // the first `end` cells, and a few more
    // From lower bounds: the bases of as many cells and a few more, and the order of those that no other cell precedes
    void find_nearest(std::size_t wanted);
    float bound_of(std::size_t wanted); // at least so many cells have a lower bound up to this one
    std::vector<std::uint64_t>::iterator at(std::size_t i) { return order_.begin() + static_cast<std::ptrdiff_t>(i); }

    const Books& books_;
    const std::vector<SegmentView>& segments_;
    const Rule& rule_;
    std::span<const float> spread_;     // by rank; empty where the rule never stops
    std::vector<std::uint32_t> empty_;  // cells without rows that may be found, ascending
    std::size_t size_ = 0;              // the others
    std::vector<std::uint64_t> order_;  // Cells::sort_key of those whose bases are there
    std::size_t sorted_ = 0;            // of them, the nearest ones
    std::size_t apart_ = 0;             // of them, before the others but not sorted
    std::size_t first_found_ = 64;      // by find_nearest(); follows what queries ask for
    std::size_t asked_ = 0;             // the largest rank
    float limit_ = 0;                   // cells with a lower bound up to this one are in order_
    std::vector<std::uint32_t> chosen_; // buffers of find_nearest()
    std::vector<float> minima_;
    CellBases* bases_ = nullptr;
    std::size_t q_ = 0;
    std::size_t near_ = 0;
    bool one_floor_ = false; // tables are the same in all cells
    bool unlike_ = false;
    float share_ = 1, common_floor_ = 0, slack_ = 0, unit_ = 0;
};

} // namespace interlace
