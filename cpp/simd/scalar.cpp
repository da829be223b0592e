// Level `scalar`: no instructions beyond the baseline of the architecture. The other levels must return its bits.
#include "kernels.h"

namespace interlace {
namespace {
#define LANES 4
#define TILE 2
#include "tables_impl.h"
#include "stored_impl.h"
#include "halves_impl.h"
#include "bytes_impl.h"

// Integer steps one by one. Baseline instructions have no saturating conversion that would pay.
inline std::int16_t saturated(std::int32_t sum) {
    return static_cast<std::int16_t>(sum > 32767 ? 32767 : sum < -32768 ? -32768 : sum);
}

inline std::uint8_t to_byte(float value) {
    return static_cast<std::uint8_t>(static_cast<std::int32_t>(value < 255.0f ? value : 255.0f));
}

void to_steps(const float* table, float low, float factor, std::int32_t start, std::int16_t* out) {
    for (std::size_t w = 0; w < kWords; ++w) {
        const float steps = (table[w] - low) * factor + 0.5f;
        out[w] = static_cast<std::int16_t>(static_cast<std::int32_t>(steps < kMostSteps ? steps : kMostSteps) + start);
    }
}

void add_rows(const std::int16_t* const* rows, std::size_t n, std::int16_t* out) {
    for (std::size_t w = 0; w < kWords; ++w) out[w] = rows[0][w];
    for (std::size_t i = 1; i < n; ++i)
        for (std::size_t w = 0; w < kWords; ++w) out[w] = saturated(out[w] + rows[i][w]);
}

std::size_t below(const std::int16_t* sums, std::int16_t limit, std::uint8_t* words) {
    std::size_t n = 0;
    for (std::size_t w = 0; w < kWords; ++w) {
        words[n] = static_cast<std::uint8_t>(w);
        n += sums[w] <= limit;
        if (n == kWords) break;
    }
    return n;
}

std::int16_t min_steps(const std::int16_t* steps, const std::int16_t* terms) {
    std::int32_t best = 32767;
    for (std::size_t w = 0; w < kWords; ++w) {
        const std::int32_t sum = steps[w] + terms[w];
        best = sum < best ? sum : best;
    }
    return saturated(best);
}

std::int16_t add_steps(const std::int16_t* steps, const std::int16_t* terms, std::int16_t* sums, std::int16_t*) {
    std::int16_t best = 32767;
    for (std::size_t w = 0; w < kWords; ++w) {
        sums[w] = saturated(steps[w] + terms[w]);
        best = sums[w] < best ? sums[w] : best;
    }
    return best;
}

void quantize_steps(const std::int16_t* sums, const std::int16_t*, std::int16_t floor, float scale, std::size_t column,
                    ByteTables* out) {
    for (std::size_t w = 0; w < kWords; ++w)
        out->words[column][w] = to_byte(static_cast<float>(sums[w] - floor) * scale);
}

std::int32_t square_of_sum(const std::int16_t* const* words, std::size_t n, std::size_t width) {
    std::int32_t total = 0;
    for (std::size_t d = 0; d < width; ++d) {
        std::int32_t sum = 0;
        for (std::size_t i = 0; i < n; ++i) sum += words[i][d];
        total += sum * sum;
    }
    return total;
}

void quantize(const float* table, const float*, float floor, float scale, std::size_t column, ByteTables* out) {
    for (std::size_t w = 0; w < kWords; ++w) out->words[column][w] = to_byte((table[w] - floor) * scale);
}

void scan(const std::uint8_t* blocks, std::size_t n_stored, const std::uint8_t* fixed, const ByteTables& tables,
          std::uint8_t threshold, std::size_t n_blocks, std::uint64_t* masks) {
    for (std::size_t b = 0; b < n_blocks; ++b, blocks += n_stored * kBlock) {
        std::uint64_t mask = 0;
        for (std::size_t i = 0; i < kBlock; ++i) {
            unsigned sum = fixed != nullptr ? tables.fixed[fixed[b * kBlock + i]] : 0;
            for (std::size_t j = 0; j < tables.n_columns; ++j) sum += tables.words[j][blocks[j * kBlock + i]];
            mask |= static_cast<std::uint64_t>(sum <= threshold) << i;
        }
        masks[b] = mask;
    }
}

} // namespace

const Kernels& scalar_kernels() {
    static constexpr Kernels k = {.name = "scalar",
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
