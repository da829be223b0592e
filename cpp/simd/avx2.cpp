// Level `avx2`. There is no 256-entry byte lookup in AVX2, but few words are within the budget: a column's table is
// read as 16 groups of 16 words (code >> 4), and only the groups with a live word cost a shuffle. Books keep near
// words next to each other (quantizers/grouping.py), so a query usually leaves 2-6 of the 16 groups alive.
#include "kernels.h"

#include <immintrin.h>

namespace interlace {
namespace {
#define LANES 8
#include "tables_impl.h"

// Subtracts the column's bytes from the credit (what is left of threshold + 1) of every row. Tables hold 255 - value,
// so that a row of a dead group, for which every shuffle gives 0, pays 255.
template <int LIVE>
void scan_column(const std::uint8_t* codes, std::size_t stride, const std::uint8_t* values, const std::uint8_t* live,
                 std::size_t n_blocks, __m256i* credit) {
    const __m256i ones = _mm256_set1_epi8(-1), spread = _mm256_set1_epi8(0x70);
    __m256i table[LIVE], group[LIVE];
    for (int g = 0; g < LIVE; ++g) {
        const __m128i words = _mm_load_si128(reinterpret_cast<const __m128i*>(values + 16 * live[g]));
        table[g] = _mm256_xor_si256(_mm256_broadcastsi128_si256(words), ones);
        group[g] = _mm256_set1_epi8(static_cast<char>(live[g] << 4));
    }
    for (std::size_t b = 0; b < n_blocks; ++b, codes += stride) {
        const __m256i lo = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes));
        const __m256i hi = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + 32));
        __m256i paid_lo = _mm256_setzero_si256(), paid_hi = _mm256_setzero_si256();
        for (int g = 0; g < LIVE; ++g) {
            // code ^ group is 0..15 inside the group; + 0x70 keeps its low nibble there and sets bit 7 elsewhere
            const __m256i in_lo = _mm256_adds_epu8(_mm256_xor_si256(lo, group[g]), spread);
            const __m256i in_hi = _mm256_adds_epu8(_mm256_xor_si256(hi, group[g]), spread);
            paid_lo = _mm256_or_si256(paid_lo, _mm256_shuffle_epi8(table[g], in_lo));
            paid_hi = _mm256_or_si256(paid_hi, _mm256_shuffle_epi8(table[g], in_hi));
        }
        credit[2 * b] = _mm256_subs_epu8(credit[2 * b], _mm256_xor_si256(paid_lo, ones));
        credit[2 * b + 1] = _mm256_subs_epu8(credit[2 * b + 1], _mm256_xor_si256(paid_hi, ones));
    }
}

using ScanColumn = void (*)(const std::uint8_t*, std::size_t, const std::uint8_t*, const std::uint8_t*, std::size_t, __m256i*);
constexpr ScanColumn kScanColumn[17] = {nullptr,         scan_column<1>,  scan_column<2>,  scan_column<3>,  scan_column<4>,  scan_column<5>,
                                        scan_column<6>,  scan_column<7>,  scan_column<8>,  scan_column<9>,  scan_column<10>, scan_column<11>,
                                        scan_column<12>, scan_column<13>, scan_column<14>, scan_column<15>, scan_column<16>};

void scan(const std::uint8_t* blocks, std::size_t n_stored, const ByteTables& tables, std::uint8_t threshold,
          std::size_t n_blocks, std::uint64_t* masks) {
    __m256i credit[2 * kChunk];
    const __m256i start = _mm256_set1_epi8(static_cast<char>(threshold + 1)), zero = _mm256_setzero_si256();
    for (std::size_t i = 0; i < 2 * n_blocks; ++i) credit[i] = start;
    for (std::size_t j = 0; j < tables.n_columns; ++j)
        kScanColumn[tables.n_live[j]](blocks + j * kBlock, n_stored * kBlock, tables.values[j], tables.live[j], n_blocks, credit);
    for (std::size_t b = 0; b < n_blocks; ++b) {
        const std::uint32_t lo = ~static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(credit[2 * b], zero)));
        const std::uint32_t hi = ~static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(credit[2 * b + 1], zero)));
        masks[b] = lo | static_cast<std::uint64_t>(hi) << 32;
    }
}
} // namespace

const Kernels& avx2_kernels() {
    static const Kernels k{"avx2", squared_distances, inner_products, rotate, add_tables, table_min, table_max_abs, table_argmin, quantize, scan};
    return k;
}
} // namespace interlace
