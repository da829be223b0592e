#include "../core/search.h"

#include "arrays.h"
#include "module.h"
#include "released.h"
#include "segments.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

namespace interlace {
namespace {

constexpr std::size_t kCounters = 6;
static_assert(sizeof(SearchCounts) == kCounters * sizeof(std::uint64_t)); // a row of `work`

void py_search(const Books& books, const Segments& segments, const Filters& filters, In<float, Two> queries,
               const Rule& rule, std::size_t threads, Out<std::int64_t, Two> rows, Out<float, Two> distances,
               Out<std::int64_t, One> counts, Out<std::uint64_t, Two> work, std::optional<Out<float, Three>> trace) {
    const std::size_t n = queries.shape(0), k = rows.shape(1);
    require(queries.shape(1) == books.dim() && k >= 1 && threads >= 1, "queries, k or threads do not fit");
    require(rows.shape(0) == n && distances.shape(0) == n && distances.shape(1) == k && counts.size() == n &&
                work.shape(0) == n && work.shape(1) == kCounters,
            "an output has the wrong shape");
    require(!trace || (trace->shape(0) == 2 && trace->shape(1) == n && trace->shape(2) == k),
            "trace must be [2, n, k]");
    Released released; // the first search of a segment may compute its fixed parts
    const std::vector<SegmentView> views = views_of(books, segments, filters, rule.is_exact() && !trace);
    std::vector<SearchCounts> counted(n);
    search(books, views, queries.data(), n, k, rule, threads,
           {rows.data(), distances.data(), counts.data(), counted.data(), trace ? trace->data() : nullptr,
            trace ? trace->data() + n * k : nullptr});
    std::memcpy(work.data(), counted.data(), n * sizeof(SearchCounts));
}

// A single query [1][dim] without filters; rows and distances [1][k]. Returns the number of hits, and the counters.
std::tuple<std::int64_t, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>
py_search_one(const Books& books, const Segments& segments, In<float, Two> query, const Rule& rule,
              Out<std::int64_t, Two> rows, Out<float, Two> distances) {
    const std::size_t k = rows.shape(1);
    require(query.shape(0) == 1 && query.shape(1) == books.dim() && k >= 1 && rows.shape(0) == 1 &&
                distances.shape(0) == 1 && distances.shape(1) == k,
            "query or outputs do not fit");
    std::int64_t found = 0;
    SearchCounts counted;
    {
        Released released;
        const std::vector<SegmentView> views = views_of(books, segments, {}, rule.is_exact());
        search(books, views, query.data(), 1, k, rule, 1,
               {rows.data(), distances.data(), &found, &counted, nullptr, nullptr});
    }
    return {found, counted.cells, counted.scanned, counted.survivors, counted.lookups, counted.strays, counted.unlike};
}

using RangeHits = std::pair<nb::ndarray<nb::numpy, std::int64_t, One>, nb::ndarray<nb::numpy, float, One>>;

RangeHits py_range_search(const Books& books, const Segments& segments, const Filters& filters, In<float, Two> queries,
                          In<float, One> radii, const Rule& rule, std::size_t threads, Out<std::int64_t, One> counts,
                          Out<std::uint64_t, Two> work) {
    const std::size_t n = queries.shape(0);
    require(queries.shape(1) == books.dim() && radii.size() == n && threads >= 1,
            "queries, radii or threads do not fit");
    require(counts.size() == n && work.shape(0) == n && work.shape(1) == kCounters, "an output has the wrong shape");
    require(rule.is_exact() || rule.kind() == Rule::Kind::kEverything, "rule must be exact() or everything()");
    std::vector<SearchCounts> counted(n);
    RangeOutput out{counts.data(), counted.data(), {}, {}};
    {
        Released released;
        const std::vector<SegmentView> views = views_of(books, segments, filters, rule.is_exact());
        range_search(books, views, queries.data(), n, radii.data(), rule, threads, out);
    }
    std::memcpy(work.data(), counted.data(), n * sizeof(SearchCounts));
    return {as_array(std::move(out.rows)), as_array(std::move(out.distances))};
}

Trace py_trace(const Books& books, const Segments& segments, const Filters& filters, In<float, One> query,
               const Rule& rule, std::size_t k, std::uint64_t row) {
    require(query.size() == books.dim() && k >= 1, "query or k do not fit");
    Released released;
    const std::vector<SegmentView> views = views_of(books, segments, filters);
    for (std::size_t s = 0; s < segments.size(); ++s) {
        const Segment& segment = segments[s]->segment;
        if (row < views[s].first_row || row - views[s].first_row >= segment.shape().n_rows) continue;
        const std::uint64_t inside = row - views[s].first_row;
        Trace trace;
        trace.row = row;
        const std::size_t cell_bytes = cell_bytes_for(books.n_cells()), n_columns = segment.shape().n_columns();
        trace.codes.resize(cell_bytes + n_columns);
        const CodeRowsOut out(trace.codes.data(), 1, n_columns, cell_bytes);
        segment.codes_of({&inside, 1}, out);
        trace.cell = CodeRows(trace.codes.data(), 1, n_columns, cell_bytes).cell(0);
        trace.codes.erase(trace.codes.begin(), trace.codes.begin() + static_cast<std::ptrdiff_t>(cell_bytes));
        if (views[s].fixed != nullptr)
            trace.coarse =
                views[s].fixed_step * FixedParts::byte_of(books.cross_sum(trace.cell, trace.codes.data()),
                                                          views[s].cross_floors[trace.cell], views[s].fixed_step);
        trace_row(books, views, query.data(), k, rule, trace);
        return trace;
    }
    throw std::invalid_argument("row out of range");
}

} // namespace

void bind_search(nb::module_& m) {
    m.def("search", &py_search, "books"_a, "segments"_a, "filters"_a, "queries"_a.noconvert(), "rule"_a, "threads"_a,
          "rows"_a.noconvert(), "distances"_a.noconvert(), "counts"_a.noconvert(), "work"_a.noconvert(),
          "trace"_a.noconvert().none());
    m.def("search_one", &py_search_one, "books"_a, "segments"_a, "query"_a.noconvert(), "rule"_a, "rows"_a.noconvert(),
          "distances"_a.noconvert());
    m.def("range_search", &py_range_search, "books"_a, "segments"_a, "filters"_a, "queries"_a.noconvert(),
          "radii"_a.noconvert(), "rule"_a, "threads"_a, "counts"_a.noconvert(), "work"_a.noconvert());
    m.def(
        "spans", // float32 [n]: what an average row adds to the smallest table entries; 0 where cells change the tables
        [](const Books& books, In<float, Two> queries, Out<float, One> out) {
            require(queries.shape(1) == books.dim() && out.size() == queries.shape(0), "shapes do not fit");
            Released released;
            spans(books, queries.data(), queries.shape(0), out.data());
        },
        "books"_a, "queries"_a.noconvert(), "out"_a.noconvert());
    nb::class_<Trace>(m, "Trace")
        .def_prop_ro("step",
                     [](const Trace& self) {
                         constexpr const char* names[] = {"far cell", "cell bound", "crude", "compared"};
                         return std::string(names[self.step]);
                     })
        .def_ro("cell", &Trace::cell)
        .def_ro("cell_rank", &Trace::cell_rank)
        .def_ro("n_cells", &Trace::n_cells)
        .def_ro("value", &Trace::value)
        .def_ro("bound", &Trace::bound)
        .def_ro("base", &Trace::base)
        .def_ro("crude", &Trace::crude)
        .def_ro("distance", &Trace::distance)
        .def_ro("crude_floor", &Trace::crude_floor)
        .def_ro("floor", &Trace::floor)
        .def_ro("tau", &Trace::tau);
    m.def("trace", &py_trace, "books"_a, "segments"_a, "filters"_a, "query"_a.noconvert(), "rule"_a, "k"_a, "row"_a);
}

} // namespace interlace
