// The only file that knows Python: takes arrays as they are (no silent conversion), checks shapes, releases the GIL.
#include "core/damaged.h"
#include "core/encode.h"
#include "core/filter.h"
#include "core/packed_ids.h"
#include "core/ranking.h"
#include "core/refit.h"
#include "core/rule.h"
#include "core/search.h"
#include "core/threads.h"
#include "simd/kernels.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <unistd.h>
#include <utility>

namespace nb = nanobind;
using namespace nb::literals;

namespace interlace {
namespace {

template <typename T, typename Shape> using In = nb::ndarray<nb::numpy, const T, Shape, nb::c_contig, nb::device::cpu>;
template <typename T, typename Shape> using Out = nb::ndarray<nb::numpy, T, Shape, nb::c_contig, nb::device::cpu>;
using One = nb::ndim<1>;
using Two = nb::ndim<2>;
using Three = nb::ndim<3>;

void require(bool condition, const char* what) {
    if (!condition) throw std::invalid_argument(what);
}

// Takes the GIL back. Where the interpreter is shutting down, versions before 3.14 end the thread by pthread_exit,
// which unwinds the stack: through destructors that must not throw (std::terminate) and catch blocks that swallow it
// (abort). It is stopped here instead, and the thread sleeps until the process ends, which is what later versions do.
void take_gil(PyThreadState* state) {
    try {
        PyEval_RestoreThread(state);
    } catch (...) {
        for (;;) pause();
    }
}

// Python runs handlers of signals on its main thread only.
bool on_main_thread() {
    const nb::object main = nb::module_::import_("threading").attr("main_thread")();
    return nb::cast<unsigned long>(main.attr("ident")) == PyThread_get_thread_ident();
}

// While it exists other threads of Python run, and native code asks now and then whether a handler of a signal raised
// an exception (Ctrl-C): then the call ends with Interrupted, and that exception is set.
class Released {
public:
    Released() : state_(PyEval_SaveThread()), call_([this] { return ask(); }) {}
    ~Released() { take_gil(state_); }

private:
    Call::Answer ask() {
        take_gil(state_);
        Call::Answer answer = Call::kAskNoMore;
        try {
            if (PyErr_CheckSignals() != 0) answer = Call::kStop;
            else if (on_main_thread()) answer = Call::kGoOn;
        } catch (nb::python_error& error) { // the interpreter is about to end
            error.discard_as_unraisable("interlace");
        }
        state_ = PyEval_SaveThread();
        return answer;
    }

    PyThreadState* state_;
    const Call call_;
};

template <typename T, typename A> std::span<const T> view(const A& array) { return {array.data(), array.size()}; }

std::unique_ptr<Books> make_books(std::size_t dim, int metric, In<float, One> mean,
                                  std::optional<In<float, Two>> rotation, const std::vector<In<float, Two>>& words,
                                  const std::vector<In<std::uint32_t, One>>& supports,
                                  const std::vector<In<float, One>>& norm_values,
                                  const std::vector<In<std::uint32_t, One>>& norm_covers,
                                  const std::vector<In<std::uint32_t, One>>& ignored, float constant,
                                  const std::vector<int>& columns, std::size_t n_crude) {
    require(mean.size() == dim, "mean must have dim entries");
    require(!rotation || (rotation->shape(0) == dim && rotation->shape(1) == dim), "rotation must be dim x dim");
    require(!words.empty() && words.size() == supports.size() && norm_values.size() == norm_covers.size(),
            "one support per book, one cover per norm");
    require(n_crude <= columns.size(), "n_crude exceeds the columns");
    BooksSpec spec{
        dim, static_cast<Metric>(metric), {mean.data(), mean.data() + dim}, {}, {}, {}, columns, n_crude, {}, constant};
    for (const auto& covers : ignored) spec.ignored.emplace_back(covers.data(), covers.data() + covers.size());
    if (rotation) spec.rotation.assign(rotation->data(), rotation->data() + dim * dim);
    for (std::size_t b = 0; b < words.size(); ++b) {
        const std::size_t n_words = words[b].shape(0), width = words[b].shape(1);
        require(n_words >= 1 && n_words <= kWords && width == supports[b].size(),
                "a book needs 1..256 words of its support's width");
        Book book{{supports[b].data(), supports[b].data() + width}, n_words, Aligned<float>(width * kWords, 0.0f), {}};
        for (std::size_t d = 0; d < width; ++d) {
            require(book.support[d] < dim, "support out of range");
            for (std::size_t w = 0; w < n_words; ++w)
                book.words[word_place(width, d, w)] = words[b].data()[w * width + d];
        }
        spec.books.push_back(std::move(book));
    }
    for (std::size_t i = 0; i < norm_values.size(); ++i) {
        require(norm_values[i].size() >= 1 && norm_values[i].size() <= kWords, "a norm column needs 1..256 values");
        Norm norm{std::vector<float>(kWords, std::numeric_limits<float>::infinity()),
                  {norm_covers[i].data(), norm_covers[i].data() + norm_covers[i].size()}};
        std::copy(norm_values[i].data(), norm_values[i].data() + norm_values[i].size(), norm.values.begin());
        for (std::uint32_t book : norm.covers)
            require(book < words.size(), "a norm column covers a book that is not there");
        spec.norms.push_back(std::move(norm));
    }
    for (int column : columns)
        require(column < 0 ? static_cast<std::size_t>(-1 - column) < norm_values.size()
                           : static_cast<std::size_t>(column) < words.size() && column > 0,
                "a column names a book or norm that is not there");
    Released released;
    return std::make_unique<Books>(std::move(spec));
}

// A segment and the arrays it points into.
struct PySegment {
    In<std::uint64_t, One> cell_starts;
    In<std::uint8_t, Three> crude;
    In<std::uint8_t, Two> rest;
    In<std::uint64_t, One> low, high;
    In<std::uint32_t, One> samples;
    std::optional<In<std::int32_t, One>> cross_floors;
    Segment segment;
};

std::unique_ptr<PySegment> make_segment(In<std::uint64_t, One> cell_starts, In<std::uint8_t, Three> crude,
                                        In<std::uint8_t, Two> rest, In<std::uint64_t, One> low,
                                        In<std::uint64_t, One> high, In<std::uint32_t, One> samples,
                                        std::optional<In<std::int32_t, One>> cross_floors) {
    require(cell_starts.size() >= 2 && cell_starts.data()[0] == 0, "cell_starts must begin with 0");
    for (std::size_t c = 0; c + 1 < cell_starts.size(); ++c)
        require(cell_starts.data()[c] <= cell_starts.data()[c + 1], "cell_starts must ascend");
    const std::size_t n = rest.shape(0);
    require(cell_starts.data()[cell_starts.size() - 1] == n, "cell_starts must end with the number of rows");
    require(crude.shape(0) == (n + kBlock - 1) / kBlock && crude.shape(2) == kBlock,
            "crude must be [ceil(n / 64), n_crude, 64]");
    const RowNumbers::Sizes sizes = RowNumbers::sizes(view<std::uint64_t>(cell_starts));
    require(low.size() == sizes.low && high.size() == sizes.high && samples.size() == sizes.samples,
            "row number arrays have the wrong size");
    require(!cross_floors || cross_floors->size() == cell_starts.size() - 1,
            "cross_floors must have one entry per cell");
    const SegmentShape shape{n, cell_starts.size() - 1, crude.shape(1), rest.shape(1)};
    return std::unique_ptr<PySegment>(
        new PySegment{cell_starts, crude, rest, low, high, samples, cross_floors,
                      Segment(shape, view<std::uint64_t>(cell_starts), crude.data(), rest.data(), low.data(),
                              high.data(), samples.data(), cross_floors ? cross_floors->data() : nullptr)});
}

SegmentShape shape_of(const In<std::uint8_t, Two>& codes, std::size_t n_cells, std::size_t n_crude) {
    require(codes.shape(1) >= 1 + n_crude, "codes must have the cell's column and the crude ones");
    require(n_cells >= 1 && n_cells <= kWords, "1..256 cells");
    return {codes.shape(0), n_cells, n_crude, codes.shape(1) - 1 - n_crude};
}

void bind_segment(nb::module_& m) {
    nb::class_<PySegment>(m, "Segment")
        .def(nb::new_(&make_segment), "cell_starts"_a.noconvert(), "crude"_a.noconvert(), "rest"_a.noconvert(),
             "low"_a.noconvert(), "high"_a.noconvert(), "samples"_a.noconvert(), "cross_floors"_a.noconvert().none())
        .def(
            "unpack",
            [](const PySegment& self, Out<std::uint8_t, Two> codes) {
                require(codes.shape(0) == self.segment.shape().n_rows &&
                            codes.shape(1) == 1 + self.segment.shape().n_columns(),
                        "codes has the wrong shape");
                Released released;
                self.segment.unpack(codes.data());
            },
            "codes"_a.noconvert())
        .def(
            "codes_of",
            [](const PySegment& self, In<std::uint64_t, One> rows, Out<std::uint8_t, Two> codes) {
                require(codes.shape(0) == rows.size() && codes.shape(1) == 1 + self.segment.shape().n_columns(),
                        "codes has the wrong shape");
                for (std::size_t i = 0; i < rows.size(); ++i)
                    require(rows.data()[i] < self.segment.shape().n_rows, "row out of range");
                Released released;
                self.segment.codes_of(view<std::uint64_t>(rows), codes.data());
            },
            "rows"_a.noconvert(), "codes"_a.noconvert());

    m.def(
        "count_cells",
        [](In<std::uint8_t, Two> codes, std::size_t n_crude, Out<std::uint64_t, One> cell_starts) {
            const SegmentShape shape = shape_of(codes, cell_starts.size() - 1, n_crude);
            Released released;
            for (std::size_t i = 0; i < shape.n_rows; ++i)
                require(codes.data()[i * codes.shape(1)] < shape.n_cells, "a row names a cell that is not there");
            count_cells(codes.data(), shape, cell_starts.data());
            const RowNumbers::Sizes sizes = RowNumbers::sizes(view<std::uint64_t>(cell_starts));
            return std::vector<std::size_t>{sizes.low, sizes.high, sizes.samples};
        },
        "codes"_a.noconvert(), "n_crude"_a, "cell_starts"_a.noconvert());
    m.def(
        "pack",
        [](In<std::uint8_t, Two> codes, In<std::uint64_t, One> cell_starts, Out<std::uint8_t, Three> crude,
           Out<std::uint8_t, Two> rest, Out<std::uint64_t, One> low, Out<std::uint64_t, One> high,
           Out<std::uint32_t, One> samples) {
            const SegmentShape shape = shape_of(codes, cell_starts.size() - 1, crude.shape(1));
            const RowNumbers::Sizes sizes = RowNumbers::sizes(view<std::uint64_t>(cell_starts));
            require(rest.shape(0) == shape.n_rows && rest.shape(1) == shape.n_rest &&
                        crude.shape(0) * kBlock >= shape.n_rows && crude.shape(2) == kBlock &&
                        low.size() == sizes.low && high.size() == sizes.high && samples.size() == sizes.samples,
                    "an output has the wrong shape");
            Released released;
            pack(codes.data(), shape, view<std::uint64_t>(cell_starts), crude.data(), rest.data(), low.data(),
                 high.data(), samples.data());
        },
        "codes"_a.noconvert(), "cell_starts"_a.noconvert(), "crude"_a.noconvert(), "rest"_a.noconvert(),
        "low"_a.noconvert(), "high"_a.noconvert(), "samples"_a.noconvert());
}

// A filter and the segment it is for, which it points into.
struct PyFilter {
    nb::object segment;
    Filter filter;
};

void require_fit(const Books& books, const Segment& segment) {
    const SegmentShape& shape = segment.shape();
    require(shape.n_cells == books.n_cells() && shape.n_crude == books.n_crude() &&
                shape.n_columns() == books.n_columns() &&
                (!books.has_cross_sums() || segment.cross_floors() != nullptr),
            "a segment does not fit the books");
}

std::unique_ptr<PyFilter> make_filter(const Books& books, nb::handle_t<PySegment> segment,
                                      In<std::uint8_t, One> allowed) {
    const Segment& rows = nb::cast<const PySegment&>(segment).segment;
    require_fit(books, rows);
    require(allowed.size() == rows.shape().n_rows, "a filter must have one entry per row");
    std::unique_ptr<PyFilter> made;
    {
        Released released;
        made.reset(new PyFilter{nb::object(), Filter(books, rows, allowed.data())});
    }
    made->segment = nb::borrow(segment);
    return made;
}

using Segments = std::vector<const PySegment*>;
using Filters = std::vector<const PyFilter*>; // one for each segment, or none at all

std::vector<SegmentView> views_of(const Books& books, const Segments& segments, const Filters& filters) {
    require(filters.empty() || filters.size() == segments.size(), "one filter for each segment, or none");
    std::vector<SegmentView> views;
    std::uint64_t first_row = 0;
    for (std::size_t s = 0; s < segments.size(); ++s) {
        const Segment& segment = segments[s]->segment;
        require_fit(books, segment);
        require(filters.empty() || &filters[s]->filter.segment() == &segment, "a filter is for another segment");
        views.push_back(filters.empty() ? segment.view(first_row) : filters[s]->filter.view(first_row));
        first_row += segment.shape().n_rows;
    }
    return views;
}

static_assert(sizeof(SearchCounts) == 4 * sizeof(std::uint64_t)); // a row of `work`

void py_search(const Books& books, const Segments& segments, const Filters& filters, In<float, Two> queries,
               const Rule& rule, std::size_t threads, Out<std::int64_t, Two> rows, Out<float, Two> distances,
               Out<std::int64_t, One> counts, Out<std::uint64_t, Two> work, std::optional<Out<float, Three>> trace) {
    const std::size_t n = queries.shape(0), k = rows.shape(1);
    require(queries.shape(1) == books.dim() && k >= 1 && threads >= 1, "queries, k or threads do not fit");
    require(rows.shape(0) == n && distances.shape(0) == n && distances.shape(1) == k && counts.size() == n &&
                work.shape(0) == n && work.shape(1) == 4,
            "an output has the wrong shape");
    require(!trace || (trace->shape(0) == 2 && trace->shape(1) == n && trace->shape(2) == k),
            "trace must be [2, n, k]");
    const std::vector<SegmentView> views = views_of(books, segments, filters);
    Released released;
    std::vector<SearchCounts> counted(n);
    search(books, views, queries.data(), n, k, rule, threads,
           {rows.data(), distances.data(), counts.data(), counted.data(), trace ? trace->data() : nullptr,
            trace ? trace->data() + n * k : nullptr});
    std::memcpy(work.data(), counted.data(), n * sizeof(SearchCounts));
}

// An array that owns its memory
template <typename T> nb::ndarray<nb::numpy, T, One> as_array(std::vector<T>&& values) {
    auto* kept = new std::vector<T>(std::move(values));
    kept->reserve(1); // an address also where there is nothing
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::ndarray<nb::numpy, T, One>(kept->data(), {kept->size()}, owner);
}

using RangeHits = std::pair<nb::ndarray<nb::numpy, std::int64_t, One>, nb::ndarray<nb::numpy, float, One>>;

RangeHits py_range_search(const Books& books, const Segments& segments, const Filters& filters, In<float, Two> queries,
                          In<float, One> radii, const Rule& rule, std::size_t threads, Out<std::int64_t, One> counts,
                          Out<std::uint64_t, Two> work) {
    const std::size_t n = queries.shape(0);
    require(queries.shape(1) == books.dim() && radii.size() == n && threads >= 1,
            "queries, radii or threads do not fit");
    require(counts.size() == n && work.shape(0) == n && work.shape(1) == 4, "an output has the wrong shape");
    require(rule.is_exact() || rule.kind() == Rule::Kind::kEverything, "rule must be exact() or everything()");
    const std::vector<SegmentView> views = views_of(books, segments, filters);
    std::vector<SearchCounts> counted(n);
    RangeOutput out{counts.data(), counted.data(), {}, {}};
    {
        Released released;
        range_search(books, views, queries.data(), n, radii.data(), rule, threads, out);
    }
    std::memcpy(work.data(), counted.data(), n * sizeof(SearchCounts));
    return {as_array(std::move(out.rows)), as_array(std::move(out.distances))};
}

Trace py_trace(const Books& books, const Segments& segments, const Filters& filters, In<float, One> query,
               const Rule& rule, std::size_t k, std::uint64_t row) {
    require(query.size() == books.dim() && k >= 1, "query or k do not fit");
    const std::vector<SegmentView> views = views_of(books, segments, filters);
    Released released;
    for (std::size_t s = 0; s < segments.size(); ++s) {
        const Segment& segment = segments[s]->segment;
        if (row < views[s].first_row || row - views[s].first_row >= segment.shape().n_rows) continue;
        const std::uint64_t inside = row - views[s].first_row;
        std::vector<std::uint8_t> codes(1 + segment.shape().n_columns());
        segment.codes_of({&inside, 1}, codes.data());
        Trace trace;
        trace.row = row;
        trace.cell = codes[0];
        trace.codes.assign(codes.begin() + 1, codes.end());
        trace_row(books, views, query.data(), k, rule, trace);
        return trace;
    }
    throw std::invalid_argument("row out of range");
}

void bind_rule(nb::module_& m) {
    nb::class_<Rule>(m, "Rule")
        .def_static("exact", [] { return std::unique_ptr<Rule>(new Rule(Rule::exact())); })
        .def_static(
            "with_share", [](float share) { return std::unique_ptr<Rule>(new Rule(Rule::with_share(share))); },
            nb::kw_only(), "share"_a)
        .def_static(
            "paper", [](float sigma) { return std::unique_ptr<Rule>(new Rule(Rule::paper(sigma))); }, nb::kw_only(),
            "sigma"_a)
        .def_static("everything", [] { return std::unique_ptr<Rule>(new Rule(Rule::everything())); })
        .def_static(
            "calibrated",
            [](float share, double weight, double stop, float slack, float least, float reach) {
                return std::unique_ptr<Rule>(new Rule(Rule::calibrated(share, weight, stop, slack, least, reach)));
            },
            nb::kw_only(), "share"_a, "weight"_a, "stop"_a, "slack"_a, "least"_a, "reach"_a)
        .def_prop_ro("kind",
                     [](const Rule& self) {
                         constexpr const char* names[] = {"share", "paper", "everything"};
                         return std::string(names[static_cast<int>(self.kind())]);
                     })
        .def_prop_ro("is_exact", &Rule::is_exact)
        .def_prop_ro("stops", &Rule::stops)
        .def_prop_ro("share", &Rule::share)
        .def_prop_ro("sigma", &Rule::sigma)
        .def_prop_ro("weight", &Rule::weight)
        .def_prop_ro("stop", &Rule::stop)
        .def_prop_ro("slack", &Rule::slack)
        .def_prop_ro("least", &Rule::least)
        .def_prop_ro("reach", &Rule::reach)
        .def(
            "spread",
            [](const Rule& self, std::size_t n_cells) {
                require(n_cells >= 1 && n_cells <= std::numeric_limits<std::uint32_t>::max(), "n_cells out of range");
                const std::span<const float> gaps = self.spread(n_cells);
                return as_array(std::vector<float>(gaps.begin(), gaps.begin() + static_cast<std::ptrdiff_t>(n_cells)));
            },
            "n_cells"_a)
        .def("__repr__", &Rule::repr);
    m.attr("FARTHEST_GAP") = kFarthestGap;
}

void bind_search(nb::module_& m) {
    nb::class_<PyFilter>(m, "Filter")
        .def(nb::new_(&make_filter), "books"_a, "segment"_a, "allowed"_a.noconvert())
        .def_prop_ro("n_allowed", [](const PyFilter& self) { return self.filter.n_allowed(); })
        .def_prop_ro("copied", [](const PyFilter& self) { return self.filter.copied(); });
    m.def("search", &py_search, "books"_a, "segments"_a, "filters"_a, "queries"_a.noconvert(), "rule"_a, "threads"_a,
          "rows"_a.noconvert(), "distances"_a.noconvert(), "counts"_a.noconvert(), "work"_a.noconvert(),
          "trace"_a.noconvert().none());
    m.def("range_search", &py_range_search, "books"_a, "segments"_a, "filters"_a, "queries"_a.noconvert(),
          "radii"_a.noconvert(), "rule"_a, "threads"_a, "counts"_a.noconvert(), "work"_a.noconvert());
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

void bind_learning(nb::module_& m) {
    m.def(
        "encode",
        [](const Books& books, In<float, Two> x, std::size_t beam, std::size_t sweeps, std::size_t threads,
           Out<std::uint8_t, Two> codes) {
            require(x.shape(1) == books.dim() && codes.shape(0) == x.shape(0) &&
                        codes.shape(1) == 1 + books.n_columns() && beam >= 1 && threads >= 1,
                    "x or codes has the wrong shape");
            Released released;
            encode(books, x.data(), x.shape(0), beam, sweeps, threads, codes.data());
        },
        "books"_a, "x"_a.noconvert(), "beam"_a, "sweeps"_a, "threads"_a, "codes"_a.noconvert());
    m.def(
        "cross_floors",
        [](const Books& books, In<std::uint8_t, Two> codes, std::size_t threads, Out<std::int32_t, One> floors) {
            require(codes.shape(1) == 1 + books.n_columns() && floors.size() == books.n_cells() && threads >= 1,
                    "codes or floors has the wrong shape");
            Released released;
            cross_floors(books, codes.data(), codes.shape(0), threads, floors.data());
        },
        "books"_a, "codes"_a.noconvert(), "threads"_a, "floors"_a.noconvert());
    m.def(
        "nearest",
        [](In<float, Two> x, In<float, Two> words, std::size_t threads, Out<std::int32_t, One> index,
           Out<float, One> score) {
            require(x.shape(1) == words.shape(1) && words.shape(0) >= 1 && words.shape(0) <= kWords &&
                        index.size() == x.shape(0) && score.size() == x.shape(0) && threads >= 1,
                    "x, words or outputs have the wrong shape");
            Released released;
            nearest(x.data(), x.shape(0), x.shape(1), words.data(), words.shape(0), threads, index.data(),
                    score.data());
        },
        "x"_a.noconvert(), "words"_a.noconvert(), "threads"_a, "index"_a.noconvert(), "score"_a.noconvert());
    m.def(
        "cluster_sums",
        [](In<float, Two> x, In<std::int32_t, One> labels, std::size_t threads, Out<double, Two> sums,
           Out<std::int64_t, One> counts) {
            require(labels.size() == x.shape(0) && sums.shape(1) == x.shape(1) && counts.size() == sums.shape(0) &&
                        threads >= 1,
                    "labels or sums have the wrong shape");
            for (std::size_t i = 0; i < labels.size(); ++i)
                require(labels.data()[i] >= 0 && static_cast<std::size_t>(labels.data()[i]) < counts.size(),
                        "a label is out of range");
            Released released;
            cluster_sums(x.data(), x.shape(0), x.shape(1), labels.data(), sums.shape(0), threads, sums.data(),
                         counts.data());
        },
        "x"_a.noconvert(), "labels"_a.noconvert(), "threads"_a, "sums"_a.noconvert(), "counts"_a.noconvert());
    m.def(
        "refit_words",
        [](In<float, Two> y, In<std::uint8_t, Two> codes, In<std::uint32_t, One> starts, double ridge, double tolerance,
           std::size_t rounds, std::size_t threads, Out<float, Two> words) {
            const std::size_t n_books = codes.shape(1);
            require(codes.shape(0) == y.shape(0) && starts.size() == n_books + 1 && words.shape(1) == y.shape(1) &&
                        starts.data()[0] == 0 && starts.data()[n_books] == words.shape(0) && ridge > 0 && threads >= 1,
                    "codes, starts or words have the wrong shape");
            for (std::size_t j = 0; j < n_books; ++j)
                require(starts.data()[j] <= starts.data()[j + 1], "starts must ascend");
            for (std::size_t i = 0; i < codes.shape(0); ++i)
                for (std::size_t j = 0; j < n_books; ++j)
                    require(codes.data()[i * n_books + j] < starts.data()[j + 1] - starts.data()[j],
                            "a code is out of range");
            Released released;
            return refit_words(y.data(), y.shape(0), y.shape(1), codes.data(), starts.data(), n_books, ridge, tolerance,
                               rounds, threads, words.data());
        },
        "y"_a.noconvert(), "codes"_a.noconvert(), "starts"_a.noconvert(), "ridge"_a, "tolerance"_a, "rounds"_a,
        "threads"_a, "words"_a.noconvert());
    // FNV-1a over the UTF-8 bytes of each string, spread by a final mix. Part of the file format: never change it.
    m.def(
        "hash_strings",
        [](In<std::uint8_t, One> bytes, In<std::uint64_t, One> offsets, Out<std::uint64_t, One> hashes) {
            require(offsets.size() == hashes.size() + 1 && offsets.data()[hashes.size()] <= bytes.size(),
                    "offsets do not fit");
            Released released;
            for (std::size_t i = 0; i < hashes.size(); ++i) {
                if (i % 4096 == 0) checkpoint();
                require(offsets.data()[i] <= offsets.data()[i + 1], "offsets must ascend");
                std::uint64_t h = 0xcbf29ce484222325u;
                for (std::uint64_t b = offsets.data()[i]; b < offsets.data()[i + 1]; ++b)
                    h = (h ^ bytes.data()[b]) * 0x100000001b3u;
                h = (h ^ (h >> 32)) * 0x9e3779b97f4a7c15u;
                hashes.data()[i] = h ^ (h >> 29);
            }
        },
        "bytes"_a.noconvert(), "offsets"_a.noconvert(), "hashes"_a.noconvert());
}

void bind_ids(nb::module_& m) {
    m.def(
        "plan_ids", // the number of words that pack_ids fills
        [](In<std::int64_t, One> values, Out<std::int64_t, One> bases, Out<std::uint32_t, One> starts) {
            const std::size_t blocks = (values.size() + PackedIds::kBlock - 1) / PackedIds::kBlock;
            require(bases.size() == blocks && starts.size() == blocks + 1, "bases or starts do not fit");
            Released released;
            return PackedIds::plan(view<std::int64_t>(values), bases.data(), starts.data());
        },
        "values"_a.noconvert(), "bases"_a.noconvert(), "starts"_a.noconvert());
    m.def(
        "pack_ids", // what plan_ids filled for the same values
        [](In<std::int64_t, One> values, In<std::int64_t, One> bases, In<std::uint32_t, One> starts,
           Out<std::uint64_t, One> words) {
            const std::size_t blocks = (values.size() + PackedIds::kBlock - 1) / PackedIds::kBlock;
            require(bases.size() == blocks && starts.size() == blocks + 1, "bases or starts do not fit");
            for (std::size_t b = 0; b < blocks; ++b)
                require(starts.data()[b] <= starts.data()[b + 1] && starts.data()[b + 1] - starts.data()[b] <= 64,
                        "starts do not ascend");
            require(starts.data()[blocks] == words.size(), "words do not fit");
            Released released;
            PackedIds::encode(view<std::int64_t>(values), bases.data(), starts.data(), words.data());
        },
        "values"_a.noconvert(), "bases"_a.noconvert(), "starts"_a.noconvert(), "words"_a.noconvert());
    const auto packed = [](std::size_t n, const In<std::int64_t, One>& bases, const In<std::uint32_t, One>& starts,
                           const In<std::uint64_t, One>& words) {
        const std::size_t blocks = n / PackedIds::kBlock + (n % PackedIds::kBlock != 0);
        require(bases.size() == blocks && starts.size() == blocks + 1, "bases or starts do not fit");
        return PackedIds{n, view<std::int64_t>(bases), view<std::uint32_t>(starts), view<std::uint64_t>(words)};
    };
    m.def(
        "take_ids", // false: the arrays are damaged
        [packed](std::size_t n, In<std::int64_t, One> bases, In<std::uint32_t, One> starts,
                 In<std::uint64_t, One> words, In<std::int64_t, One> rows, Out<std::int64_t, One> ids) {
            const PackedIds stored = packed(n, bases, starts, words);
            require(rows.size() == ids.size(), "one id for each row");
            Released released;
            return stored.take(view<std::int64_t>(rows), ids.data());
        },
        "n"_a, "bases"_a.noconvert(), "starts"_a.noconvert(), "words"_a.noconvert(), "rows"_a.noconvert(),
        "ids"_a.noconvert());
    m.def(
        "find_ids", // false: the arrays are damaged; without order ids ascend with the rows
        [packed](std::size_t n, In<std::int64_t, One> bases, In<std::uint32_t, One> starts,
                 In<std::uint64_t, One> words, std::optional<In<std::uint32_t, One>> order, In<std::int64_t, One> ids,
                 Out<std::int64_t, One> rows) {
            const PackedIds stored = packed(n, bases, starts, words);
            require((!order || order->size() == n) && rows.size() == ids.size(), "one row for each id");
            const auto sorted = order ? view<std::uint32_t>(*order) : std::span<const std::uint32_t>{};
            Released released;
            return stored.find(view<std::int64_t>(ids), sorted, rows.data());
        },
        "n"_a, "bases"_a.noconvert(), "starts"_a.noconvert(), "words"_a.noconvert(), "order"_a.noconvert().none(),
        "ids"_a.noconvert(), "rows"_a.noconvert());
}

void bind_ranking(nb::module_& m) {
    m.def(
        "squared_distances", // of the rows from ``first`` on, as many as products has columns
        [](In<double, Two> products, In<double, One> query_squares, In<double, One> row_squares, std::size_t first,
           Out<float, Two> distances) {
            require(query_squares.size() == products.shape(0) && row_squares.size() == products.shape(1) &&
                        distances.shape(0) == products.shape(0) && first <= distances.shape(1) &&
                        products.shape(1) <= distances.shape(1) - first,
                    "products, squares or distances do not fit");
            Released released;
            squared_distances(products.data(), products.shape(0), products.shape(1), query_squares.data(),
                              row_squares.data(), distances.shape(1), distances.data() + first);
        },
        "products"_a.noconvert(), "query_squares"_a.noconvert(), "row_squares"_a.noconvert(), "first"_a,
        "distances"_a.noconvert());
    m.def(
        "precision_sums",
        [](In<float, Two> distances, In<std::int32_t, One> wanted, In<std::int32_t, One> labels,
           In<std::int64_t, One> lengths, Out<double, Two> sums, Out<std::int64_t, Two> found) {
            const std::size_t n_queries = distances.shape(0), n_rows = distances.shape(1);
            require(wanted.size() == n_queries && labels.size() == n_rows && sums.shape(0) == lengths.size() &&
                        sums.shape(1) == n_queries && found.shape(0) == lengths.size() && found.shape(1) == n_queries,
                    "distances, labels, lengths or outputs do not fit");
            std::int64_t least = 0;
            for (std::size_t i = 0; i < lengths.size(); ++i) {
                require(lengths.data()[i] >= least && static_cast<std::uint64_t>(lengths.data()[i]) <= n_rows,
                        "lengths must ascend to the number of rows at most");
                least = lengths.data()[i];
            }
            Released released;
            precision_sums(distances.data(), n_queries, n_rows, wanted.data(), labels.data(),
                           view<std::int64_t>(lengths), sums.data(), found.data());
        },
        "distances"_a.noconvert(), "wanted"_a.noconvert(), "labels"_a.noconvert(), "lengths"_a.noconvert(),
        "sums"_a.noconvert(), "found"_a.noconvert());
}

// For tests and benchmarks: one kernel at a time.
void bind_kernels(nb::module_& m) {
    m.def(
        "scan_blocks", // tables float [n_columns, 256] as they come, each quantized above its minimum
        [](In<std::uint8_t, Three> blocks, In<float, Two> tables, float scale, std::uint8_t threshold,
           Out<std::uint64_t, One> masks) {
            require(blocks.shape(2) == kBlock && tables.shape(0) <= kScanColumns &&
                        tables.shape(0) <= blocks.shape(1) && tables.shape(1) == kWords &&
                        masks.size() == blocks.shape(0) && threshold < kDead,
                    "blocks, tables, threshold or masks do not fit");
            ByteTables bytes;
            bytes.n_columns = tables.shape(0);
            for (std::size_t j = 0; j < bytes.n_columns; ++j) {
                float group_minima[kGroups];
                const float floor = kernels().minima(tables.data() + j * kWords, group_minima);
                kernels().quantize(tables.data() + j * kWords, group_minima, floor, scale, j, &bytes);
            }
            Released released;
            for (std::size_t b = 0; b < masks.size(); b += kChunk)
                kernels().scan(blocks.data() + b * blocks.shape(1) * kBlock, blocks.shape(1), bytes, threshold,
                               std::min(kChunk, masks.size() - b), masks.data() + b);
        },
        "blocks"_a.noconvert(), "tables"_a.noconvert(), "scale"_a, "threshold"_a, "masks"_a.noconvert());
    m.def(
        "stream_bytes", // reads every byte once: the limit of any scan
        [](In<std::uint64_t, One> words) {
            Released released;
            std::uint64_t sum[8] = {};
            for (std::size_t i = 0; i + 8 <= words.size(); i += 8)
                for (std::size_t j = 0; j < 8; ++j) sum[j] ^= words.data()[i + j];
            return sum[0] ^ sum[1] ^ sum[2] ^ sum[3] ^ sum[4] ^ sum[5] ^ sum[6] ^ sum[7];
        },
        "words"_a.noconvert());
    m.def("simd_level", [] { return std::string(kernels().name); });
    m.def("simd_levels", &available_levels);
    m.def("force_simd_level", &force_level, "name"_a);
}

} // namespace
} // namespace interlace

NB_MODULE(_native, m) {
    using namespace interlace;
    nb::register_exception_translator(
        [](const std::exception_ptr& thrown, void* type) {
            try {
                std::rethrow_exception(thrown);
            } catch (const Damaged& error) {
                PyErr_Format(static_cast<PyObject*>(type), "the index is damaged: %s", error.what());
            }
        },
        nb::object(nb::module_::import_("interlace.errors").attr("DamagedFileError")).release().ptr());
    nb::set_leak_warnings(false); // threads that the end of the process finds at work keep what they use
    nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
        try {
            std::rethrow_exception(thrown);
        } catch (const Interrupted&) { // the exception of the signal's handler is set already
        }
    });
    nb::class_<Books>(m, "Books")
        .def(nb::new_(&make_books), "dim"_a, "metric"_a, "mean"_a.noconvert(), "rotation"_a.noconvert().none(),
             "words"_a, "supports"_a, "norm_values"_a, "norm_covers"_a, "ignored"_a, "constant"_a, "columns"_a,
             "n_crude"_a)
        .def_prop_ro("has_cross_sums", &Books::has_cross_sums)
        .def_prop_ro("table_bytes", [](const Books& b) { return b.bytes(); });
    bind_segment(m);
    bind_rule(m);
    bind_search(m);
    bind_learning(m);
    bind_ids(m);
    bind_ranking(m);
    bind_kernels(m);
}
