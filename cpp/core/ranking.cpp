#include "ranking.h"

#include "threads.h"

#include <array>
#include <bit>
#include <utility>
#include <vector>

namespace interlace {
namespace {

// A key is the distance, whose sign bit is always 0, and in the bit that this frees whether the row is relevant. Keys
// come in the order of rows and each pass keeps the order of equal digits, so that ties stay by row; no pass looks at
// the lowest bit.
constexpr int kPasses = 3;
constexpr std::array<int, kPasses> kShift{1, 12, 22}, kBits{11, 10, 10};

class Sorter {
public:
    explicit Sorter(std::size_t n) : keys_(n), other_(n) {}

    // The sorted keys of one query; they stay until the next call.
    const std::vector<std::uint32_t>& sort(const float* distances, const std::int32_t* labels, std::int32_t wanted) {
        for (auto& starts : starts_) starts.fill(0);
        for (std::size_t i = 0; i < keys_.size(); ++i) {
            const std::uint32_t key = std::bit_cast<std::uint32_t>(distances[i]) << 1 | (labels[i] == wanted);
            keys_[i] = key;
            for (int pass = 0; pass < kPasses; ++pass) ++starts_[pass][digit(key, pass)];
        }
        for (int pass = 0; pass < kPasses; ++pass) {
            // The upper digits of distances that are much alike may all be one.
            if (!keys_.empty() && starts_[pass][digit(keys_[0], pass)] == keys_.size()) continue;
            std::uint32_t start = 0;
            for (std::uint32_t& entry : starts_[pass]) start += std::exchange(entry, start);
            for (const std::uint32_t key : keys_) other_[starts_[pass][digit(key, pass)]++] = key;
            std::swap(keys_, other_);
        }
        return keys_;
    }

private:
    static std::size_t digit(std::uint32_t key, int pass) {
        return key >> kShift[pass] & ((std::uint32_t{1} << kBits[pass]) - 1);
    }

    std::vector<std::uint32_t> keys_, other_;
    std::array<std::array<std::uint32_t, 1 << 11>, kPasses> starts_; // of each digit: its keys, then where they begin
};

} // namespace

void squared_distances(const double* products, std::size_t n_queries, std::size_t n_columns,
                       const double* query_squares, const double* row_squares, std::size_t n_rows, float* distances) {
    for (std::size_t q = 0; q < n_queries; ++q) {
        checkpoint();
        for (std::size_t i = 0; i < n_columns; ++i) {
            const double distance = products[q * n_columns + i] * -2.0 + row_squares[i] + query_squares[q];
            // Rounding may fall below zero, and -0.0 has other bits than 0.0.
            distances[q * n_rows + i] = static_cast<float>(distance > 0.0 ? distance : 0.0);
        }
    }
}

void precision_sums(const float* distances, std::size_t n_queries, std::size_t n_rows, const std::int32_t* wanted,
                    const std::int32_t* labels, std::span<const std::int64_t> lengths, double* sums,
                    std::int64_t* found) {
    Sorter sorter(n_rows);
    for (std::size_t q = 0; q < n_queries; ++q) {
        checkpoint();
        const auto& keys = sorter.sort(distances + q * n_rows, labels, wanted[q]);
        double sum = 0.0;
        std::int64_t hits = 0, place = 0;
        for (std::size_t list = 0; list < lengths.size(); ++list) {
            for (; place < lengths[list]; ++place)
                if (keys[place] & 1) sum += static_cast<double>(++hits) / static_cast<double>(place + 1);
            sums[list * n_queries + q] = sum;
            found[list * n_queries + q] = hits;
        }
    }
}

} // namespace interlace
