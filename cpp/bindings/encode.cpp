#include "../core/encode.h"

#include "arrays.h"
#include "codes.h"
#include "module.h"
#include "released.h"

namespace interlace {
namespace {

void py_encode(const Books& books, In<float, Two> x, std::size_t beam, std::size_t sweeps, std::size_t threads,
               CodesOut codes, float parallel_weight, float shortest) {
    const CodeRowsOut out = rows_of(codes, books.n_cells());
    require(x.shape(1) == books.dim() && out.size() == x.shape(0) && out.n_columns() == books.n_columns() &&
                beam >= 1 && threads >= 1,
            "x or codes has the wrong shape");
    require(parallel_weight >= 1.0f && shortest >= 0.0f, "parallel_weight must be at least 1, shortest at least 0");
    Released released;
    encode(books, x.data(), beam, sweeps, {parallel_weight, shortest}, threads, out);
}

void py_cross_floors(const Books& books, CodesIn codes, std::size_t threads, Out<std::int32_t, One> floors) {
    const CodeRows rows = rows_of(codes, books.n_cells());
    require(rows.n_columns() == books.n_columns() && floors.size() == books.n_cells() && threads >= 1,
            "codes or floors has the wrong shape");
    Released released;
    cross_floors(books, rows, threads, floors.data());
}

} // namespace

void bind_encode(nb::module_& m) {
    m.def("encode", &py_encode, "books"_a, "x"_a.noconvert(), "beam"_a, "sweeps"_a, "threads"_a, "codes"_a.noconvert(),
          "parallel_weight"_a = 1.0f, "shortest"_a = 0.0f);
    m.def("cross_floors", &py_cross_floors, "books"_a, "codes"_a.noconvert(), "threads"_a, "floors"_a.noconvert());
}

} // namespace interlace
