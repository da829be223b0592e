// The codes of rows as callers hold them, to read or to write: uint8 [n][cell_bytes + n_columns], the number of the
// cell first, in as many bytes as the number of cells needs, the least significant one in front.
#pragma once
#include <cstddef>
#include <cstdint>

namespace interlace {

inline constexpr std::size_t cell_bytes_for(std::size_t n_cells) {
    return n_cells <= 256 ? 1 : n_cells <= 65536 ? 2 : 4;
}

template <typename Code> class BasicCodeRows {
public:
    BasicCodeRows(Code* codes, std::size_t n, std::size_t n_columns, std::size_t cell_bytes)
        : codes_(codes), n_(n), n_columns_(n_columns), cell_bytes_(cell_bytes) {}

    std::size_t size() const { return n_; }
    std::size_t n_columns() const { return n_columns_; }
    std::uint32_t cell(std::size_t row) const {
        const Code* at = codes_ + row * stride();
        std::uint32_t cell = at[0];
        for (std::size_t i = 1; i < cell_bytes_; ++i) cell |= static_cast<std::uint32_t>(at[i]) << (8 * i);
        return cell;
    }
    Code* codes(std::size_t row) const { return codes_ + row * stride() + cell_bytes_; } // [n_columns]
    void set_cell(std::size_t row, std::uint32_t cell) const {
        for (std::size_t i = 0; i < cell_bytes_; ++i)
            codes_[row * stride() + i] = static_cast<std::uint8_t>(cell >> (8 * i));
    }
    BasicCodeRows from(std::size_t row) const { // the rows from this one on
        return {codes_ + row * stride(), n_ - row, n_columns_, cell_bytes_};
    }

private:
    std::size_t stride() const { return cell_bytes_ + n_columns_; }

    Code* codes_;
    std::size_t n_, n_columns_, cell_bytes_;
};

using CodeRows = BasicCodeRows<const std::uint8_t>;
using CodeRowsOut = BasicCodeRows<std::uint8_t>;

} // namespace interlace
