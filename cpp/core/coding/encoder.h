// Codes of rows by beam search over the books in their order.
#pragma once
#include "../books.h"
#include "../code_rows.h"
#include "beam_tables.h"
#include "parallel.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace interlace {

class Encoder {
public:
    static constexpr std::size_t kRows = NearestWords::kRows;

    Encoder(const Books& books, std::size_t beam, std::size_t sweeps, const ParallelLoss& loss);
    void run(const float* x, std::size_t n, const CodeRowsOut& out); // raw rows [n][dim], n <= kRows

private:
    // Where later books overlap, a path gains little from a cell that is not among the nearest, and search has to look
    // for the row in more cells.
    static constexpr std::size_t kLinkedCells = 2;

    struct Path {
        float score;
        std::uint32_t slot;  // of its cell in the tables
        std::uint32_t codes; // where its codes are in codes_
        float left;          // of the row along itself, if the loss counts that
    };
    struct Extension {
        float score;
        std::uint32_t parent; // index into the beam
        std::uint32_t word;
    };
    // What the tables of a book begin with for all paths from one cell: most of their words are the same, because good
    // paths part late, and cross terms come from a slower cache.
    struct Trunk {
        const std::int16_t* sums; // steps, with cross terms up to
        std::size_t end;          // this book
    };

    std::uint8_t* codes_of(const Path& path) { return codes_.data() + path.codes * n_books_; }
    void choose_cells(const float* x, std::size_t n);
    void start_paths(std::span<const NearestWords::Scored> cells);
    void settle(std::size_t j);
    void settle_cells();
    Trunk trunk(std::uint32_t slot, std::size_t j);
    std::int32_t enough(const std::int16_t* sums) const;
    void start_extending(std::size_t j);
    void extend(std::size_t j);
    void extend_parallel(std::size_t j);
    void keep_best(std::uint32_t p, std::size_t n_words);
    void keep(const Extension& extension);
    void advance(std::size_t j);
    bool improve(const Path& path);
    bool improve_parallel(Path& path);
    void add_others(const Path& path, std::size_t j);

    const Books& books_;
    const Kernels& kernel_ = kernels();
    BeamTables tables_;
    ParallelTables parallel_;
    const std::size_t n_books_;
    const std::size_t beam_, sweeps_;
    Aligned<std::int16_t> sums_, trunks_; // [256], [cell][256]
    Aligned<float> scores_;               // [256] of one path
    NearestWords nearest_;
    std::vector<NearestWords::Scored> near_; // [kRows][nearest_.count()]
    Aligned<float> rotated_, gathered_;      // [kRows][dim]
    std::vector<Path> paths_, next_;
    std::vector<Extension> kept_;     // the best so far, ascending
    std::vector<std::uint8_t> codes_; // two halves of [beam][n_books], by book; that of the first book is not used
    std::size_t half_ = 0;            // first slot of the half in use
    std::size_t added_ = 0;           // rows of cross terms since the last checkpoint
    std::uint8_t words_[kWords];
};

} // namespace interlace
