// Vectors -> codes: beam search over the books in their order.
#pragma once
#include "books.h"

#include <cstddef>
#include <cstdint>

namespace interlace {

// x [n][dim] raw vectors -> codes uint8 [n][1 + n_columns], the cell's code first, the columns in stored order.
// `beam` paths are kept: of cells, and after each later book that overlaps another than the cell's; a book that does
// not gets its nearest word on every path. At most `sweeps` times the best path is then improved book by book.
void encode(const Books& books, const float* x, std::size_t n, std::size_t beam, std::size_t sweeps,
            std::size_t threads, std::uint8_t* codes);

// Smallest Books::cross_sum of the rows of each cell: floors [n_cells], 0 for a cell without rows.
void cross_floors(const Books& books, const std::uint8_t* codes, std::size_t n, std::size_t threads,
                  std::int32_t* floors);

} // namespace interlace
