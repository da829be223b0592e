#include "segment.h"

#include "../simd/kernels.h"
#include "threads.h"

#include <memory>
#include <vector>

namespace interlace {
namespace {
constexpr std::size_t kRowsBetweenChecks = 1 << 16;
} // namespace

Segment::Segment(SegmentShape shape, std::span<const std::uint64_t> cell_starts, const std::uint8_t* crude,
                 const std::uint8_t* rest, const std::uint64_t* low, const std::uint64_t* high,
                 const std::uint32_t* samples, const std::int32_t* cross_floors)
    : shape_(shape), cell_starts_(cell_starts), crude_(crude), rest_(rest), rows_(cell_starts, low, high, samples),
      cross_floors_(cross_floors) {}

std::uint8_t Segment::crude_code(std::uint64_t position, std::size_t column) const {
    return block(position / kBlock)[column * kBlock + position % kBlock];
}

void Segment::codes_at(std::uint64_t position, std::size_t cell, std::uint8_t* codes) const {
    *codes++ = static_cast<std::uint8_t>(cell);
    for (std::size_t j = 0; j < shape_.n_crude; ++j) *codes++ = crude_code(position, j);
    for (std::size_t j = 0; j < shape_.n_rest; ++j) *codes++ = rest_codes(position)[j];
}

void Segment::codes_of(std::span<const std::uint64_t> rows, std::uint8_t* codes) const {
    const std::vector<std::uint64_t> positions = rows_.positions(rows);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (i % kRowsBetweenChecks == 0) checkpoint();
        codes_at(positions[i], rows_.cell_of(positions[i]), codes + i * (1 + shape_.n_columns()));
    }
}

void Segment::unpack(std::uint8_t* codes) const {
    std::vector<std::uint32_t> rows;
    for (std::size_t c = 0; c < shape_.n_cells; ++c) {
        checkpoint();
        rows.resize(end(c) - start(c));
        rows_.decode_cell(c, rows.data());
        for (std::size_t i = 0; i < rows.size(); ++i)
            codes_at(start(c) + i, c, codes + rows[i] * (1 + shape_.n_columns()));
    }
}

SegmentView Segment::view(std::uint64_t first_row) const {
    return {first_row, shape_.n_crude, shape_.n_rest, cell_starts_.data(), crude_, rest_, cross_floors_, &rows_};
}

const std::uint8_t* Segment::cells() const {
    if (const std::uint8_t* known = known_cells()) return known;
    auto made = std::make_unique<std::vector<std::uint8_t>>(shape_.n_rows);
    made->reserve(1); // an address also without rows
    std::vector<std::uint32_t> rows;
    for (std::size_t c = 0; c < shape_.n_cells; ++c) {
        checkpoint();
        rows.resize(end(c) - start(c));
        rows_.decode_cell(c, rows.data());
        for (const std::uint32_t row : rows) (*made)[row] = static_cast<std::uint8_t>(c);
    }
    const std::vector<std::uint8_t>* none = nullptr; // or another thread was quicker
    if (cells_.compare_exchange_strong(none, made.get())) made.release();
    return known_cells();
}

void count_cells(const std::uint8_t* codes, const SegmentShape& shape, std::uint64_t* cell_starts) {
    for (std::size_t c = 0; c <= shape.n_cells; ++c) cell_starts[c] = 0;
    for (std::size_t i = 0; i < shape.n_rows; ++i) {
        if (i % kRowsBetweenChecks == 0) checkpoint();
        ++cell_starts[codes[i * (1 + shape.n_columns())] + 1];
    }
    for (std::size_t c = 0; c < shape.n_cells; ++c) cell_starts[c + 1] += cell_starts[c];
}

void pack(const std::uint8_t* codes, const SegmentShape& shape, std::span<const std::uint64_t> cell_starts,
          std::uint8_t* crude, std::uint8_t* rest, std::uint64_t* low, std::uint64_t* high, std::uint32_t* samples) {
    std::vector<std::uint64_t> next(cell_starts.begin(), cell_starts.end());
    std::vector<std::uint32_t> rows(shape.n_rows);
    for (std::size_t i = 0; i < shape.n_rows; ++i) {
        if (i % kRowsBetweenChecks == 0) checkpoint();
        const std::uint8_t* code = codes + i * (1 + shape.n_columns());
        const std::uint64_t position = next[*code++]++;
        rows[position] = static_cast<std::uint32_t>(i);
        std::uint8_t* block = crude + position / kBlock * shape.n_crude * kBlock;
        for (std::size_t j = 0; j < shape.n_crude; ++j) block[j * kBlock + position % kBlock] = *code++;
        for (std::size_t j = 0; j < shape.n_rest; ++j) rest[position * shape.n_rest + j] = *code++;
    }
    RowNumbers::encode(cell_starts, rows.data(), low, high, samples);
}

} // namespace interlace
