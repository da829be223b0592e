#include "string_hash.h"

#include "threads.h"

#include <cstddef>
#include <stdexcept>

namespace interlace {

void hash_strings(std::span<const std::uint8_t> bytes, std::span<const std::uint64_t> offsets, std::uint64_t* hashes) {
    for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
        if (i % 4096 == 0) checkpoint();
        const std::uint64_t start = offsets[i], end = offsets[i + 1];
        if (start > end || end > bytes.size()) throw std::invalid_argument("offsets must ascend");
        std::uint64_t h = 0xcbf29ce484222325u;
        for (std::uint64_t b = start; b < end; ++b) h = (h ^ bytes[b]) * 0x100000001b3u;
        h = (h ^ (h >> 32)) * 0x9e3779b97f4a7c15u;
        hashes[i] = h ^ (h >> 29);
    }
}

} // namespace interlace
