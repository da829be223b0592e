#include "books.h"

#include "../simd/kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace interlace {
namespace {

constexpr float kLargestReach = 5e18f; // LARGEST_REACH of codebooks.py and some room for rounding

} // namespace

Books::Books(BooksSpec spec)
    : spec_(std::move(spec)), rotation_(std::move(spec_.rotation), spec_.dim), cells_(spec_.books[0]) {
    float reach = 0;
    for (Book& book : spec_.books) {
        compute_squares(book);
        reach += std::sqrt(*std::max_element(book.squares.data(), book.squares.data() + book.n_words));
    }
    if (!(reach <= kLargestReach)) throw std::invalid_argument("words are not finite, or too large");
    for (std::size_t j = 0; j < n_columns(); ++j) {
        std::size_t n = columns()[j] < 0 ? kWords : book_of(j)->n_words;
        if (columns()[j] < 0) // values of a norm, padded with +inf
            while (n > 1 && norms()[static_cast<std::size_t>(-1 - columns()[j])].values[n - 1] ==
                                std::numeric_limits<float>::infinity())
                --n;
        column_sizes_.push_back(n);
    }
    cells_.find_centres();
    find_overlaps();
    half_words_.reserve(n_columns());
    for (std::size_t j = 0; j < n_columns(); ++j) {
        const Book* const book = book_of(j);
        // Books that share no dimension have squared distances in their tables, which are not sums of products.
        const bool products = book != nullptr && !(metric() == Metric::kL2 && book->alone);
        half_words_.emplace_back(products ? *book : Book());
    }
    std::vector<const Book*> with_cells(n_columns());
    for (std::size_t j = 0; j < n_columns(); ++j)
        if (columns()[j] >= 0 && overlap(0, static_cast<std::size_t>(columns()[j]))) with_cells[j] = book_of(j);
    cells_.set_columns(std::move(with_cells), dim());
    const bool l2 = metric() == Metric::kL2;
    folds_cells_ = l2 && norms().empty() && (spec_.folded || n_cells() > kWords) && cells_.overlaps_columns();
    has_table_terms_ = l2 && !folds_cells_ && cells_.has_terms();
    if (l2 && spec_.ignored.empty())
        cross_sums_ = CrossSums(columns_with_cross_terms(), folds_cells_ ? &cells_.words() : nullptr, dim());
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

std::vector<CrossSums::Column> Books::columns_with_cross_terms() const {
    std::vector<CrossSums::Column> found;
    if (!spec_.norms.empty()) return found; // they cover all overlaps: checked in Python
    for (std::size_t j = 0; j < n_columns(); ++j)
        for (std::size_t i = folds_cells_ ? 0 : 1; i < spec_.books.size(); ++i)
            if (overlap(i, static_cast<std::size_t>(columns()[j]))) {
                found.push_back({j, book_of(j)});
                break;
            }
    return found;
}

const Book* Books::book_of(std::size_t column) const {
    const int book = columns()[column];
    return book < 0 ? nullptr : &books()[static_cast<std::size_t>(book)];
}

const PairTerms& Books::pair_terms(std::size_t threads) const {
    return pair_terms_.get([&] { return std::make_unique<PairTerms>(books(), overlap_, dim(), threads); });
}

const CoarseWords* Books::coarse_words() const {
    if (metric() != Metric::kL2 || n_cells() < CoarseWords::kFewest) return nullptr;
    return &coarse_words_.get([this] { return std::make_unique<CoarseWords>(cells_.words()); });
}

std::size_t Books::bytes() const {
    std::size_t floats = 0;
    for (const Book& book : books()) floats += book.words.size() + book.squares.size();
    floats += cells_.centres().words.size() + cells_.centres().squares.size();
    std::size_t halves = 0;
    for (const HalfWords& words : half_words_) halves += words.bytes();
    const CoarseWords* coarse = coarse_words_.known();
    return halves + floats * sizeof(float) + (has_table_terms_ ? cells_.term_bytes() : 0) + cross_sums_.bytes() +
           (coarse == nullptr ? 0 : coarse->bytes());
}

float Books::span(const float* tables, const float* minima) const {
    constexpr std::size_t lanes = 16; // sums that do not wait for each other, added in a fixed order
    float span = 0;
    for (std::size_t j = 0; j < column_sizes_.size(); ++j, tables += kWords) {
        const std::size_t n = column_sizes_[j];
        const float low = minima[j];
        float sums[lanes] = {};
        std::size_t w = 0;
        for (; w + lanes <= n; w += lanes)
            for (std::size_t i = 0; i < lanes; ++i) sums[i] += tables[w + i] - low;
        for (std::size_t i = 0; w + i < n; ++i) sums[i] += tables[w + i] - low;
        float sum = 0;
        for (const float part : sums) sum += part;
        span += sum / static_cast<float>(n);
    }
    return span;
}

} // namespace interlace
