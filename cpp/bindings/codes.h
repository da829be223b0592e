// Codes of rows as Python passes them: uint8 [n, cell_bytes + n_columns] (core/code_rows.h).
#pragma once
#include "../core/code_rows.h"
#include "arrays.h"

#include <cstddef>
#include <cstdint>

namespace interlace {

using CodesIn = In<std::uint8_t, Two>;
using CodesOut = Out<std::uint8_t, Two>;

template <typename Codes> std::size_t columns_of(const Codes& codes, std::size_t n_cells) {
    require(codes.shape(1) >= cell_bytes_for(n_cells), "codes must have room for the number of the cell");
    return codes.shape(1) - cell_bytes_for(n_cells);
}

inline CodeRows rows_of(const CodesIn& codes, std::size_t n_cells) {
    return {codes.data(), codes.shape(0), columns_of(codes, n_cells), cell_bytes_for(n_cells)};
}

inline CodeRowsOut rows_of(const CodesOut& codes, std::size_t n_cells) {
    return {codes.data(), codes.shape(0), columns_of(codes, n_cells), cell_bytes_for(n_cells)};
}

} // namespace interlace
