#include "segments.h"

#include "codes.h"
#include "module.h"
#include "released.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>

namespace interlace {
namespace {

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

void require_columns(const Segment& segment, const CodeRowsOut& out) {
    require(out.n_columns() == segment.shape().n_columns(), "codes has the wrong shape");
}

void require_sizes(const RowNumbers::Sizes& sizes, const Out<std::uint64_t, One>& low,
                   const Out<std::uint64_t, One>& high, const Out<std::uint32_t, One>& samples) {
    require(low.size() == sizes.low && high.size() == sizes.high && samples.size() == sizes.samples,
            "an output has the wrong shape");
}

// The sizes of low, high and samples
std::vector<std::size_t> py_count_cells(CodesIn codes, Out<std::uint64_t, One> cell_starts) {
    require(cell_starts.size() >= 2, "at least one cell");
    const CodeRows rows = rows_of(codes, cell_starts.size() - 1);
    Released released;
    count_cells(rows, cell_starts.size() - 1, cell_starts.data());
    const RowNumbers::Sizes sizes = RowNumbers::sizes(view<std::uint64_t>(cell_starts));
    return {sizes.low, sizes.high, sizes.samples};
}

void py_pack(CodesIn codes, In<std::uint64_t, One> cell_starts, Out<std::uint8_t, Three> crude,
             Out<std::uint8_t, Two> rest, Out<std::uint64_t, One> low, Out<std::uint64_t, One> high,
             Out<std::uint32_t, One> samples) {
    require(cell_starts.size() >= 2, "at least one cell");
    const CodeRows rows = rows_of(codes, cell_starts.size() - 1);
    const SegmentShape shape{rows.size(), cell_starts.size() - 1, crude.shape(1), rest.shape(1)};
    require(shape.n_columns() == rows.n_columns() && rest.shape(0) == shape.n_rows &&
                crude.shape(0) * kBlock >= shape.n_rows && crude.shape(2) == kBlock &&
                cell_starts.data()[shape.n_cells] == shape.n_rows,
            "an output has the wrong shape");
    require_sizes(RowNumbers::sizes(view<std::uint64_t>(cell_starts)), low, high, samples);
    Released released;
    pack(rows, shape, view<std::uint64_t>(cell_starts), crude.data(), rest.data(), low.data(), high.data(),
         samples.data());
}

void py_unpack(const PySegment& self, CodesOut codes) {
    const CodeRowsOut out = rows_of(codes, self.segment.shape().n_cells);
    require(out.size() == self.segment.shape().n_rows, "codes has the wrong shape");
    require_columns(self.segment, out);
    Released released;
    self.segment.unpack(out);
}

void py_codes_of(const PySegment& self, In<std::uint64_t, One> rows, CodesOut codes) {
    const CodeRowsOut out = rows_of(codes, self.segment.shape().n_cells);
    require(out.size() == rows.size(), "codes has the wrong shape");
    require_columns(self.segment, out);
    for (std::size_t i = 0; i < rows.size(); ++i)
        require(rows.data()[i] < self.segment.shape().n_rows, "row out of range");
    Released released;
    self.segment.codes_of(view<std::uint64_t>(rows), out);
}

void require_fit(const Books& books, const Segment& segment) {
    const SegmentShape& shape = segment.shape();
    require(shape.n_cells == books.n_cells() && shape.n_crude == books.n_crude() &&
                shape.n_columns() == books.n_columns() &&
                (!books.has_cross_sums() || books.folds_cells() || segment.cross_floors() != nullptr),
            "a segment does not fit the books");
}

// Does nothing for books without such sums.
void py_keep_sums(const PySegment& self, const Books& books) {
    require_fit(books, self.segment);
    if (!books.folds_cells()) return;
    Released released;
    self.segment.sums(books);
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

} // namespace

std::vector<SegmentView> views_of(const Books& books, const Segments& segments, const Filters& filters, bool exact) {
    require(filters.empty() || filters.size() == segments.size(), "one filter for each segment, or none");
    std::vector<SegmentView> views;
    std::uint64_t first_row = 0;
    const bool flat = exact && filters.empty() && std::all_of(segments.begin(), segments.end(), [&](const auto* one) {
                          return FlatRows::pays(books, one->segment.shape());
                      });
    for (std::size_t s = 0; s < segments.size(); ++s) {
        const Segment& segment = segments[s]->segment;
        require_fit(books, segment);
        require(filters.empty() || &filters[s]->filter.segment() == &segment, "a filter is for another segment");
        views.push_back(!filters.empty() ? filters[s]->filter.view(books, first_row)
                        : flat           ? segment.flat_view(books, first_row)
                                         : segment.view(books, first_row));
        first_row += segment.shape().n_rows;
    }
    return views;
}

void bind_segments(nb::module_& m) {
    nb::class_<PySegment>(m, "Segment")
        .def(nb::new_(&make_segment), "cell_starts"_a.noconvert(), "crude"_a.noconvert(), "rest"_a.noconvert(),
             "low"_a.noconvert(), "high"_a.noconvert(), "samples"_a.noconvert(), "cross_floors"_a.noconvert().none())
        .def("unpack", &py_unpack, "codes"_a.noconvert())
        .def("codes_of", &py_codes_of, "rows"_a.noconvert(), "codes"_a.noconvert())
        .def("keep_sums", &py_keep_sums, "books"_a)
        .def_prop_ro("keeps_sums", [](const PySegment& self) { return self.segment.known_sums() != nullptr; });

    m.def("count_cells", &py_count_cells, "codes"_a.noconvert(), "cell_starts"_a.noconvert());
    m.def("pack", &py_pack, "codes"_a.noconvert(), "cell_starts"_a.noconvert(), "crude"_a.noconvert(),
          "rest"_a.noconvert(), "low"_a.noconvert(), "high"_a.noconvert(), "samples"_a.noconvert());

    nb::class_<PyFilter>(m, "Filter")
        .def(nb::new_(&make_filter), "books"_a, "segment"_a, "allowed"_a.noconvert())
        .def_prop_ro("n_allowed", [](const PyFilter& self) { return self.filter.n_allowed(); })
        .def_prop_ro("copied", [](const PyFilter& self) { return self.filter.copied(); });
}

} // namespace interlace
