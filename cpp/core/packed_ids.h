// Integer ids in blocks of 64: a base, and for each row the same few bits.
//
// Id i of a block is base + i + offset, modulo 2^64. `base` is the smallest id - i of the block, so a run of
// consecutive ids has offsets of no bits, and ids that ascend slowly have short ones. A block whose longest offset has
// w bits takes w words of 64 bits; offset i begins at bit i w of them. `starts` [blocks + 1] says at which word each
// block begins, so w is the difference of two of them.
//
// The arrays may come from a damaged file: an index outside them is reported, never followed.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace interlace {

struct PackedIds {
    static constexpr std::size_t kBlock = 64;

    std::size_t n; // rows
    std::span<const std::int64_t> bases;
    std::span<const std::uint32_t> starts;
    std::span<const std::uint64_t> words;

    // values [n], each at least 63 above the smallest int64 -> bases [blocks] and starts [blocks + 1]; the number of
    // words, which is also the last start unless that has no room in 32 bits.
    static std::uint64_t plan(std::span<const std::int64_t> values, std::int64_t* bases, std::uint32_t* starts);
    // words [the last start], zeroed
    static void encode(std::span<const std::int64_t> values, const std::int64_t* bases, const std::uint32_t* starts,
                       std::uint64_t* words);

    std::optional<std::int64_t> at(std::uint64_t row) const; // nothing: damaged, or no such row
    // ids of rows, -1 for row -1; false: damaged
    bool take(std::span<const std::int64_t> rows, std::int64_t* ids) const;
    // row of each id, -1 where it is not here, for ids that ascend with the rows, or `order` (rows by ascending id);
    // false: damaged
    bool find(std::span<const std::int64_t> ids, std::span<const std::uint32_t> order, std::int64_t* rows) const;
};

} // namespace interlace
