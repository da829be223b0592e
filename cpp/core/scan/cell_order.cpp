#include "cell_order.h"

#include <algorithm>
#include <bit>

namespace interlace {
namespace {

// Ascends with the value; equal values ascend with the cell.
std::uint64_t sort_key(float value, std::size_t cell) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value + 0.0f); // -0 sorts as 0
    const std::uint32_t ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return static_cast<std::uint64_t>(ordered) << 32 | cell;
}

} // namespace

CellOrder::CellOrder(const Books& books, const std::vector<SegmentView>& segments, const Rule& rule)
    : books_(books), segments_(segments), rule_(rule) {
    if (rule.stops()) spread_ = rule.spread(books.n_cells());
}

void CellOrder::sort(const float* base) {
    const auto occupied = [this](std::size_t cell) {
        for (const SegmentView& view : segments_)
            if (view.size(cell) > 0) return true;
        return false;
    };
    base_ = base;
    order_.clear();
    for (std::size_t c = 0; c < books_.n_cells(); ++c)
        if (occupied(c)) order_.push_back(sort_key(base[c], c));
    std::sort(order_.begin(), order_.end());
}

void CellOrder::find_stop(float length, std::size_t rows_needed, const CellTables& tables) {
    const bool l2 = books_.metric() == Metric::kL2;
    share_ = rule_.share();
    near_ = size();
    if (!rule_.stops() || size() == 0) return;
    one_floor_ = tables.one_floor();
    common_floor_ = tables.common_floor();
    const float nearest = base(0);
    // Where books share no dimension with the first, its base does not include what they add.
    if (nearest + (l2 ? common_floor_ : 0) > rule_.reach() * length) {
        share_ = 1.0f;
        return;
    }
    slack_ = rule_.slack() * (one_floor_ ? tables.span() : 1.0f);
    unit_ = nearest < rule_.least() ? rule_.least() : nearest;
    if (!l2) {
        float sum = 0;
        for (std::size_t rank = 0; rank < size(); ++rank) sum += base(rank) - nearest;
        unit_ = sum / static_cast<float>(size());
    }
    std::uint64_t rows = 0;
    for (near_ = 0; near_ < size() && (rows < rows_needed || base(near_) - nearest <= allowed_gap(near_)); ++near_)
        rows += rows_in(cell(near_));
}

} // namespace interlace
