#include "flat_rows.h"

#include "segment.h"
#include "threads.h"

namespace interlace {
namespace {

// Average number of rows per cell up to which a segment is scanned without cells. Copies of filters, which are not
// searched for long, have a limit of their own.
constexpr std::size_t kRowsPerCell = 32;
// Terms of all cells that the second-level cache holds: they cost so little that cells pay.
constexpr std::size_t kCachedTerms = 1 << 20; // bytes

} // namespace

FlatRows::FlatRows(const Books& books, const Segment& segment)
    : codes(segment.shape().n_rows * segment.shape().n_columns()), statics(segment.shape().n_rows) {
    const std::size_t n_columns = segment.shape().n_columns();
    for (std::size_t c = 0; c < segment.shape().n_cells; ++c) {
        checkpoint(); // there are few rows in all
        for (std::uint64_t position = segment.start(c); position < segment.end(c); ++position) {
            std::uint8_t* const of_row = codes.data() + position * n_columns;
            segment.codes_at(position, of_row);
            statics[position] = static_part(books, c, of_row);
        }
    }
}

bool FlatRows::pays(const Books& books, const SegmentShape& shape) {
    return books.has_table_terms() && shape.n_rows > 0 && shape.n_rows <= kRowsPerCell * shape.n_cells &&
           books.cells().term_bytes() > kCachedTerms;
}

float FlatRows::static_part(const Books& books, std::size_t cell, const std::uint8_t* codes) {
    std::int64_t terms = 0;
    for (std::size_t j = 0; books.has_table_terms() && j < books.n_columns(); ++j)
        terms += books.cells().terms(cell, j)[codes[j]];
    double part = terms == 0 ? 0.0 : static_cast<double>(books.cells().term_scale()) * static_cast<double>(terms);
    if (books.has_cross_sums())
        part += static_cast<double>(books.cross_unit()) * static_cast<double>(books.cross_sum(cell, codes));
    return static_cast<float>(part);
}

} // namespace interlace
