// The nearest words of many rows, among any number of words.
//
// Words are in tables of 256. Up to kAllTables of them, every word is compared. With more tables, a row is compared
// with the words of the tables whose centres are nearest: learning puts near words into one table, so the nearest word
// is nearly always among them.
#pragma once
#include "aligned.h"
#include "book.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace interlace {

class NearestWords {
public:
    static constexpr std::size_t kRows = 256;     // rows of a call, at most
    static constexpr std::size_t kAllTables = 16; // up to so many, all tables are read

    struct Scored {
        float score; // |w|^2 - 2 x.w
        std::uint32_t word;
    };

    // centres: table_centres(words), one word for each table; not read for up to kAllTables tables. Both must outlive
    // this object.
    NearestWords(const Book& words, const Book& centres, std::size_t count);

    static bool reads_all(std::size_t n_tables) { return n_tables <= kAllTables; }
    // Tables that a row is compared with
    static std::size_t tables_read(std::size_t n_tables) {
        if (reads_all(n_tables)) return n_tables;
        return std::max<std::size_t>(8, static_cast<std::size_t>(std::sqrt(static_cast<double>(n_tables))));
    }

    std::size_t count() const { return count_; } // words of a row: as asked for, or all there are
    // x [n] pointers to rows on the support of the words, n <= kRows; out [n][count()], ascending. The lower number
    // wins a tie.
    void run(const float* const* x, std::size_t n, Scored* out);

private:
    static constexpr std::size_t kGroup = 16; // rows that share a pass over a table

    void choose_tables(const float* const* x, std::size_t n);
    void read(std::size_t table, const float* const* x, const std::uint32_t* rows, std::size_t n, Scored* out);
    void merge(const float* scores, std::size_t table, std::size_t row, Scored* out);

    const Book& words_;
    const Book& centres_;
    const std::size_t count_;
    Aligned<float> scores_;                        // [kGroup][256], or of all centres
    std::vector<std::vector<std::uint32_t>> rows_; // [n_tables] rows that read each table, ascending
    std::vector<std::size_t> found_;               // [kRows] words so far
};

} // namespace interlace
