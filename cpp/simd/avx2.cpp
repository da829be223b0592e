// Level `avx2`. A 256-entry byte lookup takes 16 shuffles here, so the scan compares a coarser sum: the smaller byte
// of each pair of words, eight shuffles for 32 rows. Books keep near words in one pair (learn/grouping.py), so
// the sum is not much smaller; the rows it lets through are checked in float anyway.
#include "kernels.h"

#include <immintrin.h>

namespace interlace {
namespace {
#define LANES 8
#define TILE 2
#define SMALLER(a, b) _mm256_min_ps(a, b)
#define WIDEN(p) _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))
#define FROM_HALVES(p) _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))
#define FROM_BYTES(p) _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))))
#define HALF_LANES 8
#define FINITE_HALVES(p) FROM_HALVES(p)
#include "tables_impl.h"
#include "stored_impl.h"
#include "halves_impl.h"

// Four words at a time: the products of their bytes in two halves, which are added at the end.
void byte_bounds(const ByteQuery* queries, std::size_t n, const std::uint8_t* words, std::size_t width,
                 const float* squares) {
    for (std::size_t first = 0; first < kWords; first += kByteWords, words += kByteWords * width)
        for (std::size_t q = 0; q < n; ++q) {
            const ByteQuery& query = queries[q];
            __m256i sums[4] = {};
            for (std::size_t d = 0; d < width; d += 4) {
                std::int32_t four;
                __builtin_memcpy(&four, query.x + d, 4);
                const __m256i x = _mm256_cvtepi8_epi16(_mm_set1_epi32(four));
                for (int v = 0; v < 4; ++v) {
                    const __m128i some =
                        _mm_loadu_si128(reinterpret_cast<const __m128i*>(words + d * kByteWords + 16 * v));
                    sums[v] = _mm256_add_epi32(sums[v], _mm256_madd_epi16(x, _mm256_cvtepu8_epi16(some)));
                }
            }
            const __m256i order = _mm256_setr_epi32(0, 1, 4, 5, 2, 3, 6, 7); // hadd works in 128-bit halves
            const __m256 scale = _mm256_set1_ps(query.scale), start = _mm256_set1_ps(query.start);
            for (int half = 0; half < 2; ++half) {
                const __m256i both =
                    _mm256_permutevar8x32_epi32(_mm256_hadd_epi32(sums[2 * half], sums[2 * half + 1]), order);
                const __m256 product = _mm256_cvtepi32_ps(_mm256_sub_epi32(both, _mm256_set1_epi32(query.shift)));
                const std::size_t w = first + 8 * static_cast<std::size_t>(half);
                const __m256 rest = _mm256_sub_ps(_mm256_loadu_ps(squares + w), _mm256_mul_ps(scale, product));
                _mm256_storeu_ps(query.out + w, _mm256_add_ps(start, rest));
            }
        }
}

// 32 integers of 0..255 -> bytes. The packs work in 128-bit halves; the permutation puts the 4-byte pieces back in
// order.
inline __m256i pack_bytes(const __m256i* steps) {
    const __m256i bytes =
        _mm256_packus_epi16(_mm256_packs_epi32(steps[0], steps[1]), _mm256_packs_epi32(steps[2], steps[3]));
    return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

void to_steps(const float* table, float low, float factor, std::int32_t start, std::int16_t* out) {
    const __m256 floor = _mm256_set1_ps(low), by = _mm256_set1_ps(factor), half = _mm256_set1_ps(0.5f),
                 top = _mm256_set1_ps(kMostSteps);
    const __m256i first = _mm256_set1_epi32(start);
    const auto steps = [&](std::size_t w) {
        const __m256 v = _mm256_add_ps(_mm256_mul_ps(_mm256_sub_ps(_mm256_loadu_ps(table + w), floor), by), half);
        return _mm256_add_epi32(_mm256_cvttps_epi32(_mm256_min_ps(v, top)), first);
    };
    for (std::size_t w = 0; w < kWords; w += 16) // the pack works in 128-bit halves
        _mm256_storeu_si256(
            reinterpret_cast<__m256i*>(out + w),
            _mm256_permute4x64_epi64(_mm256_packs_epi32(steps(w), steps(w + 8)), _MM_SHUFFLE(3, 1, 2, 0)));
}

void add_rows(const std::int16_t* const* rows, std::size_t n, std::int16_t* out) {
    const auto at = [](const std::int16_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); };
    for (std::size_t w = 0; w < kWords; w += 64) {
        __m256i sum[4];
        for (int v = 0; v < 4; ++v) sum[v] = at(rows[0] + w + 16 * v);
        for (std::size_t i = 1; i < n; ++i)
            for (int v = 0; v < 4; ++v) sum[v] = _mm256_adds_epi16(sum[v], at(rows[i] + w + 16 * v));
        for (int v = 0; v < 4; ++v) _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + w + 16 * v), sum[v]);
    }
}

std::int32_t square_of_sum(const std::int16_t* const* words, std::size_t n, std::size_t width) {
    const auto at = [](const std::int16_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); };
    __m256i total[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (std::size_t d = 0; d < width; d += 32) {
        __m256i low = at(words[0] + d), high = at(words[0] + d + 16);
        for (std::size_t i = 1; i < n; ++i) {
            low = _mm256_add_epi16(low, at(words[i] + d));
            high = _mm256_add_epi16(high, at(words[i] + d + 16));
        }
        total[0] = _mm256_add_epi32(total[0], _mm256_madd_epi16(low, low));
        total[1] = _mm256_add_epi32(total[1], _mm256_madd_epi16(high, high));
    }
    const __m256i both = _mm256_add_epi32(total[0], total[1]);
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, _MM_SHUFFLE(1, 0, 3, 2)));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, _MM_SHUFFLE(2, 3, 0, 1)));
    return _mm_cvtsi128_si32(sum);
}

std::size_t below(const std::int16_t* sums, std::int16_t limit, std::uint8_t* words) {
    const __m256i top = _mm256_set1_epi16(limit);
    std::size_t n = 0;
    for (std::size_t w = 0; w < kWords; w += 32) {
        const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums + w));
        const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums + w + 16));
        const __m256i above = _mm256_permute4x64_epi64(
            _mm256_packs_epi16(_mm256_cmpgt_epi16(a, top), _mm256_cmpgt_epi16(b, top)), _MM_SHUFFLE(3, 1, 2, 0));
        for (std::uint32_t mask = ~static_cast<std::uint32_t>(_mm256_movemask_epi8(above)); mask != 0; mask &= mask - 1)
            words[n++] = static_cast<std::uint8_t>(w + static_cast<std::size_t>(__builtin_ctz(mask)));
    }
    return n;
}

void quantize(const float*, const float* group_minima, float floor, float scale, std::size_t column, ByteTables* out) {
    const __m256 low = _mm256_set1_ps(floor), factor = _mm256_set1_ps(scale), top = _mm256_set1_ps(255.0f);
    for (std::size_t g = 0; g < kGroups; g += 32) {
        __m256i steps[4];
        for (int i = 0; i < 4; ++i) {
            const __m256 v = _mm256_mul_ps(_mm256_sub_ps(_mm256_loadu_ps(group_minima + g + 8 * i), low), factor);
            steps[i] = _mm256_cvttps_epi32(_mm256_min_ps(v, top));
        }
        _mm256_store_si256(reinterpret_cast<__m256i*>(out->groups[column] + g), pack_bytes(steps));
    }
}

inline std::int16_t smallest(__m256i values) {
    const __m128i eight = _mm_min_epi16(_mm256_castsi256_si128(values), _mm256_extracti128_si256(values, 1));
    // minpos knows unsigned numbers only: flipping the sign bit keeps the order
    const __m128i flipped = _mm_xor_si128(eight, _mm_set1_epi16(-32768));
    return static_cast<std::int16_t>(_mm_extract_epi16(_mm_minpos_epu16(flipped), 0) ^ 0x8000);
}

std::int16_t min_steps(const std::int16_t* steps, const std::int16_t* terms) {
    __m256i low[2] = {_mm256_set1_epi16(32767), _mm256_set1_epi16(32767)};
    for (std::size_t w = 0; w < kWords; w += 32)
        for (int v = 0; v < 2; ++v)
            low[v] = _mm256_min_epi16(
                low[v], _mm256_adds_epi16(_mm256_load_si256(reinterpret_cast<const __m256i*>(steps + w + 16 * v)),
                                          _mm256_load_si256(reinterpret_cast<const __m256i*>(terms + w + 16 * v))));
    return smallest(_mm256_min_epi16(low[0], low[1]));
}

std::int16_t add_steps(const std::int16_t* steps, const std::int16_t* terms, std::int16_t* sums,
                       std::int16_t* group_minima) {
    constexpr int vectors = kGroups / 16;
    const auto sum = [&](std::size_t w) {
        const __m256i sum = _mm256_adds_epi16(_mm256_load_si256(reinterpret_cast<const __m256i*>(steps + w)),
                                              _mm256_load_si256(reinterpret_cast<const __m256i*>(terms + w)));
        _mm256_store_si256(reinterpret_cast<__m256i*>(sums + w), sum);
        return sum;
    };
    __m256i low[vectors];
    for (int v = 0; v < vectors; ++v) low[v] = sum(16 * v);
    for (std::size_t w = kGroups; w < kWords; w += kGroups)
        for (int v = 0; v < vectors; ++v) low[v] = _mm256_min_epi16(low[v], sum(w + 16 * v));
    for (int v = 0; v < vectors; ++v) _mm256_store_si256(reinterpret_cast<__m256i*>(group_minima + 16 * v), low[v]);
    __m256i all = low[0];
    for (int v = 1; v < vectors; ++v) all = _mm256_min_epi16(all, low[v]);
    return smallest(all);
}

void quantize_steps(const std::int16_t*, const std::int16_t* group_minima, std::int16_t floor, float scale,
                    std::size_t column, ByteTables* out) {
    const __m256 factor = _mm256_set1_ps(scale), top = _mm256_set1_ps(255.0f);
    const __m256i low = _mm256_set1_epi32(floor);
    for (std::size_t g = 0; g < kGroups; g += 32) {
        __m256i steps[4];
        for (int i = 0; i < 4; ++i) {
            const __m256i wide =
                _mm256_cvtepi16_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(group_minima + g + 8 * i)));
            steps[i] = _mm256_cvttps_epi32(
                _mm256_min_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(wide, low)), factor), top));
        }
        _mm256_store_si256(reinterpret_cast<__m256i*>(out->groups[column] + g), pack_bytes(steps));
    }
}

// Bytes of 32 codes in a table of 128 entries: a shuffle per 16 entries, then three bits of the code choose among the
// eight.
inline __m256i lookup(const __m256i* table, __m256i codes) {
    const __m256i low = _mm256_and_si256(codes, _mm256_set1_epi8(15));
    const __m256i bit4 = _mm256_slli_epi16(codes, 3), bit5 = _mm256_slli_epi16(codes, 2),
                  bit6 = _mm256_slli_epi16(codes, 1); // as sign bits
    const auto pair = [&](int i) {
        return _mm256_blendv_epi8(_mm256_shuffle_epi8(table[i], low), _mm256_shuffle_epi8(table[i + 1], low), bit4);
    };
    const __m256i first = _mm256_blendv_epi8(pair(0), pair(2), bit5),
                  second = _mm256_blendv_epi8(pair(4), pair(6), bit5);
    return _mm256_blendv_epi8(first, second, bit6);
}

// A bit for each sum <= limit: there the smaller of the two is the sum.
inline std::uint64_t within(__m256i low, __m256i high, __m256i limit) {
    const auto bits = [limit](__m256i sums) {
        return static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_min_epu8(sums, limit), sums)));
    };
    return bits(low) | static_cast<std::uint64_t>(bits(high)) << 32;
}

inline __m256i load_codes(const std::uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }

template <int COLUMNS> void scan_columns(const std::uint8_t* blocks, std::size_t stride, const std::uint8_t* fixed,
                                         const ByteTables& tables, std::uint8_t threshold, std::size_t n_blocks,
                                         std::uint64_t* masks) {
    __m256i table[COLUMNS + 1][8]; // the last one is that of `fixed`
    for (int j = 0; j <= COLUMNS; ++j)
        for (int part = 0; part < 8; ++part)
            table[j][part] = _mm256_broadcastsi128_si256(_mm_load_si128(
                reinterpret_cast<const __m128i*>((j < COLUMNS ? tables.groups[j] : tables.fixed) + 16 * part)));
    const __m256i limit = _mm256_set1_epi8(static_cast<char>(threshold));
    for (std::size_t b = 0; b < n_blocks; ++b, blocks += stride) {
        __m256i low = _mm256_setzero_si256(), high = low;
        if (fixed != nullptr) {
            low = lookup(table[COLUMNS], load_codes(fixed + b * kBlock));
            high = lookup(table[COLUMNS], load_codes(fixed + b * kBlock + 32));
        }
        for (int j = 0; j < COLUMNS; ++j) {
            low = _mm256_adds_epu8(low, lookup(table[j], load_codes(blocks + j * kBlock)));
            high = _mm256_adds_epu8(high, lookup(table[j], load_codes(blocks + j * kBlock + 32)));
        }
        masks[b] = within(low, high, limit);
    }
}

void scan_many(const std::uint8_t* blocks, std::size_t stride, const std::uint8_t* fixed, const ByteTables& tables,
               std::uint8_t threshold, std::size_t n_blocks, std::uint64_t* masks) {
    __m256i sums[2 * kChunk]; // two halves of each block
    const auto add = [&](const std::uint8_t* bytes, const std::uint8_t* codes, std::size_t codes_stride) {
        __m256i table[8];
        for (int part = 0; part < 8; ++part)
            table[part] =
                _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(bytes + 16 * part)));
        for (std::size_t i = 0; i < 2 * n_blocks; ++i)
            sums[i] = _mm256_adds_epu8(sums[i], lookup(table, load_codes(codes + i / 2 * codes_stride + i % 2 * 32)));
    };
    for (std::size_t i = 0; i < 2 * n_blocks; ++i) sums[i] = _mm256_setzero_si256();
    if (fixed != nullptr) add(tables.fixed, fixed, kBlock);
    for (std::size_t j = 0; j < tables.n_columns; ++j) add(tables.groups[j], blocks + j * kBlock, stride);
    const __m256i limit = _mm256_set1_epi8(static_cast<char>(threshold));
    for (std::size_t b = 0; b < n_blocks; ++b) masks[b] = within(sums[2 * b], sums[2 * b + 1], limit);
}

#include "scan_impl.h"
} // namespace

const Kernels& avx2_kernels() {
    static constexpr Kernels k = {.name = "avx2",
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
