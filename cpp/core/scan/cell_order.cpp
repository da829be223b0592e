#include "cell_order.h"

namespace interlace {

CellOrder::CellOrder(const Books& books, const std::vector<SegmentView>& segments, const Rule& rule)
    : books_(books), segments_(segments), rule_(rule) {
    if (rule.stops()) spread_ = rule.spread(books.n_cells());
}

void CellOrder::start(const float* base) {
    base_ = base;
    sorted_ = 0;
    sum_ = 0;
    order_.clear();
    for (std::size_t cell = 0; cell < books_.n_cells(); ++cell)
        for (const SegmentView& view : segments_)
            if (view.size(cell) > 0) {
                order_.push_back(Cells::sort_key(base[cell], cell));
                sum_ += base[cell];
                break;
            }
}

void CellOrder::sort_until(std::size_t rank) {
    constexpr std::size_t first = 256; // sorted at once
    const std::size_t end = std::min(size(), std::max({first, 2 * sorted_, rank + 1}));
    const auto at = [this](std::size_t i) { return order_.begin() + static_cast<std::ptrdiff_t>(i); };
    if (end < size()) std::nth_element(at(sorted_), at(end), order_.end());
    std::sort(at(sorted_), at(end));
    sorted_ = end;
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
    if (!l2) unit_ = static_cast<float>(sum_ / static_cast<double>(size()) - nearest);
    std::uint64_t rows = 0;
    for (near_ = 0; near_ < size() && (rows < rows_needed || base(near_) - nearest <= allowed_gap(near_)); ++near_)
        rows += rows_in(cell(near_));
}

} // namespace interlace
