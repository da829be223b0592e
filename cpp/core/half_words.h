// The words of a book in half precision, beside the floats: a single query reads all words of all books, and waits for
// memory. Learning rounds wide words to float16 numbers times a power of 2 (learn/books.py), so nothing is lost.
#pragma once
#include "aligned.h"
#include "book.h"

#include <cstddef>
#include <cstdint>

namespace interlace {

class HalfWords {
public:
    static constexpr std::size_t kNarrowest = 64; // dimensions; narrower words stay in cache (HALF_WIDTH of book.py)

    explicit HalfWords(const Book& book); // empty where the words are narrow, more than 256, or not such numbers

    // x.w of all words, to out [256]: the same bits as inner_products() of the book. x is on the support of the book,
    // scratch of the same length. False, with nothing written, where there are no such words or x cannot be scaled.
    bool products(const float* x, float* scratch, float* out) const;
    std::size_t bytes() const { return halves_.size() * sizeof(std::uint16_t); }

private:
    std::size_t width_;
    float scale_ = 1, inverse_ = 1; // a power of 2: words are halves times scale
    Aligned<std::uint16_t> halves_; // [256 words] in the order of kHalfColumns
};

} // namespace interlace
