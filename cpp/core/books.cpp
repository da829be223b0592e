#include "books.h"

#include "../simd/kernels.h"
#include "threads.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace interlace {

namespace {
constexpr float kLargestReach = 5e18f; // LARGEST_REACH of codebooks.py and some room for rounding
} // namespace

void require_finite(const float* values, std::size_t n, const char* what) {
    constexpr float largest = 1e19f;
    bool good = true;
    for (std::size_t i = 0; i < n; ++i) good &= std::abs(values[i]) <= largest; // false for NaN
    if (!good) throw std::invalid_argument(what);
}

Books::Books(BooksSpec spec) : spec_(std::move(spec)) {
    float reach = 0;
    for (Book& book : spec_.books) {
        book.squares.assign(kWords, 0.0f);
        for (std::size_t d = 0; d < book.support.size(); ++d)
            for (std::size_t w = 0; w < kWords; ++w) book.squares[w] += book.word(d, w) * book.word(d, w);
        for (std::size_t w = book.n_words; w < kWords; ++w) book.squares[w] = std::numeric_limits<float>::infinity();
        reach += std::sqrt(*std::max_element(book.squares.data(), book.squares.data() + book.n_words));
    }
    if (!(reach <= kLargestReach)) throw std::invalid_argument("words are not finite, or too large");
    find_overlaps();
    compute_cell_terms();
    if (metric() == Metric::kL2 && spec_.ignored.empty()) compute_dense_words();
}

void Books::find_overlaps() {
    const std::size_t n = spec_.books.size();
    overlap_.assign(n * n, false);
    for (std::size_t i = 0; i < n; ++i) {
        std::vector<bool> used(dim(), false);
        for (std::uint32_t d : spec_.books[i].support) used[d] = true;
        spec_.books[i].alone = true;
        for (std::size_t j = 0; j < n; ++j) {
            if (i == j) continue;
            for (std::uint32_t d : spec_.books[j].support)
                if (used[d]) overlap_[i * n + j] = true;
            if (overlap_[i * n + j]) spec_.books[i].alone = false;
        }
    }
}

// 2 w_i . w_j, a row of 256 for each word of i
std::vector<float> Books::products(std::size_t i, std::size_t j) const {
    const Book &first = spec_.books[i], &second = spec_.books[j];
    constexpr std::size_t group = QueryTables::kGroup;
    std::vector<float> out(first.n_words * kWords), place(dim()), values(group * second.support.size());
    for (std::size_t w = 0; w < first.n_words; w += group) {
        checkpoint();
        const std::size_t count = std::min(group, first.n_words - w);
        const float* from[group];
        float* to[group];
        for (std::size_t g = 0; g < count; ++g) {
            std::fill(place.begin(), place.end(), 0.0f);
            for (std::size_t d = 0; d < first.support.size(); ++d) place[first.support[d]] = first.word(d, w + g);
            float* x = values.data() + g * second.support.size();
            for (std::size_t d = 0; d < second.support.size(); ++d) x[d] = place[second.support[d]];
            from[g] = x;
            to[g] = out.data() + (w + g) * kWords;
        }
        kernels().inner_products(from, count, second.words.data(), second.support.size(), to);
    }
    for (float& value : out) value *= 2.0f;
    return out;
}

namespace {

float largest_of(const std::vector<float>& values) {
    float largest = 0;
    for (const float value : values) largest = std::max(largest, std::abs(value));
    return largest;
}

std::int16_t to_step(float value, float scale) { return static_cast<std::int16_t>(std::nearbyint(value / scale)); }

} // namespace

std::unique_ptr<Books::CrossTerms> Books::compute_cross_terms() const {
    const std::size_t n = spec_.books.size();
    auto made = std::make_unique<CrossTerms>();
    made->of.resize(n * n);
    std::vector<std::vector<float>> exact(n * n);
    float largest = 0;
    for (std::size_t i = 1; i < n; ++i)
        for (std::size_t j = i + 1; j < n; ++j)
            if (overlap(i, j)) {
                exact[i * n + j] = products(i, j);
                largest = std::max(largest, largest_of(exact[i * n + j]));
            }
    // A quarter of the range, so that the encoder can add terms up in int16.
    made->scale = largest / 8191.0f;
    for (std::size_t i = 0; i < n * n; ++i) {
        if (exact[i].empty()) continue;
        made->of[i].assign(kWords * kWords, 0);
        if (made->scale > 0)
            for (std::size_t v = 0; v < exact[i].size(); ++v) made->of[i][v] = to_step(exact[i][v], made->scale);
    }
    return made;
}

const Books::CrossTerms& Books::cross_terms() const {
    const CrossTerms* found = cross_.load(std::memory_order_acquire);
    if (found != nullptr) return *found;
    auto made = compute_cross_terms();
    if (cross_.compare_exchange_strong(found, made.get())) return *made.release();
    return *found; // another thread was quicker
}

const std::int16_t* Books::cross(std::size_t i, std::size_t j) const {
    const Aligned<std::int16_t>& terms = cross_terms().of[i * spec_.books.size() + j];
    return terms.empty() ? nullptr : terms.data();
}

void Books::compute_dense_words() {
    if (!spec_.norms.empty()) return; // they cover all overlaps: checked in Python
    for (std::size_t j = 0; j < n_columns(); ++j)
        for (std::size_t i = 1; i < spec_.books.size(); ++i)
            if (overlap(i, static_cast<std::size_t>(columns()[j]))) {
                dense_columns_.push_back(j);
                break;
            }
    if (dense_columns_.empty()) return;
    // |sum| <= sum of the largest |w|, plus what rounding adds: half a step per book and dimension.
    float reach = 0;
    for (const std::size_t j : dense_columns_) {
        const Book& book = spec_.books[static_cast<std::size_t>(columns()[j])];
        float square = 0;
        for (std::size_t w = 0; w < book.n_words; ++w) square = std::max(square, book.squares[w]);
        reach += std::sqrt(square);
    }
    const float n = static_cast<float>(dense_columns_.size());
    const float step = reach / (32700.0f - 0.5f * n * std::sqrt(static_cast<float>(dim())));
    cross_unit_ = step * step;
    width_ = (dim() + 31) / 32 * 32;
    dense_.assign(dense_columns_.size() * kWords * width_, 0);
    dense_squares_.assign(dense_columns_.size() * kWords, 0);
    for (std::size_t c = 0; c < dense_columns_.size(); ++c) {
        const Book& book = spec_.books[static_cast<std::size_t>(columns()[dense_columns_[c]])];
        for (std::size_t w = 0; w < book.n_words; ++w) {
            std::int16_t* word = dense_.data() + (c * kWords + w) * width_;
            for (std::size_t d = 0; d < book.support.size() && step > 0; ++d) {
                word[book.support[d]] = to_step(book.word(d, w), step);
                dense_squares_[c * kWords + w] += word[book.support[d]] * word[book.support[d]];
            }
        }
    }
}

std::int32_t Books::cross_sum(const std::uint8_t* codes) const {
    const std::int16_t* words[kWords];
    std::int32_t squares = 0;
    for (std::size_t c = 0; c < dense_columns_.size(); ++c) {
        const std::size_t word = c * kWords + codes[dense_columns_[c]];
        words[c] = dense_.data() + word * width_;
        squares += dense_squares_[word];
    }
    return kernels().square_of_sum(words, dense_columns_.size(), width_) - squares;
}

std::size_t Books::bytes() const {
    std::size_t floats = dense_squares_.size(), terms = cell_terms_.size() + dense_.size();
    for (const Book& book : books()) floats += book.words.size() + book.squares.size();
    return floats * sizeof(float) + terms * sizeof(std::int16_t);
}

void Books::compute_cell_terms() {
    bool any = false;
    for (int column : columns()) any = any || (column >= 0 && overlap(0, static_cast<std::size_t>(column)));
    if (!any) return;
    std::vector<std::vector<float>> exact(n_columns());
    float largest = 0;
    for (std::size_t j = 0; j < n_columns(); ++j) {
        const int column = columns()[j];
        if (column < 0 || !overlap(0, static_cast<std::size_t>(column))) continue;
        exact[j] = products(0, static_cast<std::size_t>(column));
        const float of_column = largest_of(exact[j]);
        largest = std::max(largest, of_column);
        cell_term_bound_ += of_column;
    }
    cell_terms_.assign(n_cells() * n_columns() * kWords, 0);
    cell_term_scale_ = largest / 32767.0f;
    if (cell_term_scale_ == 0) {
        cell_terms_.clear(); // nothing to add
        return;
    }
    for (std::size_t j = 0; j < n_columns(); ++j)
        for (std::size_t i = 0; i < exact[j].size(); ++i)
            cell_terms_[((i / kWords) * n_columns() + j) * kWords + i % kWords] =
                to_step(exact[j][i], cell_term_scale_);
}

void Books::rotate(const float* x, std::size_t n, float* out, bool centre) const {
    if (spec_.rotation.empty()) {
        for (std::size_t i = 0; i < n; ++i)
            for (std::size_t d = 0; d < dim(); ++d)
                out[i * dim() + d] = centre ? x[i * dim() + d] - spec_.mean[d] : x[i * dim() + d];
        return;
    }
    constexpr std::size_t group = QueryTables::kGroup;
    std::vector<float> centred(group * dim());
    const float* from[group];
    float* to[group];
    for (std::size_t first = 0; first < n; first += group) {
        const std::size_t count = n - first < group ? n - first : group;
        for (std::size_t i = 0; i < count; ++i) {
            const float* row = x + (first + i) * dim();
            for (std::size_t d = 0; d < dim(); ++d) centred[i * dim() + d] = centre ? row[d] - spec_.mean[d] : row[d];
            from[i] = centred.data() + i * dim();
            to[i] = out + (first + i) * dim();
        }
        kernels().rotate(from, count, spec_.rotation.data(), dim(), dim(), to);
    }
}

QueryTables::QueryTables(const Books& books, std::size_t n)
    : books_(books), rotated_(n * books.dim()), gathered_(n * books.dim()), base_(n * kWords),
      tables_(n * books.n_columns() * kWords), steps_(books.has_table_terms() ? tables_.size() : 0),
      low_(n * books.n_columns()) {}

float Books::span(const float* tables) const {
    constexpr std::size_t lanes = 16; // sums that do not wait for each other, added in a fixed order
    float span = 0;
    for (const int column : spec_.columns) {
        const float* padded = column < 0 ? spec_.norms[static_cast<std::size_t>(-1 - column)].values.data()
                                         : spec_.books[static_cast<std::size_t>(column)].squares.data();
        std::size_t n = kWords;
        while (n > 1 && padded[n - 1] == std::numeric_limits<float>::infinity()) --n;
        float low = tables[0];
        for (std::size_t w = 1; w < n; ++w) low = std::min(low, tables[w]);
        float sums[lanes] = {};
        std::size_t w = 0;
        for (; w + lanes <= n; w += lanes)
            for (std::size_t i = 0; i < lanes; ++i) sums[i] += tables[w + i] - low;
        for (std::size_t i = 0; w + i < n; ++i) sums[i] += tables[w + i] - low;
        float sum = 0;
        for (const float part : sums) sum += part;
        span += sum / static_cast<float>(n);
        tables += kWords;
    }
    return span;
}

void QueryTables::compute(const float* queries, std::size_t n) {
    const Kernels& kernel = kernels();
    const std::size_t dim = books_.dim();
    const bool l2 = books_.metric() == Metric::kL2;
    books_.rotate(queries, n, rotated_.data(), l2);
    require_finite(rotated_.data(), n * dim, "a query is not finite, or too large");
    for (std::size_t q = 0; q < n; ++q)
        bound_[q] =
            (l2 ? books_.cell_term_bound() : 0.0f) + books_.cross_unit() * 0x1p31f + std::abs(books_.constant());

    const float* x[kGroup];
    float* out[kGroup];
    auto gather = [&](const Book& book) {
        for (std::size_t q = 0; q < n; ++q) {
            float* to = gathered_.data() + q * dim;
            for (std::size_t d = 0; d < book.support.size(); ++d) to[d] = rotated_[q * dim + book.support[d]];
            x[q] = to;
        }
    };

    // Dimensions whose q^2 some table holds: those of the cell's book and of books that share none.
    std::vector<bool> covered(dim, false);
    for (const Book& book : books_.books())
        if (book.alone || &book == &books_.books()[0])
            for (std::uint32_t d : book.support) covered[d] = true;

    const Book& cell = books_.books()[0];
    gather(cell);
    for (std::size_t q = 0; q < n; ++q) out[q] = base_.data() + q * kWords;
    (l2 ? kernel.squared_distances : kernel.inner_products)(x, n, cell.words.data(), cell.support.size(), out);
    for (std::size_t q = 0; q < n; ++q) {
        float offset = books_.metric() == Metric::kCosine ? 1.0f : books_.constant();
        if (l2) {
            for (std::size_t d = 0; d < dim; ++d)
                if (!covered[d]) offset += rotated_[q * dim + d] * rotated_[q * dim + d];
        } else {
            for (std::size_t d = 0; d < dim; ++d) offset -= queries[q * dim + d] * books_.mean()[d];
        }
        for (std::size_t w = 0; w < cell.n_words; ++w) out[q][w] = l2 ? offset + out[q][w] : offset - out[q][w];
    }

    for (std::size_t j = 0; j < books_.n_columns(); ++j) {
        for (std::size_t q = 0; q < n; ++q) out[q] = tables_.data() + (q * books_.n_columns() + j) * kWords;
        const int column = books_.columns()[j];
        if (column < 0) {
            const Norm& norm = books_.norms()[static_cast<std::size_t>(-1 - column)];
            for (std::size_t q = 0; q < n; ++q)
                for (std::size_t w = 0; w < kWords; ++w) out[q][w] = norm.values[w];
        } else {
            const Book& book = books_.books()[static_cast<std::size_t>(column)];
            const bool direct = l2 && book.alone;
            gather(book);
            (direct ? kernel.squared_distances : kernel.inner_products)(x, n, book.words.data(), book.support.size(),
                                                                        out);
            for (std::size_t q = 0; q < n; ++q) {
                if (!l2)
                    for (std::size_t w = 0; w < kWords; ++w) out[q][w] = -out[q][w];
                else if (!direct)
                    for (std::size_t w = 0; w < kWords; ++w) out[q][w] = book.squares[w] - 2.0f * out[q][w];
                for (std::size_t w = book.n_words; w < kWords; ++w) out[q][w] = std::numeric_limits<float>::infinity();
            }
        }
        for (std::size_t q = 0; q < n; ++q) bound_[q] += kernel.max_abs(out[q]);
    }
    if (books_.has_table_terms())
        for (std::size_t q = 0; q < n; ++q) compute_steps(q);
}

void QueryTables::compute_steps(std::size_t q) {
    alignas(64) float group_minima[kGroups];
    // Lowered by 2^-20, more than the rounding of the three operations, so that steps never exceed the true quotient.
    const float factor = finite_inverse(books_.cell_term_scale()) * (1.0f - 0x1p-20f);
    for (std::size_t j = 0; j < books_.n_columns(); ++j) {
        const std::size_t column = q * books_.n_columns() + j;
        const float* table = tables_.data() + column * kWords;
        const float low = kernels().minima(table, group_minima);
        for (std::size_t w = 0; w < kWords; ++w) {
            const float steps = (table[w] - low) * factor;
            steps_[column * kWords + w] =
                static_cast<std::int16_t>(static_cast<std::int32_t>(steps < 32767.0f ? steps : 32767.0f));
        }
        low_[column] = low;
    }
}

} // namespace interlace
