// Whole rankings by labels: what mean average precision needs of them, without the order of the rows itself.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace interlace {

// Squared distances float [n_queries, n_rows] of some columns, by products <query, row> double [n_queries, n_columns]:
// |query|^2 + |row|^2 - 2 <query, row>, at least 0. ``distances`` is the first of these columns in the first row.
void squared_distances(const double* products, std::size_t n_queries, std::size_t n_columns,
                       const double* query_squares, const double* row_squares, std::size_t n_rows, float* distances);

// For each query, rows by ascending distance (of equal ones the first): the sum over the relevant rows of a list of the
// precision where they stand, and their number. Lists are the first ``lengths`` rows, ascending and at most n_rows.
//   distances [n_queries, n_rows], none below 0; wanted [n_queries]: the label of relevant rows; labels [n_rows]
//   sums, found [lengths, n_queries]
void precision_sums(const float* distances, std::size_t n_queries, std::size_t n_rows, const std::int32_t* wanted,
                    const std::int32_t* labels, std::span<const std::int64_t> lengths, double* sums,
                    std::int64_t* found);

} // namespace interlace
