// The loops of level avx512 over plain arrays, as a level that runs only by name. Builds for tests link this file.
#include "../simd/kernels.h"
#include "emulate_avx512.h"

namespace interlace {
namespace {
#define LANES 16
#define TILE 4
#include "../simd/tables_impl.h"
#include "../simd/stored_impl.h"
#include "../simd/halves_impl.h"
#include "../simd/avx512_impl.h"
constexpr Kernels kEmulated = {.name = "emulated-avx512",
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

[[maybe_unused]] const bool added = (add_level(kEmulated), true);
} // namespace
} // namespace interlace
