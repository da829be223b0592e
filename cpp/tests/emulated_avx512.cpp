// The loops of level avx512 over plain arrays, under a name of their own.
#include "../simd/kernels.h"
#include "emulate_avx512.h"

namespace interlace {
namespace {
#define LANES 16
#define TILE 4
#include "../simd/tables_impl.h"
#include "../simd/avx512_impl.h"
#include "../simd/level_impl.h"
} // namespace

const Kernels& emulated_avx512_kernels() {
    static constexpr Kernels k = level("emulated-avx512");
    return k;
}
} // namespace interlace
