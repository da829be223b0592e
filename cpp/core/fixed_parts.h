// What no query changes in the distances of a segment's rows, where books fold their cells (books.h): the cross sum.
//
// A row keeps a byte b with cross sum >= floor of its cell + step * b. It makes the crude distance of a row tight,
// though the tables are the same in all cells: step * b is part of the crude distance. The whole distance has the sum
// itself, so that it does not depend on the other rows of the segment. It is computed for the rows that pass the crude
// step, unless the segment keeps it (Segment::sums).
#pragma once
#include "books.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace interlace {

class Segment;

struct FixedParts {
    static constexpr std::int32_t kMost = 127; // a table of 128 entries is looked up in half the time of one of 256

    std::vector<std::int32_t> floors; // [n_cells] the smallest cross sum of its rows, 0 without rows
    std::int32_t step = 1;            // 2 / kMost of the mean above the floors: what is larger saturates
    std::vector<std::uint8_t> bytes;  // [n_blocks * 64] by position

    FixedParts(const Segment& segment, const std::vector<std::int32_t>& sums); // sums: those of cross_sums()

    static std::int32_t byte_of(std::int32_t sum, std::int32_t floor, std::int32_t step) {
        const std::int64_t above = (static_cast<std::int64_t>(sum) - floor) / step;
        return above < kMost ? static_cast<std::int32_t>(above) : kMost;
    }
};

std::vector<std::int32_t> cross_sums(const Books& books, const Segment& segment); // [n_rows] by position

} // namespace interlace
