#include "search.h"

#include "../simd/kernels.h"
#include "threads.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <memory>

namespace interlace {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Hit {
    float distance, crude, crude_floor, floor;
    std::uint32_t segment, cell;
    std::uint64_t position;
};

// One query at a time; buffers live as long as the worker.
class Scanner {
public:
    Scanner(const Books& books, const std::vector<SegmentView>& segments, std::size_t k, const Rule& rule)
        : books_(books), segments_(segments), kernel_(kernels()), k_(k), rule_(rule), cell_tables_(books.n_columns() * kWords),
          tables_(books.n_columns()), minima_(books.n_columns()) {}

    void run(const float* base, const float* const* tables, float bound, SearchCounts* work) {
        tables_.assign(tables, tables + books_.n_columns());
        hits_.clear();
        work_ = {};
        scale_ = 0;
        if (!books_.has_cell_terms())
            for (std::size_t j = 0; j < tables_.size(); ++j) minima_[j] = kernel_.table_min(tables_[j]);

        order_.clear();
        for (std::size_t c = 0; c < books_.n_cells(); ++c)
            if (occupied(c)) order_.push_back(sort_key(base[c], c));
        std::sort(order_.begin(), order_.end());
        for (std::size_t i = 0; i < order_.size(); ++i) {
            if (books_.has_cell_terms() && i + 1 < order_.size()) prefetch(books_.cell_terms(order_[i + 1] & 0xffffffffu, 0));
            const std::size_t cell = order_[i] & 0xffffffffu;
            visit(cell, base[cell], tables, bound);
        }
        *work = work_;
    }

    // Ties by row number: the earlier row wins.
    void sort_hits() {
        std::sort(hits_.begin(), hits_.end(), [this](const Hit& a, const Hit& b) { return before(a, b); });
    }
    const std::vector<Hit>& hits() const { return hits_; }
    std::uint64_t row(const Hit& hit) const {
        const SegmentView& view = segments_[hit.segment];
        return view.first_row + view.segment->rows().at(hit.cell, hit.position - view.segment->start(hit.cell));
    }

private:
    static std::uint64_t sort_key(float value, std::size_t cell) {
        const std::uint32_t bits = std::bit_cast<std::uint32_t>(value + 0.0f); // -0 sorts as 0
        const std::uint32_t ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
        return static_cast<std::uint64_t>(ordered) << 32 | cell;
    }

    bool occupied(std::size_t cell) const {
        for (const SegmentView& view : segments_)
            if (view.mask ? view.allowed[cell] > 0 : view.segment->end(cell) > view.segment->start(cell)) return true;
        return false;
    }

    void prefetch(const float* cell_terms) const {
        for (std::size_t i = 0; i < books_.n_columns() * kWords; i += 16) __builtin_prefetch(cell_terms + i);
    }

    bool before(const Hit& a, const Hit& b) const { return a.distance != b.distance ? a.distance < b.distance : row(a) < row(b); }

    void visit(std::size_t cell, float base, const float* const* tables, float bound) {
        if (books_.has_cell_terms())
            for (std::size_t j = 0; j < tables_.size(); ++j) {
                float* sum = cell_tables_.data() + j * kWords;
                minima_[j] = kernel_.add_tables(tables[j], books_.cell_terms(cell, j), sum);
                tables_[j] = sum;
            }
        crude_floor_ = base;
        for (std::size_t j = 0; j < books_.n_crude(); ++j) crude_floor_ += minima_[j];
        rest_floor_ = 0;
        for (std::size_t j = books_.n_crude(); j < tables_.size(); ++j) rest_floor_ += minima_[j];
        // Float sums of m terms of total size A differ from the true sum by at most m * 2^-24 * A; twice that, and room
        // for the handful of operations of the rule itself.
        slack_ = static_cast<float>(tables_.size() + 8) * 0x1p-23f * ((base < 0 ? -base : base) + bound);
        update_limit();
        if (crude_floor_ > limit_) return;
        if (books_.has_cell_terms()) scale_ = 0; // other tables: quantize anew
        cell_ = cell;
        base_ = base;
        ++work_.cells;
        ++work_.lookups;
        for (std::size_t s = 0; s < segments_.size(); ++s) scan(s);
    }

    float tau() const { return hits_.size() < k_ ? kInfinity : hits_.front().distance; }

    // The largest crude distance that is still refined.
    void update_limit() {
        if (hits_.size() < k_ || rule_.kind == Rule::kNone) limit_ = kInfinity;
        else if (rule_.kind == Rule::kPaper) limit_ = hits_.front().crude + rule_.sigma;
        else if (rule_.share == 1.0f) limit_ = (tau() - rest_floor_) + slack_;
        else limit_ = (crude_floor_ + rule_.share * (tau() - (crude_floor_ + rest_floor_))) + slack_;
    }

    // Bytes with floor((t - min) * scale) sum to at most (crude - crude_floor) * scale. `scale` is lowered and the
    // threshold raised by 2^-20, more than the rounding of the few operations in between, so no row within the limit is lost.
    std::uint8_t byte_threshold() {
        const float budget = (limit_ - crude_floor_) + slack_; // slack: the bytes bound the true sum, the limit the float one
        float steps = budget * scale_ * (1.0f + 0x1p-20f);
        if (scale_ == 0 || steps > 254.5f || steps < 96.0f) {
            scale_ = std::min(254.0f / std::max(budget, 1e-30f), 1e30f);
            byte_tables_.n_columns = std::min(books_.n_crude(), kScanColumns);
            for (std::size_t j = 0; j < byte_tables_.n_columns; ++j) {
                kernel_.quantize(tables_[j], minima_[j], scale_ * (1.0f - 0x1p-20f), byte_tables_.values[j]);
                byte_tables_.set(j, byte_tables_.values[j]);
            }
            steps = budget * scale_ * (1.0f + 0x1p-20f);
        }
        return static_cast<std::uint8_t>(std::clamp(steps, 0.0f, 254.0f));
    }

    void scan(std::size_t s) {
        const SegmentView& view = segments_[s];
        const std::uint64_t end = view.segment->end(cell_);
        std::uint64_t position = view.segment->start(cell_);
        if (position == end || (view.mask && view.allowed[cell_] == 0)) return;
        std::uint64_t masks[kChunk], allowed[kChunk];
        while (position < end) {
            update_limit();
            if (crude_floor_ > limit_) return;
            const std::size_t b = position / kBlock, last = (end - 1) / kBlock;
            std::size_t count = std::min(kChunk, last + 1 - b);
            if (limit_ == kInfinity) {
                count = 1;
                masks[0] = ~std::uint64_t{0};
            } else {
                const std::uint8_t threshold = byte_threshold();
                kernel_.scan(view.segment->block(b), books_.n_crude(), byte_tables_, threshold, count, masks);
            }
            for (std::size_t i = 0; i < count; ++i) {
                allowed[i] = view.mask ? view.mask[b + i] : ~std::uint64_t{0};
                if (i == 0) allowed[i] &= ~std::uint64_t{0} << (position % kBlock);
                if (b + i == last) allowed[i] &= ~std::uint64_t{0} >> (63 - (end - 1) % kBlock);
                masks[i] &= allowed[i];
            }
            position = refine(s, b, count, masks);
            for (std::size_t i = 0; i < count && (b + i) * kBlock < position; ++i) {
                if (position < (b + i + 1) * kBlock) allowed[i] &= ~(~std::uint64_t{0} << (position % kBlock));
                work_.scanned += static_cast<std::uint64_t>(std::popcount(allowed[i]));
            }
        }
    }

    // Whole distance of the rows in `masks`. Returns the position to go on from: the end of the chunk, or the row after
    // the one that raised the limit (the paper's rule can), because the bytes were compared with a lower one.
    std::uint64_t refine(std::size_t s, std::size_t first_block, std::size_t count, const std::uint64_t* masks) {
        const Segment& segment = *segments_[s].segment;
        candidates_.clear();
        for (std::size_t i = 0; i < count; ++i)
            for (std::uint64_t mask = masks[i]; mask != 0; mask &= mask - 1) {
                const std::uint64_t position = (first_block + i) * kBlock + static_cast<std::uint64_t>(std::countr_zero(mask));
                __builtin_prefetch(segment.rest_codes(position));
                candidates_.push_back(position);
            }
        const float scanned_limit = limit_;
        const std::size_t n_crude = books_.n_crude(), n_rest = tables_.size() - n_crude;
        for (std::uint64_t position : candidates_) {
            const std::uint8_t* codes = segment.block(position / kBlock) + position % kBlock;
            float distance = base_;
            for (std::size_t j = 0; j < n_crude; ++j) distance += tables_[j][codes[j * kBlock]];
            const float crude = distance;
            if (crude > limit_) continue;
            ++work_.survivors;
            const std::uint8_t* rest = segment.rest_codes(position);
            for (std::size_t j = 0; j < n_rest; ++j) distance += tables_[n_crude + j][rest[j]];
            if (distance > tau()) continue;
            offer({distance, crude, crude_floor_, crude_floor_ + rest_floor_, static_cast<std::uint32_t>(s), static_cast<std::uint32_t>(cell_), position});
            if (limit_ > scanned_limit) return position + 1;
        }
        return (first_block + count) * kBlock;
    }

    void offer(const Hit& hit) {
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
    const Rule rule_;
    std::vector<float> cell_tables_;      // [n_columns][256] tables of the cell being scanned, when cells have terms
    std::vector<const float*> tables_;    // [n_columns] either those or the query's own
    std::vector<float> minima_;           // [n_columns]
    std::vector<std::uint64_t> order_, candidates_;
    std::vector<Hit> hits_;               // heap, worst in front
    SearchCounts work_;
    std::size_t cell_ = 0;
    float base_ = 0, crude_floor_ = 0, rest_floor_ = 0, slack_ = 0, limit_ = 0, scale_ = 0;
    ByteTables byte_tables_;
};

} // namespace

void search(const Books& books, const std::vector<SegmentView>& segments, const float* queries, std::size_t n, std::size_t k,
            const Rule& rule, std::size_t threads, const SearchOutput& out) {
    struct Worker {
        QueryTables tables;
        Scanner scanner;
    };
    std::vector<std::unique_ptr<Worker>> workers(threads);
    constexpr std::size_t group = QueryTables::kGroup;
    parallel_for((n + group - 1) / group, threads, [&](std::size_t task, std::size_t worker_index) {
        auto& worker = workers[worker_index];
        if (!worker) worker.reset(new Worker{QueryTables(books), Scanner(books, segments, k, rule)});
        const std::size_t first = task * group, count = std::min(group, n - first);
        worker->tables.compute(queries + first * books.dim(), count);
        std::vector<const float*> tables(books.n_columns());
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t q = first + i;
            for (std::size_t j = 0; j < tables.size(); ++j) tables[j] = worker->tables.table(i, j);
            Scanner& scanner = worker->scanner;
            scanner.run(worker->tables.base(i), tables.data(), worker->tables.bound(i), out.work + q);
            scanner.sort_hits();
            const std::size_t found = scanner.hits().size();
            out.work[q].lookups += out.work[q].scanned * books.n_crude() + out.work[q].survivors * (books.n_columns() - books.n_crude());
            out.counts[q] = static_cast<std::int64_t>(found);
            for (std::size_t r = 0; r < k; ++r) {
                const bool hit = r < found;
                out.rows[q * k + r] = hit ? static_cast<std::int64_t>(scanner.row(scanner.hits()[r])) : -1;
                out.distances[q * k + r] = hit ? scanner.hits()[r].distance : kInfinity;
                if (out.crude_excess == nullptr) continue;
                out.crude_excess[q * k + r] = hit ? scanner.hits()[r].crude - scanner.hits()[r].crude_floor : 0;
                out.floors[q * k + r] = hit ? scanner.hits()[r].floor : 0;
            }
        }
    });
}

} // namespace interlace
