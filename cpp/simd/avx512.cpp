// Level `avx512`. The few CPUs with VBMI but without VBMI2 and VNNI (Cannon Lake) run `avx2`.
#include "kernels.h"

#include <immintrin.h>

namespace interlace {
namespace {
#define LANES 16
#define TILE 4
#define SMALLER(a, b) _mm512_min_ps(a, b)
#define WIDEN(p) _mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))))
#define FROM_HALVES(p) _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))
#define FROM_BYTES(p) _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))
#define HALF_LANES 8 // 16 at once take longer than twice 8
#define FINITE_HALVES(p) _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))
#include "tables_impl.h"
#include "stored_impl.h"
#include "halves_impl.h"
#include "avx512_impl.h"
} // namespace

const Kernels& avx512_kernels() {
    static constexpr Kernels k = {.name = "avx512",
                                  .squared_distances = squared_distances,
                                  .inner_products = inner_products,
                                  .byte_bounds = byte_bounds,
                                  .rotate = rotate,
                                  .rotate_halves = rotate_halves,
                                  .to_steps = to_steps,
                                  .add_rows = add_rows,
                                  .below = below,
                                  .add_terms = add_terms,
                                  .min_steps = min_steps,
                                  .add_steps = add_steps,
                                  .quantize_steps = quantize_steps,
                                  .square_of_sum = square_of_sum,
                                  .minima = minima,
                                  .max_abs = max_abs,
                                  .argmin = argmin,
                                  .quantize = quantize,
                                  .scan = scan,
                                  .stored_distances = stored_distances,
                                  .stored_products = stored_products};
    return k;
}
} // namespace interlace
