// Packed, immutable rows: what a segment of an index holds and how it is read back.
//
//   cell_starts  uint64 [n_cells + 1]                 rows of cell c are the positions starts[c] .. starts[c + 1] - 1
//   crude        uint8  [ceil(n / 64)][n_crude][64]   crude codes, transposed in blocks; blocks may straddle two cells
//   rest         uint8  [n][n_rest]                   the other codes, a row's bytes together
//   low, high, samples                                row number of every position (elias_fano.h)
//   cross_floors int32  [n_cells]                     smallest cross term of a cell's rows, where search adds cross
//   terms and books do not fold their cells
//
// The cell of a row follows from its position and takes no byte. Only the last block is padded.
#pragma once
#include "code_rows.h"
#include "elias_fano.h"
#include "fixed_parts.h"
#include "flat_rows.h"
#include "made_once.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace interlace {

struct SegmentShape {
    std::size_t n_rows, n_cells, n_crude, n_rest; // crude columns and the others
    std::size_t n_columns() const { return n_crude + n_rest; }
};

// What a scan reads of a segment, or of a copy of some of its rows (filter.h).
struct SegmentView {
    std::uint64_t first_row; // row number of its first row in the index
    std::size_t n_crude, n_rest;
    const std::uint64_t* cell_starts;
    const std::uint8_t* crude;
    const std::uint8_t* rest;
    const std::int32_t* cross_floors;    // of the whole segment, also in a copy
    const std::uint8_t* fixed = nullptr; // [n_blocks][64] FixedParts::bytes, where books fold their cells
    std::int32_t fixed_step = 0;
    const std::int32_t* sums = nullptr; // [n] Segment::sums; nullptr: they are computed
    // Cells without rows, ascending; nullptr in a copy.
    const std::vector<std::uint32_t>* empty = nullptr;
    const RowNumbers* numbers;              // row number of every position, in the segment
    const std::uint32_t* rows = nullptr;    // [n] in a copy: the same, not packed
    const std::uint8_t* codes = nullptr;    // [n][n_columns] of few rows, see FlatRows
    const float* statics = nullptr;         // [n] of few rows: the part of a distance that no query changes
    const std::uint64_t* mask = nullptr;    // bits in position order, one word per block; nullptr: all rows allowed
    const std::uint64_t* allowed = nullptr; // allowed rows of each cell, with mask

    std::uint64_t start(std::size_t cell) const { return cell_starts[cell]; }
    std::uint64_t end(std::size_t cell) const { return cell_starts[cell + 1]; }
    std::uint64_t size(std::size_t cell) const {
        return mask ? allowed[cell] : end(cell) - start(cell);
    } // allowed ones
    const std::uint8_t* block(std::size_t b) const { return crude + b * n_crude * 64; }
    const std::uint8_t* fixed_block(std::size_t b) const { return fixed ? fixed + b * 64 : nullptr; }
    const std::uint8_t* rest_codes(std::uint64_t position) const { return rest + position * n_rest; }
    std::uint64_t row(std::size_t cell, std::uint64_t position) const { // in the index
        return first_row + (rows ? rows[position] : numbers->at(cell, position - start(cell)));
    }
    void fetch_row(std::size_t cell, std::uint64_t position) const { // what row() will read, into the cache
        if (rows) __builtin_prefetch(rows + position);
        else numbers->fetch(cell, position - start(cell));
    }
};

// The cell of every row, in the fewest bytes (1, 2 or 4) that hold any cell of the segment.
class RowCells {
public:
    RowCells(std::size_t n_rows, std::size_t n_cells)
        : width_(n_cells <= 0x100     ? 1
                 : n_cells <= 0x10000 ? 2
                                      : 4),
          bytes_(n_rows * width_) {}

    std::uint32_t operator[](std::size_t row) const {
        const std::uint8_t* at = bytes_.data() + row * width_;
        return width_ == 1 ? *at : width_ == 2 ? load<std::uint16_t>(at) : load<std::uint32_t>(at);
    }
    void set(std::size_t row, std::uint32_t cell) {
        std::uint8_t* at = bytes_.data() + row * width_;
        if (width_ == 1) *at = static_cast<std::uint8_t>(cell);
        else if (width_ == 2) store(at, static_cast<std::uint16_t>(cell));
        else store(at, cell);
    }

private:
    template <typename T> static T load(const std::uint8_t* at) {
        T value;
        std::memcpy(&value, at, sizeof value);
        return value;
    }
    template <typename T> static void store(std::uint8_t* at, T value) { std::memcpy(at, &value, sizeof value); }

    std::size_t width_;
    std::vector<std::uint8_t> bytes_;
};

class Segment {
public:
    Segment(SegmentShape shape, std::span<const std::uint64_t> cell_starts, const std::uint8_t* crude,
            const std::uint8_t* rest, const std::uint64_t* low, const std::uint64_t* high, const std::uint32_t* samples,
            const std::int32_t* cross_floors);

    const SegmentShape& shape() const { return shape_; }
    const RowNumbers& rows() const { return rows_; }
    std::uint64_t start(std::size_t cell) const { return cell_starts_[cell]; }
    std::uint64_t end(std::size_t cell) const { return cell_starts_[cell + 1]; }
    const std::uint8_t* block(std::size_t b) const { return crude_ + b * shape_.n_crude * 64; }
    const std::int32_t* cross_floors() const { return cross_floors_; } // nullptr without
    void codes_at(std::uint64_t position, std::uint8_t* codes) const;  // codes [n_columns]
    std::uint8_t crude_code(std::uint64_t position, std::size_t column) const;
    const std::uint8_t* rest_codes(std::uint64_t position) const { return rest_ + position * shape_.n_rest; }

    void codes_of(std::span<const std::uint64_t> rows, const CodeRowsOut& out) const;
    void unpack(const CodeRowsOut& out) const;                           // all rows in row order
    SegmentView view(const Books& books, std::uint64_t first_row) const; // all rows
    // The same with what a scan without cells reads, for a segment where that pays
    SegmentView flat_view(const Books& books, std::uint64_t first_row) const;
    const FixedParts& fixed_parts(const Books& books) const; // computed by the first call, for books that fold cells
    // The cross sum of each row by position, for books that fold cells: computed by the first call, and kept from then
    // on, four bytes for each row, which saves every survivor of a search the sum of its words.
    const std::vector<std::int32_t>& sums(const Books& books) const;
    const std::vector<std::int32_t>* known_sums() const { return sums_.known(); } // nullptr: not kept
    const RowCells& cells() const;                                 // computed by the first call, and kept
    const std::vector<std::uint32_t>& empty_cells() const;         // computed by the first call, and kept
    const RowCells* known_cells() const { return cells_.known(); } // nullptr: not computed yet

private:
    SegmentShape shape_;
    std::span<const std::uint64_t> cell_starts_;
    const std::uint8_t* crude_;
    const std::uint8_t* rest_;
    RowNumbers rows_;
    const std::int32_t* cross_floors_;
    MadeOnce<RowCells> cells_;
    MadeOnce<std::vector<std::uint32_t>> empty_cells_;
    MadeOnce<FixedParts> fixed_parts_;
    MadeOnce<std::vector<std::int32_t>> sums_;
    MadeOnce<FlatRows> flat_rows_;
};

// Stable counting sort of rows by their cell. cell_starts [n_cells + 1] is filled by count_cells, the others (zeroed,
// of the sizes above) by pack. Both throw std::invalid_argument where a cell does not exist, or has changed in between.
void count_cells(const CodeRows& rows, std::size_t n_cells, std::uint64_t* cell_starts);
void pack(const CodeRows& rows, const SegmentShape& shape, std::span<const std::uint64_t> cell_starts,
          std::uint8_t* crude, std::uint8_t* rest, std::uint64_t* low, std::uint64_t* high, std::uint32_t* samples);

} // namespace interlace
