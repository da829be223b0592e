#include "cells.h"

#include <limits>

namespace interlace {

void Cells::nearest(const float* scores, std::size_t count, std::vector<Scored>& out) const {
    out.clear();
    float limit = std::numeric_limits<float>::infinity();
    if (count <= kGroups) { // each group has a cell as near as its minimum, so `count` of them are within this limit
        float minima[kGroups], of_table[kGroups];
        kernels().minima(scores, minima);
        for (std::size_t t = 1; t < words_.n_tables(); ++t) {
            kernels().minima(scores + t * kWords, of_table);
            for (std::size_t g = 0; g < kGroups; ++g) minima[g] = std::min(minima[g], of_table[g]);
        }
        std::nth_element(minima, minima + (count - 1), minima + kGroups);
        limit = minima[count - 1];
    }
    for (std::uint32_t c = 0; c < size(); ++c) {
        if (!(scores[c] <= limit)) continue;
        if (out.size() == count) {
            if (!(scores[c] < out.back().score)) continue;
            out.pop_back();
        }
        auto at = out.end();
        while (at != out.begin() && scores[c] < (at - 1)->score) --at;
        out.insert(at, {scores[c], c});
    }
}

void Cells::compute_terms(const std::vector<const Book*>& columns, std::size_t dim) {
    std::vector<std::vector<float>> exact(columns.size());
    float largest = 0;
    for (std::size_t j = 0; j < columns.size(); ++j) {
        if (columns[j] == nullptr) continue;
        exact[j] = doubled_products(words_, *columns[j], dim);
        const float of_column = largest_of(exact[j]);
        largest = std::max(largest, of_column);
        term_bound_ += of_column;
    }
    term_scale_ = largest / 32767.0f;
    if (term_scale_ == 0) return; // nothing to add
    n_columns_ = columns.size();
    terms_.assign(size() * n_columns_ * kWords, 0);
    for (std::size_t j = 0; j < columns.size(); ++j)
        for (std::size_t i = 0; i < exact[j].size(); ++i)
            terms_[(i / kWords * n_columns_ + j) * kWords + i % kWords] = to_step(exact[j][i], term_scale_);
}

} // namespace interlace
