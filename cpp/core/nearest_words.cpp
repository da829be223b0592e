#include "nearest_words.h"

#include "../simd/kernels.h"
#include "threads.h"

#include <limits>
#include <numeric>

namespace interlace {

NearestWords::NearestWords(const Book& words, const Book& centres, std::size_t count)
    : words_(words), centres_(centres), count_(std::min(count, words.n_words)),
      scores_(kGroup * std::max(kWords, centres.padded())), rows_(words.n_tables()), found_(kRows) {}

void NearestWords::run(const float* const* x, std::size_t n, Scored* out) {
    std::fill_n(found_.begin(), n, 0);
    choose_tables(x, n);
    for (std::size_t t = 0; t < rows_.size(); ++t) {
        checkpoint();
        for (std::size_t first = 0; first < rows_[t].size(); first += kGroup)
            read(t, x, rows_[t].data() + first, std::min(kGroup, rows_[t].size() - first), out);
    }
}

void NearestWords::choose_tables(const float* const* x, std::size_t n) {
    const std::size_t n_tables = rows_.size(), n_read = tables_read(n_tables);
    for (auto& rows : rows_) rows.clear();
    if (reads_all(n_tables)) {
        for (auto& rows : rows_) {
            rows.resize(n);
            std::iota(rows.begin(), rows.end(), 0u);
        }
        return;
    }
    std::vector<std::uint32_t> order(n_tables);
    float* to[kGroup];
    for (std::size_t i = 0; i < kGroup; ++i) to[i] = scores_.data() + i * centres_.padded();
    for (std::size_t first = 0; first < n; first += kGroup) {
        const std::size_t group = std::min(kGroup, n - first);
        linear_scores(centres_, x + first, group, to);
        for (std::size_t i = 0; i < group; ++i) {
            const float* score = to[i];
            std::iota(order.begin(), order.end(), 0u);
            const auto nearer = [&](std::uint32_t a, std::uint32_t b) {
                return score[a] != score[b] ? score[a] < score[b] : a < b;
            };
            std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(n_read - 1), order.end(),
                             nearer);
            for (std::size_t t = 0; t < n_read; ++t) rows_[order[t]].push_back(static_cast<std::uint32_t>(first + i));
        }
    }
}

void NearestWords::read(std::size_t table, const float* const* x, const std::uint32_t* rows, std::size_t n,
                        Scored* out) {
    const float* from[kGroup];
    float* to[kGroup];
    for (std::size_t i = 0; i < n; ++i) {
        from[i] = x[rows[i]];
        to[i] = scores_.data() + i * kWords;
    }
    kernels().inner_products(from, n, words_.table(table), words_.support.size(), to);
    const float* squares = words_.squares.data() + table * kWords;
    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t w = 0; w < kWords; ++w) to[i][w] = squares[w] - 2.0f * to[i][w];
        merge(to[i], table, rows[i], out + rows[i] * count_);
    }
}

// The words of a table that are among the nearest so far; tables come in ascending order.
void NearestWords::merge(const float* scores, std::size_t table, std::size_t row, Scored* out) {
    std::size_t& found = found_[row];
    float minima[kGroups];
    const float smallest = kernels().minima(scores, minima);
    if (found == count_ && !(smallest < out[count_ - 1].score)) return;
    float limit = std::numeric_limits<float>::infinity();
    if (count_ <= kGroups) { // each group has a word as near as its minimum, so `count_` of them are within this limit
        std::nth_element(minima, minima + (count_ - 1), minima + kGroups);
        limit = minima[count_ - 1];
    }
    const std::size_t n = std::min(kWords, words_.n_words - table * kWords);
    for (std::size_t w = 0; w < n; ++w) {
        if (!(scores[w] <= limit)) continue;
        if (found == count_) {
            if (!(scores[w] < out[count_ - 1].score)) continue;
            --found;
        }
        std::size_t at = found++;
        for (; at > 0 && scores[w] < out[at - 1].score; --at) out[at] = out[at - 1];
        out[at] = {scores[w], static_cast<std::uint32_t>(table * kWords + w)};
    }
}

} // namespace interlace
