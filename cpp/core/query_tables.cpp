#include "query_tables.h"

#include "../simd/kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace interlace {

QueryTables::QueryTables(const Books& books, const Rule& rule, std::size_t n, bool with_steps)
    : books_(books), rotated_(n * books.dim()), gathered_(std::min(n, kGroup) * books.dim()), scaled_(books.dim()),
      bases_(books, rule, std::min(n, kGroup)), tables_(std::min(n, kGroup) * books.n_columns() * kWords),
      steps_(with_steps && books.has_table_terms() ? tables_.size() : 0),
      low_(std::min(n, kGroup) * books.n_columns()) {}

void QueryTables::rotate(const float* queries, std::size_t n) {
    queries_ = queries;
    books_.rotate(queries, n, rotated_.data(), books_.metric() == Metric::kL2);
    require_finite(rotated_.data(), n * books_.dim(), "a query is not finite, or too large");
}

void QueryTables::compute(std::size_t first, std::size_t n) {
    first_ = first;
    const float cell_terms = books_.has_table_terms() ? books_.cells().term_bound() : 0.0f;
    for (std::size_t q = 0; q < n; ++q)
        bound_[q] = cell_terms + books_.cross_unit() * 0x1p31f + std::abs(books_.constant());
    bases_.compute(queries_ + first * books_.dim(), rotated_.data() + first * books_.dim(), n);
    for (std::size_t j = 0; j < books_.n_columns(); ++j) compute_column(j, n);
    if (!steps_.empty())
        for (std::size_t q = 0; q < n; ++q) compute_steps(q);
}

// x [n]: the queries on the support of the book
void QueryTables::gather(const Book& book, std::size_t n, const float** x) {
    const std::size_t dim = books_.dim();
    for (std::size_t q = 0; q < n; ++q) {
        const float* const from = rotated_.data() + (first_ + q) * dim;
        float* to = gathered_.data() + q * dim;
        for (std::size_t d = 0; d < book.support.size(); ++d) to[d] = from[book.support[d]];
        x[q] = to;
    }
}

void QueryTables::compute_column(std::size_t column, std::size_t n) {
    const bool l2 = books_.metric() == Metric::kL2;
    const float* x[kGroup];
    float* out[kGroup];
    for (std::size_t q = 0; q < n; ++q) out[q] = tables_.data() + offset(q) + column * kWords;
    if (const Book* book = books_.book_of(column)) {
        const bool direct = l2 && book->alone;
        gather(*book, n, x);
        if (direct) {
            squared_distances(*book, x, n, out);
        } else {
            // A batch shares the words in the cache, a single query waits for them: it reads half the bytes.
            if (n != 1 || !books_.half_words_of(column).products(x[0], scaled_.data(), out[0]))
                inner_products(*book, x, n, out);
            if (l2) to_linear_scores(*book, n, out);
        }
        for (std::size_t q = 0; q < n; ++q) {
            for (std::size_t w = 0; !l2 && w < kWords; ++w) out[q][w] = -out[q][w];
            for (std::size_t w = book->n_words; w < kWords; ++w) out[q][w] = std::numeric_limits<float>::infinity();
        }
    } else {
        const Norm& norm = books_.norms()[static_cast<std::size_t>(-1 - books_.columns()[column])];
        for (std::size_t q = 0; q < n; ++q) std::copy_n(norm.values.data(), kWords, out[q]);
    }
    for (std::size_t q = 0; q < n; ++q) bound_[q] += kernels().max_abs(out[q]);
}

void QueryTables::compute_steps(std::size_t q) {
    alignas(64) float group_minima[kGroups];
    // Lowered by 2^-20, more than the rounding of the three operations, so that steps never exceed the true quotient.
    const float factor = finite_inverse(books_.cells().term_scale()) * (1.0f - 0x1p-20f);
    for (std::size_t j = 0; j < books_.n_columns(); ++j) {
        const float* table = tables(q) + j * kWords;
        std::int16_t* out = steps_.data() + offset(q) + j * kWords;
        const float low = kernels().minima(table, group_minima);
        for (std::size_t w = 0; w < kWords; ++w) {
            const float steps = (table[w] - low) * factor;
            out[w] = static_cast<std::int16_t>(static_cast<std::int32_t>(steps < 32767.0f ? steps : 32767.0f));
        }
        low_[q * books_.n_columns() + j] = low;
    }
}

} // namespace interlace
