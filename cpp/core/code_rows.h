// The codes of rows as callers hold them, to read or to write.
//
// Either apart: cells uint32 [n] and codes uint8 [n][n_columns]; or joined: codes uint8 [n][1 + n_columns] with the
// cell in the first byte, which needs at most 256 cells.
#pragma once
#include <cstddef>
#include <cstdint>

namespace interlace {

inline constexpr std::size_t kMostJoinedCells = 256;

template <typename Cell, typename Code> class BasicCodeRows {
public:
    static BasicCodeRows apart(Cell* cells, Code* codes, std::size_t n, std::size_t n_columns) {
        return {cells, codes, n, n_columns};
    }
    static BasicCodeRows joined(Code* codes, std::size_t n, std::size_t n_columns) {
        return {nullptr, codes, n, n_columns};
    }

    std::size_t size() const { return n_; }
    std::size_t n_columns() const { return n_columns_; }
    std::uint32_t cell(std::size_t row) const { return cells_ != nullptr ? cells_[row] : codes_[row * stride()]; }
    Code* codes(std::size_t row) const { return codes_ + row * stride() + (cells_ == nullptr); } // [n_columns]
    void set_cell(std::size_t row, std::uint32_t cell) const {
        if (cells_ != nullptr) cells_[row] = cell;
        else codes_[row * stride()] = static_cast<std::uint8_t>(cell);
    }
    BasicCodeRows from(std::size_t row) const { // the rows from this one on
        return {cells_ != nullptr ? cells_ + row : nullptr, codes_ + row * stride(), n_ - row, n_columns_};
    }

private:
    BasicCodeRows(Cell* cells, Code* codes, std::size_t n, std::size_t n_columns)
        : cells_(cells), codes_(codes), n_(n), n_columns_(n_columns) {}
    std::size_t stride() const { return n_columns_ + (cells_ == nullptr); }

    Cell* cells_; // nullptr: joined
    Code* codes_;
    std::size_t n_, n_columns_;
};

using CodeRows = BasicCodeRows<const std::uint32_t, const std::uint8_t>;
using CodeRowsOut = BasicCodeRows<std::uint32_t, std::uint8_t>;

} // namespace interlace
