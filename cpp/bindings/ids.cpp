#include "../core/packed_ids.h"
#include "../core/string_hash.h"
#include "arrays.h"
#include "module.h"
#include "released.h"

#include <nanobind/stl/optional.h>

#include <optional>

namespace interlace {

void bind_ids(nb::module_& m) {
    m.def(
        "plan_ids", // the number of words that pack_ids fills
        [](In<std::int64_t, One> values, Out<std::int64_t, One> bases, Out<std::uint32_t, One> starts) {
            const std::size_t blocks = (values.size() + PackedIds::kBlock - 1) / PackedIds::kBlock;
            require(bases.size() == blocks && starts.size() == blocks + 1, "bases or starts do not fit");
            Released released;
            return PackedIds::plan(view<std::int64_t>(values), bases.data(), starts.data());
        },
        "values"_a.noconvert(), "bases"_a.noconvert(), "starts"_a.noconvert());
    m.def(
        "pack_ids", // what plan_ids filled for the same values
        [](In<std::int64_t, One> values, In<std::int64_t, One> bases, In<std::uint32_t, One> starts,
           Out<std::uint64_t, One> words) {
            const std::size_t blocks = (values.size() + PackedIds::kBlock - 1) / PackedIds::kBlock;
            require(bases.size() == blocks && starts.size() == blocks + 1, "bases or starts do not fit");
            for (std::size_t b = 0; b < blocks; ++b)
                require(starts.data()[b] <= starts.data()[b + 1] && starts.data()[b + 1] - starts.data()[b] <= 64,
                        "starts do not ascend");
            require(starts.data()[blocks] == words.size(), "words do not fit");
            Released released;
            PackedIds::encode(view<std::int64_t>(values), bases.data(), starts.data(), words.data());
        },
        "values"_a.noconvert(), "bases"_a.noconvert(), "starts"_a.noconvert(), "words"_a.noconvert());
    const auto packed = [](std::size_t n, const In<std::int64_t, One>& bases, const In<std::uint32_t, One>& starts,
                           const In<std::uint64_t, One>& words) {
        const std::size_t blocks = n / PackedIds::kBlock + (n % PackedIds::kBlock != 0);
        require(bases.size() == blocks && starts.size() == blocks + 1, "bases or starts do not fit");
        return PackedIds{n, view<std::int64_t>(bases), view<std::uint32_t>(starts), view<std::uint64_t>(words)};
    };
    m.def(
        "take_ids", // false: the arrays are damaged
        [packed](std::size_t n, In<std::int64_t, One> bases, In<std::uint32_t, One> starts,
                 In<std::uint64_t, One> words, In<std::int64_t, One> rows, Out<std::int64_t, One> ids) {
            const PackedIds stored = packed(n, bases, starts, words);
            require(rows.size() == ids.size(), "one id for each row");
            Released released;
            return stored.take(view<std::int64_t>(rows), ids.data());
        },
        "n"_a, "bases"_a.noconvert(), "starts"_a.noconvert(), "words"_a.noconvert(), "rows"_a.noconvert(),
        "ids"_a.noconvert());
    m.def(
        "find_ids", // false: the arrays are damaged; without order ids ascend with the rows
        [packed](std::size_t n, In<std::int64_t, One> bases, In<std::uint32_t, One> starts,
                 In<std::uint64_t, One> words, std::optional<In<std::uint32_t, One>> order, In<std::int64_t, One> ids,
                 Out<std::int64_t, One> rows) {
            const PackedIds stored = packed(n, bases, starts, words);
            require((!order || order->size() == n) && rows.size() == ids.size(), "one row for each id");
            const auto sorted = order ? view<std::uint32_t>(*order) : std::span<const std::uint32_t>{};
            Released released;
            return stored.find(view<std::int64_t>(ids), sorted, rows.data());
        },
        "n"_a, "bases"_a.noconvert(), "starts"_a.noconvert(), "words"_a.noconvert(), "order"_a.noconvert().none(),
        "ids"_a.noconvert(), "rows"_a.noconvert());
    m.def(
        "hash_strings",
        [](In<std::uint8_t, One> bytes, In<std::uint64_t, One> offsets, Out<std::uint64_t, One> hashes) {
            require(offsets.size() == hashes.size() + 1 && offsets.data()[hashes.size()] <= bytes.size(),
                    "offsets do not fit");
            Released released;
            hash_strings(view<std::uint8_t>(bytes), view<std::uint64_t>(offsets), hashes.data());
        },
        "bytes"_a.noconvert(), "offsets"_a.noconvert(), "hashes"_a.noconvert());
}

} // namespace interlace
