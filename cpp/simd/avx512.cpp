// Level `avx512`: AVX-512 F/BW/VL with VBMI, whose byte permutation looks 64 codes up in 128 words at once.
// INTERLACE_EMULATE_AVX512 compiles the same scan over plain arrays, so that machines without VBMI can test it.
#include "kernels.h"

#ifdef INTERLACE_EMULATE_AVX512
#include "../tests/emulate_avx512.h"
#else
#include <immintrin.h>
#endif

namespace interlace {
namespace {
#ifdef INTERLACE_EMULATE_AVX512
#define LANES 4
#else
#define LANES 16
#define WIDEN(p) _mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))))
#endif
#include "tables_impl.h"

template <int COLUMNS> void scan_columns(const std::uint8_t* blocks, std::size_t stride, const ByteTables& tables,
                                         std::uint8_t threshold, std::size_t n_blocks, std::uint64_t* masks) {
    __m512i table[COLUMNS + 1][4];
    for (int j = 0; j < COLUMNS; ++j)
        for (int part = 0; part < 4; ++part) table[j][part] = _mm512_loadu_si512(tables.words[j] + 64 * part);
    const __m512i limit = _mm512_set1_epi8(static_cast<char>(threshold));
    for (std::size_t b = 0; b < n_blocks; ++b, blocks += stride) {
        __m512i sum = _mm512_setzero_si512();
        for (int j = 0; j < COLUMNS; ++j) {
            const __m512i codes = _mm512_loadu_si512(blocks + j * kBlock);
            const __m512i low = _mm512_permutex2var_epi8(table[j][0], codes, table[j][1]);
            const __m512i high = _mm512_permutex2var_epi8(table[j][2], codes, table[j][3]);
            sum = _mm512_adds_epu8(sum, _mm512_mask_blend_epi8(_mm512_movepi8_mask(codes), low, high));
        }
        masks[b] = _mm512_cmple_epu8_mask(sum, limit);
    }
}

#include "scan_impl.h"
} // namespace

#ifdef INTERLACE_EMULATE_AVX512
const Kernels& emulated_avx512_kernels() {
    static const Kernels k{"emulated-avx512",
                           squared_distances,
                           inner_products,
                           rotate,
                           to_steps,
                           add_rows,
                           below,
                           add_terms,
                           min_steps,
                           add_steps,
                           quantize_steps,
                           square_of_sum,
                           minima,
                           max_abs,
                           argmin,
                           quantize,
                           scan};
#else
const Kernels& avx512_kernels() {
    static const Kernels k{
        "avx512",  squared_distances, inner_products, rotate, to_steps, add_rows, below,    add_terms, min_steps,
        add_steps, quantize_steps,    square_of_sum,  minima, max_abs,  argmin,   quantize, scan};
#endif
    return k;
}
} // namespace interlace
