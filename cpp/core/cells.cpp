#include "cells.h"

#include "nearest_words.h"
#include "threads.h"

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
    return terms_.get([this] { return computed(1); });
}

std::unique_ptr<Cells::Terms> Cells::computed(std::size_t threads) const {
    auto terms = std::make_unique<Terms>();
    const std::size_t n_columns = columns_.size();
    // Two passes, because the scale is known only after the first and the floats of many cells would not fit memory.
    std::vector<float> largest(n_columns, 0.0f);
    parallel_for(n_columns, threads, [&](std::size_t j, std::size_t) {
        if (columns_[j] != nullptr) largest[j] = largest_of(doubled_products(words_, *columns_[j], dim_));
    });
    for (const float of_column : largest) {
        terms->scale = std::max(terms->scale, of_column / 32767.0f);
        terms->bound += of_column;
    }
    if (terms->scale == 0) return terms; // nothing to add
    terms->values.assign(size() * n_columns * kWords, 0);
    parallel_for(n_columns, threads, [&](std::size_t j, std::size_t) {
        if (columns_[j] == nullptr) return;
        const std::vector<float> exact = doubled_products(words_, *columns_[j], dim_);
        for (std::size_t cell = 0; cell < size(); ++cell)
            to_steps_of(exact.data() + cell * kWords, kWords, terms->scale,
                        terms->values.data() + (cell * n_columns + j) * kWords);
    });
    return terms;
}

} // namespace interlace
