#include "../core/kmeans.h"
#include "../core/refit.h"
#include "../simd/kernels.h"
#include "arrays.h"
#include "module.h"
#include "released.h"

namespace interlace {

void bind_learn(nb::module_& m) {
    m.def(
        "nearest",
        [](In<float, Two> x, In<float, Two> words, std::size_t threads, Out<std::int32_t, One> index,
           Out<float, One> score) {
            require(x.shape(1) == words.shape(1) && words.shape(0) >= 1 && index.size() == x.shape(0) &&
                        score.size() == x.shape(0) && threads >= 1,
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
        "subtract_words",
        [](Out<float, Two> x, In<std::int32_t, One> labels, In<float, Two> words, In<std::uint32_t, One> support,
           std::size_t threads) {
            require(labels.size() == x.shape(0) && support.size() == words.shape(1) && threads >= 1,
                    "labels or support have the wrong shape");
            for (std::size_t d = 0; d < support.size(); ++d)
                require(support.data()[d] < x.shape(1) && (d == 0 || support.data()[d - 1] < support.data()[d]),
                        "support must ascend and be below the dimensions of x");
            for (std::size_t i = 0; i < labels.size(); ++i)
                require(labels.data()[i] >= 0 && static_cast<std::size_t>(labels.data()[i]) < words.shape(0),
                        "a label is out of range");
            Released released;
            subtract_words(x.data(), x.shape(0), x.shape(1), labels.data(), words.data(), support.data(),
                           support.size(), threads);
        },
        "x"_a.noconvert(), "labels"_a.noconvert(), "words"_a.noconvert(), "support"_a.noconvert(), "threads"_a);
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
}

} // namespace interlace
