// What a scan reports of one row while it runs: nothing, or what happened to it (search.h, Trace).
//
// A tracer is a template argument of Scanner; the calls of NoTrace compile to nothing.
#pragma once
#include "../search.h"
#include "cell_order.h"
#include "cell_tables.h"

#include <cstddef>
#include <cstdint>

namespace interlace {

class NoTrace {
public:
    static constexpr bool watches(std::size_t) { return false; }
    static void start(CellTables&, CellOrder&) {}
    static void cell_bound(float, float, float) {}
    static void row(const CellTables&, const SegmentView&, std::uint64_t, float, float) {}
};

class RowTrace {
public:
    explicit RowTrace(Trace& trace) : trace_(trace) {}

    bool watches(std::size_t cell) const { return cell == trace_.cell; }

    // What does not depend on the order of rows: the numbers of the row and of its cell. Cells are sorted, and the stop
    // is known.
    void start(CellTables& tables, CellOrder& order) {
        Trace& trace = trace_;
        done_ = false;
        trace.step = Trace::kFarCell;
        trace.n_cells = order.size();
        trace.cell_rank = 0;
        while (trace.cell_rank < order.size() && order.cell(trace.cell_rank) != trace.cell) ++trace.cell_rank;
        trace.base = order.base_of(trace.cell);
        tables.enter(trace.cell, trace.base);
        trace.crude = tables.crude_distance(trace.codes.data(), trace.coarse);
        trace.distance = tables.whole_distance(trace.codes.data());
        tables.find_floors(false);
        trace.crude_floor = tables.crude_floor();
        trace.floor = tables.crude_floor() + tables.rest_floor();
        if (trace.cell_rank >= order.near() && trace.cell_rank < order.size()) {
            trace.value = order.gap_above_nearest(trace.cell_rank);
            trace.bound = order.allowed_gap(trace.cell_rank);
        }
    }

    // Its cell is about to be visited, or left.
    void cell_bound(float crude_floor, float limit, float tau) { note(Trace::kCellBound, crude_floor, limit, tau); }

    // The row at this position of its cell is about to be compared with the limit.
    void row(const CellTables& tables, const SegmentView& view, std::uint64_t position, float limit, float tau) {
        if (done_) return;
        note(Trace::kCellBound, tables.crude_floor(), limit, tau);
        if (tables.crude_floor() > limit || view.row(trace_.cell, position) != trace_.row) return;
        note(trace_.crude > limit ? Trace::kCrude : Trace::kCompared, trace_.crude, limit, tau);
        done_ = true;
    }

private:
    void note(Trace::Step step, float value, float bound, float tau) {
        trace_.step = step;
        trace_.value = value;
        trace_.bound = bound;
        trace_.tau = tau;
    }

    Trace& trace_;
    bool done_ = false; // the row was reached
};

} // namespace interlace
