// The AVX-512 intrinsics of simd/avx512_impl.h over plain arrays: lets its logic be tested on any machine.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace interlace {
namespace {

template <std::size_t BYTES, typename T = std::uint8_t> struct Register { // T tells integer and float registers apart
    std::uint8_t byte[BYTES];
};
using __m512i = Register<64>;
using __m512 = Register<64, float>;
using __m256i = Register<32>;
using __m128i = Register<16>;
using __mmask32 = std::uint32_t;
using __mmask64 = std::uint64_t;

// Lane i of numbers T
template <typename T, typename R> T get(const R& r, std::size_t i) {
    T value;
    std::memcpy(&value, r.byte + i * sizeof(T), sizeof(T));
    return value;
}
template <typename T, typename R> void put(R& r, std::size_t i, T value) {
    std::memcpy(r.byte + i * sizeof(T), &value, sizeof(T));
}

template <typename R, typename T> R all_lanes(T value) {
    R r;
    for (std::size_t i = 0; i < sizeof(R) / sizeof(T); ++i) put<T>(r, i, value);
    return r;
}
template <typename R> R load_register(const void* p) {
    R r;
    std::memcpy(r.byte, p, sizeof(R));
    return r;
}
// Lane by lane: To f(From) and T f(T, T)
template <typename To, typename From, typename Out, typename In, typename F> Out convert(const In& a, F f) {
    static_assert(sizeof(Out) / sizeof(To) == sizeof(In) / sizeof(From));
    Out r;
    for (std::size_t i = 0; i < sizeof(Out) / sizeof(To); ++i) put<To>(r, i, f(get<From>(a, i)));
    return r;
}
template <typename T, typename R, typename F> R combine(const R& a, const R& b, F f) {
    R r;
    for (std::size_t i = 0; i < sizeof(R) / sizeof(T); ++i) put<T>(r, i, f(get<T>(a, i), get<T>(b, i)));
    return r;
}
template <typename F> std::uint64_t mask_of(std::size_t n_lanes, F f) { // bit i: f(i)
    std::uint64_t mask = 0;
    for (std::size_t i = 0; i < n_lanes; ++i) mask |= static_cast<std::uint64_t>(f(i)) << i;
    return mask;
}

template <typename T> T add_wrapped(T a, T b) {
    return static_cast<T>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
}
template <typename T> T smaller(T a, T b) { return a < b ? a : b; } // b where one is NaN, as the instruction does
inline std::int16_t saturated(std::int32_t sum) {
    return static_cast<std::int16_t>(sum > 32767 ? 32767 : sum < -32768 ? -32768 : sum);
}

// Loads, stores, constants, halves
inline __m512i _mm512_loadu_si512(const void* p) { return load_register<__m512i>(p); }
inline __m512 _mm512_loadu_ps(const void* p) { return load_register<__m512>(p); }
inline __m256i _mm256_loadu_si256(const __m256i* p) { return load_register<__m256i>(p); }
inline void _mm512_storeu_si512(void* p, __m512i a) { std::memcpy(p, a.byte, 64); }
inline void _mm512_storeu_ps(void* p, __m512 a) { std::memcpy(p, a.byte, 64); }
inline void _mm256_storeu_si256(__m256i* p, __m256i a) { std::memcpy(p, a.byte, 32); }
inline void _mm_storeu_si128(__m128i* p, __m128i a) { std::memcpy(p, a.byte, 16); }
inline __m512i _mm512_set1_epi8(char value) { return all_lanes<__m512i>(value); }
inline __m512i _mm512_set1_epi16(std::int16_t value) { return all_lanes<__m512i>(value); }
inline __m512i _mm512_set1_epi32(std::int32_t value) { return all_lanes<__m512i>(value); }
inline __m512 _mm512_set1_ps(float value) { return all_lanes<__m512>(value); }
inline __m256i _mm256_set1_epi16(std::int16_t value) { return all_lanes<__m256i>(value); }
inline __m128i _mm_set1_epi16(std::int16_t value) { return all_lanes<__m128i>(value); }
inline __m512i _mm512_setzero_si512() { return _mm512_set1_epi8(0); }
inline __m256i _mm512_castsi512_si256(__m512i a) { return load_register<__m256i>(a.byte); }
inline __m128i _mm256_castsi256_si128(__m256i a) { return load_register<__m128i>(a.byte); }
inline __m256i _mm512_extracti64x4_epi64(__m512i a, int half) { return load_register<__m256i>(a.byte + 32 * half); }
inline __m128i _mm256_extracti128_si256(__m256i a, int half) { return load_register<__m128i>(a.byte + 16 * half); }

// Floats, and conversions
inline __m512 _mm512_add_ps(__m512 a, __m512 b) {
    return combine<float>(a, b, [](float x, float y) { return x + y; });
}
inline __m512 _mm512_sub_ps(__m512 a, __m512 b) {
    return combine<float>(a, b, [](float x, float y) { return x - y; });
}
inline __m512 _mm512_mul_ps(__m512 a, __m512 b) {
    return combine<float>(a, b, [](float x, float y) { return x * y; });
}
inline __m512 _mm512_min_ps(__m512 a, __m512 b) { return combine<float>(a, b, smaller<float>); }
inline __m512i _mm512_cvttps_epi32(__m512 a) { // -2^31 where it does not fit
    return convert<std::int32_t, float, __m512i>(
        a, [](float x) { return x > -0x1p31f && x < 0x1p31f ? static_cast<std::int32_t>(x) : INT32_MIN; });
}
inline __m512i _mm512_cvttps_epu32(__m512 a) { // 2^32 - 1 where it does not fit
    return convert<std::uint32_t, float, __m512i>(
        a, [](float x) { return x > -1.0f && x < 0x1p32f ? static_cast<std::uint32_t>(x) : UINT32_MAX; });
}
inline __m512 _mm512_cvtepi32_ps(__m512i a) {
    return convert<float, std::int32_t, __m512>(a, [](std::int32_t x) { return static_cast<float>(x); });
}
inline __m512i _mm512_cvtepu16_epi32(__m256i a) {
    return convert<std::int32_t, std::uint16_t, __m512i>(a, [](std::uint16_t x) { return x; });
}
inline __m256i _mm512_cvtepi32_epi16(__m512i a) {
    return convert<std::int16_t, std::int32_t, __m256i>(a, [](std::int32_t x) { return static_cast<std::int16_t>(x); });
}
inline __m128i _mm512_cvtusepi32_epi8(__m512i a) {
    return convert<std::uint8_t, std::uint32_t, __m128i>(
        a, [](std::uint32_t x) { return static_cast<std::uint8_t>(x < 255 ? x : 255); });
}

// Integers
inline __m512i _mm512_add_epi8(__m512i a, __m512i b) { return combine<std::uint8_t>(a, b, add_wrapped<std::uint8_t>); }
inline __m512i _mm512_add_epi16(__m512i a, __m512i b) { return combine<std::int16_t>(a, b, add_wrapped<std::int16_t>); }
inline __m512i _mm512_add_epi32(__m512i a, __m512i b) { return combine<std::int32_t>(a, b, add_wrapped<std::int32_t>); }
inline __m512i _mm512_sub_epi32(__m512i a, __m512i b) {
    return combine<std::uint32_t>(a, b, [](std::uint32_t x, std::uint32_t y) { return x - y; });
}
inline __m512i _mm512_dpbusd_epi32(__m512i sum, __m512i a, __m512i b) { // bytes of a without sign, of b with sign
    for (std::size_t i = 0; i < 16; ++i) {
        std::int32_t total = get<std::int32_t>(sum, i);
        for (std::size_t j = 4 * i; j < 4 * i + 4; ++j) total += get<std::uint8_t>(a, j) * get<std::int8_t>(b, j);
        put<std::int32_t>(sum, i, total);
    }
    return sum;
}
inline __m256i _mm256_sub_epi16(__m256i a, __m256i b) {
    return combine<std::uint16_t>(a, b,
                                  [](std::uint16_t x, std::uint16_t y) { return static_cast<std::uint16_t>(x - y); });
}
inline __m512i _mm512_adds_epi16(__m512i a, __m512i b) {
    return combine<std::int16_t>(a, b, [](std::int16_t x, std::int16_t y) { return saturated(x + y); });
}
inline __m512i _mm512_adds_epu8(__m512i a, __m512i b) {
    return combine<std::uint8_t>(a, b,
                                 [](int x, int y) { return static_cast<std::uint8_t>(x + y > 255 ? 255 : x + y); });
}
inline __m512i _mm512_min_epi16(__m512i a, __m512i b) { return combine<std::int16_t>(a, b, smaller<std::int16_t>); }
inline __m256i _mm256_min_epi16(__m256i a, __m256i b) { return combine<std::int16_t>(a, b, smaller<std::int16_t>); }
inline __m128i _mm_min_epi16(__m128i a, __m128i b) { return combine<std::int16_t>(a, b, smaller<std::int16_t>); }
inline __m128i _mm_xor_si128(__m128i a, __m128i b) {
    return combine<std::uint8_t>(a, b, [](std::uint8_t x, std::uint8_t y) { return static_cast<std::uint8_t>(x ^ y); });
}
inline __m512i _mm512_madd_epi16(__m512i a, __m512i b) { // sums of the products of two neighbours
    __m512i r;
    for (std::size_t i = 0; i < 16; ++i) {
        const auto product = [&](std::size_t j) { return get<std::int16_t>(a, j) * get<std::int16_t>(b, j); };
        put(r, i, add_wrapped(product(2 * i), product(2 * i + 1)));
    }
    return r;
}
inline std::int32_t _mm512_reduce_add_epi32(__m512i a) {
    std::int32_t sum = 0;
    for (std::size_t i = 0; i < 16; ++i) sum = add_wrapped(sum, get<std::int32_t>(a, i));
    return sum;
}
inline __m128i _mm_minpos_epu16(__m128i a) { // the smallest in lane 0, its index in lane 1
    std::uint16_t best = 0;
    for (std::uint16_t i = 1; i < 8; ++i)
        if (get<std::uint16_t>(a, i) < get<std::uint16_t>(a, best)) best = i;
    __m128i r = all_lanes<__m128i>(std::uint8_t{0});
    put(r, 0, get<std::uint16_t>(a, best));
    put(r, 1, best);
    return r;
}
inline int _mm_extract_epi16(__m128i a, int lane) { return get<std::uint16_t>(a, static_cast<std::size_t>(lane)); }

// Masks and permutations of bytes
inline __mmask32 _mm512_cmple_epi16_mask(__m512i a, __m512i b) {
    return static_cast<__mmask32>(
        mask_of(32, [&](std::size_t i) { return get<std::int16_t>(a, i) <= get<std::int16_t>(b, i); }));
}
inline __mmask64 _mm512_cmple_epu8_mask(__m512i a, __m512i b) {
    return mask_of(64, [&](std::size_t i) { return a.byte[i] <= b.byte[i]; });
}
inline __mmask64 _mm512_movepi8_mask(__m512i a) {
    return mask_of(64, [&](std::size_t i) { return a.byte[i] >> 7; });
}
inline __m512i _mm512_mask_blend_epi8(__mmask64 m, __m512i a, __m512i b) {
    for (int i = 0; i < 64; ++i)
        if (m >> i & 1) a.byte[i] = b.byte[i];
    return a;
}
inline __m512i _mm512_maskz_compress_epi8(__mmask64 m, __m512i a) {
    __m512i r = _mm512_setzero_si512();
    std::size_t n = 0;
    for (int i = 0; i < 64; ++i)
        if (m >> i & 1) r.byte[n++] = a.byte[i];
    return r;
}
// Index bits 0-5 choose the byte, bit 6 the source; bit 7 is ignored.
inline __m512i _mm512_permutex2var_epi8(__m512i a, __m512i index, __m512i b) {
    __m512i r;
    for (int i = 0; i < 64; ++i) r.byte[i] = ((index.byte[i] & 64) ? b : a).byte[index.byte[i] & 63];
    return r;
}

} // namespace
} // namespace interlace
