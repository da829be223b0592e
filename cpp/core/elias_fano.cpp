#include "elias_fano.h"

#include "bits.h"
#include "damaged.h"
#include "threads.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

namespace interlace {

std::vector<RowNumbers::Cell> RowNumbers::plan(std::span<const std::uint64_t> cell_starts, Sizes* totals) {
    const std::uint64_t n = cell_starts.back();
    std::vector<Cell> cells;
    cells.reserve(cell_starts.size() - 1);
    std::uint64_t low = 0, high = 0, samples = 0;
    for (std::size_t c = 0; c + 1 < cell_starts.size(); ++c) {
        const std::uint64_t size = cell_starts[c + 1] - cell_starts[c];
        const unsigned low_bits = size == 0 ? 0 : static_cast<unsigned>(std::bit_width(n / size) - 1);
        cells.push_back({cell_starts[c], size, low, high, samples, low_bits});
        low += size * low_bits;
        high += size == 0 ? 0 : size + (n >> low_bits) + 1;
        samples += (size + kSample - 1) / kSample;
    }
    // One spare word: low() may read the word after the last bit.
    *totals = {static_cast<std::size_t>(low / 64 + 2), static_cast<std::size_t>(high / 64 + 1),
               static_cast<std::size_t>(samples)};
    return cells;
}

RowNumbers::Sizes RowNumbers::sizes(std::span<const std::uint64_t> cell_starts) {
    Sizes totals;
    plan(cell_starts, &totals);
    return totals;
}

RowNumbers::RowNumbers(std::span<const std::uint64_t> cell_starts, const std::uint64_t* low, const std::uint64_t* high,
                       const std::uint32_t* samples)
    : starts_(cell_starts.begin(), cell_starts.end()), n_rows_(cell_starts.back()), low_(low), high_(high),
      samples_(samples) {
    Sizes totals;
    cells_ = plan(cell_starts, &totals);
    high_words_ = totals.high;
}

std::uint64_t RowNumbers::word(std::uint64_t index) const {
    if (index >= high_words_) throw Damaged("row numbers are damaged: a cell has fewer than its size says");
    return high_[index];
}

std::uint64_t RowNumbers::checked(std::uint64_t row) const {
    if (row >= n_rows_)
        throw Damaged("row numbers are damaged: row " + std::to_string(row) + " of " + std::to_string(n_rows_));
    return row;
}

void RowNumbers::encode(std::span<const std::uint64_t> cell_starts, const std::uint32_t* rows, std::uint64_t* low,
                        std::uint64_t* high, std::uint32_t* samples) {
    Sizes totals;
    for (const Cell& cell : plan(cell_starts, &totals)) {
        checkpoint();
        for (std::size_t i = 0; i < cell.size; ++i) {
            const std::uint64_t row = rows[cell.start + i];
            if (cell.low_bits > 0) {
                const std::uint64_t value = row & ((std::uint64_t{1} << cell.low_bits) - 1);
                const std::uint64_t bit = cell.low_offset + i * cell.low_bits;
                low[bit / 64] |= value << (bit % 64);
                if (bit % 64 + cell.low_bits > 64) low[bit / 64 + 1] |= value >> (64 - bit % 64);
            }
            const std::uint64_t at = (row >> cell.low_bits) + i, bit = cell.high_offset + at;
            high[bit / 64] |= std::uint64_t{1} << (bit % 64);
            if (i % kSample == 0) samples[cell.sample_offset + i / kSample] = static_cast<std::uint32_t>(at);
        }
    }
}

std::uint64_t RowNumbers::low(const Cell& cell, std::size_t i) const {
    const std::uint64_t bit = cell.low_offset + i * cell.low_bits;
    // No branch: the next word always exists, and a shift by 64, which is undefined, is one by 1 and one by 63.
    const std::uint64_t value = low_[bit / 64] >> (bit % 64) | low_[bit / 64 + 1] << 1 << (63 - bit % 64);
    return value & ((std::uint64_t{1} << cell.low_bits) - 1);
}

std::uint64_t RowNumbers::at(std::size_t c, std::size_t i) const {
    const Cell& cell = cells_[c];
    const std::uint64_t sampled = samples_[cell.sample_offset + i / kSample];
    unsigned wanted = i % kSample; // ones to pass after the sampled one
    std::uint64_t bit = cell.high_offset + sampled;
    std::uint64_t word = this->word(bit / 64) >> (bit % 64) << (bit % 64);
    std::size_t index = bit / 64;
    for (unsigned ones = count_ones(word); ones <= wanted; ones = count_ones(word)) {
        wanted -= ones;
        word = this->word(++index);
    }
    bit = index * 64 + place_of_one(word, wanted);
    return checked(((bit - cell.high_offset - i) << cell.low_bits) | low(cell, i));
}

void RowNumbers::fetch(std::size_t c, std::size_t i) const {
    const Cell& cell = cells_[c];
    __builtin_prefetch(samples_ + cell.sample_offset + i / kSample);
    __builtin_prefetch(low_ + (cell.low_offset + i * cell.low_bits) / 64);
    // About where its one is, if the rows of the cell are spread evenly.
    const std::uint64_t bits = cell.size + (n_rows_ >> cell.low_bits);
    __builtin_prefetch(high_ + (cell.high_offset + bits * i / std::max<std::uint64_t>(1, cell.size)) / 64);
}

void RowNumbers::decode_cell(std::size_t c, std::uint32_t* out) const {
    const Cell& cell = cells_[c];
    if (cell.size == 0) return;
    std::size_t index = cell.high_offset / 64;
    std::uint64_t word = this->word(index) >> (cell.high_offset % 64) << (cell.high_offset % 64);
    std::uint64_t largest = 0;
    for (std::size_t i = 0; i < cell.size; ++i) {
        while (word == 0) word = this->word(++index);
        const std::uint64_t bit = index * 64 + static_cast<std::uint64_t>(std::countr_zero(word));
        word &= word - 1;
        const std::uint64_t row = ((bit - cell.high_offset - i) << cell.low_bits) | low(cell, i);
        largest = std::max(largest, row);
        out[i] = static_cast<std::uint32_t>(row);
    }
    checked(largest);
}

void RowNumbers::find_in_cell(std::size_t c, std::span<const std::uint32_t> rows, std::uint32_t* places) const {
    const Cell& cell = cells_[c];
    std::fill(places, places + rows.size(), kNowhere);
    if (cell.size == 0) return;
    const std::uint32_t* samples = samples_ + cell.sample_offset;
    const std::size_t n_samples = (cell.size + kSample - 1) / kSample;
    std::size_t sample = 0, i = 0;             // the next row number of the cell is the i-th,
    std::size_t index = cell.high_offset / 64; // its one is in this word or a later one,
    std::uint64_t word = this->word(index) >> (cell.high_offset % 64) << (cell.high_offset % 64);
    std::size_t ones = count_ones(word); // which has this many left
    for (std::size_t r = 0; r < rows.size(); ++r) {
        const std::uint64_t high = rows[r] >> cell.low_bits;
        // The last sampled one with a smaller high part: all before it are too small.
        std::size_t first = sample, last = n_samples;
        while (last - first > 1) {
            const std::size_t middle = (first + last) / 2;
            if (samples[middle] - middle * kSample < high) first = middle;
            else last = middle;
        }
        sample = first;
        if (sample * kSample > i) {
            i = sample * kSample;
            const std::uint64_t bit = cell.high_offset + samples[sample];
            index = bit / 64;
            word = this->word(index) >> (bit % 64) << (bit % 64);
            ones = count_ones(word);
        }
        // A word with fewer zeros up to its end than `high` has no one of that high part.
        while (word == 0 || (index + 1) * 64 - cell.high_offset - i - ones < high) {
            i += ones;
            if (i >= cell.size) return;
            word = this->word(++index);
            ones = count_ones(word);
        }
        for (;;) {
            if (word == 0) {
                word = this->word(++index);
                ones = count_ones(word);
                continue;
            }
            const std::uint64_t bit = index * 64 + static_cast<std::uint64_t>(std::countr_zero(word));
            const std::uint64_t high_here = bit - cell.high_offset - i;
            if (high_here > high) break;
            if (high_here == high) {
                const std::uint64_t row = high << cell.low_bits | low(cell, i);
                if (row > rows[r]) break;
                if (row == rows[r]) {
                    places[r] = static_cast<std::uint32_t>(i);
                    break;
                }
            }
            word &= word - 1;
            --ones;
            if (++i >= cell.size) return;
        }
    }
}

std::size_t RowNumbers::cell_of(std::uint64_t position) const {
    return static_cast<std::size_t>(std::upper_bound(starts_.begin(), starts_.end(), position) - starts_.begin()) - 1;
}

std::vector<std::uint64_t> RowNumbers::positions(std::span<const std::uint64_t> rows) const {
    std::vector<std::uint64_t> found(rows.size());
    if (rows.size() * n_cells() < n_rows_ / 16) { // few rows: look for them in every cell
        std::vector<std::uint32_t> wanted(rows.begin(), rows.end()), places(rows.size());
        std::sort(wanted.begin(), wanted.end());
        std::vector<std::uint64_t> position_of(rows.size(), n_rows_); // n_rows_: in no cell
        for (std::size_t c = 0; c < n_cells(); ++c) {
            checkpoint();
            find_in_cell(c, wanted, places.data());
            for (std::size_t i = 0; i < wanted.size(); ++i)
                if (places[i] != kNowhere) position_of[i] = cells_[c].start + places[i];
        }
        for (std::size_t r = 0; r < rows.size(); ++r)
            found[r] = position_of[static_cast<std::size_t>(std::lower_bound(wanted.begin(), wanted.end(), rows[r]) -
                                                            wanted.begin())];
        return in_cells(std::move(found));
    }
    std::vector<std::uint32_t> row_at(n_rows_), position_of(n_rows_, static_cast<std::uint32_t>(n_rows_));
    for (std::size_t c = 0; c < n_cells(); ++c) {
        checkpoint();
        decode_cell(c, row_at.data() + cells_[c].start);
    }
    for (std::size_t p = 0; p < n_rows_; ++p) position_of[row_at[p]] = static_cast<std::uint32_t>(p);
    for (std::size_t r = 0; r < rows.size(); ++r) found[r] = position_of[rows[r]];
    return in_cells(std::move(found));
}

std::vector<std::uint64_t> RowNumbers::in_cells(std::vector<std::uint64_t> positions) const {
    for (const std::uint64_t position : positions)
        if (position == n_rows_) throw Damaged("row numbers are damaged: a row is in no cell");
    return positions;
}

} // namespace interlace
