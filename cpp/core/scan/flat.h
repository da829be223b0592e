// Few rows (FlatRows, or a small copy of filter.h), compared one after the other without cells, bytes or a crude step.
#pragma once
#include "../rule.h"
#include "../search.h"
#include "../segment.h"
#include "cell_tables.h"
#include "collectors.h"
#include "pace.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace interlace {

constexpr std::size_t kFlatSums = 4;

// Whether a search compares all rows by scan_flat(). want_floors: crude_floor and floor of the hits are read
inline bool scans_flat(const std::vector<SegmentView>& segments, const Rule& rule, bool want_floors) {
    return !want_floors && rule.is_exact() &&
           std::all_of(segments.begin(), segments.end(),
                       [](const SegmentView& view) { return view.statics != nullptr; });
}

// Compares every row with tau by a sum that differs from its distance by rounding only; rows that may be within get the
// distance itself. All rows count as survivors. N_COLUMNS 0: any number.
template <std::size_t N_COLUMNS, typename Collector>
void scan_flat_columns(CellTables& tables, const SegmentView& view, std::uint32_t segment, std::size_t n_cells,
                       const float* base, const float* entries, Collector& collector, Pace& pace, SearchCounts& work) {
    const std::size_t n_columns = N_COLUMNS ? N_COLUMNS : tables.n_columns();
    const std::uint8_t* codes = view.codes;
    const float* const statics = view.statics;
    for (std::size_t cell = 0; cell < n_cells; ++cell) {
        const std::uint64_t end = view.end(cell);
        if (view.start(cell) == end) continue;
        ++work.cells;
        pace.add(1 + (end - view.start(cell)) / 64);
        const float cell_base = base[cell];
        tables.enter(cell, cell_base);
        float limit = collector.tau() + tables.slack();
        for (std::uint64_t position = view.start(cell); position < end; ++position, codes += n_columns) {
            float sums[kFlatSums] = {cell_base + statics[position]}; // none waits for another
            std::size_t j = 0;
            for (; j + kFlatSums <= n_columns; j += kFlatSums)
                for (std::size_t i = 0; i < kFlatSums; ++i) sums[i] += entries[(j + i) * kWords + codes[j + i]];
            for (std::size_t i = 0; j + i < n_columns; ++i) sums[i] += entries[(j + i) * kWords + codes[j + i]];
            if ((sums[0] + sums[1]) + (sums[2] + sums[3]) > limit) continue;
            const float distance = tables.whole_distance(codes);
            if (distance > collector.tau()) continue;
            collector.offer({distance, 0, 0, 0, segment, static_cast<std::uint32_t>(cell), position});
            limit = collector.tau() + tables.slack();
        }
    }
    const std::uint64_t n_rows = view.end(n_cells - 1);
    work.scanned += n_rows;
    work.survivors += n_rows;
}

// entries [n_columns][256]: the tables of the query
template <typename Collector> void scan_flat(CellTables& tables, const SegmentView& view, std::uint32_t segment,
                                             std::size_t n_cells, const float* base, const float* entries,
                                             Collector& collector, Pace& pace, SearchCounts& work) {
    switch (tables.n_columns()) { // the usual numbers of columns get loops without inner branches
    case 7:
        return scan_flat_columns<7>(tables, view, segment, n_cells, base, entries, collector, pace, work);
    case 15:
        return scan_flat_columns<15>(tables, view, segment, n_cells, base, entries, collector, pace, work);
    case 31:
        return scan_flat_columns<31>(tables, view, segment, n_cells, base, entries, collector, pace, work);
    case 63:
        return scan_flat_columns<63>(tables, view, segment, n_cells, base, entries, collector, pace, work);
    default:
        return scan_flat_columns<0>(tables, view, segment, n_cells, base, entries, collector, pace, work);
    }
}

} // namespace interlace
