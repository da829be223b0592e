#include "beam_tables.h"

#include <algorithm>
#include <cstddef>

namespace interlace {

BeamTables::BeamTables(const Books& books)
    : books_(books), n_books_(books.books().size()), gathered_(kGroup * books.dim()),
      linear_(kGroup * n_books_ * kWords), own_(kWords), cross_(n_books_ * n_books_), column_(n_books_),
      linked_(n_books_, false), separate_(n_books_, true) {
    for (std::size_t j = 0; j < books.n_columns(); ++j)
        if (books.columns()[j] >= 0) column_[static_cast<std::size_t>(books.columns()[j])] = j;
    const PairTerms& terms = books.pair_terms();
    for (std::size_t i = 1; i < n_books_; ++i)
        for (std::size_t j = i + 1; j < n_books_; ++j)
            if ((cross_[i * n_books_ + j] = terms.of(i, j)) != nullptr && terms.scale() > 0)
                any_linked_ = linked_[i] = linked_[j] = true;
    for (std::size_t i = 1; i < n_books_; ++i)
        for (std::size_t j = i + 1; j < n_books_; ++j)
            if (cross_[i * n_books_ + j] != nullptr)
                std::fill(separate_.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                          separate_.begin() + static_cast<std::ptrdiff_t>(j) + 1, false);
}

void BeamTables::reserve(std::size_t n_slots) {
    steps_.resize(n_slots * n_books_ * kWords);
    offsets_.resize(n_slots * n_books_);
}

void BeamTables::compute(const float* rotated, std::size_t n) {
    const float* from[kGroup];
    float* to[kGroup];
    for (std::size_t j = 1; j < n_books_; ++j) {
        const Book& book = books_.books()[j];
        for (std::size_t i = 0; i < n; ++i) {
            float* values = gathered_.data() + i * books_.dim();
            for (std::size_t d = 0; d < book.support.size(); ++d)
                values[d] = rotated[i * books_.dim() + book.support[d]];
            from[i] = values;
            to[i] = linear_.data() + (i * n_books_ + j) * kWords;
        }
        linear_scores(book, from, n, to);
    }
}

void BeamTables::start(std::size_t row, std::span<const NearestWords::Scored> cells) {
    row_ = linear_.data() + row * n_books_ * kWords;
    cells_.clear();
    for (const NearestWords::Scored& scored : cells) cells_.push_back(scored.word);
    made_.assign(cells_.size() * n_books_, false);
}

const float* BeamTables::own(std::size_t slot, std::size_t j) {
    const float* table = row_ + j * kWords;
    const Cells& cells = books_.cells();
    if (!books_.overlap(0, j) || !cells.has_terms()) return table;
    kernel_.add_terms(table, cells.terms(cells_[slot], column_[j]), cells.term_scale(), own_.data());
    return own_.data();
}

const std::int16_t* BeamTables::steps(std::size_t slot, std::size_t j) {
    const std::size_t at = slot * n_books_ + j;
    std::int16_t* out = steps_.data() + at * kWords;
    if (!made_[at]) {
        made_[at] = true;
        const float* table = own(slot, j);
        float group_minima[kGroups];
        offsets_[at] = kernel_.minima(table, group_minima);
        kernel_.to_steps(table, offsets_[at], finite_inverse(books_.pair_terms().scale()), kStart, out);
    }
    return out;
}

void BeamTables::add_up(const std::int16_t* head, const std::uint8_t* codes, std::size_t j, std::size_t first,
                        std::size_t last, std::int16_t* out) const {
    const std::int16_t* rows[kMaxBooks];
    std::size_t n = 0;
    rows[n++] = head;
    for (std::size_t i = first; i < last; ++i)
        if (const std::int16_t* terms = cross(i, j)) rows[n++] = terms + codes[i] * kWords;
    kernel_.add_rows(rows, n, out);
}

} // namespace interlace
