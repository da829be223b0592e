// The rows of a small segment for a scan without cells (scan/flat.h): a row's codes together, and the part of its
// distance that no query changes.
//
// A cell with tables of its own takes the time of comparing dozens of rows, and the terms of all cells are megabytes.
// A segment with few rows in each cell is faster without: an exact search compares every row with one sum of floats.
#pragma once
#include "books.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace interlace {

class Segment;
struct SegmentShape;

struct FlatRows {
    std::vector<std::uint8_t> codes; // [n][n_columns] by position
    std::vector<float> statics;      // [n]

    FlatRows(const Books& books, const Segment& segment);

    static bool pays(const Books& books, const SegmentShape& shape);
    // Terms of the cell and cross terms of a row, codes [n_columns]
    static float static_part(const Books& books, std::size_t cell, const std::uint8_t* codes);
};

} // namespace interlace
