#include "cell_tables.h"

#include "collectors.h"

#include <algorithm>

namespace interlace {
namespace {

constexpr std::size_t kLazyLookups = 16; // rows of a cell that are looked up before its float tables are made
// Rows of a cell up to which all of them are looked up: making byte tables of the cell's own would take longer.
constexpr std::uint64_t kFewRows = 24;

} // namespace

CellTables::CellTables(const Books& books, const std::vector<SegmentView>& segments)
    : books_(books), segments_(segments), kernel_(kernels()), n_columns_(books.n_columns()), n_crude_(books.n_crude()),
      lowest_(books.metric() == Metric::kL2 && !books.has_constant() ? 0.0f : -kInfinity),
      has_cross_(books.has_cross_sums()), has_terms_(books.has_table_terms()), has_fixed_(books.folds_cells()),
      cell_tables_(has_terms_ ? n_columns_ * kWords : 0), minima_(n_columns_), group_minima_(n_columns_ * kGroups),
      sums_(has_terms_ ? n_columns_ * kWords : 0), step_groups_(has_terms_ ? n_columns_ * kGroups : 0),
      step_minima_(n_columns_) {}

void CellTables::start(const QueryTables& query, std::size_t q) {
    tables_ = query.tables(q);
    steps_ = query.steps(q);
    low_ = query.low(q);
    step_ = has_terms_ ? books_.cells().term_scale() : 0.0f;
    bound_ = query.bound(q);
    scale_ = 0;
    crude_filled_ = rest_filled_ = 0;
}

void CellTables::find_minima() {
    for (std::size_t j = 0; !has_terms_ && j < n_columns_; ++j)
        minima_[j] = kernel_.minima(tables_ + j * kWords, group_minima_.data() + j * kGroups);
}

void CellTables::enter(std::size_t cell, float base) {
    cell_ = cell;
    base_ = base;
    if (has_terms_) terms_ = books_.cells().terms(cell);
    // Float sums of m terms of total size A differ from the true sum by at most m * 2^-24 * A; twice that, and room for
    // the few operations of the rule itself.
    slack_ = static_cast<float>(n_columns_ + 8) * 0x1p-23f * ((base < 0 ? -base : base) + bound_);
}

void CellTables::find_floors(bool with_sums) {
    has_sums_ = with_sums && has_terms_;
    if (has_sums_) add_steps();
    else if (has_terms_)
        for (std::size_t j = 0; j < n_columns_; ++j)
            step_minima_[j] = kernel_.min_steps(steps_ + j * kWords, terms_ + j * kWords);
    for (std::size_t j = 0; has_terms_ && j < n_columns_; ++j)
        minima_[j] = low_[j] + step_ * static_cast<float>(step_minima_[j]);
    crude_floor_ = base_;
    for (std::size_t j = 0; j < n_crude_; ++j) crude_floor_ += minima_[j];
    rest_floor_ = 0;
    for (std::size_t j = n_crude_; j < n_columns_; ++j) rest_floor_ += minima_[j];
    if (has_cross_) rest_floor_ += books_.cross_unit() * static_cast<float>(cross_floor());
}

void CellTables::open(std::uint64_t n_rows) {
    if (!has_terms_) return;
    few_ = n_rows <= kFewRows;
    if (!has_sums_ && !few_) add_steps();
    scale_ = 0;
    crude_looked_up_ = rest_looked_up_ = 0;
}

float CellTables::common_floor() const {
    float sum = 0;
    for (std::size_t j = 0; one_floor() && j < n_columns_; ++j) sum += minima_[j];
    return sum;
}

float CellTables::sums_base() const {
    float sum = base_;
    for (std::size_t j = 0; j < n_crude_; ++j) sum += low_[j];
    return sum;
}

void CellTables::add_steps() {
    for (std::size_t j = 0; j < n_columns_; ++j)
        step_minima_[j] = kernel_.add_steps(steps_ + j * kWords, terms_ + j * kWords, sums_.data() + j * kWords,
                                            step_groups_.data() + j * kGroups);
}

std::int32_t CellTables::cross_floor() const {
    std::int32_t low = segments_.front().cross_floors[cell_];
    for (const SegmentView& view : segments_) low = std::min(low, view.cross_floors[cell_]);
    return low;
}

// Bytes sum to at most (crude - crude_floor) * scale. The scale is lowered and the threshold raised by 2^-20, more than
// the rounding of the operations in between, so no row within the limit is lost. The slack is there because the bytes
// bound the true sum and the limit the float one.
std::uint8_t CellTables::quantize(float limit) {
    const float budget = (limit - crude_floor_) + slack_;
    float steps = budget * scale_ * (1.0f + 0x1p-20f);
    if (scale_ == 0 || steps > 254.5f || steps < 96.0f) {
        scale_ = std::min(254.0f / std::max(budget, 1e-30f), 1e30f);
        bytes_.n_columns = std::min(n_crude_, kScanColumns);
        for (std::size_t j = 0; j < bytes_.n_columns; ++j)
            if (has_terms_)
                kernel_.quantize_steps(sums_.data() + j * kWords, step_groups_.data() + j * kGroups, step_minima_[j],
                                       step_ * scale_ * (1.0f - 0x1p-20f), j, &bytes_);
            else
                kernel_.quantize(tables_ + j * kWords, group_minima_.data() + j * kGroups, minima_[j],
                                 scale_ * (1.0f - 0x1p-20f), j, &bytes_);
        steps = budget * scale_ * (1.0f + 0x1p-20f);
    }
    return static_cast<std::uint8_t>(std::clamp(steps, 0.0f, 254.0f));
}

const ByteTables& CellTables::bytes(std::int32_t fixed_step) {
    if (has_fixed_ && (fixed_scale_ != scale_ || fixed_step_ != fixed_step)) {
        fixed_scale_ = scale_;
        fixed_step_ = fixed_step;
        const float factor = scale_ * (1.0f - 0x1p-20f);
        for (std::int32_t b = 0; b <= FixedParts::kMost; ++b) {
            const float steps = coarse_term(fixed_step * b) * factor;
            bytes_.fixed[b] = static_cast<std::uint8_t>(steps < 255.0f ? steps : 255.0f);
        }
    }
    return bytes_;
}

bool CellTables::lazy_crude(std::size_t n) {
    if (!has_terms_) return false;
    crude_looked_up_ += n;
    if (few_ || crude_looked_up_ <= kLazyLookups) return true;
    fill(0, n_crude_, crude_filled_);
    return false;
}

bool CellTables::lazy_rest(std::size_t n) {
    if (!has_terms_) return false;
    rest_looked_up_ += n;
    if (rest_looked_up_ <= kLazyLookups) return true;
    fill(n_crude_, n_columns_, rest_filled_);
    return false;
}

// The float tables of the columns; their entries are the same to the last bit as those of entry().
void CellTables::fill(std::size_t first, std::size_t last, std::size_t& filled) {
    if (filled == 1 + cell_) return;
    for (std::size_t j = first; j < last; ++j)
        kernel_.add_terms(tables_ + j * kWords, terms_ + j * kWords, step_, cell_tables_.data() + j * kWords);
    filled = 1 + cell_;
}

} // namespace interlace
