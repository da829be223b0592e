// Re-rank: candidate rows of each query compared with their stored originals, and the k nearest of them.
#pragma once
#include "../simd/kernels.h"
#include "cold_pages.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace interlace {

// Originals of all rows in one or more parts, rows numbered through all of them. Points into memory of others.
// A row stands for the centre plus its stored values.
class StoredVectors {
public:
    struct Part {
        const std::uint8_t* data; // [n_rows][width()]
        std::size_t n_rows;
    };

    // centre: [dim]
    StoredVectors(Stored type, const std::vector<float>& centre, const std::vector<Part>& parts);

    Stored type() const { return type_; }
    std::size_t dim() const { return centre_.size(); }
    std::size_t width() const { return stored_head(type_) + dim() * stored_size(type_); } // bytes of a row
    const std::vector<float>& centre() const { return centre_; }
    std::uint64_t n_rows() const { return ends_.empty() ? 0 : ends_.back(); }
    const std::uint8_t* at(std::uint64_t row) const; // row < n_rows()
    const ColdPages& cold_pages() const { return cold_pages_; }

private:
    Stored type_;
    std::vector<float> centre_;
    std::vector<Part> parts_;
    std::vector<std::uint64_t> ends_; // number of the first row after each part
    ColdPages cold_pages_;
};

// What a distance is: sum (q - x)^2, or offset - q . x
struct RowDistance {
    bool is_squared;
    float offset;
};

// The rows to compare with each query: [n][depth], or [depth] where all queries share them.
struct Candidates {
    const std::int64_t* rows;
    std::size_t depth;
    bool shared;

    const std::int64_t* of(std::size_t query) const { return shared ? rows : rows + query * depth; }
};

// Candidates -> the k nearest of each query by their originals, nearest first; of equal distances the lower row
// number first. Negative rows are none; out has -1 and inf beyond the last. A row twice is there twice. Distances that
// overflow are inf. Throws Damaged for rows that there are not, and for originals that are not finite.
void rerank(const StoredVectors& vectors, const RowDistance& distance, const float* queries, std::size_t n,
            const Candidates& candidates, std::size_t k, std::size_t threads, std::int64_t* out_rows,
            float* out_distances);

} // namespace interlace
