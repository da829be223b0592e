// The cells: which one a row belongs to, in which order a query visits them, and what a cell adds to the tables.
//
// Every word of the first book is a cell. Cell numbers are uint32; their number comes from the book. Arrays with an
// entry for each cell have padded() entries, those after the last cell are +inf where they are compared.
#pragma once
#include "book.h"
#include "made_once.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace interlace {

class Cells {
public:
    explicit Cells(const Book& words) : words_(words) {} // which must outlive this object

    std::size_t size() const { return words_.n_words; }
    std::size_t padded() const { return words_.padded(); }
    const Book& words() const { return words_; }

    // Of the tables of words (nearest_words.h); empty where all tables are read.
    const Book& centres() const { return centres_; }
    void find_centres(); // once the squares of the words are there

    // A number for each cell: in ascending order they are cells in ascending order of base, equal ones in ascending
    // order of their number, which is in the low 32 bits.
    static std::uint64_t sort_key(float base, std::size_t cell) {
        const std::uint32_t bits = std::bit_cast<std::uint32_t>(base + 0.0f); // -0 sorts as 0
        const std::uint32_t ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
        return static_cast<std::uint64_t>(ordered) << 32 | cell;
    }

    // Terms of a cell [n_columns][256] in steps of term_scale(): 2 c.w for the words w of the column's book. The terms
    // of all cells together exceed the second-level cache and search reads them cell by cell: int16 halves the traffic,
    // for an error below 2^-16 of the largest term. One scale for all columns, so that steps can be added up.
    // They are computed by prepare_terms(), or by the first call of any of these: coding needs them, and search with
    // few cells.
    void prepare_terms(std::size_t threads) const {
        terms_.get([&] { return computed(threads); });
    }
    bool has_terms() const { return !terms().values.empty(); }
    const std::int16_t* terms(std::size_t cell) const {
        return terms().values.data() + cell * columns_.size() * kWords;
    }
    const std::int16_t* terms(std::size_t cell, std::size_t column) const { return terms(cell) + column * kWords; }
    float term_scale() const { return terms().scale; }
    float term_bound() const { return terms().bound; } // sum over columns of the largest |term|
    std::size_t term_bytes() const;                    // of those that are there
    // columns: the book of each column, nullptr for one that shares no dimension with the cells or is a norm
    void set_columns(std::vector<const Book*> columns, std::size_t dim);
    bool overlaps_columns() const;

private:
    struct Terms {
        Aligned<std::int16_t> values; // [size()][n_columns][256]
        float scale = 0, bound = 0;
    };
    const Terms& terms() const;
    std::unique_ptr<Terms> computed(std::size_t threads) const;

    const Book& words_;
    Book centres_;
    std::vector<const Book*> columns_;
    std::size_t dim_ = 0;
    MadeOnce<Terms> terms_;
};

} // namespace interlace
