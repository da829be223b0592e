// Numbers as text.
#pragma once
#include <cstddef>
#include <string_view>

namespace interlace {

// The numbers of JSON arrays that follow each other, "[1, 2][3, 4]": out float [rows x dim], each the nearest double,
// rounded. False if there are other than `rows` arrays of `dim` numbers, or a number that no double holds, or where the
// standard library cannot read numbers: out is undefined then. Expects valid JSON, but reads nothing beyond the text.
bool parse_rows(std::string_view text, std::size_t rows, std::size_t dim, float* out);

} // namespace interlace
