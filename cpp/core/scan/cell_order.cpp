#include "cell_order.h"

namespace interlace {

CellOrder::CellOrder(const Books& books, const std::vector<SegmentView>& segments, const Rule& rule)
    : books_(books), segments_(segments), rule_(rule) {
    if (rule.stops()) spread_ = rule.spread(books.n_cells());
    const std::size_t n_cells = books.n_cells();
    occupied_.resize(n_cells);
    std::size_t n = 0;
    if (segments.size() == 1 && segments[0].mask == nullptr) { // the usual case, in a loop without branches
        const std::uint64_t* const starts = segments[0].cell_starts;
        for (std::size_t cell = 0; cell < n_cells; ++cell) {
            occupied_[n] = static_cast<std::uint32_t>(cell);
            n += starts[cell] != starts[cell + 1];
        }
    } else {
        for (std::size_t cell = 0; cell < n_cells; ++cell) {
            occupied_[n] = static_cast<std::uint32_t>(cell);
            n += rows_in(cell) > 0;
        }
    }
    occupied_.resize(n);
    order_.resize(n);
}

void CellOrder::start(const float* base) {
    base_ = base;
    sorted_ = apart_ = 0;
    for (std::size_t i = 0; i < occupied_.size(); ++i) order_[i] = Cells::sort_key(base[occupied_[i]], occupied_[i]);
}

void CellOrder::sort_until(std::size_t rank) {
    constexpr std::size_t first = 64; // sorted at once
    const std::size_t end = std::min(size(), std::max({first, 2 * sorted_, rank + 1}));
    if (end > apart_) take_apart(end);
    if (end < apart_) std::nth_element(at(sorted_), at(end), at(apart_));
    std::sort(at(sorted_), at(end));
    sorted_ = end;
}

void CellOrder::take_apart(std::size_t end) {
    constexpr std::size_t n_samples = 256, several = 4;
    const std::size_t left = size() - apart_, wanted = several * (end - apart_);
    if (wanted < left / 2 && left > 2 * n_samples) {
        std::uint64_t samples[n_samples];
        for (std::size_t i = 0; i < n_samples; ++i) samples[i] = order_[apart_ + i * left / n_samples];
        std::uint64_t* const limit = samples + wanted * n_samples / left;
        std::nth_element(samples, limit, samples + n_samples);
        const auto near =
            std::partition(at(apart_), order_.end(), [by = *limit](std::uint64_t key) { return key <= by; });
        apart_ = static_cast<std::size_t>(near - order_.begin());
    }
    if (apart_ < end) apart_ = size();
}

void CellOrder::find_stop(const QuerySize& query, std::size_t rows_needed, const CellTables& tables) {
    const bool l2 = books_.metric() == Metric::kL2;
    share_ = rule_.share();
    near_ = size();
    unlike_ = false;
    if (!rule_.stops() || size() == 0) return;
    one_floor_ = tables.one_floor();
    common_floor_ = tables.common_floor();
    const float nearest = base(0);
    // Where books share no dimension with the first, its base does not include what they add.
    unlike_ = nearest + (l2 ? common_floor_ : 0) > rule_.reach() * query.length || query.square < rule_.inner();
    if (unlike_) {
        share_ = 1.0f;
        return;
    }
    slack_ = rule_.slack() * (one_floor_ ? tables.span() : 1.0f);
    unit_ = nearest < rule_.least() ? rule_.least() : nearest;
    if (!l2) {
        double sum = 0; // in the order of cells
        for (const std::uint32_t cell : occupied_) sum += base_[cell];
        unit_ = static_cast<float>(sum / static_cast<double>(size()) - nearest);
    }
    std::uint64_t rows = 0;
    for (near_ = 0; near_ < size() && (rows < rows_needed || base(near_) - nearest <= allowed_gap(near_)); ++near_)
        rows += rows_in(cell(near_));
}

} // namespace interlace
