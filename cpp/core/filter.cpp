#include "filter.h"

#include "../simd/kernels.h"
#include "damaged.h"
#include "threads.h"

#include <algorithm>
#include <cstring>

namespace interlace {
namespace {

// At most one row in kCopyShare is copied, which takes up to half the bytes of the segment; any part of a segment of at
// most kSmall rows.
constexpr std::uint64_t kCopyShare = 4, kSmall = 4096;
// Finding a row in a cell takes as long as decoding this many row numbers.
constexpr std::uint64_t kFindCost = 12;
// Rows are searched for in every cell where that takes at most 1 / kHandful of the time of decoding all row numbers.
constexpr std::uint64_t kHandful = 8;
// Average number of rows per cell up to which a scan without cells is faster (SegmentView::statics): where all cells
// have the same tables, and where each has its own, which must be made before its rows are scanned.
constexpr std::uint64_t kFlatRows = 32, kFlatRowsOwnTables = 128;

// call(i, word) for every eight bytes that are not all 0, and for the bytes after the last eight
template <typename Call> void for_words(const std::uint8_t* allowed, std::size_t n, const Call& call) {
    std::size_t i = 0;
    for (; i + 32 <= n; i += 32) { // most are 0 where few rows are allowed
        std::uint64_t words[4];
        std::memcpy(words, allowed + i, 32);
        if ((words[0] | words[1] | words[2] | words[3]) == 0) continue;
        for (std::size_t w = 0; w < 4; ++w)
            if (words[w] != 0) call(i + 8 * w, words[w]);
    }
    for (; i < n; i += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, allowed + i, std::min<std::size_t>(8, n - i));
        if (word != 0) call(i, word);
    }
}

std::uint64_t count(const std::uint8_t* allowed, std::size_t n) {
    constexpr std::uint64_t low = 0x7f7f7f7f7f7f7f7f, ones = 0x0101010101010101;
    std::uint64_t found = 0;
    for_words(allowed, n, [&](std::size_t, std::uint64_t word) {
        const std::uint64_t set = (((word & low) + low) | word) >> 7 & ones; // 1 for each byte that is not 0
        found += set * ones >> 56;
    });
    return found;
}

std::vector<std::uint32_t> rows_in(const std::uint8_t* allowed, std::size_t n, std::uint64_t n_allowed) { // ascending
    std::vector<std::uint32_t> rows;
    rows.reserve(n_allowed);
    for_words(allowed, n, [&](std::size_t i, std::uint64_t) {
        for (std::size_t j = i; j < std::min(i + 8, n); ++j)
            if (allowed[j] != 0) rows.push_back(static_cast<std::uint32_t>(j));
    });
    return rows;
}

} // namespace

Filter::Filter(const Books& books, const Segment& segment, const std::uint8_t* allowed) : segment_(segment) {
    n_allowed_ = count(allowed, segment.shape().n_rows);
    copied_ = n_allowed_ * kCopyShare <= segment.shape().n_rows || segment.shape().n_rows <= kSmall;
    if (!copied_) {
        if (n_allowed_ < segment.shape().n_rows) mark(allowed);
        return;
    }
    copy(books, find(allowed));
    if (n_allowed_ <= books.n_cells() * (books.has_table_terms() ? kFlatRowsOwnTables : kFlatRows)) gather(books);
}

SegmentView Filter::view(const Books& books, std::uint64_t first_row) const {
    SegmentView view = segment_.view(books, first_row);
    if (copied_) {
        view.empty = nullptr;
        view.cell_starts = cell_starts_.data();
        view.crude = crude_.data();
        view.rest = rest_.data();
        if (view.fixed != nullptr) view.fixed = fixed_.data();
        view.sums = sums_.empty() ? nullptr : sums_.data(); // the segment may keep them since
        view.rows = rows_.data();
        view.codes = codes_.data();
        view.statics = gathered_ ? statics_.data() : nullptr;
    } else if (!bits_.empty()) {
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
        checkpoint();
        rows.resize(segment_.end(c) - segment_.start(c));
        segment_.rows().decode_cell(c, rows.data());
        for (std::size_t i = 0; i < rows.size(); ++i) {
            const std::uint64_t bit = allowed[rows[i]] != 0, position = segment_.start(c) + i;
            per_cell_[c] += bit;
            bits_[position / kBlock] |= bit << (position % kBlock);
        }
    }
}

// Positions of the allowed rows in the segment, ascending; their row numbers and the cells of the copy.
std::vector<std::uint64_t> Filter::find(const std::uint8_t* allowed) {
    const SegmentShape& shape = segment_.shape();
    std::vector<std::uint64_t> positions(n_allowed_);
    rows_.resize(n_allowed_);
    cell_starts_.assign(shape.n_cells + 1, 0);
    std::uint64_t n = 0;
    const auto keep = [&](std::uint32_t row, std::uint64_t position) {
        if (n == n_allowed_) throw Damaged("row numbers are damaged: a row is in more than one cell");
        rows_[n] = row;
        positions[n++] = position;
    };
    // Few rows are searched for in their cells, very few in every cell unless their cells are known already; for many
    // it is faster to decode all row numbers.
    const bool few = n_allowed_ * kFindCost < shape.n_rows;
    const bool handful = n_allowed_ * kFindCost * shape.n_cells < shape.n_rows / kHandful;
    const RowCells* cells = !few ? nullptr : handful ? segment_.known_cells() : &segment_.cells();
    std::vector<std::uint32_t> wanted, rows, places;
    if (few) wanted = rows_in(allowed, shape.n_rows, n_allowed_);
    std::vector<std::uint64_t> starts(shape.n_cells + 1, 0); // of the wanted rows of each cell
    if (cells != nullptr) {
        for (const std::uint32_t row : wanted) ++starts[(*cells)[row] + 1];
        for (std::size_t c = 0; c < shape.n_cells; ++c) starts[c + 1] += starts[c];
        rows.resize(wanted.size());
        std::vector<std::uint64_t> next(starts.begin(), starts.end() - 1);
        for (const std::uint32_t row : wanted) rows[next[(*cells)[row]]++] = row;
        wanted.swap(rows);
    }
    places.resize(wanted.size());
    for (std::size_t c = 0; c < shape.n_cells; ++c) {
        checkpoint();
        if (few) {
            const std::span<const std::uint32_t> all(wanted);
            const auto here = cells == nullptr ? all : all.subspan(starts[c], starts[c + 1] - starts[c]);
            segment_.rows().find_in_cell(c, here, places.data());
            for (std::size_t i = 0; i < here.size(); ++i)
                if (places[i] != RowNumbers::kNowhere) keep(here[i], segment_.start(c) + places[i]);
        } else {
            rows.resize(segment_.end(c) - segment_.start(c));
            segment_.rows().decode_cell(c, rows.data());
            for (std::size_t i = 0; i < rows.size(); ++i)
                if (allowed[rows[i]] != 0) keep(rows[i], segment_.start(c) + i);
        }
        cell_starts_[c + 1] = n;
    }
    if (n != n_allowed_) throw Damaged("row numbers are damaged: a row is in no cell");
    return positions;
}

void Filter::copy(const Books& books, const std::vector<std::uint64_t>& positions) {
    const SegmentShape& shape = segment_.shape();
    const std::size_t n = positions.size();
    crude_.assign((n + kBlock - 1) / kBlock * shape.n_crude * kBlock, 0);
    rest_.resize(n * shape.n_rest);
    const std::uint8_t* fixed = books.folds_cells() ? segment_.fixed_parts(books).bytes.data() : nullptr;
    const std::int32_t* sums = segment_.known_sums() != nullptr ? segment_.known_sums()->data() : nullptr;
    if (sums != nullptr) sums_.resize(n);
    if (fixed != nullptr) fixed_.assign(std::max<std::size_t>(1, (n + kBlock - 1) / kBlock) * kBlock, 0);
    for (std::size_t i = 0; i < n; ++i) {
        if (i % 65536 == 0) checkpoint();
        const std::uint8_t* from = segment_.block(positions[i] / kBlock) + positions[i] % kBlock;
        std::uint8_t* to = crude_.data() + i / kBlock * shape.n_crude * kBlock + i % kBlock;
        for (std::size_t j = 0; j < shape.n_crude; ++j) to[j * kBlock] = from[j * kBlock];
        if (fixed != nullptr) fixed_[i] = fixed[positions[i]];
        if (sums != nullptr) sums_[i] = sums[positions[i]];
        std::copy_n(segment_.rest_codes(positions[i]), shape.n_rest, rest_.data() + i * shape.n_rest);
    }
}

void Filter::gather(const Books& books) {
    const SegmentShape& shape = segment_.shape();
    codes_.resize(rows_.size() * shape.n_columns());
    gathered_ = true;
    statics_.reserve(1); // an address also without rows
    statics_.resize(rows_.size());
    for (std::size_t c = 0; c < shape.n_cells; ++c) {
        checkpoint(); // there are few rows in all, or they would not be gathered
        for (std::uint64_t i = cell_starts_[c]; i < cell_starts_[c + 1]; ++i) {
            const std::uint8_t* crude = crude_.data() + i / kBlock * shape.n_crude * kBlock + i % kBlock;
            std::uint8_t* codes = codes_.data() + i * shape.n_columns();
            for (std::size_t j = 0; j < shape.n_crude; ++j) codes[j] = crude[j * kBlock];
            std::copy_n(rest_.data() + i * shape.n_rest, shape.n_rest, codes + shape.n_crude);
            statics_[i] = FlatRows::static_part(books, c, codes);
        }
    }
}

} // namespace interlace
