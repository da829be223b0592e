// One query through the segments: order of the cells, crude scan, whole code for the survivors. search.h says which
// rules there are; this is how they run.
#pragma once
#include "../simd/kernels.h"
#include "books.h"
#include "search.h"
#include "segment.h"
#include "threads.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace interlace {

inline constexpr std::size_t kLazyLookups = 16; // rows of a cell up to which its tables are not made
// Rows of a cell that are looked up one by one, where bytes of the cell's own tables would be made for a scan
inline constexpr std::size_t kFewRows = 24;
// Pieces of work (cells, chunks of rows, survivors) between two checkpoints: each takes from a fraction of a
// microsecond to some 20 microseconds, for survivors of thousands of dimensions.
inline constexpr std::uint64_t kPiecesBetweenChecks = 4096;
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Hit {
    float distance, crude, crude_floor, floor;
    std::uint32_t segment, cell;
    std::uint64_t position;
};

struct Within { // a row within the radius
    float distance;
    std::uint64_t row;
    bool operator<(const Within& other) const {
        return distance != other.distance ? distance < other.distance : row < other.row;
    }
};

// One query at a time; buffers live as long as the worker.
class Scanner {
public:
    // k 0: all rows within a radius. want_floors: the hits' crude_floor and floor are asked for.
    Scanner(const Books& books, const std::vector<SegmentView>& segments, std::size_t k, const Rule& rule,
            bool want_floors)
        : books_(books), segments_(segments), kernel_(kernels()), k_(k), rule_(rule), n_columns_(books.n_columns()),
          n_crude_(books.n_crude()),
          lowest_(books.metric() == Metric::kL2 && !books.has_constant() ? 0.0f : -kInfinity),
          has_cross_(books.has_cross_sums()), has_terms_(books.has_table_terms()),
          cell_tables_(has_terms_ ? n_columns_ * kWords : 0), minima_(n_columns_), group_minima_(n_columns_ * kGroups),
          sums_(has_terms_ ? n_columns_ * kWords : 0), step_groups_(has_terms_ ? n_columns_ * kGroups : 0),
          step_minima_(n_columns_), offsets_(kChunk * kBlock), candidates_(kChunk * kBlock), crude_(kChunk * kBlock),
          codes_(has_cross_ ? kChunk * kBlock * n_columns_ : 0) {
        if (rule.stops()) spread_ = rule.spread(books.n_cells());
        hits_.reserve(std::min<std::size_t>(k, 4096) + 1);
        flat_ = !want_floors && rule.is_exact();
        for (const SegmentView& view : segments) flat_ = flat_ && view.statics != nullptr;
    }

    // The q-th query of the group, of the given length; the radius counts where k is 0.
    void run(const QueryTables& query, std::size_t q, float length, float radius = kInfinity) {
        const float* base = query.base(q);
        tables_ = query.tables(q);
        steps_ = query.steps(q);
        low_ = query.low(q);
        step_ = books_.cell_term_scale();
        bound_ = query.bound(q);
        radius_ = radius;
        hits_.clear();
        within_.clear();
        work_ = {};
        scale_ = 0;
        crude_filled_ = rest_filled_ = 0;
        if (flat_ && trace_ == nullptr) {
            for (std::size_t s = 0; s < segments_.size(); ++s)
                switch (n_columns_) { // the usual numbers of columns get loops without inner branches
                case 7:
                    look_up<7>(s, base);
                    break;
                case 15:
                    look_up<15>(s, base);
                    break;
                default:
                    look_up<0>(s, base);
                }
            finish();
            return;
        }
        if (!has_terms_)
            for (std::size_t j = 0; j < n_columns_; ++j)
                minima_[j] = kernel_.minima(tables_ + j * kWords, group_minima_.data() + j * kGroups);
        order_.clear();
        for (std::size_t c = 0; c < books_.n_cells(); ++c)
            if (occupied(c)) order_.push_back(sort_key(base[c], c));
        std::sort(order_.begin(), order_.end());
        if (trace_ != nullptr) begin_trace(base);
        share_ = rule_.share();
        std::size_t n_near = order_.size();
        if (rule_.stops() && !order_.empty()) n_near = near_cells(base, length);
        const float slack = rule_.slack() * length;
        for (std::size_t rank = 0; rank < order_.size(); ++rank) {
            const std::size_t cell = order_[rank] & 0xffffffffu;
            // Bases ascend and tau does not rise: the cells behind are beyond it too.
            if (rank >= n_near && base[cell] + independent_floor_ - tau() > slack) break;
            visit(cell, base[cell]);
        }
        finish();
    }

    const std::vector<Hit>& hits() const { return hits_; }
    const std::vector<Within>& within() const { return within_; }
    const SearchCounts& work() const { return work_; }
    std::uint64_t row(const Hit& hit) const { return segments_[hit.segment].row(hit.cell, hit.position); }
    void watch(Trace* trace) { trace_ = trace; } // what runs from now on tell of its row

private:
    void count_pieces(std::uint64_t n) {
        if ((pieces_ += n) < kPiecesBetweenChecks) return;
        pieces_ = 0;
        checkpoint();
    }

    void finish() {
        // Ties by row number: the earlier row wins.
        std::sort(within_.begin(), within_.end());
        std::sort(hits_.begin(), hits_.end(), [this](const Hit& a, const Hit& b) { return before(a, b); });
        work_.lookups = work_.cells + work_.scanned * n_crude_ + work_.survivors * (n_columns_ - n_crude_ + has_cross_);
    }

    // How many of the nearest cells are visited whatever tau is; all of them for a query that is unlike those of the
    // rule.
    std::size_t near_cells(const float* base, float length) {
        const auto base_of = [&](std::size_t rank) { return base[order_[rank] & 0xffffffffu]; };
        const float nearest = base_of(0);
        // Where the tables are the same in all cells, so are their smallest entries.
        independent_floor_ = 0;
        if (!has_terms_ && !has_cross_)
            for (std::size_t j = 0; j < n_columns_; ++j) independent_floor_ += minima_[j];
        // Where books share no dimension with the first, the base knows nothing of theirs.
        if (nearest + (books_.metric() == Metric::kL2 ? independent_floor_ : 0) > rule_.reach() * length) {
            share_ = 1.0f;
            return order_.size();
        }
        float unit = nearest < rule_.least() ? rule_.least() : nearest;
        if (books_.metric() != Metric::kL2) {
            float sum = 0;
            for (std::size_t rank = 0; rank < order_.size(); ++rank) sum += base_of(rank) - nearest;
            unit = sum / static_cast<float>(order_.size());
        }
        std::size_t n = 0;
        std::uint64_t rows = 0; // k of them are visited in any case
        for (; n < order_.size() && (rows < k_ || base_of(n) - nearest <= spread_[n] * unit); ++n)
            rows += rows_in(order_[n] & 0xffffffffu);
        if (trace_ != nullptr && trace_->cell_rank >= n && trace_->cell_rank < order_.size()) {
            trace_->value = base[trace_->cell] - nearest;
            trace_->bound = spread_[trace_->cell_rank] * unit;
        }
        return n;
    }

    static std::uint64_t sort_key(float value, std::size_t cell) {
        const std::uint32_t bits = std::bit_cast<std::uint32_t>(value + 0.0f); // -0 sorts as 0
        const std::uint32_t ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
        return static_cast<std::uint64_t>(ordered) << 32 | cell;
    }

    // Every row of a copy against tau, by a sum that differs from its distance by rounding only; those that may be
    // within get the distance itself. All of them count as survivors.
    template <std::size_t N_COLUMNS> void look_up(std::size_t s, const float* base) { // 0: any number
        const SegmentView& view = segments_[s];
        const std::size_t n_columns = N_COLUMNS ? N_COLUMNS : n_columns_;
        const float* const tables = tables_;
        const std::uint8_t* codes = view.codes;
        for (std::size_t cell = 0; cell < books_.n_cells(); ++cell) {
            const std::uint64_t end = view.end(cell);
            if (view.start(cell) == end) continue;
            ++work_.cells;
            count_pieces(1 + (end - view.start(cell)) / 64);
            find_slack(base[cell]);
            float limit = tau() + slack_;
            for (std::uint64_t position = view.start(cell); position < end; ++position, codes += n_columns) {
                float even = base[cell] + view.statics[position], odd = 0; // two sums: neither waits for the other
                std::size_t j = 0;
                for (; j + 2 <= n_columns; j += 2) {
                    even += tables[j * kWords + codes[j]];
                    odd += tables[(j + 1) * kWords + codes[j + 1]];
                }
                if (j < n_columns) even += tables[j * kWords + codes[j]];
                if (even + odd > limit) continue;
                offer_copied(s, cell, position, base[cell], codes);
                limit = tau() + slack_;
            }
        }
        work_.scanned += view.end(books_.n_cells() - 1);
        work_.survivors += view.end(books_.n_cells() - 1);
    }

    // The distance of a row, as the two steps compute it
    void offer_copied(std::size_t s, std::size_t cell, std::uint64_t position, float base, const std::uint8_t* codes) {
        cell_ = cell;
        float distance = base;
        for (std::size_t j = 0; j < n_columns_; ++j) distance += term(j, codes[j]);
        if (has_cross_) distance += books_.cross_unit() * static_cast<float>(books_.cross_sum(codes));
        distance = at_least(distance);
        if (distance > tau()) return;
        offer({distance, 0, 0, 0, static_cast<std::uint32_t>(s), static_cast<std::uint32_t>(cell), position});
    }

    // Squared distances are sums of terms of both signs, which rounding may leave below 0. Bounds are of the sums as
    // they are: a sum that exceeds tau, which is never below 0, is raised by nothing here.
    float at_least(float sum) const { return lowest_ < sum ? sum : lowest_; }

    bool occupied(std::size_t cell) const {
        for (const SegmentView& view : segments_)
            if (view.size(cell) > 0) return true;
        return false;
    }

    std::uint64_t rows_in(std::size_t cell) const {
        std::uint64_t n = 0;
        for (const SegmentView& view : segments_) n += view.size(cell);
        return n;
    }

    bool before(const Hit& a, const Hit& b) const {
        return a.distance != b.distance ? a.distance < b.distance : row(a) < row(b);
    }

    void visit(std::size_t cell, float base) {
        // Most cells are skipped by the exact bound, most are visited where far ones were dropped before.
        const bool sums_first = has_terms_ && rule_.stops();
        count_pieces(1);
        find_floors(cell, base, sums_first);
        update_limit();
        if (trace_ != nullptr && trace_->cell == cell) note(Trace::kCellBound, crude_floor_);
        if (crude_floor_ > limit_) return;
        few_ = has_terms_ && rows_in(cell) <= kFewRows; // bytes and steps of a cell's own tables would cost more
        if (has_terms_) {
            if (!sums_first && !few_) add_steps(cell);
            scale_ = 0; // other tables: quantize anew
            n_crude_looked_up_ = n_rest_looked_up_ = 0;
        }
        cell_ = cell;
        base_ = base;
        ++work_.cells;
        for (std::size_t s = 0; s < segments_.size(); ++s) scan(s);
    }

    void find_floors(std::size_t cell, float base, bool sums_first) {
        if (sums_first) add_steps(cell);
        else if (has_terms_)
            for (std::size_t j = 0; j < n_columns_; ++j)
                step_minima_[j] = kernel_.min_steps(steps_ + j * kWords, books_.cell_terms(cell, j));
        for (std::size_t j = 0; has_terms_ && j < n_columns_; ++j)
            minima_[j] = low_[j] + step_ * static_cast<float>(step_minima_[j]);
        crude_floor_ = base;
        for (std::size_t j = 0; j < n_crude_; ++j) crude_floor_ += minima_[j];
        rest_floor_ = 0;
        for (std::size_t j = n_crude_; j < n_columns_; ++j) rest_floor_ += minima_[j];
        if (has_cross_) rest_floor_ += books_.cross_unit() * static_cast<float>(cross_floor(cell));
        find_slack(base);
    }

    void find_slack(float base) {
        // Float sums of m terms of total size A differ from the true sum by at most m * 2^-24 * A; twice that, and room
        // for the handful of operations of the rule itself.
        slack_ = static_cast<float>(n_columns_ + 8) * 0x1p-23f * ((base < 0 ? -base : base) + bound_);
    }

    void add_steps(std::size_t cell) {
        for (std::size_t j = 0; j < n_columns_; ++j)
            step_minima_[j] = kernel_.add_steps(steps_ + j * kWords, books_.cell_terms(cell, j),
                                                sums_.data() + j * kWords, step_groups_.data() + j * kGroups);
    }

    std::int32_t cross_floor(std::size_t cell) const {
        std::int32_t low = segments_.front().cross_floors[cell];
        for (const SegmentView& view : segments_) low = std::min(low, view.cross_floors[cell]);
        return low;
    }

    float tau() const { return k_ == 0 ? radius_ : hits_.size() < k_ ? kInfinity : hits_.front().distance; }

    // The largest crude distance that is still refined.
    void update_limit() {
        if (hits_.size() < k_ || rule_.kind() == Rule::Kind::kEverything)
            limit_ = kInfinity; // never so few where k is 0
        else if (rule_.kind() == Rule::Kind::kPaper) limit_ = hits_.front().crude + rule_.sigma();
        else if (share_ == 1.0f) limit_ = (tau() - rest_floor_) + slack_;
        else {
            const float room = tau() - (crude_floor_ + rest_floor_); // negative: nothing in the cell can be near enough
            limit_ = (crude_floor_ + (room > 0 ? share_ * room : room)) + slack_;
        }
    }

    // Bytes with floor((t - min) * scale) sum to at most (crude - crude_floor) * scale. `scale` is lowered and the
    // threshold raised by 2^-20, more than the rounding of the few operations in between, so no row within the limit is
    // lost.
    std::uint8_t byte_threshold() {
        const float budget =
            (limit_ - crude_floor_) + slack_; // slack: the bytes bound the true sum, the limit the float one
        float steps = budget * scale_ * (1.0f + 0x1p-20f);
        if (scale_ == 0 || steps > 254.5f || steps < 96.0f) {
            scale_ = std::min(254.0f / std::max(budget, 1e-30f), 1e30f);
            byte_tables_.n_columns = std::min(n_crude_, kScanColumns);
            for (std::size_t j = 0; j < byte_tables_.n_columns; ++j)
                if (has_terms_)
                    kernel_.quantize_steps(sums_.data() + j * kWords, step_groups_.data() + j * kGroups,
                                           step_minima_[j], step_ * scale_ * (1.0f - 0x1p-20f), j, &byte_tables_);
                else
                    kernel_.quantize(tables_ + j * kWords, group_minima_.data() + j * kGroups, minima_[j],
                                     scale_ * (1.0f - 0x1p-20f), j, &byte_tables_);
            steps = budget * scale_ * (1.0f + 0x1p-20f);
        }
        return static_cast<std::uint8_t>(std::clamp(steps, 0.0f, 254.0f));
    }

    void scan(std::size_t s) {
        const SegmentView& view = segments_[s];
        if (view.size(cell_) == 0) return;
        const std::uint64_t end = view.end(cell_);
        std::uint64_t position = view.start(cell_);
        const std::size_t last = (end - 1) / kBlock;
        const bool watched = trace_ != nullptr && trace_->cell == cell_; // row by row, to see the limit of each
        std::uint64_t masks[kChunk];
        while (position < end) {
            update_limit();
            if (watched && !trace_done_) trace_done_ = note_row(view, position);
            if (crude_floor_ > limit_) return;
            const std::size_t b = position / kBlock;
            std::size_t count = std::min(kChunk, last + 1 - b);
            if (watched) {
                count = 1;
                masks[0] = std::uint64_t{1} << (position % kBlock);
            } else if (limit_ == kInfinity || few_) {
                count = few_ || rule_.kind() == Rule::Kind::kEverything || k_ == 0 ? count : 1;
                std::fill(masks, masks + count, ~std::uint64_t{0});
            } else {
                const std::uint8_t threshold = byte_threshold();
                kernel_.scan(view.block(b), n_crude_, byte_tables_, threshold, count, masks);
            }
            masks[0] &= ~std::uint64_t{0} << (position % kBlock);
            if (b + count > last) masks[last - b] &= ~std::uint64_t{0} >> (63 - (end - 1) % kBlock);
            if (view.mask)
                for (std::size_t i = 0; i < count; ++i) masks[i] &= view.mask[b + i];
            const std::uint64_t from = position;
            position = std::min(watched ? from + 1 : end, refine(s, b, count, masks));
            work_.scanned += view.mask ? allowed_between(view.mask, from, position) : position - from;
        }
    }

    // A trace begins with what does not depend on the order of rows: the row's own numbers and its cell's.
    void begin_trace(const float* base) {
        Trace& trace = *trace_;
        cell_ = trace.cell;
        base_ = trace.base = base[cell_];
        trace.crude = trace.base;
        for (std::size_t j = 0; j < n_crude_; ++j) trace.crude += term(j, trace.codes[j]);
        trace.distance = trace.crude;
        for (std::size_t j = n_crude_; j < n_columns_; ++j) trace.distance += term(j, trace.codes[j]);
        if (has_cross_)
            trace.distance += books_.cross_unit() * static_cast<float>(books_.cross_sum(trace.codes.data()));
        trace.distance = at_least(trace.distance);
        find_floors(cell_, base_, false);
        trace.crude_floor = crude_floor_;
        trace.floor = crude_floor_ + rest_floor_;
        trace.step = Trace::kFarCell;
        trace.n_cells = order_.size();
        trace.cell_rank = 0;
        while (trace.cell_rank < order_.size() && (order_[trace.cell_rank] & 0xffffffffu) != cell_) ++trace.cell_rank;
        trace_done_ = false;
    }

    void note(Trace::Step step, float value) {
        trace_->step = step;
        trace_->value = value;
        trace_->bound = limit_;
        trace_->tau = tau();
    }

    // Before the row at this position has its turn; whether it is the one.
    bool note_row(const SegmentView& view, std::uint64_t position) {
        note(Trace::kCellBound, crude_floor_);
        if (crude_floor_ > limit_ || view.row(cell_, position) != trace_->row) return false;
        note(trace_->crude > limit_ ? Trace::kCrude : Trace::kCompared, trace_->crude);
        return true;
    }

    static std::uint64_t allowed_between(const std::uint64_t* mask, std::uint64_t from, std::uint64_t to) {
        std::uint64_t n = 0;
        for (std::uint64_t b = from / kBlock; b * kBlock < to; ++b) {
            std::uint64_t word = mask[b];
            if (b == from / kBlock) word &= ~std::uint64_t{0} << (from % kBlock);
            if (to - b * kBlock < kBlock) word &= ~(~std::uint64_t{0} << (to % kBlock));
            n += static_cast<std::uint64_t>(std::popcount(word));
        }
        return n;
    }

    // Crude distance of the rows in `masks`, in position order; those within the limit go to candidates_ and crude_.
    std::size_t collect(const SegmentView& segment, std::size_t first_block, std::size_t count,
                        const std::uint64_t* masks) {
        switch (n_crude_) { // the usual numbers of crude columns get loops without inner branches
        case 3:
            return collect_columns<3>(segment, first_block, count, masks);
        case 5:
            return collect_columns<5>(segment, first_block, count, masks);
        case 7:
            return collect_columns<7>(segment, first_block, count, masks);
        case 8:
            return collect_columns<8>(segment, first_block, count, masks);
        case 15:
            return collect_columns<15>(segment, first_block, count, masks);
        default:
            return collect_columns<0>(segment, first_block, count, masks);
        }
    }

    template <std::size_t N_CRUDE> // 0: any number
    std::size_t collect_columns(const SegmentView& segment, std::size_t first_block, std::size_t count,
                                const std::uint64_t* masks) {
        std::uint32_t* const offsets = offsets_.data(); // row of the chunk, as block * 64 + lane
        std::size_t n = 0;
        for (std::uint32_t i = 0; i < count; ++i)
            for (std::uint64_t mask = masks[i]; mask != 0; mask &= mask - 1)
                offsets[n++] = i * kBlock + static_cast<std::uint32_t>(std::countr_zero(mask));
        const std::uint8_t* blocks = segment.block(first_block);
        if (has_terms_) {
            if (!few_) n = within_steps<N_CRUDE>(blocks, n);
            n_crude_looked_up_ += n;
            if (few_ || n_crude_looked_up_ <= kLazyLookups)
                return crude_distances<N_CRUDE, true>(blocks, first_block, n);
            fill_cell_tables(0, n_crude_, crude_filled_);
        }
        return crude_distances<N_CRUDE, false>(blocks, first_block, n);
    }

    // Drops offsets whose crude distance is beyond the limit by its lower bound in whole steps: cheaper than the
    // floats, and tighter than the bytes, where a level compares groups of words only.
    template <std::size_t N_CRUDE> std::size_t within_steps(const std::uint8_t* blocks, std::size_t n) {
        float low = base_;
        for (std::size_t j = 0; j < n_crude_; ++j) low += low_[j];
        const float inverse = (1.0f + 0x1p-20f) / step_;
        const float steps = ((limit_ - low) + slack_) * inverse;
        if (!(steps < 2e9f) || inverse > std::numeric_limits<float>::max()) return n;
        const std::int32_t most = steps < -2e9f ? -2000000000 : static_cast<std::int32_t>(steps) + 1;
        std::uint32_t* const offsets = offsets_.data();
        const std::int16_t* const sums = sums_.data();
        const std::size_t n_crude = N_CRUDE ? N_CRUDE : n_crude_;
        std::size_t kept = 0;
        for (std::size_t i = 0; i < n; ++i) {
            const std::uint32_t offset = offsets[i];
            const std::uint8_t* codes = blocks + offset / kBlock * n_crude * kBlock + offset % kBlock;
            std::int32_t sum = 0;
            for (std::size_t j = 0; j < n_crude; ++j) sum += sums[j * kWords + codes[j * kBlock]];
            offsets[kept] = offset;
            kept += sum <= most;
        }
        return kept;
    }

    // Few rows of a cell are looked up at all, so its float tables are only made when they pay: the sum of an entry is
    // the same either way.
    void fill_cell_tables(std::size_t first, std::size_t last,
                          std::size_t& filled) { // filled: 1 + cell whose tables are there
        if (filled == 1 + cell_) return;
        for (std::size_t j = first; j < last; ++j)
            kernel_.add_terms(tables_ + j * kWords, books_.cell_terms(cell_, j), step_,
                              cell_tables_.data() + j * kWords);
        filled = 1 + cell_;
    }

    float term(std::size_t column, std::size_t code) const { // of the tables of cell_
        return has_terms_ ? entry(column, code) : tables_[column * kWords + code];
    }

    float entry(std::size_t column, std::size_t code) const { // of the cell's table, without making it
        return tables_[column * kWords + code] + static_cast<float>(books_.cell_terms(cell_, column)[code]) * step_;
    }

    template <std::size_t N_CRUDE, bool LAZY>
    std::size_t crude_distances(const std::uint8_t* blocks, std::size_t first_block, std::size_t n) {
        const float* const tables = has_terms_ ? cell_tables_.data() : tables_;
        const float base = base_, limit = limit_;
        const std::size_t n_crude = N_CRUDE ? N_CRUDE : n_crude_;
        std::uint64_t* const positions = candidates_.data();
        float* const crude_out = crude_.data();
        std::size_t kept = 0;
        for (std::size_t i = 0; i < n; ++i) {
            const std::uint32_t offset = offsets_[i];
            const std::uint8_t* codes = blocks + offset / kBlock * n_crude * kBlock + offset % kBlock;
            float crude = base;
            for (std::size_t j = 0; j < n_crude; ++j)
                crude += LAZY ? entry(j, codes[j * kBlock]) : tables[j * kWords + codes[j * kBlock]];
            positions[kept] = first_block * kBlock + offset;
            crude_out[kept] = crude;
            kept += crude <= limit;
        }
        return kept;
    }

    // Whole distance of the rows in `masks` whose crude one is within the limit. Returns the position to go on from:
    // the end of the chunk, or the row after the one that raised the limit (the paper's rule can), because the rows
    // behind it were compared with a lower one.
    std::uint64_t refine(std::size_t s, std::size_t first_block, std::size_t count, const std::uint64_t* masks) {
        const SegmentView& segment = segments_[s];
        const std::size_t n = collect(segment, first_block, count, masks), n_rest = n_columns_ - n_crude_;
        n_rest_looked_up_ += n;
        count_pieces(1 + n);
        const bool lazy = has_terms_ && n_rest_looked_up_ <= kLazyLookups;
        if (has_terms_ && !lazy) fill_cell_tables(n_crude_, n_columns_, rest_filled_);
        const float* const tables = (has_terms_ ? cell_tables_.data() : tables_) + n_crude_ * kWords;
        for (std::size_t i = 0; i < n; ++i) __builtin_prefetch(segment.rest_codes(candidates_[i]));
        if (has_cross_) gather_codes(segment, n);
        const float scanned_limit = limit_;
        float limit = limit_, worst = tau();
        for (std::size_t i = 0; i < n; ++i) {
            const float crude = crude_[i];
            if (crude > limit) continue; // it fell since
            ++work_.survivors;
            const std::uint8_t* rest = segment.rest_codes(candidates_[i]);
            float distance = crude;
            for (std::size_t j = 0; j < n_rest; ++j)
                distance += lazy ? entry(n_crude_ + j, rest[j]) : tables[j * kWords + rest[j]];
            if (has_cross_)
                distance += books_.cross_unit() * static_cast<float>(books_.cross_sum(codes_.data() + i * n_columns_));
            distance = at_least(distance);
            if (distance > worst) continue;
            offer({distance, crude, crude_floor_, crude_floor_ + rest_floor_, static_cast<std::uint32_t>(s),
                   static_cast<std::uint32_t>(cell_), candidates_[i]});
            limit = limit_;
            worst = tau();
            if (limit > scanned_limit) return candidates_[i] + 1;
        }
        return (first_block + count) * kBlock;
    }

    // codes_ [n][n_columns] of the candidates
    void gather_codes(const SegmentView& segment, std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) {
            const std::uint8_t* crude = segment.block(candidates_[i] / kBlock) + candidates_[i] % kBlock;
            const std::uint8_t* rest = segment.rest_codes(candidates_[i]);
            std::uint8_t* codes = codes_.data() + i * n_columns_;
            for (std::size_t j = 0; j < n_crude_; ++j) codes[j] = crude[j * kBlock];
            for (std::size_t j = n_crude_; j < n_columns_; ++j) codes[j] = rest[j - n_crude_];
        }
    }

    void offer(const Hit& hit) {
        if (k_ == 0) {
            within_.push_back({hit.distance, row(hit)});
            return;
        }
        const auto worse = [this](const Hit& a, const Hit& b) { return before(a, b); };
        if (hits_.size() == k_) {
            if (!before(hit, hits_.front())) return;
            std::pop_heap(hits_.begin(), hits_.end(), worse);
            hits_.back() = hit;
        } else {
            hits_.push_back(hit);
        }
        std::push_heap(hits_.begin(), hits_.end(), worse);
        update_limit();
    }

    const Books& books_;
    const std::vector<SegmentView>& segments_;
    const Kernels& kernel_;
    const std::size_t k_;
    const Rule& rule_;
    std::span<const float> spread_; // by rank of a cell; empty where the rule never stops
    const std::size_t n_columns_, n_crude_;
    const float lowest_;                // no distance is below
    const bool has_cross_;              // the second step adds cross terms
    bool flat_ = false;                 // rows are so few that they are looked up one after the other
    const bool has_terms_;              // cells have terms: the tables differ from cell to cell
    Aligned<float> cell_tables_;        // [n_columns][256] of the cell being scanned, once filled
    std::vector<float> minima_;         // [n_columns]
    Aligned<float> group_minima_;       // [n_columns][kGroups]
    Aligned<std::int16_t> sums_;        // [n_columns][256] or
    Aligned<std::int16_t> step_groups_; // [n_columns][kGroups]: lower bounds of the cell's tables, in steps
    std::vector<std::int16_t> step_minima_;
    std::vector<std::uint64_t> order_;
    std::vector<std::uint32_t> offsets_;
    std::vector<std::uint64_t> candidates_;
    std::vector<float> crude_; // of the candidates
    std::vector<std::uint8_t> codes_;
    std::vector<Hit> hits_; // heap, worst in front
    std::vector<Within> within_;
    Trace* trace_ = nullptr;
    bool trace_done_ = false; // its row had its turn
    SearchCounts work_;
    std::uint64_t pieces_ = 0;            // of work since the last checkpoint
    const float* tables_ = nullptr;       // [n_columns][256] of the query
    const std::int16_t* steps_ = nullptr; // its lower bounds, see QueryTables
    const float* low_ = nullptr;
    std::size_t cell_ = 0, crude_filled_ = 0, rest_filled_ = 0;
    std::size_t n_crude_looked_up_ = 0, n_rest_looked_up_ = 0; // rows of the cell so far
    bool few_ = false;                                         // the cell has few rows
    float radius_ = 0, share_ = 1, independent_floor_ = 0, step_ = 0, bound_ = 0, base_ = 0, crude_floor_ = 0,
          rest_floor_ = 0, slack_ = 0, limit_ = 0, scale_ = 0;
    ByteTables byte_tables_;
};

} // namespace interlace
