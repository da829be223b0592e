// Vectors -> codes, and what a segment stores about the codes of each cell.
#pragma once
#include "books.h"
#include "code_rows.h"
#include "coding/parallel.h"

#include <cstddef>
#include <cstdint>

namespace interlace {

// x [n][dim] raw vectors -> codes, the columns in stored order; n = out.size().
// `beam` paths are kept: of cells, and after each later book that overlaps another than the cell's; a book that does
// not gets its nearest word on every path. The best path is then improved book by book, at most `sweeps` times.
// If the loss counts errors along the row more than others, every word depends on all others: all books keep `beam`
// paths and are improved.
void encode(const Books& books, const float* x, std::size_t beam, std::size_t sweeps, const ParallelLoss& loss,
            std::size_t threads, const CodeRowsOut& out);

// Smallest Books::cross_sum of the rows of each cell: floors [n_cells], 0 for a cell without rows. Throws
// std::invalid_argument where a cell does not exist.
void cross_floors(const Books& books, const CodeRows& rows, std::size_t threads, std::int32_t* floors);

} // namespace interlace
