// Level `neon` (aarch64): one table instruction looks 16 codes up in 64 words, four of them cover a book.
#include "kernels.h"

#include <arm_neon.h>

namespace interlace {
namespace {
#define LANES 4
#include "tables_impl.h"

inline uint8x16x4_t load_table(const std::uint8_t* p) {
    return {{vld1q_u8(p), vld1q_u8(p + 16), vld1q_u8(p + 32), vld1q_u8(p + 48)}};
}

// Codes outside 0..63 of a quarter leave the lane as it was.
inline uint8x16_t lookup(const std::uint8_t* table, uint8x16_t codes) {
    uint8x16_t found = vqtbl4q_u8(load_table(table), codes);
    for (int quarter = 1; quarter < 4; ++quarter)
        found = vqtbx4q_u8(found, load_table(table + 64 * quarter),
                           vsubq_u8(codes, vdupq_n_u8(static_cast<std::uint8_t>(64 * quarter))));
    return found;
}

inline std::uint64_t movemask(uint8x16_t v) {
    const uint8x16_t bit = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t bits = vandq_u8(v, bit);
    return vaddv_u8(vget_low_u8(bits)) | static_cast<std::uint64_t>(vaddv_u8(vget_high_u8(bits))) << 8;
}

void scan(const std::uint8_t* blocks, std::size_t n_stored, const ByteTables& tables, std::uint8_t threshold,
          std::size_t n_blocks, std::uint64_t* masks) {
    const uint8x16_t limit = vdupq_n_u8(threshold);
    for (std::size_t b = 0; b < n_blocks; ++b, blocks += n_stored * kBlock) {
        std::uint64_t mask = 0;
        for (std::size_t part = 0; part < kBlock; part += 16) {
            uint8x16_t sum = vdupq_n_u8(0);
            for (std::size_t j = 0; j < tables.n_columns; ++j)
                sum = vqaddq_u8(sum, lookup(tables.words[j], vld1q_u8(blocks + j * kBlock + part)));
            mask |= movemask(vcleq_u8(sum, limit)) << part;
        }
        masks[b] = mask;
    }
}
} // namespace

const Kernels& neon_kernels() {
    static const Kernels k{
        "neon",    squared_distances, inner_products, rotate, to_steps, add_rows, below,    add_terms, min_steps,
        add_steps, quantize_steps,    square_of_sum,  minima, max_abs,  argmin,   quantize, scan};
    return k;
}
} // namespace interlace
