// Two-step search: cells in ascending order of their base, crude scan of their rows, whole code for the survivors.
#pragma once
#include "books.h"
#include "segment.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace interlace {

// When does a crude distance rule a row out? tau is the distance of the k-th best row so far; floors are sums of the
// smallest table entries of a cell, so  floor = crude_floor + rest_floor <= any distance in the cell.
struct Rule {
    enum Kind {
        kShare, // crude - crude_floor > share * (tau - floor); share 1 is exact
        kPaper, // crude > crude of the k-th + sigma
        kNone,  // never
    } kind;
    float share = 1.0f;
    float sigma = 0.0f;
    // kShare also stops at the first cell whose base exceeds the smallest one by more than spread[rank] units (empty:
    // never): a unit is the smallest base for l2, but no less than `least`; for the other metrics it is the distance
    // from the smallest base to the mean. A query farther from the nearest cell than `reach` (for ip: reach times its
    // length) is far from the data the rule was made for: it is searched with share 1 and no stop.
    std::span<const float> spread = {};
    float least = 0.0f, reach = 0.0f;
};

struct SegmentView {
    const Segment* segment;
    std::uint64_t first_row;                // row number of its first row in the index
    const std::uint64_t* mask = nullptr;    // bits in position order, one word per block; nullptr: all rows allowed
    const std::uint64_t* allowed = nullptr; // allowed rows of each cell, with mask
};

struct SearchCounts {
    std::uint64_t cells = 0, scanned = 0, survivors = 0, lookups = 0;
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

} // namespace interlace
