// Level `scalar`: no instructions beyond the baseline of the architecture. The other levels must return its bits.
#include "kernels.h"

namespace interlace {
namespace {
#define LANES 4
#include "tables_impl.h"

void scan(const std::uint8_t* blocks, std::size_t n_stored, const ByteTables& tables, std::uint8_t threshold,
          std::size_t n_blocks, std::uint64_t* masks) {
    for (std::size_t b = 0; b < n_blocks; ++b, blocks += n_stored * kBlock) {
        std::uint64_t mask = 0;
        for (std::size_t i = 0; i < kBlock; ++i) {
            unsigned sum = 0;
            for (std::size_t j = 0; j < tables.n_columns; ++j) sum += tables.words[j][blocks[j * kBlock + i]];
            mask |= static_cast<std::uint64_t>(sum <= threshold) << i;
        }
        masks[b] = mask;
    }
}
} // namespace

const Kernels& scalar_kernels() {
    static const Kernels k{
        "scalar",  squared_distances, inner_products, rotate, to_steps, add_rows, below,    add_terms, min_steps,
        add_steps, quantize_steps,    square_of_sum,  minima, max_abs,  argmin,   quantize, scan};
    return k;
}
} // namespace interlace
