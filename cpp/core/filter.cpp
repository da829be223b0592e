#include "filter.h"

#include "../simd/kernels.h"

#include <cstring>
#include <stdexcept>

namespace interlace {
namespace {

// A row is copied in the time in which a scan passes so many (measured on 300k rows: 30-40 ns against 0.6 or so).
constexpr std::uint64_t kCopyCost = 48;
// A copy takes up to a fifth of what the segment does.
constexpr std::uint64_t kCopyShare = 5;
// To look for a row in a cell takes as long as to decode so many of its row numbers.
constexpr std::uint64_t kFindCost = 2;

std::uint64_t count(const std::uint8_t* allowed, std::size_t n) {
    std::uint64_t found = 0;
    for (std::size_t i = 0; i < n; ++i) found += allowed[i] != 0;
    return found;
}

// Allowed rows, ascending; eight at a time, because most are not.
std::vector<std::uint32_t> rows_in(const std::uint8_t* allowed, std::size_t n, std::uint64_t n_allowed) {
    std::vector<std::uint32_t> rows;
    rows.reserve(n_allowed);
    std::size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        std::uint64_t word;
        std::memcpy(&word, allowed + i, 8);
        if (word == 0) continue;
        for (std::size_t j = i; j < i + 8; ++j)
            if (allowed[j] != 0) rows.push_back(static_cast<std::uint32_t>(j));
    }
    for (; i < n; ++i)
        if (allowed[i] != 0) rows.push_back(static_cast<std::uint32_t>(i));
    return rows;
}

} // namespace

Filter::Filter(const Segment& segment, const std::uint8_t* allowed, std::size_t queries) : segment_(segment) {
    const std::uint64_t n = segment.shape().n_rows;
    n_allowed_ = count(allowed, n);
    const std::uint64_t many = queries < n ? queries : n;
    copied_ = n_allowed_ * kCopyShare <= n && n_allowed_ * kCopyCost <= many * (n - n_allowed_);
    if (copied_) copy(allowed);
    else mark(allowed);
}

SegmentView Filter::view(std::uint64_t first_row) const {
    SegmentView view = segment_.view(first_row);
    if (copied_) {
        view.cell_starts = cell_starts_.data();
        view.crude = crude_.data();
        view.rest = rest_.data();
        view.rows = rows_.data();
    } else {
        view.mask = bits_.data();
        view.allowed = per_cell_.data();
    }
    return view;
}

void Filter::mark(const std::uint8_t* allowed) {
    const std::size_t n_cells = segment_.shape().n_cells;
    bits_.assign((segment_.shape().n_rows + kBlock - 1) / kBlock, 0);
    per_cell_.assign(n_cells, 0);
    std::vector<std::uint32_t> rows;
    for (std::size_t c = 0; c < n_cells; ++c) {
        rows.resize(segment_.end(c) - segment_.start(c));
        segment_.rows().decode_cell(c, rows.data());
        for (std::size_t i = 0; i < rows.size(); ++i) {
            const std::uint64_t bit = allowed[rows[i]] != 0, position = segment_.start(c) + i;
            per_cell_[c] += bit;
            bits_[position / kBlock] |= bit << (position % kBlock);
        }
    }
}

void Filter::copy(const std::uint8_t* allowed) {
    const SegmentShape& shape = segment_.shape();
    const RowNumbers& numbers = segment_.rows();
    std::vector<std::uint64_t> positions(n_allowed_); // in the segment, of each position of the copy
    rows_.resize(n_allowed_);
    cell_starts_.assign(shape.n_cells + 1, 0);
    // Few rows are looked for in every cell, to find the few cells that have them; for more it is quicker to decode
    // all.
    const bool few = n_allowed_ * shape.n_cells * kFindCost < shape.n_rows;
    const std::vector<std::uint32_t> wanted =
        few ? rows_in(allowed, shape.n_rows, n_allowed_) : std::vector<std::uint32_t>();
    std::vector<std::uint32_t> rows, places(few ? wanted.size() : 0);
    std::uint64_t n = 0;
    for (std::size_t c = 0; c < shape.n_cells; ++c) {
        const auto keep = [&](std::uint32_t row, std::uint64_t place) {
            if (n == n_allowed_) throw std::runtime_error("row numbers are damaged: a row is in more than one cell");
            rows_[n] = row;
            positions[n++] = segment_.start(c) + place;
        };
        if (few) {
            numbers.find_in_cell(c, wanted, places.data());
            for (std::size_t i = 0; i < wanted.size(); ++i)
                if (places[i] != RowNumbers::kNowhere) keep(wanted[i], places[i]);
        } else {
            rows.resize(segment_.end(c) - segment_.start(c));
            numbers.decode_cell(c, rows.data());
            for (std::size_t i = 0; i < rows.size(); ++i)
                if (allowed[rows[i]] != 0) keep(rows[i], i);
        }
        cell_starts_[c + 1] = n;
    }
    if (n != n_allowed_) throw std::runtime_error("row numbers are damaged: a row is in no cell");
    crude_.assign((n + kBlock - 1) / kBlock * shape.n_crude * kBlock, 0);
    rest_.resize(n * shape.n_rest);
    for (std::uint64_t i = 0; i < n; ++i) {
        const std::uint8_t* from = segment_.block(positions[i] / kBlock) + positions[i] % kBlock;
        std::uint8_t* to = crude_.data() + i / kBlock * shape.n_crude * kBlock + i % kBlock;
        for (std::size_t j = 0; j < shape.n_crude; ++j) to[j * kBlock] = from[j * kBlock];
        if (shape.n_rest > 0)
            std::memcpy(rest_.data() + i * shape.n_rest, segment_.rest_codes(positions[i]), shape.n_rest);
    }
}

} // namespace interlace
