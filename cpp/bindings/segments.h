// Segments and filters as Python holds them.
#pragma once
#include "../core/filter.h"
#include "../core/segment.h"
#include "arrays.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace interlace {

// A segment and the arrays it points into.
struct PySegment {
    In<std::uint64_t, One> cell_starts;
    In<std::uint8_t, Three> crude;
    In<std::uint8_t, Two> rest;
    In<std::uint64_t, One> low, high;
    In<std::uint32_t, One> samples;
    std::optional<In<std::int32_t, One>> cross_floors;
    Segment segment;
};

// A filter and the segment it is for, which it points into.
struct PyFilter {
    nb::object segment;
    Filter filter;
};

using Segments = std::vector<const PySegment*>;
using Filters = std::vector<const PyFilter*>; // one for each segment, or none at all

// Throws std::invalid_argument where a segment does not fit the books, or a filter its segment. exact: all that an
// exact search may use, also what only serves scans without cells.
std::vector<SegmentView> views_of(const Books& books, const Segments& segments, const Filters& filters,
                                  bool exact = false);

} // namespace interlace
