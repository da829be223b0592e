#include "parallel.h"

#include <algorithm>
#include <cmath>

namespace interlace {

ParallelTables::ParallelTables(const Books& books, const ParallelLoss& loss) : books_(books), loss_(loss) {
    if (!used()) return;
    const std::size_t dim = books.dim(), n_books = books.books().size();
    const std::vector<float> zeros(dim);
    origin_.resize(dim);
    row_.resize(dim);
    zero_ = Aligned<float>(n_books * kWords);
    along_ = Aligned<float>(n_books * kWords);
    books.rotate(zeros.data(), 1, origin_.data(), true);
    for (std::size_t j = 1; j < n_books; ++j) {
        const Book& book = books.books()[j];
        for (std::size_t d = 0; d < book.support.size(); ++d) row_[d] = origin_[book.support[d]];
        const float* from[] = {row_.data()};
        float* to[] = {zero_.data() + j * kWords};
        linear_scores(book, from, 1, to);
    }
}

void ParallelTables::start(const float* rotated, const BeamTables& tables) {
    double square = 0, product = 0;
    for (std::size_t d = 0; d < books_.dim(); ++d) {
        row_[d] = rotated[d] - origin_[d];
        square += static_cast<double>(row_[d]) * row_[d];
        product += static_cast<double>(rotated[d]) * row_[d];
    }
    const double length = std::sqrt(square);
    const bool resolved = length > loss_.shortest;
    half_inverse_ = resolved ? static_cast<float>(0.5 / length) : 0.0f;
    left_ = resolved ? static_cast<float>(product / length) : 0.0f;
    for (std::size_t j = 1; j < books_.books().size(); ++j) {
        const float *zero = zero_.data() + j * kWords, *linear = tables.linear(j);
        float* along = along_.data() + j * kWords;
        for (std::size_t w = 0; w < books_.books()[j].n_words; ++w) along[w] = (zero[w] - linear[w]) * half_inverse_;
    }
}

float ParallelTables::of_cell(std::uint32_t cell) const {
    const Book& words = books_.cells().words();
    float total = 0;
    for (std::size_t d = 0; d < words.support.size(); ++d) total += words.word(d, cell) * row_[words.support[d]];
    return 2.0f * total * half_inverse_;
}

void ParallelTables::add(const float* along, std::size_t n, float left, float* scores) const {
    const float extra = loss_.weight - 1.0f, twice = 2.0f * left;
    for (std::size_t w = 0; w < n; ++w) scores[w] += extra * (along[w] * (along[w] - twice));
}

} // namespace interlace
