// Numbers that a float16 can hold.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

namespace interlace {

// Whether a float16 has this value, and its bits
inline bool to_half(float value, std::uint16_t& half) {
    constexpr std::uint32_t lost = (1u << 13) - 1; // the bits of a float that a float16 lacks
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
    const float size = std::abs(value);
    if (!(size < 0x1p16f)) return false;
    if (size < 0x1p-14f) { // 0, and what float16 counts in steps of 2^-24
        const float steps = size * 0x1p24f;
        half = static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(steps));
        return static_cast<float>(static_cast<std::uint16_t>(steps)) == steps;
    }
    half = static_cast<std::uint16_t>(sign | ((bits & 0x7fffffff) - (112u << 23)) >> 13);
    return (bits & lost) == 0;
}

} // namespace interlace
