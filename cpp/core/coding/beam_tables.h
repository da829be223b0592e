// The tables that the beam search for the codes of a row adds up.
//
// The cost of word w of book j on a path is |w|^2 - 2 (x - c).w for the word c of its cell, plus the cross terms with
// the words it has chosen. For books that overlap others these are added up in int16, in steps of PairTerms::scale()
// above the smallest entry of the first part.
#pragma once
#include "../../simd/kernels.h"
#include "../books.h"
#include "../nearest_words.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace interlace {

class BeamTables {
public:
    static constexpr std::size_t kMaxBooks = 256;
    static constexpr std::size_t kGroup = 16; // rows that share a pass over the words
    static constexpr std::int32_t kStart =
        -8192; // the smallest step of a table: three largest cross terms fit below it

    explicit BeamTables(const Books& books);

    bool independent() const { return !books_.cells().has_terms() && !any_linked_; } // no word depends on another one
    bool any_linked() const { return any_linked_; }
    bool linked(std::size_t j) const { return linked_[j]; } // book j shares dimensions with others than the cells
    // No book from j on shares dimensions with one before it, the cells left out.
    bool separate(std::size_t j) const { return separate_[j]; }
    // [256][256] int16 steps for the words of books i < j; nullptr where they share no dimension
    const std::int16_t* cross(std::size_t i, std::size_t j) const { return cross_[i * n_books_ + j]; }

    void reserve(std::size_t n_slots);                 // the most cells of a row
    void compute(const float* rotated, std::size_t n); // rows [n][dim] as Books::rotate has them, n <= kGroup
    void start(std::size_t row, std::span<const NearestWords::Scored> cells); // cells: those of slots 0, 1, ...
    std::size_t n_slots() const { return cells_.size(); }
    std::uint32_t cell(std::size_t slot) const { return cells_[slot]; }

    const float* linear(std::size_t j) const { return row_ + j * kWords; } // [256] |w|^2 - 2 x.w
    const float* own(std::size_t slot, std::size_t j); // [256] first part of the cost, valid until the next call
    const std::int16_t* steps(std::size_t slot, std::size_t j); // [256] the same in steps
    float offset(std::size_t slot, std::size_t j) const { return offsets_[slot * n_books_ + j]; } // cost at step kStart
    // out [256] = head + the cross terms of book j with the words that codes [n_books] has of books first .. last - 1
    void add_up(const std::int16_t* head, const std::uint8_t* codes, std::size_t j, std::size_t first, std::size_t last,
                std::int16_t* out) const;

private:
    const Books& books_;
    const Kernels& kernel_ = kernels();
    const std::size_t n_books_;
    Aligned<float> gathered_;                // [kGroup][dim]
    Aligned<float> linear_;                  // [kGroup][n_books][256] |w|^2 - 2 x.w; the first book's is not used
    Aligned<float> own_;                     // [256]
    Aligned<std::int16_t> steps_;            // [slot][book][256], where made_
    std::vector<float> offsets_;             // [slot][book]
    std::vector<bool> made_;                 // [slot][book]
    std::vector<const std::int16_t*> cross_; // [i][j]
    std::vector<std::size_t> column_;        // stored column of a book
    std::vector<bool> linked_, separate_;
    bool any_linked_ = false;
    std::vector<std::uint32_t> cells_; // of the slots
    const float* row_ = nullptr;       // [n_books][256] of the row
};

} // namespace interlace
