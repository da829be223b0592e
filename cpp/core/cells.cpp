#include "cells.h"

#include "nearest_words.h"

namespace interlace {

void Cells::find_centres() {
    if (!NearestWords::reads_all(words_.n_tables())) centres_ = table_centres(words_);
}

void Cells::set_columns(std::vector<const Book*> columns, std::size_t dim) {
    columns_ = std::move(columns);
    dim_ = dim;
}

bool Cells::overlaps_columns() const {
    return std::any_of(columns_.begin(), columns_.end(), [](const Book* book) { return book != nullptr; });
}

std::size_t Cells::term_bytes() const {
    const Terms* made = terms_.known();
    return made == nullptr ? 0 : made->values.size() * sizeof(std::int16_t);
}

const Cells::Terms& Cells::terms() const {
    return terms_.get([this] { return computed(); });
}

std::unique_ptr<Cells::Terms> Cells::computed() const {
    auto terms = std::make_unique<Terms>();
    // Two passes, because the scale is known only after the first and the floats of many cells would not fit memory.
    float largest = 0;
    for (const Book* book : columns_) {
        if (book == nullptr) continue;
        const float of_column = largest_of(doubled_products(words_, *book, dim_));
        largest = std::max(largest, of_column);
        terms->bound += of_column;
    }
    terms->scale = largest / 32767.0f;
    if (terms->scale == 0) return terms; // nothing to add
    const std::size_t n_columns = columns_.size();
    terms->values.assign(size() * n_columns * kWords, 0);
    for (std::size_t j = 0; j < n_columns; ++j) {
        if (columns_[j] == nullptr) continue;
        const std::vector<float> exact = doubled_products(words_, *columns_[j], dim_);
        for (std::size_t i = 0; i < exact.size(); ++i)
            terms->values[(i / kWords * n_columns + j) * kWords + i % kWords] = to_step(exact[i], terms->scale);
    }
    return terms;
}

} // namespace interlace
