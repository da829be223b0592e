#include "segment.h"

#include "../simd/kernels.h"
#include "threads.h"

#include <memory>
#include <stdexcept>
#include <vector>

namespace interlace {
namespace {
constexpr std::size_t kRowsBetweenChecks = 1 << 16;
constexpr const char* kNoSuchCell = "a row names a cell that is not there";
} // namespace

Segment::Segment(SegmentShape shape, std::span<const std::uint64_t> cell_starts, const std::uint8_t* crude,
                 const std::uint8_t* rest, const std::uint64_t* low, const std::uint64_t* high,
                 const std::uint32_t* samples, const std::int32_t* cross_floors)
    : shape_(shape), cell_starts_(cell_starts), crude_(crude), rest_(rest), rows_(cell_starts, low, high, samples),
      cross_floors_(cross_floors) {}

std::uint8_t Segment::crude_code(std::uint64_t position, std::size_t column) const {
    return block(position / kBlock)[column * kBlock + position % kBlock];
}

void Segment::codes_at(std::uint64_t position, std::uint8_t* codes) const {
    for (std::size_t j = 0; j < shape_.n_crude; ++j) *codes++ = crude_code(position, j);
    for (std::size_t j = 0; j < shape_.n_rest; ++j) *codes++ = rest_codes(position)[j];
}

void Segment::codes_of(std::span<const std::uint64_t> rows, const CodeRowsOut& out) const {
    const std::vector<std::uint64_t> positions = rows_.positions(rows);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (i % kRowsBetweenChecks == 0) checkpoint();
        out.set_cell(i, static_cast<std::uint32_t>(rows_.cell_of(positions[i])));
        codes_at(positions[i], out.codes(i));
    }
}

void Segment::unpack(const CodeRowsOut& out) const {
    std::vector<std::uint32_t> rows;
    for (std::size_t c = 0; c < shape_.n_cells; ++c) {
        checkpoint();
        rows.resize(end(c) - start(c));
        rows_.decode_cell(c, rows.data());
        for (std::size_t i = 0; i < rows.size(); ++i) {
            out.set_cell(rows[i], static_cast<std::uint32_t>(c));
            codes_at(start(c) + i, out.codes(rows[i]));
        }
    }
}

SegmentView Segment::view(const Books& books, std::uint64_t first_row) const {
    SegmentView view{first_row, shape_.n_crude, shape_.n_rest,  cell_starts_.data(),
                     crude_,    rest_,          cross_floors_,  nullptr,
                     0,         nullptr,        &empty_cells(), &rows_};
    if (books.folds_cells()) {
        const FixedParts& parts = fixed_parts(books);
        view.cross_floors = parts.floors.data();
        view.fixed = parts.bytes.data();
        view.fixed_step = parts.step;
        view.sums = known_sums() != nullptr ? known_sums()->data() : nullptr;
    }
    return view;
}

SegmentView Segment::flat_view(const Books& books, std::uint64_t first_row) const {
    SegmentView flat = view(books, first_row);
    const FlatRows& rows = flat_rows_.get([&] { return std::make_unique<FlatRows>(books, *this); });
    flat.codes = rows.codes.data();
    flat.statics = rows.statics.data();
    return flat;
}

const FixedParts& Segment::fixed_parts(const Books& books) const {
    return fixed_parts_.get([&] {
        if (books.keeps_sums() || known_sums() != nullptr) return std::make_unique<FixedParts>(*this, sums(books));
        return std::make_unique<FixedParts>(*this, cross_sums(books, *this));
    });
}

const std::vector<std::int32_t>& Segment::sums(const Books& books) const {
    return sums_.get([&] { return std::make_unique<std::vector<std::int32_t>>(cross_sums(books, *this)); });
}

const std::vector<std::uint32_t>& Segment::empty_cells() const {
    return empty_cells_.get([this] {
        auto made = std::make_unique<std::vector<std::uint32_t>>();
        for (std::size_t c = 0; c < shape_.n_cells; ++c)
            if (start(c) == end(c)) made->push_back(static_cast<std::uint32_t>(c));
        return made;
    });
}

const RowCells& Segment::cells() const {
    return cells_.get([this] {
        auto made = std::make_unique<RowCells>(shape_.n_rows, shape_.n_cells);
        std::vector<std::uint32_t> rows;
        for (std::size_t c = 0; c < shape_.n_cells; ++c) {
            checkpoint();
            rows.resize(end(c) - start(c));
            rows_.decode_cell(c, rows.data());
            for (const std::uint32_t row : rows) made->set(row, static_cast<std::uint32_t>(c));
        }
        return made;
    });
}

void count_cells(const CodeRows& rows, std::size_t n_cells, std::uint64_t* cell_starts) {
    for (std::size_t c = 0; c <= n_cells; ++c) cell_starts[c] = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (i % kRowsBetweenChecks == 0) checkpoint();
        const std::uint32_t cell = rows.cell(i);
        if (cell >= n_cells) throw std::invalid_argument(kNoSuchCell);
        ++cell_starts[cell + 1];
    }
    for (std::size_t c = 0; c < n_cells; ++c) cell_starts[c + 1] += cell_starts[c];
}

void pack(const CodeRows& rows, const SegmentShape& shape, std::span<const std::uint64_t> cell_starts,
          std::uint8_t* crude, std::uint8_t* rest, std::uint64_t* low, std::uint64_t* high, std::uint32_t* samples) {
    std::vector<std::uint64_t> next(cell_starts.begin(), cell_starts.end());
    std::vector<std::uint32_t> numbers(shape.n_rows); // row number of every position
    for (std::size_t i = 0; i < shape.n_rows; ++i) {
        if (i % kRowsBetweenChecks == 0) checkpoint();
        const std::uint32_t cell = rows.cell(i);
        if (cell >= shape.n_cells || next[cell] == cell_starts[cell + 1]) throw std::invalid_argument(kNoSuchCell);
        const std::uint64_t position = next[cell]++;
        numbers[position] = static_cast<std::uint32_t>(i);
        const std::uint8_t* code = rows.codes(i);
        std::uint8_t* block = crude + position / kBlock * shape.n_crude * kBlock;
        for (std::size_t j = 0; j < shape.n_crude; ++j) block[j * kBlock + position % kBlock] = *code++;
        for (std::size_t j = 0; j < shape.n_rest; ++j) rest[position * shape.n_rest + j] = *code++;
    }
    RowNumbers::encode(cell_starts, numbers.data(), low, high, samples);
}

} // namespace interlace
