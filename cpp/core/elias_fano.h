// Ascending row numbers of every cell in about 2 + log2(n_cells) bits each (Elias-Fano).
//
// A cell with m of the segment's n rows splits each row number into `low_bits` = floor(log2(n / m)) low bits, stored as
// they are, and the rest, stored as ones in a bit vector: row i of the cell is the i-th one, at bit (row >> low_bits) +
// i. Everything but the bits follows from n and the cell sizes, so it is recomputed at open and never stored.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace interlace {

class RowNumbers {
public:
    static constexpr std::size_t kSample = 256; // the bit position of every 256th one is stored

    struct Sizes { // in array elements
        std::size_t low, high, samples;
    };
    static Sizes sizes(std::span<const std::uint64_t> cell_starts);

    // cell_starts [n_cells + 1] ascending from 0; the arrays have exactly the sizes above and must outlive this object.
    // Their bits may come from a damaged file: an invalid row number throws Damaged.
    RowNumbers(std::span<const std::uint64_t> cell_starts, const std::uint64_t* low, const std::uint64_t* high,
               const std::uint32_t* samples);

    // rows [n] in position order, ascending inside each cell -> the three arrays (zeroed, of the sizes above)
    static void encode(std::span<const std::uint64_t> cell_starts, const std::uint32_t* rows, std::uint64_t* low,
                       std::uint64_t* high, std::uint32_t* samples);

    std::size_t n_rows() const { return n_rows_; }
    std::size_t n_cells() const { return cells_.size(); }
    std::uint64_t at(std::size_t cell, std::size_t i) const;      // i-th row number of the cell
    void fetch(std::size_t cell, std::size_t i) const;            // what at() will read, into the cache
    void decode_cell(std::size_t cell, std::uint32_t* out) const; // all of them
    std::vector<std::uint64_t> positions(std::span<const std::uint64_t> rows) const; // inverse; every row < n_rows()
    std::size_t cell_of(std::uint64_t position) const;
    static constexpr std::uint32_t kNowhere = ~std::uint32_t{0};
    // places [rows.size()]: the i with at(cell, i) == row, or kNowhere; rows ascend, equal ones are allowed
    void find_in_cell(std::size_t cell, std::span<const std::uint32_t> rows, std::uint32_t* places) const;

private:
    struct Cell {
        std::uint64_t start, size, low_offset, high_offset, sample_offset; // offsets in bits, bits, elements
        unsigned low_bits;
    };
    static std::vector<Cell> plan(std::span<const std::uint64_t> cell_starts, Sizes* totals);
    std::uint64_t low(const Cell& cell, std::size_t i) const;
    std::uint64_t word(std::uint64_t index) const;
    std::uint64_t checked(std::uint64_t row) const;
    std::vector<std::uint64_t> in_cells(std::vector<std::uint64_t> positions) const; // the same, or throws Damaged

    std::vector<Cell> cells_;
    std::vector<std::uint64_t> starts_;
    std::size_t n_rows_, high_words_ = 0;
    const std::uint64_t* low_;
    const std::uint64_t* high_;
    const std::uint32_t* samples_;
};

} // namespace interlace
