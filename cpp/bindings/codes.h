// Codes of rows as Python passes them: cells uint32 [n] and codes uint8 [n, n_columns], or joined as codes uint8
// [n, 1 + n_columns] with the cell first, for at most 256 cells.
#pragma once
#include "../core/code_rows.h"
#include "arrays.h"

#include <cstddef>
#include <cstdint>

namespace interlace {

using CellsIn = In<std::uint32_t, One>;
using CellsOut = Out<std::uint32_t, One>;
using CodesIn = In<std::uint8_t, Two>;
using CodesOut = Out<std::uint8_t, Two>;

inline void require_joinable(std::size_t n_cells) {
    require(n_cells <= kMostJoinedCells, "more than 256 cells do not fit a byte: pass cells of their own");
}

inline CodeRows joined(const CodesIn& codes) {
    require(codes.shape(1) >= 1, "codes must have the cell's column");
    return CodeRows::joined(codes.data(), codes.shape(0), codes.shape(1) - 1);
}

inline CodeRowsOut joined(const CodesOut& codes) {
    require(codes.shape(1) >= 1, "codes must have the cell's column");
    return CodeRowsOut::joined(codes.data(), codes.shape(0), codes.shape(1) - 1);
}

inline CodeRows apart(const CellsIn& cells, const CodesIn& codes) {
    require(cells.size() == codes.shape(0), "one cell for each row of codes");
    return CodeRows::apart(cells.data(), codes.data(), codes.shape(0), codes.shape(1));
}

inline CodeRowsOut apart(const CellsOut& cells, const CodesOut& codes) {
    require(cells.size() == codes.shape(0), "one cell for each row of codes");
    return CodeRowsOut::apart(cells.data(), codes.data(), codes.shape(0), codes.shape(1));
}

} // namespace interlace
