#include "search.h"

#include "scan/scanner.h"
#include "threads.h"

#include <algorithm>
#include <cmath>
#include <memory>

namespace interlace {
namespace {

QuerySize size_of(const Books& books, const Rule& rule, const float* query) {
    float square = 0;
    if (books.metric() == Metric::kInnerProduct) {
        for (std::size_t d = 0; d < books.dim(); ++d) square += query[d] * query[d];
        return {std::sqrt(square), kInfinity};
    }
    if (!(rule.inner() > 0)) return {1, kInfinity};
    for (std::size_t d = 0; d < books.dim(); ++d) {
        const float away = query[d] - books.mean()[d];
        square += away * away;
    }
    return {1, square};
}

// start(collector, q) before each query, done(scanner, q) after it
template <typename Collector, typename Start, typename Done>
void scan_all(const Books& books, const std::vector<SegmentView>& segments, const float* queries, std::size_t n,
              const Rule& rule, std::size_t threads, bool want_floors, const Collector& collector, const Start& start,
              const Done& done) {
    struct Worker {
        QueryTables tables;
        Scanner<Collector, NoTrace> scanner;
    };
    std::vector<std::unique_ptr<Worker>> workers(threads);
    constexpr std::size_t group = QueryTables::kGroup;
    const bool flat = scans_flat(segments, rule, want_floors);
    // Groups that a thread rotates together; few enough that every thread has some
    const std::size_t groups = (n + group - 1) / group;
    const std::size_t together = std::clamp<std::size_t>(groups / threads, 1, QueryTables::kRotated / group) * group;
    parallel_for((n + together - 1) / together, threads, [&](std::size_t task, std::size_t worker_index) {
        auto& worker = workers[worker_index];
        if (!worker)
            worker.reset(new Worker{QueryTables(books, rule, std::min(together, n), !flat),
                                    {books, segments, rule, want_floors, collector, NoTrace()}});
        const std::size_t first = task * together, last = std::min(first + together, n);
        worker->tables.rotate(queries + first * books.dim(), last - first);
        for (std::size_t q = first; q < last; ++q) {
            const std::size_t i = (q - first) % group;
            if (i == 0) worker->tables.compute(q - first, std::min(group, last - q));
            start(worker->scanner.collector(), q);
            worker->scanner.run(worker->tables, i, size_of(books, rule, queries + q * books.dim()));
            done(worker->scanner, q);
        }
    });
}

// A constant in place of cross terms may leave a squared distance below 0: such rows are ranked by what they have, and
// reported at 0.
float reported(const Books& books, float distance) {
    return books.metric() == Metric::kL2 && distance < 0 ? 0.0f : distance;
}

} // namespace

void search(const Books& books, const std::vector<SegmentView>& segments, const float* queries, std::size_t n,
            std::size_t k, const Rule& rule, std::size_t threads, const SearchOutput& out) {
    const bool want_floors = out.crude_excess != nullptr;
    const auto start = [](TopK& collector, std::size_t) { collector.start(); };
    const auto write = [&](const Scanner<TopK, NoTrace>& scanner, std::size_t q) {
        out.work[q] = scanner.work();
        const std::vector<Hit>& hits = scanner.collector().hits();
        const std::size_t found = hits.size();
        out.counts[q] = static_cast<std::int64_t>(found);
        constexpr std::size_t ahead = 8;
        for (std::size_t r = 0; r < std::min(ahead, found); ++r) fetch_row(segments, hits[r]);
        for (std::size_t r = 0; r < k; ++r) {
            const bool hit = r < found;
            if (r + ahead < found) fetch_row(segments, hits[r + ahead]);
            out.rows[q * k + r] = hit ? static_cast<std::int64_t>(row_of(segments, hits[r])) : -1;
            out.distances[q * k + r] = hit ? reported(books, hits[r].distance) : kInfinity;
            if (!want_floors) continue;
            out.crude_excess[q * k + r] = hit ? hits[r].crude - hits[r].crude_floor : 0;
            out.floors[q * k + r] = hit ? hits[r].floor : 0;
        }
    };
    scan_all(books, segments, queries, n, rule, threads, want_floors, TopK(segments, k), start, write);
}

void spans(const Books& books, const float* queries, std::size_t n, float* out) {
    std::fill_n(out, n, 0.0f);
    if (books.has_table_terms() || books.has_cross_sums()) return;
    constexpr std::size_t group = QueryTables::kGroup;
    const Rule rule = Rule::exact();
    QueryTables tables(books, rule, std::min(group, n));
    alignas(64) float group_minima[kGroups];
    std::vector<float> minima(books.n_columns());
    for (std::size_t first = 0; first < n; first += group) {
        checkpoint();
        const std::size_t count = std::min(group, n - first);
        tables.rotate(queries + first * books.dim(), count);
        tables.compute(0, count);
        for (std::size_t i = 0; i < count; ++i) {
            for (std::size_t j = 0; j < minima.size(); ++j)
                minima[j] = kernels().minima(tables.tables(i) + j * kWords, group_minima);
            out[first + i] = books.span(tables.tables(i), minima.data());
        }
    }
}

void range_search(const Books& books, const std::vector<SegmentView>& segments, const float* queries, std::size_t n,
                  const float* radii, const Rule& rule, std::size_t threads, RangeOutput& out) {
    std::vector<std::vector<Radius::Row>> found(n);
    const auto start = [&](Radius& collector, std::size_t q) { collector.start(radii[q]); };
    const auto keep = [&](const Scanner<Radius, NoTrace>& scanner, std::size_t q) {
        out.work[q] = scanner.work();
        found[q] = scanner.collector().rows();
        out.counts[q] = static_cast<std::int64_t>(found[q].size());
    };
    scan_all(books, segments, queries, n, rule, threads, false, Radius(segments), start, keep);
    std::size_t total = 0;
    for (const auto& of_query : found) total += of_query.size();
    out.rows.reserve(total);
    out.distances.reserve(total);
    for (auto& of_query : found) {
        for (const Radius::Row& hit : of_query) {
            out.rows.push_back(static_cast<std::int64_t>(hit.row));
            out.distances.push_back(reported(books, hit.distance));
        }
        std::vector<Radius::Row>().swap(of_query); // lowers the peak of memory
    }
}

void trace_row(const Books& books, const std::vector<SegmentView>& segments, const float* query, std::size_t k,
               const Rule& rule, Trace& trace) {
    QueryTables tables(books, rule, 1);
    tables.rotate(query, 1);
    tables.compute(0, 1);
    Scanner<TopK, RowTrace> scanner(books, segments, rule, true, TopK(segments, k), RowTrace(trace));
    scanner.collector().start();
    scanner.run(tables, 0, size_of(books, rule, query));
}

} // namespace interlace
