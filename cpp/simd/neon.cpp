// Level `neon` (aarch64): one table instruction looks 16 codes up in 64 words, four of them cover a book.
#include "kernels.h"

#include <arm_neon.h>

namespace interlace {
namespace {
#define LANES 4
#define TILE 4
#define WIDEN(p) vcvtq_f32_s32(vmovl_s16(vld1_s16(p)))
#define FROM_HALVES(p) vcvt_f32_f16(vld1_f16(reinterpret_cast<const float16_t*>(p)))
#define HALF_LANES 4
#define FINITE_HALVES(p) FROM_HALVES(p)
#include "tables_impl.h"
#include "stored_impl.h"
#include "halves_impl.h"
#include "bytes_impl.h"

void to_steps(const float* table, float low, float factor, std::int32_t start, std::int16_t* out) {
    const float32x4_t floor = vdupq_n_f32(low), by = vdupq_n_f32(factor), half = vdupq_n_f32(0.5f),
                      top = vdupq_n_f32(kMostSteps);
    const int32x4_t first = vdupq_n_s32(start);
    const auto steps = [&](std::size_t w) {
        const float32x4_t v = vaddq_f32(vmulq_f32(vsubq_f32(vld1q_f32(table + w), floor), by), half);
        return vmovn_s32(vaddq_s32(vcvtq_s32_f32(vminnmq_f32(v, top)), first)); // minnm: top where v is NaN
    };
    for (std::size_t w = 0; w < kWords; w += 8) vst1q_s16(out + w, vcombine_s16(steps(w), steps(w + 4)));
}

void add_rows(const std::int16_t* const* rows, std::size_t n, std::int16_t* out) {
    for (std::size_t w = 0; w < kWords; w += 64) {
        int16x8_t sum[8];
        for (int v = 0; v < 8; ++v) sum[v] = vld1q_s16(rows[0] + w + 8 * v);
        for (std::size_t i = 1; i < n; ++i)
            for (int v = 0; v < 8; ++v) sum[v] = vqaddq_s16(sum[v], vld1q_s16(rows[i] + w + 8 * v));
        for (int v = 0; v < 8; ++v) vst1q_s16(out + w + 8 * v, sum[v]);
    }
}

// Bit i: byte i of the four is 0xff, not 0.
inline std::uint64_t mask_of(const uint8x16_t* bytes) {
    const uint8x16_t bit = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t low = vpaddq_u8(vandq_u8(bytes[0], bit), vandq_u8(bytes[1], bit));
    const uint8x16_t high = vpaddq_u8(vandq_u8(bytes[2], bit), vandq_u8(bytes[3], bit));
    const uint8x16_t sums = vpaddq_u8(low, high);
    return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(sums, sums)), 0);
}

std::size_t below(const std::int16_t* sums, std::int16_t limit, std::uint8_t* words) {
    const int16x8_t top = vdupq_n_s16(limit);
    const auto within = [&](std::size_t w) { return vmovn_u16(vcleq_s16(vld1q_s16(sums + w), top)); };
    std::size_t n = 0;
    for (std::size_t w = 0; w < kWords; w += 64) {
        uint8x16_t found[4];
        for (std::size_t v = 0; v < 4; ++v) found[v] = vcombine_u8(within(w + 16 * v), within(w + 16 * v + 8));
        for (std::uint64_t mask = mask_of(found); mask != 0; mask &= mask - 1)
            words[n++] = static_cast<std::uint8_t>(w + static_cast<std::size_t>(__builtin_ctzll(mask)));
    }
    return n;
}

std::int16_t min_steps(const std::int16_t* steps, const std::int16_t* terms) {
    int16x8_t low[4];
    for (int v = 0; v < 4; ++v) low[v] = vdupq_n_s16(32767);
    for (std::size_t w = 0; w < kWords; w += 32)
        for (int v = 0; v < 4; ++v)
            low[v] = vminq_s16(low[v], vqaddq_s16(vld1q_s16(steps + w + 8 * v), vld1q_s16(terms + w + 8 * v)));
    return vminvq_s16(vminq_s16(vminq_s16(low[0], low[1]), vminq_s16(low[2], low[3])));
}

std::int16_t add_steps(const std::int16_t* steps, const std::int16_t* terms, std::int16_t* sums, std::int16_t*) {
    int16x8_t low[4];
    for (int v = 0; v < 4; ++v) low[v] = vdupq_n_s16(32767);
    for (std::size_t w = 0; w < kWords; w += 32)
        for (int v = 0; v < 4; ++v) {
            const int16x8_t sum = vqaddq_s16(vld1q_s16(steps + w + 8 * v), vld1q_s16(terms + w + 8 * v));
            vst1q_s16(sums + w + 8 * v, sum);
            low[v] = vminq_s16(low[v], sum);
        }
    return vminvq_s16(vminq_s16(vminq_s16(low[0], low[1]), vminq_s16(low[2], low[3])));
}

// floor(v) of 4 floats that are not negative, saturated at 255; 255 for NaN
inline uint16x4_t to_bytes(float32x4_t v) { return vmovn_u32(vcvtq_u32_f32(vminnmq_f32(v, vdupq_n_f32(255.0f)))); }

void quantize(const float* table, const float*, float floor, float scale, std::size_t column, ByteTables* out) {
    const float32x4_t low = vdupq_n_f32(floor), factor = vdupq_n_f32(scale);
    const auto bytes = [&](std::size_t w) { return to_bytes(vmulq_f32(vsubq_f32(vld1q_f32(table + w), low), factor)); };
    for (std::size_t w = 0; w < kWords; w += 8)
        vst1_u8(out->words[column] + w, vmovn_u16(vcombine_u16(bytes(w), bytes(w + 4))));
}

void quantize_steps(const std::int16_t* sums, const std::int16_t*, std::int16_t floor, float scale, std::size_t column,
                    ByteTables* out) {
    const int16x4_t low = vdup_n_s16(floor);
    const float32x4_t factor = vdupq_n_f32(scale);
    const auto bytes = [&](int16x4_t v) { return to_bytes(vmulq_f32(vcvtq_f32_s32(vsubl_s16(v, low)), factor)); };
    for (std::size_t w = 0; w < kWords; w += 8) {
        const int16x8_t v = vld1q_s16(sums + w);
        vst1_u8(out->words[column] + w, vmovn_u16(vcombine_u16(bytes(vget_low_s16(v)), bytes(vget_high_s16(v)))));
    }
}

std::int32_t square_of_sum(const std::int16_t* const* words, std::size_t n, std::size_t width) {
    int32x4_t total[4];
    for (int v = 0; v < 4; ++v) total[v] = vdupq_n_s32(0);
    for (std::size_t d = 0; d < width; d += 32) {
        int16x8_t sum[4];
        for (int v = 0; v < 4; ++v) sum[v] = vld1q_s16(words[0] + d + 8 * v);
        for (std::size_t i = 1; i < n; ++i)
            for (int v = 0; v < 4; ++v) sum[v] = vaddq_s16(sum[v], vld1q_s16(words[i] + d + 8 * v));
        for (int v = 0; v < 4; ++v) {
            total[v] = vmlal_s16(total[v], vget_low_s16(sum[v]), vget_low_s16(sum[v]));
            total[v] = vmlal_high_s16(total[v], sum[v], sum[v]);
        }
    }
    return vaddvq_s32(vaddq_s32(vaddq_s32(total[0], total[1]), vaddq_s32(total[2], total[3])));
}

inline uint8x16x4_t load_table(const std::uint8_t* p) {
    return {{vld1q_u8(p), vld1q_u8(p + 16), vld1q_u8(p + 32), vld1q_u8(p + 48)}};
}

// sums[i] += the bytes of 16 codes each, four times, in one table: a quarter of the table serves all four before the
// next one is loaded. Codes outside 0..63 of a quarter leave the lane as it was.
inline void add_column(const std::uint8_t* table, const std::uint8_t* codes, uint8x16_t* sums) {
    uint8x16_t code[4], found[4];
    const uint8x16x4_t first = load_table(table);
    for (int i = 0; i < 4; ++i) {
        code[i] = vld1q_u8(codes + 16 * i);
        found[i] = vqtbl4q_u8(first, code[i]);
    }
    for (int quarter = 1; quarter < 4; ++quarter) {
        const uint8x16x4_t part = load_table(table + 64 * quarter);
        for (int i = 0; i < 4; ++i) {
            code[i] = vsubq_u8(code[i], vdupq_n_u8(64));
            found[i] = vqtbx4q_u8(found[i], part, code[i]);
        }
    }
    for (int i = 0; i < 4; ++i) sums[i] = vqaddq_u8(sums[i], found[i]);
}

// The bytes of 64 codes below 128 in a table of 128.
inline void look_up_fixed(const std::uint8_t* table, const std::uint8_t* codes, uint8x16_t* out) {
    const uint8x16x4_t first = load_table(table), second = load_table(table + 64);
    for (int i = 0; i < 4; ++i) {
        const uint8x16_t code = vld1q_u8(codes + 16 * i);
        out[i] = vqtbx4q_u8(vqtbl4q_u8(first, code), second, vsubq_u8(code, vdupq_n_u8(64)));
    }
}

void scan(const std::uint8_t* blocks, std::size_t n_stored, const std::uint8_t* fixed, const ByteTables& tables,
          std::uint8_t threshold, std::size_t n_blocks, std::uint64_t* masks) {
    const uint8x16_t limit = vdupq_n_u8(threshold);
    for (std::size_t b = 0; b < n_blocks; ++b, blocks += n_stored * kBlock) {
        uint8x16_t sums[4];
        if (fixed != nullptr) look_up_fixed(tables.fixed, fixed + b * kBlock, sums);
        else
            for (int i = 0; i < 4; ++i) sums[i] = vdupq_n_u8(0);
        for (std::size_t j = 0; j < tables.n_columns; ++j) add_column(tables.words[j], blocks + j * kBlock, sums);
        for (int i = 0; i < 4; ++i) sums[i] = vcleq_u8(sums[i], limit);
        masks[b] = mask_of(sums);
    }
}

} // namespace

const Kernels& neon_kernels() {
    static constexpr Kernels k = {.name = "neon",
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
