#include "cells.h"

#include "nearest_words.h"

namespace interlace {

void Cells::find_centres() {
    if (!NearestWords::reads_all(words_.n_tables())) centres_ = table_centres(words_);
}

void Cells::compute_terms(const std::vector<const Book*>& columns, std::size_t dim) {
    // Two passes, because the scale is known only after the first and the floats of many cells would not fit memory.
    float largest = 0;
    for (const Book* book : columns) {
        if (book == nullptr) continue;
        const float of_column = largest_of(doubled_products(words_, *book, dim));
        largest = std::max(largest, of_column);
        term_bound_ += of_column;
    }
    term_scale_ = largest / 32767.0f;
    if (term_scale_ == 0) return; // nothing to add
    n_columns_ = columns.size();
    terms_.assign(size() * n_columns_ * kWords, 0);
    for (std::size_t j = 0; j < columns.size(); ++j) {
        if (columns[j] == nullptr) continue;
        const std::vector<float> exact = doubled_products(words_, *columns[j], dim);
        for (std::size_t i = 0; i < exact.size(); ++i)
            terms_[(i / kWords * n_columns_ + j) * kWords + i % kWords] = to_step(exact[i], term_scale_);
    }
}

} // namespace interlace
