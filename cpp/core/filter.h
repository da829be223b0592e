// The rows of a segment that a search may return, made ready once for many queries.
//
// Many of them: a bit for each position, and the scan goes over all rows. Few of them: a copy of their codes in the
// layout of a segment, so that the scan reads nothing else and its cost falls with their number; so few that cells do
// not pay are looked up one after the other, with the part of each distance that no query changes. The answers are the
// same to the last bit.
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
    SegmentView view(std::uint64_t first_row) const;

private:
    void mark(const std::uint8_t* allowed);
    std::vector<std::uint64_t> find(const std::uint8_t* allowed);
    void copy(const std::vector<std::uint64_t>& positions);
    void gather(const Books& books);

    const Segment& segment_;
    std::uint64_t n_allowed_ = 0;
    bool copied_ = false, gathered_ = false;
    std::vector<std::uint64_t> bits_, per_cell_; // in position order, one word per block; allowed rows of each cell
    std::vector<std::uint64_t> cell_starts_;     // of the copy, as a segment has them
    std::vector<std::uint8_t> crude_, rest_;     // likewise
    std::vector<std::uint32_t> rows_;            // row number of every position of the copy
    std::vector<std::uint8_t> codes_;            // see SegmentView
    std::vector<float> statics_;
};

} // namespace interlace
