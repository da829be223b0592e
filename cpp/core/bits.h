// Ones of a word without the instructions that the oldest processors lack: the core is compiled for all of them, where
// std::popcount is a call into the run-time.
#pragma once
#include <bit>
#include <cstdint>

namespace interlace {

inline constexpr std::uint64_t kBytesOfOne = 0x0101010101010101;

// Ones of each byte, in its place
inline std::uint64_t ones_by_byte(std::uint64_t word) {
    word -= word >> 1 & 0x5555555555555555;
    word = (word & 0x3333333333333333) + (word >> 2 & 0x3333333333333333);
    return (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0f;
}

inline unsigned count_ones(std::uint64_t word) { return static_cast<unsigned>(ones_by_byte(word) * kBytesOfOne >> 56); }

// The place of the rank-th one, from 0; there must be as many.
inline unsigned place_of_one(std::uint64_t word, unsigned rank) {
    const std::uint64_t up_to = ones_by_byte(word) * kBytesOfOne; // ones of each byte and those below it
    const std::uint64_t passed = ((rank * kBytesOfOne | 0x80 * kBytesOfOne) - up_to) >> 7 & kBytesOfOne;
    const auto shift = static_cast<unsigned>(passed * kBytesOfOne >> 56) * 8; // of the byte that has the one
    rank -= static_cast<unsigned>(up_to << 8 >> shift & 0xff);
    std::uint64_t byte = word >> shift;
    for (; rank > 0; --rank) byte &= byte - 1;
    return shift + static_cast<unsigned>(std::countr_zero(byte));
}

} // namespace interlace
