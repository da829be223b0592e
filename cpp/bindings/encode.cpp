#include "../core/encode.h"

#include "arrays.h"
#include "module.h"
#include "released.h"

namespace interlace {

void bind_encode(nb::module_& m) {
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
}

} // namespace interlace
