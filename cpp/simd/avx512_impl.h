// The integer loops of level `avx512`: AVX-512 F/BW/DQ/VL with VBMI, whose byte permutation looks 64 codes up in 128
// words at once, VBMI2, which packs the bytes that a mask chooses, and VNNI, which adds up products of bytes.
// Include inside the level's own anonymous namespace. avx512.cpp compiles this for the CPU. Builds for tests compile
// it a second time over plain arrays (cpp/tests/emulate_avx512.h), so a new intrinsic needs its emulation there.

inline __m512i load_32(const std::int16_t* p) { return _mm512_loadu_si512(p); }

inline std::int16_t smallest(__m512i values) {
    const __m256i sixteen = _mm256_min_epi16(_mm512_castsi512_si256(values), _mm512_extracti64x4_epi64(values, 1));
    const __m128i eight = _mm_min_epi16(_mm256_castsi256_si128(sixteen), _mm256_extracti128_si256(sixteen, 1));
    // minpos knows unsigned numbers only: flipping the sign bit keeps the order
    const __m128i flipped = _mm_xor_si128(eight, _mm_set1_epi16(-32768));
    return static_cast<std::int16_t>(_mm_extract_epi16(_mm_minpos_epu16(flipped), 0) ^ 0x8000);
}

// Q queries, V vectors of 16 words each: a load of words serves Q queries
template <int Q, int V> void byte_tile(const ByteQuery* queries, const std::uint8_t* words, std::size_t width,
                                       const float* squares, std::size_t first) {
    __m512i sums[Q][V];
    for (int q = 0; q < Q; ++q)
        for (int v = 0; v < V; ++v) sums[q][v] = _mm512_setzero_si512();
    for (std::size_t d = 0; d < width; d += 4) {
        __m512i some[V];
        for (int v = 0; v < V; ++v)
            some[v] = _mm512_loadu_si512(words + (static_cast<std::size_t>(v) * width + d) * kByteWords);
        for (int q = 0; q < Q; ++q) {
            std::int32_t four;
            __builtin_memcpy(&four, queries[q].x + d, 4);
            const __m512i x = _mm512_set1_epi32(four);
            for (int v = 0; v < V; ++v) sums[q][v] = _mm512_dpbusd_epi32(sums[q][v], some[v], x);
        }
    }
    for (int q = 0; q < Q; ++q) {
        const ByteQuery& query = queries[q];
        const __m512 scale = _mm512_set1_ps(query.scale), start = _mm512_set1_ps(query.start);
        const __m512i shift = _mm512_set1_epi32(query.shift);
        for (int v = 0; v < V; ++v) {
            const __m512 product = _mm512_cvtepi32_ps(_mm512_sub_epi32(sums[q][v], shift));
            const std::size_t w = first + static_cast<std::size_t>(v) * kByteWords;
            const __m512 rest = _mm512_sub_ps(_mm512_loadu_ps(squares + w), _mm512_mul_ps(scale, product));
            _mm512_storeu_ps(query.out + w, _mm512_add_ps(start, rest));
        }
    }
}

void byte_bounds(const ByteQuery* queries, std::size_t n, const std::uint8_t* words, std::size_t width,
                 const float* squares) {
    constexpr std::size_t four = 4 * kByteWords, eight = 8 * kByteWords;
    const std::size_t fours = n / 4 * 4;
    if (fours > 0)
        for (std::size_t first = 0; first < kWords; first += four)
            for (std::size_t q = 0; q < fours; q += 4)
                byte_tile<4, 4>(queries + q, words + first * width, width, squares, first);
    for (std::size_t first = 0; first < kWords; first += eight)
        for (std::size_t q = fours; q < n; ++q)
            byte_tile<1, 8>(queries + q, words + first * width, width, squares, first);
}

void to_steps(const float* table, float low, float factor, std::int32_t start, std::int16_t* out) {
    const __m512 floor = _mm512_set1_ps(low), by = _mm512_set1_ps(factor), half = _mm512_set1_ps(0.5f),
                 top = _mm512_set1_ps(kMostSteps);
    const __m512i first = _mm512_set1_epi32(start);
    for (std::size_t w = 0; w < kWords; w += 16) {
        const __m512 v = _mm512_add_ps(_mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(table + w), floor), by), half);
        const __m512i steps = _mm512_add_epi32(_mm512_cvttps_epi32(_mm512_min_ps(v, top)), first);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + w), _mm512_cvtepi32_epi16(steps));
    }
}

void add_rows(const std::int16_t* const* rows, std::size_t n, std::int16_t* out) {
    for (std::size_t w = 0; w < kWords; w += 128) {
        __m512i sum[4];
        for (int v = 0; v < 4; ++v) sum[v] = load_32(rows[0] + w + 32 * v);
        for (std::size_t i = 1; i < n; ++i)
            for (int v = 0; v < 4; ++v) sum[v] = _mm512_adds_epi16(sum[v], load_32(rows[i] + w + 32 * v));
        for (int v = 0; v < 4; ++v) _mm512_storeu_si512(out + w + 32 * v, sum[v]);
    }
}

// 0 to 63
alignas(64) constexpr std::uint8_t kIndices[64] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                                   16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
                                                   32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47,
                                                   48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};

std::size_t below(const std::int16_t* sums, std::int16_t limit, std::uint8_t* words) {
    const __m512i top = _mm512_set1_epi16(limit);
    __m512i at = _mm512_loadu_si512(kIndices);
    std::size_t n = 0;
    for (std::size_t w = 0; w < kWords; w += 64) {
        const __mmask64 low = _mm512_cmple_epi16_mask(load_32(sums + w), top);
        const __mmask64 high = _mm512_cmple_epi16_mask(load_32(sums + w + 32), top);
        const __mmask64 mask = low | high << 32;
        // All 64 bytes are stored: n <= w, so they end within words [kWords].
        _mm512_storeu_si512(words + n, _mm512_maskz_compress_epi8(mask, at));
        n += static_cast<std::size_t>(__builtin_popcountll(mask));
        at = _mm512_add_epi8(at, _mm512_set1_epi8(64));
    }
    return n;
}

std::int16_t min_steps(const std::int16_t* steps, const std::int16_t* terms) {
    const auto sum = [&](std::size_t w) { return _mm512_adds_epi16(load_32(steps + w), load_32(terms + w)); };
    __m512i low[4];
    for (int v = 0; v < 4; ++v) low[v] = _mm512_min_epi16(sum(32 * v), sum(128 + 32 * v));
    return smallest(_mm512_min_epi16(_mm512_min_epi16(low[0], low[1]), _mm512_min_epi16(low[2], low[3])));
}

std::int16_t add_steps(const std::int16_t* steps, const std::int16_t* terms, std::int16_t* sums, std::int16_t*) {
    __m512i low[2] = {_mm512_set1_epi16(32767), _mm512_set1_epi16(32767)};
    for (std::size_t w = 0; w < kWords; w += 64)
        for (int v = 0; v < 2; ++v) {
            const __m512i sum = _mm512_adds_epi16(load_32(steps + w + 32 * v), load_32(terms + w + 32 * v));
            _mm512_storeu_si512(sums + w + 32 * v, sum);
            low[v] = _mm512_min_epi16(low[v], sum);
        }
    return smallest(_mm512_min_epi16(low[0], low[1]));
}

// floor(v) of 16 floats that are not negative, saturated: what is too large for the conversion becomes its largest
// number, and so does NaN.
inline void store_bytes(std::uint8_t* out, __m512 v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm512_cvtusepi32_epi8(_mm512_cvttps_epu32(v)));
}

void quantize(const float* table, const float*, float floor, float scale, std::size_t column, ByteTables* out) {
    const __m512 low = _mm512_set1_ps(floor), factor = _mm512_set1_ps(scale);
    for (std::size_t w = 0; w < kWords; w += 16)
        store_bytes(out->words[column] + w, _mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(table + w), low), factor));
}

void quantize_steps(const std::int16_t* sums, const std::int16_t*, std::int16_t floor, float scale, std::size_t column,
                    ByteTables* out) {
    const __m512 factor = _mm512_set1_ps(scale);
    const __m256i low = _mm256_set1_epi16(floor);
    for (std::size_t w = 0; w < kWords; w += 16) {
        const __m256i above = // 0 to 65535
            _mm256_sub_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums + w)), low);
        store_bytes(out->words[column] + w, _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepu16_epi32(above)), factor));
    }
}

std::int32_t square_of_sum(const std::int16_t* const* words, std::size_t n, std::size_t width) {
    __m512i total[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    std::size_t d = 0;
    for (; d + 64 <= width; d += 64) {
        __m512i low = load_32(words[0] + d), high = load_32(words[0] + d + 32);
        for (std::size_t i = 1; i < n; ++i) {
            low = _mm512_add_epi16(low, load_32(words[i] + d));
            high = _mm512_add_epi16(high, load_32(words[i] + d + 32));
        }
        total[0] = _mm512_add_epi32(total[0], _mm512_madd_epi16(low, low));
        total[1] = _mm512_add_epi32(total[1], _mm512_madd_epi16(high, high));
    }
    if (d < width) {
        __m512i last = load_32(words[0] + d);
        for (std::size_t i = 1; i < n; ++i) last = _mm512_add_epi16(last, load_32(words[i] + d));
        total[0] = _mm512_add_epi32(total[0], _mm512_madd_epi16(last, last));
    }
    return _mm512_reduce_add_epi32(_mm512_add_epi32(total[0], total[1]));
}

inline __m512i look_up(const __m512i* table, __m512i codes) {
    const __m512i low = _mm512_permutex2var_epi8(table[0], codes, table[1]);
    const __m512i high = _mm512_permutex2var_epi8(table[2], codes, table[3]);
    return _mm512_mask_blend_epi8(_mm512_movepi8_mask(codes), low, high);
}

inline __m512i look_up_fixed(const ByteTables& tables, const std::uint8_t* codes) {
    return _mm512_permutex2var_epi8(_mm512_loadu_si512(tables.fixed), _mm512_loadu_si512(codes),
                                    _mm512_loadu_si512(tables.fixed + 64));
}

template <int COLUMNS> void scan_columns(const std::uint8_t* blocks, std::size_t stride, const std::uint8_t* fixed,
                                         const ByteTables& tables, std::uint8_t threshold, std::size_t n_blocks,
                                         std::uint64_t* masks) {
    __m512i table[COLUMNS + 1][4];
    for (int j = 0; j < COLUMNS; ++j)
        for (int part = 0; part < 4; ++part) table[j][part] = _mm512_loadu_si512(tables.words[j] + 64 * part);
    const __m512i limit = _mm512_set1_epi8(static_cast<char>(threshold));
    for (std::size_t b = 0; b < n_blocks; ++b, blocks += stride) {
        __m512i sum = _mm512_setzero_si512();
        if (fixed != nullptr) sum = look_up_fixed(tables, fixed + b * kBlock);
        for (int j = 0; j < COLUMNS; ++j)
            sum = _mm512_adds_epu8(sum, look_up(table[j], _mm512_loadu_si512(blocks + j * kBlock)));
        masks[b] = _mm512_cmple_epu8_mask(sum, limit);
    }
}

template <int BLOCKS> void scan_blocks(const std::uint8_t* blocks, std::size_t stride, const std::uint8_t* fixed,
                                       const ByteTables& tables, __m512i limit, std::uint64_t* masks) {
    __m512i sums[BLOCKS];
    for (int b = 0; b < BLOCKS; ++b)
        sums[b] = fixed != nullptr ? look_up_fixed(tables, fixed + b * kBlock) : _mm512_setzero_si512();
    for (std::size_t j = 0; j < tables.n_columns; ++j) {
        __m512i table[4];
        for (int part = 0; part < 4; ++part) table[part] = _mm512_loadu_si512(tables.words[j] + 64 * part);
        for (int b = 0; b < BLOCKS; ++b)
            sums[b] = _mm512_adds_epu8(
                sums[b],
                look_up(table, _mm512_loadu_si512(blocks + static_cast<std::size_t>(b) * stride + j * kBlock)));
    }
    for (int b = 0; b < BLOCKS; ++b) masks[b] = _mm512_cmple_epu8_mask(sums[b], limit);
}

void scan_many(const std::uint8_t* blocks, std::size_t stride, const std::uint8_t* fixed, const ByteTables& tables,
               std::uint8_t threshold, std::size_t n_blocks, std::uint64_t* masks) {
    const __m512i limit = _mm512_set1_epi8(static_cast<char>(threshold));
    std::size_t b = 0;
    const auto scan_next = [&]<int BLOCKS>() {
        for (; b + BLOCKS <= n_blocks; b += BLOCKS)
            scan_blocks<BLOCKS>(blocks + b * stride, stride, fixed ? fixed + b * kBlock : nullptr, tables, limit,
                                masks + b);
    };
    scan_next.operator()<8>();
    scan_next.operator()<4>();
    scan_next.operator()<3>();
    scan_next.operator()<2>();
    scan_next.operator()<1>();
}

#include "scan_impl.h"
