#include "cell_order.h"

#include <array>
#include <bit>
#include <limits>

namespace interlace {
namespace {
constexpr float kInfinite = std::numeric_limits<float>::infinity();

constexpr std::size_t kBlockOfBounds = 16;
bool any_within(const float* bounds, float limit) {
    typedef float Four __attribute__((vector_size(16)));
    Four values[4];
    __builtin_memcpy(values, bounds, sizeof values);
    const auto within = (values[0] <= limit) | (values[1] <= limit) | (values[2] <= limit) | (values[3] <= limit);
    std::uint64_t halves[2];
    __builtin_memcpy(halves, &within, sizeof halves);
    return (halves[0] | halves[1]) != 0;
}
} // namespace

CellOrder::CellOrder(const Books& books, const std::vector<SegmentView>& segments, const Rule& rule)
    : books_(books), segments_(segments), rule_(rule) {
    if (rule.stops()) {
        spread_ = rule.spread(books.n_cells());
        first_found_ = rule.usual_cells();
    }
    find_empty();
    size_ = books.n_cells() - empty_.size();
}

void CellOrder::find_empty() {
    if (segments_.size() == 1 && segments_[0].mask == nullptr && segments_[0].empty != nullptr) { // the usual case
        empty_ = *segments_[0].empty;
        return;
    }
    for (std::size_t cell = 0; cell < books_.n_cells(); ++cell)
        if (rows_in(cell) == 0) empty_.push_back(static_cast<std::uint32_t>(cell));
}

void CellOrder::start(CellBases& bases, std::size_t q) {
    bases_ = &bases;
    q_ = q;
    if (asked_ > 0) first_found_ = std::max<std::size_t>((7 * first_found_ + asked_ + asked_ / 2) / 8, 64);
    sorted_ = apart_ = asked_ = 0;
    order_.clear();
    if (bases.has_all(q)) return list_all();
    limit_ = -kInfinite;
    float* const bounds = bases.bounds(q);
    for (const std::uint32_t cell : empty_) bounds[cell] = kInfinite;
}

void CellOrder::list_all() {
    const float* const base = bases_->all(q_);
    order_.resize(size_);
    std::size_t n = 0;
    for_each_cell([&](std::size_t cell) { order_[n++] = Cells::sort_key(base[cell], cell); });
}

void CellOrder::sort_until(std::size_t rank) {
    constexpr std::size_t first = 64; // sorted at once
    while (!bases_->has_all(q_) && sorted_ <= rank)
        find_nearest(std::max({first_found_, 2 * order_.size(), rank + rank / 2}));
    if (rank < sorted_) return;
    const std::size_t end = std::min(size(), std::max({first, 2 * sorted_, rank + 1}));
    if (end > apart_) take_apart(end);
    if (end < apart_) std::nth_element(at(sorted_), at(end), at(apart_));
    std::sort(at(sorted_), at(end));
    sorted_ = end;
}

void CellOrder::find_nearest(std::size_t wanted) {
    constexpr std::size_t most = 3; // a larger part of the cells is found faster by computing all bases
    if (wanted * most > size()) {
        bases_->find_all(q_);
        sorted_ = apart_ = 0;
        return list_all();
    }
    const float limit = bound_of(wanted), done = limit_;
    const float* const bounds = bases_->bounds(q_);
    chosen_.clear();
    for (std::size_t c = 0; c < bases_->padded(); c += kBlockOfBounds)
        if (any_within(bounds + c, limit))
            for (std::size_t i = c; i < c + kBlockOfBounds; ++i)
                if (bounds[i] <= limit && bounds[i] > done) chosen_.push_back(static_cast<std::uint32_t>(i));
    bases_->find(q_, chosen_);
    for (const std::uint32_t cell : chosen_) order_.push_back(Cells::sort_key(base_of(cell), cell));
    std::sort(at(sorted_), order_.end());
    limit_ = limit;
    // Every cell that is not there has a base above the limit.
    const std::uint64_t last = Cells::sort_key(limit, 0xffffffffu);
    sorted_ = static_cast<std::size_t>(std::upper_bound(at(sorted_), order_.end(), last) - order_.begin());
    apart_ = order_.size();
}

// The smallest bounds of some groups of cells belong to different cells. They are counted by equal steps of their
// range.
float CellOrder::bound_of(std::size_t wanted) {
    const float* const bounds = bases_->bounds(q_);
    const std::size_t n = bases_->padded(),
                      n_groups = std::min(std::bit_ceil(std::max<std::size_t>(2 * wanted, 256)), n);
    minima_.assign(bounds, bounds + n_groups);
    for (std::size_t c = n_groups; c < n; c += n_groups) {
        const std::size_t count = std::min(n_groups, n - c);
        for (std::size_t i = 0; i < count; ++i) minima_[i] = bounds[c + i] < minima_[i] ? bounds[c + i] : minima_[i];
    }
    float low = minima_[0], high = minima_[0];
    for (const float value : minima_) {
        low = value < low ? value : low;
        high = value < kInfinite && value > high ? value : high; // groups without rows have none
    }
    constexpr std::size_t n_steps = 512;
    const float step = (high - low) / static_cast<float>(n_steps - 2);
    if (!(low < kInfinite && step > 0 && step < kInfinite)) return std::numeric_limits<float>::max();
    const float by = 1.0f / step;
    std::array<std::uint32_t, n_steps> counts{};
    for (const float value : minima_) {
        const float at = (value - low) * by;
        ++counts[at < static_cast<float>(n_steps - 1) ? static_cast<std::size_t>(at) : n_steps - 1];
    }
    std::size_t at = 0, found = counts[0];
    while (found < wanted && at + 1 < n_steps) found += counts[++at];
    return std::min(low + step * static_cast<float>(at + 1), std::numeric_limits<float>::max());
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
        const float* const base = bases_->all(q_);
        for_each_cell([&](std::size_t cell) { sum += base[cell]; });
        unit_ = static_cast<float>(sum / static_cast<double>(size()) - nearest);
    }
    std::uint64_t rows = 0;
    for (near_ = 0; near_ < size() && (rows < rows_needed || base(near_) - nearest <= allowed_gap(near_)); ++near_)
        rows += rows_in(cell(near_));
}

} // namespace interlace
