#include "../core/books.h"

#include "arrays.h"
#include "module.h"
#include "released.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>

namespace interlace {
namespace {

std::unique_ptr<Books> make_books(std::size_t dim, int metric, In<float, One> mean,
                                  std::optional<In<float, Two>> rotation, const std::vector<In<float, Two>>& words,
                                  const std::vector<In<std::uint32_t, One>>& supports,
                                  const std::vector<In<float, One>>& norm_values,
                                  const std::vector<In<std::uint32_t, One>>& norm_covers,
                                  const std::vector<In<std::uint32_t, One>>& ignored, float constant,
                                  const std::vector<int>& columns, std::size_t n_crude, bool folded) {
    require(mean.size() == dim, "mean must have dim entries");
    require(!rotation || (rotation->shape(0) == dim && rotation->shape(1) == dim), "rotation must be dim x dim");
    require(!words.empty() && words.size() == supports.size() && norm_values.size() == norm_covers.size(),
            "one support per book, one cover per norm");
    require(n_crude <= columns.size(), "n_crude exceeds the columns");
    BooksSpec spec{dim,
                   static_cast<Metric>(metric),
                   {mean.data(), mean.data() + dim},
                   {},
                   {},
                   {},
                   columns,
                   n_crude,
                   {},
                   constant,
                   folded};
    for (const auto& covers : ignored) spec.ignored.emplace_back(covers.data(), covers.data() + covers.size());
    if (rotation) spec.rotation.assign(rotation->data(), rotation->data() + dim * dim);
    for (std::size_t b = 0; b < words.size(); ++b) {
        const std::size_t n_words = words[b].shape(0), width = words[b].shape(1);
        require(n_words >= 1 && (n_words <= kWords || b == 0) && width == supports[b].size(),
                "a book needs words of its support's width, 1..256 of them unless it is the first");
        require(n_words <= std::numeric_limits<std::int32_t>::max(), "too many cells");
        Book book = empty_book({supports[b].data(), supports[b].data() + width}, n_words);
        for (std::size_t d = 0; d < width; ++d) {
            require(book.support[d] < dim, "support out of range");
            for (std::size_t w = 0; w < n_words; ++w) book.word(d, w) = words[b].data()[w * width + d];
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

} // namespace

void bind_books(nb::module_& m) {
    nb::class_<Books>(m, "Books")
        .def(nb::new_(&make_books), "dim"_a, "metric"_a, "mean"_a.noconvert(), "rotation"_a.noconvert().none(),
             "words"_a, "supports"_a, "norm_values"_a, "norm_covers"_a, "ignored"_a, "constant"_a, "columns"_a,
             "n_crude"_a, "folded"_a)
        .def_prop_ro("has_cross_sums", &Books::has_cross_sums)
        .def_prop_ro("table_bytes", [](const Books& b) { return b.bytes(); });
}

} // namespace interlace
