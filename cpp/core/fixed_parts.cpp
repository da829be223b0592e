#include "fixed_parts.h"

#include "../simd/kernels.h"
#include "segment.h"
#include "threads.h"

#include <algorithm>

namespace interlace {

std::vector<std::int32_t> cross_sums(const Books& books, const Segment& segment) {
    const SegmentShape& shape = segment.shape();
    std::vector<std::int32_t> sums(shape.n_rows);
    std::vector<std::uint8_t> codes(shape.n_columns());
    for (std::size_t c = 0; c < shape.n_cells; ++c) {
        checkpoint();
        for (std::uint64_t position = segment.start(c); position < segment.end(c); ++position) {
            segment.codes_at(position, codes.data());
            sums[position] = books.cross_sum(c, codes.data());
        }
    }
    return sums;
}

FixedParts::FixedParts(const Segment& segment, const std::vector<std::int32_t>& sums)
    : floors(segment.shape().n_cells, 0) {
    const SegmentShape& shape = segment.shape();
    double above = 0; // whole numbers below 2^53: their sum does not depend on the order
    for (std::size_t c = 0; c < shape.n_cells; ++c) {
        const std::uint64_t first = segment.start(c), last = segment.end(c);
        if (first == last) continue;
        floors[c] = *std::min_element(sums.begin() + static_cast<std::ptrdiff_t>(first),
                                      sums.begin() + static_cast<std::ptrdiff_t>(last));
        for (std::uint64_t position = first; position < last; ++position)
            above += static_cast<double>(sums[position]) - floors[c];
    }
    const double mean = shape.n_rows == 0 ? 0 : above / static_cast<double>(shape.n_rows);
    step = 1 + static_cast<std::int32_t>(2 * mean / kMost);
    bytes.assign((shape.n_rows + kBlock - 1) / kBlock * kBlock, 0);
    for (std::size_t c = 0; c < shape.n_cells; ++c)
        for (std::uint64_t position = segment.start(c); position < segment.end(c); ++position)
            bytes[position] = static_cast<std::uint8_t>(byte_of(sums[position], floors[c], step));
}

} // namespace interlace
