// The code of a norm column: the stored value nearest to the cross terms that the column covers.
#pragma once
#include "../books.h"

#include <cstddef>
#include <cstdint>

namespace interlace {

// index: of the norm; codes [n_books] in the order of the books
std::uint8_t norm_code(const Books& books, std::size_t index, const std::uint8_t* codes);

} // namespace interlace
