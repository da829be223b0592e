// The few AVX-512 instructions of simd/avx512.cpp over plain arrays: lets its logic be tested on any machine.
#pragma once
#include <cstdint>
#include <cstring>

namespace interlace {
namespace {
struct __m512i {
    std::uint8_t byte[64];
};
using __mmask64 = std::uint64_t;

inline __m512i _mm512_loadu_si512(const void* p) {
    __m512i v;
    std::memcpy(v.byte, p, 64);
    return v;
}
inline __m512i _mm512_set1_epi8(char value) {
    __m512i v;
    std::memset(v.byte, value, 64);
    return v;
}
inline __m512i _mm512_setzero_si512() { return _mm512_set1_epi8(0); }
// Index bits 0-5 choose the byte, bit 6 the source; bit 7 is ignored.
inline __m512i _mm512_permutex2var_epi8(__m512i a, __m512i index, __m512i b) {
    __m512i v;
    for (int i = 0; i < 64; ++i) v.byte[i] = ((index.byte[i] & 64) ? b : a).byte[index.byte[i] & 63];
    return v;
}
inline __mmask64 _mm512_movepi8_mask(__m512i a) {
    __mmask64 m = 0;
    for (int i = 0; i < 64; ++i) m |= static_cast<__mmask64>(a.byte[i] >> 7) << i;
    return m;
}
inline __m512i _mm512_mask_blend_epi8(__mmask64 m, __m512i a, __m512i b) {
    for (int i = 0; i < 64; ++i)
        if (m >> i & 1) a.byte[i] = b.byte[i];
    return a;
}
inline __m512i _mm512_adds_epu8(__m512i a, __m512i b) {
    for (int i = 0; i < 64; ++i)
        a.byte[i] = static_cast<std::uint8_t>(a.byte[i] + b.byte[i] > 255 ? 255 : a.byte[i] + b.byte[i]);
    return a;
}
inline __mmask64 _mm512_cmple_epu8_mask(__m512i a, __m512i b) {
    __mmask64 m = 0;
    for (int i = 0; i < 64; ++i) m |= static_cast<__mmask64>(a.byte[i] <= b.byte[i]) << i;
    return m;
}
} // namespace
} // namespace interlace
