#include "packed_ids.h"

#include <algorithm>
#include <bit>

namespace interlace {

namespace {

std::uint64_t unsigned_of(std::int64_t value) { return static_cast<std::uint64_t>(value); }

} // namespace

std::uint64_t PackedIds::plan(std::span<const std::int64_t> values, std::int64_t* bases, std::uint32_t* starts) {
    std::uint64_t total = 0;
    std::size_t block = 0;
    for (std::size_t first = 0; first < values.size(); first += kBlock, ++block) {
        const std::size_t size = std::min(kBlock, values.size() - first);
        std::int64_t least = values[first], most = values[first];
        for (std::size_t i = 1; i < size; ++i) {
            const std::int64_t value = values[first + i] - static_cast<std::int64_t>(i);
            least = std::min(least, value);
            most = std::max(most, value);
        }
        bases[block] = least;
        starts[block] = static_cast<std::uint32_t>(total);
        total += static_cast<std::uint64_t>(std::bit_width(unsigned_of(most) - unsigned_of(least)));
    }
    starts[block] = static_cast<std::uint32_t>(total);
    return total;
}

void PackedIds::encode(std::span<const std::int64_t> values, const std::int64_t* bases, const std::uint32_t* starts,
                       std::uint64_t* words) {
    for (std::size_t row = 0; row < values.size(); ++row) {
        const std::size_t block = row / kBlock, i = row % kBlock;
        const std::uint64_t width = starts[block + 1] - starts[block];
        if (width == 0) continue;
        const std::uint64_t offset = unsigned_of(values[row]) - i - unsigned_of(bases[block]);
        std::uint64_t* word = words + starts[block] + i * width / 64;
        const std::uint64_t shift = i * width % 64;
        word[0] |= offset << shift;
        if (shift + width > 64) word[1] |= offset >> (64 - shift);
    }
}

std::optional<std::int64_t> PackedIds::at(std::uint64_t row) const {
    if (row >= n) return {};
    const std::size_t block = row / kBlock, i = row % kBlock;
    const std::uint64_t start = starts[block], end = starts[block + 1];
    if (end < start || end - start > 64 || end > words.size()) return {};
    const std::uint64_t width = end - start;
    std::uint64_t offset = 0;
    if (width > 0) {
        const std::uint64_t* word = words.data() + start + i * width / 64;
        const std::uint64_t shift = i * width % 64;
        offset = word[0] >> shift;
        if (shift + width > 64) offset |= word[1] << (64 - shift);
        if (width < 64) offset &= (std::uint64_t{1} << width) - 1;
    }
    return static_cast<std::int64_t>(unsigned_of(bases[block]) + i + offset);
}

bool PackedIds::take(std::span<const std::int64_t> rows, std::int64_t* ids) const {
    for (std::size_t i = 0; i < rows.size(); ++i) {
        ids[i] = -1;
        if (rows[i] < 0) continue;
        const auto id = at(unsigned_of(rows[i]));
        if (!id) return false;
        ids[i] = *id;
    }
    return true;
}

bool PackedIds::find(std::span<const std::int64_t> ids, std::span<const std::uint32_t> order,
                     std::int64_t* rows) const {
    for (std::size_t q = 0; q < ids.size(); ++q) {
        rows[q] = -1;
        // The first of the places first .. last - 1 whose id is not smaller: among all, or in the only block it can be
        // in.
        std::size_t first = 0, last = n;
        if (order.empty()) {
            const auto block =
                static_cast<std::size_t>(std::upper_bound(bases.begin(), bases.end(), ids[q]) - bases.begin());
            if (block == 0) continue;
            first = (block - 1) * kBlock;
            last = std::min(first + kBlock, n);
        }
        const std::size_t end = last;
        const auto row_at = [&](std::size_t place) -> std::uint64_t { return order.empty() ? place : order[place]; };
        while (first < last) {
            const std::size_t middle = first + (last - first) / 2;
            const auto id = at(row_at(middle));
            if (!id) return false;
            if (*id < ids[q]) {
                first = middle + 1;
            } else {
                last = middle;
            }
        }
        if (first == end) continue;
        const auto id = at(row_at(first));
        if (!id) return false;
        if (*id == ids[q]) rows[q] = static_cast<std::int64_t>(row_at(first));
    }
    return true;
}

} // namespace interlace
