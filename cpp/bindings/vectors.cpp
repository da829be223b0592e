#include "../core/rerank.h"

#include "arrays.h"
#include "module.h"
#include "released.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace interlace {
namespace {

using Parts = std::vector<In<std::uint8_t, Two>>;

// Stored vectors and the arrays they point into.
struct PyVectors {
    Parts parts;
    StoredVectors vectors;
};

Stored stored_type(const std::string& kind) {
    require(kind == "float32" || kind == "float16" || kind == "int8", "kind must be float32, float16 or int8");
    return kind == "float32" ? Stored::kFloat32 : kind == "float16" ? Stored::kFloat16 : Stored::kInt8;
}

std::unique_ptr<PyVectors> make_vectors(const std::string& kind, In<float, One> centre, Parts parts) {
    const Stored type = stored_type(kind);
    const std::size_t dim = centre.shape(0);
    std::vector<StoredVectors::Part> places;
    for (const auto& part : parts) {
        require(part.shape(1) == stored_head(type) + dim * stored_size(type), "a part has rows of another width");
        places.push_back({part.data(), part.shape(0)});
    }
    return std::unique_ptr<PyVectors>(
        new PyVectors{std::move(parts), StoredVectors(type, {centre.data(), centre.data() + dim}, places)});
}

void py_rerank(const PyVectors& self, bool is_squared, float offset, In<float, Two> queries, In<std::int64_t, Two> rows,
               std::size_t threads, Out<std::int64_t, Two> out_rows, Out<float, Two> out_distances) {
    const std::size_t n = queries.shape(0), k = out_rows.shape(1);
    const bool shared = rows.shape(0) == 1; // the same rows for every query
    require(queries.shape(1) == self.vectors.dim() && (shared || rows.shape(0) == n) && rows.shape(1) < (1ull << 32) &&
                threads >= 1,
            "queries, rows or threads do not fit");
    require(out_rows.shape(0) == n && out_distances.shape(0) == n && out_distances.shape(1) == k,
            "an output has the wrong shape");
    Released released;
    rerank(self.vectors, {is_squared, offset}, queries.data(), n, {rows.data(), rows.shape(1), shared}, k, threads,
           out_rows.data(), out_distances.data());
}

// For tests of PageRuns: rows by their addresses.
std::vector<std::pair<std::uintptr_t, std::uintptr_t>> page_runs(const std::vector<std::uintptr_t>& rows,
                                                                 std::size_t width, std::size_t page) {
    require(page >= 1, "page must be at least 1");
    std::vector<const std::uint8_t*> pointers;
    for (const std::uintptr_t row : rows) pointers.push_back(reinterpret_cast<const std::uint8_t*>(row));
    PageRuns runs;
    std::vector<std::pair<std::uintptr_t, std::uintptr_t>> found;
    for (const PageRuns::Run& run : runs.of(pointers, width, page)) found.emplace_back(run.first, run.end);
    return found;
}

} // namespace

void bind_vectors(nb::module_& m) {
    nb::class_<PyVectors>(m, "StoredVectors")
        .def(nb::new_(&make_vectors), "kind"_a, "centre"_a.noconvert(), "parts"_a.noconvert())
        .def("rerank", &py_rerank, "is_squared"_a, "offset"_a, "queries"_a.noconvert(), "rows"_a.noconvert(),
             "threads"_a, "out_rows"_a.noconvert(), "out_distances"_a.noconvert())
        // The rows may be on disk: the next queries ask for their pages ahead.
        .def("expect_cold_pages", [](const PyVectors& self) { self.vectors.cold_pages().found(); });
    m.def("page_runs", &page_runs, "rows"_a, "width"_a, "page"_a);
}

} // namespace interlace
