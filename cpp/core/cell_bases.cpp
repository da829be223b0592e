#include "cell_bases.h"

namespace interlace {
namespace {
// One base that is asked for costs as much as several of all.
bool few_cells(const Rule& rule, std::size_t n_cells) { return rule.stops() && rule.usual_cells() * 12 <= n_cells; }
} // namespace

CellBases::CellBases(const Books& books, const Rule& rule, std::size_t n)
    : books_(books), coarse_(few_cells(rule, books.n_cells()) ? books.coarse_words() : nullptr),
      l2_(books.metric() == Metric::kL2), padded_(books.cells().padded()), width_(books.cells().words().support.size()),
      covered_(books.dim(), false), x_(n * width_), bases_(n * padded_), bounds_(coarse_ ? n * padded_ : 0),
      scratch_(coarse_ ? coarse_->scratch_size() : 0) {
    // Those of the cell's book and of books that share none.
    for (const Book& book : books.books())
        if (book.alone || &book == &books.books()[0])
            for (std::uint32_t d : book.support) covered_[d] = true;
}

void CellBases::compute(const float* queries, const float* rotated, std::size_t n) {
    const std::size_t dim = books_.dim();
    const Book& words = books_.cells().words();
    const float* x[kGroup];
    float* out[kGroup];
    for (std::size_t q = 0; q < n; ++q) {
        float* const to = x_.data() + q * width_;
        for (std::size_t d = 0; d < width_; ++d) to[d] = rotated[q * dim + words.support[d]];
        x[q] = to;
        out[q] = (coarse_ ? bounds_ : bases_).data() + q * padded_;
        offsets_[q] = books_.metric() == Metric::kCosine ? 1.0f : books_.constant();
        if (l2_) {
            for (std::size_t d = 0; d < dim; ++d)
                if (!covered_[d]) offsets_[q] += rotated[q * dim + d] * rotated[q * dim + d];
        } else {
            for (std::size_t d = 0; d < dim; ++d) offsets_[q] -= queries[q * dim + d] * books_.mean()[d];
        }
    }
    bounded_.fill(coarse_ != nullptr && coarse_->bounds(x, n, offsets_.data(), out));
    if (!has_all(0)) return;
    for (std::size_t q = 0; q < n; ++q) out[q] = bases_.data() + q * padded_;
    (l2_ ? squared_distances : inner_products)(words, x, n, out);
    for (std::size_t q = 0; q < n; ++q)
        for (std::size_t c = 0; c < words.n_words; ++c) add_offset(q, out[q][c]);
}

void CellBases::find(std::size_t q, std::span<const std::uint32_t> cells) {
    float* const bases = bases_.data() + q * padded_;
    coarse_->distances(x_.data() + q * width_, cells, scratch_.data(), bases);
    for (const std::uint32_t cell : cells) add_offset(q, bases[cell]);
}

void CellBases::find_all(std::size_t q) {
    const Book& words = books_.cells().words();
    const float* x = x_.data() + q * width_;
    float* bases = bases_.data() + q * padded_;
    squared_distances(words, &x, 1, &bases);
    for (std::size_t c = 0; c < words.n_words; ++c) add_offset(q, bases[c]);
    bounded_[q] = false;
}

} // namespace interlace
