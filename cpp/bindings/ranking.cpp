#include "../core/ranking.h"

#include "arrays.h"
#include "module.h"
#include "released.h"

namespace interlace {

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

} // namespace interlace
