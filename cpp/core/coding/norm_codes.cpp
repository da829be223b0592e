#include "norm_codes.h"

#include <algorithm>
#include <limits>

namespace interlace {

std::uint8_t norm_code(const Books& books, std::size_t index, const std::uint8_t* codes) {
    const Norm& norm = books.norms()[index];
    const PairTerms& terms = books.pair_terms();
    const auto covers = [](const Norm& n, std::uint32_t book) {
        return std::find(n.covers.begin(), n.covers.end(), book) != n.covers.end();
    };
    std::int32_t steps = 0;
    for (std::size_t a = 0; a < norm.covers.size(); ++a)
        for (std::size_t b = a + 1; b < norm.covers.size(); ++b) {
            const std::uint32_t i = norm.covers[a], j = norm.covers[b];
            bool held = false;
            for (std::size_t e = 0; e < index; ++e)
                held = held || (covers(books.norms()[e], i) && covers(books.norms()[e], j));
            const std::int16_t* cross = terms.of(i, j);
            if (!held && cross != nullptr) steps += cross[codes[i] * kWords + codes[j]];
        }
    const float value = terms.scale() * static_cast<float>(steps);
    std::size_t best = 0;
    float error = std::numeric_limits<float>::infinity();
    for (std::size_t w = 0; w < kWords; ++w) { // padding is +inf
        const float difference = value < norm.values[w] ? norm.values[w] - value : value - norm.values[w];
        if (difference < error) {
            error = difference;
            best = w;
        }
    }
    return static_cast<std::uint8_t>(best);
}

} // namespace interlace
