// Two-step search: cells in ascending order of their base, crude scan of their rows, whole code for the survivors.
#pragma once
#include "books.h"
#include "rule.h"
#include "segment.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace interlace {

struct SearchCounts {
    std::uint64_t cells = 0, scanned = 0, survivors = 0, lookups = 0;
    std::uint64_t strays = 0; // hits in cells beyond the slack: those cells were visited for their rank alone
    std::uint64_t unlike = 0; // 1: the rule was not calibrated for such queries, so this one was searched exactly
};

struct SearchOutput {     // caller's arrays
    std::int64_t* rows;   // [n][k], -1 where there are fewer hits
    float* distances;     // [n][k], +inf there
    std::int64_t* counts; // [n]
    SearchCounts* work;   // [n]
    float* crude_excess;  // [n][k] crude - crude_floor of each hit, or nullptr
    float* floors;        // [n][k] floor of each hit's cell, with crude_excess
};

void search(const Books& books, const std::vector<SegmentView>& segments, const float* queries, std::size_t n,
            std::size_t k, const Rule& rule, std::size_t threads, const SearchOutput& out);

// All rows within a radius, nearest first, query after query.
struct RangeOutput {
    std::int64_t* counts; // [n], the caller's
    SearchCounts* work;   // [n], the caller's
    std::vector<std::int64_t> rows;
    std::vector<float> distances;
};

// Sum over the columns of mean - minimum of the query's table, [n] each; 0 where cells change the tables.
void spans(const Books& books, const float* queries, std::size_t n, float* out);

// radii [n]: the largest distance that counts. The rule is exact() or everything(): the others compare rows with the
// k-th best one.
void range_search(const Books& books, const std::vector<SegmentView>& segments, const float* queries, std::size_t n,
                  const float* radii, const Rule& rule, std::size_t threads, RangeOutput& out);

// What a search for k rows did with one row.
struct Trace {
    enum Step {
        kFarCell, // its cell was not visited: base - smallest base (value) > the gap that the rule allows (bound), and
                  // base - tau > the rule's slack
        kCellBound, // its cell was skipped, or left before the row: the cell's crude floor (value) > limit (bound)
        kCrude,     // the crude distance (value) > limit (bound)
        kCompared,  // the whole code was compared; crude distance and limit as above
    } step = kFarCell;
    std::uint64_t row = 0; // in the index
    std::uint32_t cell = 0;
    std::vector<std::uint8_t> codes;           // [n_columns]
    std::int32_t coarse = 0;                   // of its cross sum, in its crude distance: FixedParts
    std::size_t cell_rank = 0, n_cells = 0;    // of the cell by its base, among those with rows that may be found
    float value = 0, bound = 0;                // what was compared
    float base = 0, crude = 0, distance = 0;   // of the row
    float crude_floor = 0, floor = 0, tau = 0; // of its cell; of the k-th best row at that time
};

// Fills in `trace`, whose row, cell, codes and coarse part are given; the row must be among those of `segments`.
void trace_row(const Books& books, const std::vector<SegmentView>& segments, const float* query, std::size_t k,
               const Rule& rule, Trace& trace);

} // namespace interlace
