#include "cell_order.h"

namespace interlace {

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
    books_.cells().sort(base, occupied, order_);
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
