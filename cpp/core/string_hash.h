// Hashes of strings, as files of an index store them.
#pragma once
#include <cstdint>
#include <span>

namespace interlace {

// hashes [offsets.size() - 1]: of the UTF-8 bytes offsets[i] .. offsets[i + 1] - 1 by FNV-1a and a final mix. Part of
// the file format: never change it. Throws std::invalid_argument unless offsets ascend within bytes.
void hash_strings(std::span<const std::uint8_t> bytes, std::span<const std::uint64_t> offsets, std::uint64_t* hashes);

} // namespace interlace
