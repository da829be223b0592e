// One query through the segments: cells in order, crude scan of their rows, whole code for the survivors.
//
// Collector (collectors.h) keeps rows and says how near they must be, Tracer (tracers.h) reports what happens to one
// row.
#pragma once
#include "../../simd/kernels.h"
#include "../bits.h"
#include "../books.h"
#include "../rule.h"
#include "../search.h"
#include "../segment.h"
#include "cell_order.h"
#include "cell_tables.h"
#include "collectors.h"
#include "crude_step.h"
#include "flat.h"
#include "pace.h"
#include "tracers.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

namespace interlace {

// The allowed rows at positions from .. to - 1; mask: a bit for each position.
inline std::uint64_t allowed_between(const std::uint64_t* mask, std::uint64_t from, std::uint64_t to) {
    std::uint64_t n = 0;
    for (std::uint64_t b = from / kBlock; b * kBlock < to; ++b) {
        std::uint64_t word = mask[b];
        if (b == from / kBlock) word &= ~std::uint64_t{0} << (from % kBlock);
        if (to - b * kBlock < kBlock) word &= ~(~std::uint64_t{0} << (to % kBlock));
        n += count_ones(word);
    }
    return n;
}

// Buffers live as long as the worker that it belongs to.
template <typename Collector, typename Tracer> class Scanner {
public:
    // want_floors: crude_floor and floor of the hits are read
    Scanner(const Books& books, const std::vector<SegmentView>& segments, const Rule& rule, bool want_floors,
            Collector collector, Tracer tracer)
        : books_(books), segments_(segments), kernel_(kernels()), rule_(rule), collector_(std::move(collector)),
          tracer_(std::move(tracer)), order_(books, segments, rule), tables_(books, segments),
          codes_(tables_.has_cross() ? kChunk * kBlock * books.n_columns() : 0),
          flat_(scans_flat(segments, rule, want_floors)) {}

    Collector& collector() { return collector_; }
    const Collector& collector() const { return collector_; }
    const SearchCounts& work() const { return work_; }

    // The q-th query of the group; its collector has started.
    void run(QueryTables& query, std::size_t q, const QuerySize& size) {
        work_ = {};
        tables_.start(query, q);
        if (flat_) {
            for (std::size_t s = 0; s < segments_.size(); ++s)
                scan_flat(tables_, segments_[s], static_cast<std::uint32_t>(s), books_.n_cells(), query.bases().all(q),
                          query.tables(q), collector_, pace_, work_);
        } else {
            tables_.find_minima();
            order_.start(query.bases(), q);
            order_.find_stop(size, collector_.rows_needed(), tables_);
            work_.unlike = order_.unlike();
            tracer_.start(tables_, order_);
            for (std::size_t rank = 0; rank < order_.size() && !order_.ends_at(rank, collector_.tau()); ++rank) {
                if (rank + 1 < order_.size()) fetch(order_.cell(rank + 1));
                visit(order_.cell(rank), order_.base(rank));
            }
            count_strays();
        }
        collector_.finish();
        const std::size_t n_crude = tables_.n_crude(), n_rest = tables_.n_columns() - n_crude + tables_.has_cross();
        work_.lookups = work_.cells + work_.scanned * n_crude + work_.survivors * n_rest;
    }

private:
    void count_strays() {
        if constexpr (Collector::kTauFalls)
            if (order_.near() < order_.size())
                for (const Hit& hit : collector_.kept())
                    work_.strays += order_.beyond_slack(order_.base_of(hit.cell), collector_.tau());
    }

    // What visit() of a cell reads first, asked for while the cell before it is scanned: the order of the cells is not
    // that of memory.
    void fetch(std::size_t cell) const {
        constexpr std::size_t line = 64, most = 4096;
        if (tables_.has_terms()) {
            const char* terms = reinterpret_cast<const char*>(books_.cells().terms(cell));
            for (std::size_t i = 0; i < books_.n_columns() * kWords * sizeof(std::int16_t); i += line)
                __builtin_prefetch(terms + i);
        }
        for (const SegmentView& view : segments_) {
            if (view.size(cell) == 0) continue;
            const std::size_t first = view.start(cell) / kBlock, last = (view.end(cell) - 1) / kBlock;
            const std::size_t n_bytes = (last + 1 - first) * kBlock * tables_.n_crude();
            for (std::size_t i = 0; i < std::min(n_bytes, most); i += line) __builtin_prefetch(view.block(first) + i);
        }
    }

    void visit(std::size_t cell, float base) {
        pace_.add(1);
        tables_.enter(cell, base);
        tables_.find_floors(rule_.stops()); // a rule without a stop skips most cells, one with a stop visits most
        update_limit();
        if (tracer_.watches(cell)) tracer_.cell_bound(tables_.crude_floor(), limit_, collector_.tau());
        if (tables_.crude_floor() > limit_) return;
        tables_.open(tables_.has_terms() ? order_.rows_in(cell) : 0);
        ++work_.cells;
        for (std::size_t s = 0; s < segments_.size(); ++s) scan(s);
    }

    // The largest crude distance that is still compared by the whole code (rule.h)
    void update_limit() {
        if (!collector_.full() || rule_.kind() == Rule::Kind::kEverything) {
            limit_ = kInfinity;
            return;
        }
        if constexpr (Collector::kTauFalls) {
            if (rule_.kind() == Rule::Kind::kPaper) {
                limit_ = collector_.last_crude() + rule_.sigma();
                return;
            }
        }
        const float tau = collector_.tau(), share = order_.share();
        if (share == 1.0f) limit_ = (tau - tables_.rest_floor()) + tables_.slack();
        else {
            const float crude_floor = tables_.crude_floor();
            const float room =
                tau - (crude_floor + tables_.rest_floor()); // negative: no row of the cell is near enough
            limit_ = (crude_floor + (room > 0 ? share * room : room)) + tables_.slack();
        }
    }

    void scan(std::size_t s) {
        const SegmentView& view = segments_[s];
        const std::size_t cell = tables_.cell();
        if (view.size(cell) == 0) return;
        const std::uint64_t end = view.end(cell);
        std::uint64_t position = view.start(cell);
        const std::size_t last = (end - 1) / kBlock;
        const bool watched = tracer_.watches(cell); // row by row, to see the limit of each
        std::uint64_t masks[kChunk];
        while (position < end) {
            update_limit();
            if (watched) tracer_.row(tables_, view, position, limit_, collector_.tau());
            if (tables_.crude_floor() > limit_) return;
            const std::size_t b = position / kBlock;
            std::size_t count = std::min(kChunk, last + 1 - b);
            if (watched) {
                count = 1;
                masks[0] = std::uint64_t{1} << (position % kBlock);
            } else if (limit_ == kInfinity || tables_.few_rows()) {
                // Until there are k rows the limit is about to fall: one block at a time.
                const bool falls = Collector::kTauFalls && rule_.kind() != Rule::Kind::kEverything;
                if (falls && !tables_.few_rows()) count = 1;
                std::fill(masks, masks + count, ~std::uint64_t{0});
            } else {
                const std::uint8_t threshold = tables_.quantize(limit_);
                kernel_.scan(view.block(b), tables_.n_crude(), view.fixed_block(b), tables_.bytes(view.fixed_step),
                             threshold, count, masks);
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

    // Whole distances of the rows in `masks` whose crude distance is within the limit. Returns the position to go on
    // from: the end of the chunk, or the row after the one that raised the limit (the paper's rule can), because the
    // rows after it were compared with a lower limit.
    std::uint64_t refine(std::size_t s, std::size_t first_block, std::size_t count, const std::uint64_t* masks) {
        const SegmentView& segment = segments_[s];
        const std::size_t n = crude_.run(tables_, segment, first_block, count, masks, limit_);
        const std::size_t n_columns = tables_.n_columns(), n_crude = tables_.n_crude(), n_rest = n_columns - n_crude;
        pace_.add(1 + n);
        const bool lazy = tables_.lazy_rest(n);
        const float* const entries = tables_.tables() + n_crude * kWords;
        for (std::size_t i = 0; i < n; ++i) __builtin_prefetch(segment.rest_codes(crude_.position(i)));
        const bool sums_codes = tables_.has_cross() && segment.sums == nullptr;
        if (sums_codes) gather_codes(segment, n);
        const float scanned_limit = limit_;
        float limit = limit_, worst = collector_.tau();
        for (std::size_t i = 0; i < n; ++i) {
            const float crude = crude_.distance(i);
            if (crude > limit) continue; // the limit has fallen since
            ++work_.survivors;
            const std::uint64_t position = crude_.position(i);
            const std::uint8_t* rest = segment.rest_codes(position);
            float distance = crude_.sum(i);
            for (std::size_t j = 0; j < n_rest; ++j)
                distance += lazy ? tables_.entry(n_crude + j, rest[j]) : entries[j * kWords + rest[j]];
            if (sums_codes) distance += tables_.cross_term(codes_.data() + i * n_columns);
            else if (tables_.has_cross()) distance += tables_.coarse_term(segment.sums[position]);
            distance = tables_.at_least_lowest(distance);
            if (distance > worst) continue;
            const float crude_floor = tables_.crude_floor(), floor = crude_floor + tables_.rest_floor();
            if (collector_.offer({distance, crude, crude_floor, floor, static_cast<std::uint32_t>(s),
                                  static_cast<std::uint32_t>(tables_.cell()), position}))
                update_limit();
            limit = limit_;
            worst = collector_.tau();
            if (limit > scanned_limit) return position + 1;
        }
        return (first_block + count) * kBlock;
    }

    // codes_ [n][n_columns] of the rows within the limit
    void gather_codes(const SegmentView& segment, std::size_t n) {
        const std::size_t n_columns = tables_.n_columns(), n_crude = tables_.n_crude();
        for (std::size_t i = 0; i < n; ++i) {
            const std::uint64_t position = crude_.position(i);
            const std::uint8_t* crude = segment.block(position / kBlock) + position % kBlock;
            const std::uint8_t* rest = segment.rest_codes(position);
            std::uint8_t* codes = codes_.data() + i * n_columns;
            for (std::size_t j = 0; j < n_crude; ++j) codes[j] = crude[j * kBlock];
            for (std::size_t j = n_crude; j < n_columns; ++j) codes[j] = rest[j - n_crude];
        }
    }

    const Books& books_;
    const std::vector<SegmentView>& segments_;
    const Kernels& kernel_;
    const Rule& rule_;
    Collector collector_;
    Tracer tracer_;
    CellOrder order_;
    CellTables tables_;
    CrudeStep crude_;
    std::vector<std::uint8_t> codes_; // for cross terms
    const bool flat_;                 // all segments have few rows: no cells, no crude step
    Pace pace_;
    SearchCounts work_;
    float limit_ = 0;
};

} // namespace interlace
