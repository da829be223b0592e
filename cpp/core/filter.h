// The rows of a segment that a search may return, prepared once for many queries.
//
// Many rows: a bit for each position, and the scan reads all rows. Few rows: a copy of their codes in the layout of a
// segment, so that the scan reads nothing else and its cost falls with their number. Very few rows are compared one
// after the other, without cells, with the part of each distance that does not depend on the query (statics). The
// answers are the same to the last bit.
#pragma once
#include "books.h"
#include "segment.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace interlace {

class Filter {
public:
    // allowed [n_rows]: a byte for each row in row order, not 0 where it may be returned. The segment, which fits the
    // books, must outlive this object.
    Filter(const Books& books, const Segment& segment, const std::uint8_t* allowed);

    const Segment& segment() const { return segment_; }
    std::uint64_t n_allowed() const { return n_allowed_; }
    bool copied() const { return copied_; }
    SegmentView view(const Books& books, std::uint64_t first_row) const;

private:
    void mark(const std::uint8_t* allowed);
    std::vector<std::uint64_t> find(const std::uint8_t* allowed);
    void copy(const Books& books, const std::vector<std::uint64_t>& positions);
    void gather(const Books& books);

    const Segment& segment_;
    std::uint64_t n_allowed_ = 0;
    bool copied_ = false, gathered_ = false;
    std::vector<std::uint64_t> bits_;        // a bit for each position, one word per block
    std::vector<std::uint64_t> per_cell_;    // [n_cells] allowed rows
    std::vector<std::uint64_t> cell_starts_; // the copy in the layout of a segment:
    std::vector<std::uint8_t> crude_, rest_; // its codes
    std::vector<std::uint8_t> fixed_;        // see SegmentView
    std::vector<std::int32_t> sums_;         // the same
    std::vector<std::uint32_t> rows_;        // row number of every position of the copy
    std::vector<std::uint8_t> codes_;        // see SegmentView
    std::vector<float> statics_;
};

} // namespace interlace
