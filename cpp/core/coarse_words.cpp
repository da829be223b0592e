#include "coarse_words.h"

#include <algorithm>
#include <cmath>

namespace interlace {
namespace {

constexpr float kMiddle = 128.0f;  // byte of 0
constexpr float kLargest = 127.0f; // whole numbers are -127 .. 127
constexpr double kTooLarge = 1e30; // squares beyond it would leave no room for sums

std::size_t byte_place(std::size_t padded_width, std::size_t d, std::size_t w) { // in a table
    return (w / kByteWords * padded_width + d / 4 * 4) * kByteWords + w % kByteWords * 4 + d % 4;
}

// Four rows as columns of a panel
constexpr std::size_t kTogether = 4, kLine = 16;
void to_columns(const float* const* rows, std::size_t width, float* out) {
    typedef float Four __attribute__((vector_size(16)));
    std::size_t d = 0;
    for (; d + kTogether <= width; d += kTogether) {
        Four in[kTogether], columns[kTogether];
        for (std::size_t j = 0; j < kTogether; ++j) __builtin_memcpy(&in[j], rows[j] + d, sizeof(Four));
        const Four low01 = __builtin_shufflevector(in[0], in[1], 0, 4, 1, 5);
        const Four high01 = __builtin_shufflevector(in[0], in[1], 2, 6, 3, 7);
        const Four low23 = __builtin_shufflevector(in[2], in[3], 0, 4, 1, 5);
        const Four high23 = __builtin_shufflevector(in[2], in[3], 2, 6, 3, 7);
        columns[0] = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
        columns[1] = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
        columns[2] = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
        columns[3] = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
        for (std::size_t j = 0; j < kTogether; ++j) __builtin_memcpy(out + (d + j) * kPanel, &columns[j], sizeof(Four));
    }
    for (; d < width; ++d)
        for (std::size_t j = 0; j < kTogether; ++j) out[d * kPanel + j] = rows[j][d];
}

float largest_abs(const float* values, std::size_t n) {
    float largest = 0;
    for (std::size_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(values[i]));
    return largest;
}

} // namespace

CoarseWords::CoarseWords(const Book& words)
    : words_(words), padded_width_((words.support.size() + 3) / 4 * 4), bytes_(words.padded() * padded_width_),
      rows_(words.n_words * words.support.size()) {
    const std::size_t width = words.support.size();
    for (std::size_t w = 0; w < words.n_words; ++w)
        for (std::size_t d = 0; d < width; ++d) rows_[w * width + d] = words.word(d, w);
    step_ = largest_abs(rows_.data(), rows_.size()) / kLargest;
    std::fill(bytes_.begin(), bytes_.end(), static_cast<std::uint8_t>(kMiddle));
    const float inverse = step_ > 0 ? finite_inverse(step_) : 0.0f;
    for (std::size_t w = 0; w < words.n_words; ++w) {
        double square = 0, error = 0, length = 0;
        for (std::size_t d = 0; d < width; ++d) {
            const float value = rows_[w * width + d];
            const float whole = std::clamp(std::nearbyint(value * inverse), -kLargest, kLargest);
            const double stands_for = static_cast<double>(whole) * static_cast<double>(step_);
            const double left = static_cast<double>(value) - stands_for;
            bytes_[w / kWords * kWords * padded_width_ + byte_place(padded_width_, d, w % kWords)] =
                static_cast<std::uint8_t>(whole + kMiddle);
            square += static_cast<double>(value) * static_cast<double>(value);
            error += left * left;
            length += stands_for * stands_for;
        }
        largest_square_ = std::max(largest_square_, square);
        error_ = std::max(error_, error);
        longest_ = std::max(longest_, length);
    }
    error_ = std::sqrt(error_);
    longest_ = std::sqrt(longest_);
}

bool CoarseWords::bounds(const float* const* x, std::size_t n, const float* offsets, float* const* out) const {
    const std::size_t width = words_.support.size();
    ByteQuery queries[kQueries];
    Aligned<std::int8_t> wholes(n * padded_width_, 0);
    for (std::size_t q = 0; q < n; ++q) {
        std::int8_t* const to = wholes.data() + q * padded_width_;
        const float step = largest_abs(x[q], width) / kLargest, inverse = step > 0 ? finite_inverse(step) : 0.0f;
        double square = 0, error = 0;
        std::int32_t sum = 0;
        for (std::size_t d = 0; d < width; ++d) {
            const float whole = std::clamp(std::nearbyint(x[q][d] * inverse), -kLargest, kLargest);
            const double left = static_cast<double>(x[q][d]) - static_cast<double>(whole) * static_cast<double>(step);
            to[d] = static_cast<std::int8_t>(whole);
            sum += to[d];
            square += static_cast<double>(x[q][d]) * static_cast<double>(x[q][d]);
            error += left * left;
        }
        const double length = std::sqrt(square), reach = length + std::sqrt(largest_square_);
        const double offset = static_cast<double>(offsets[q]);
        if (!(reach * reach + std::abs(offset) < kTooLarge)) return false;
        // The distance that the kernel computes may be smaller by the rounding of its sums, the bound larger by that of
        // its own.
        const double roundings = static_cast<double>(width) + 16.0;
        const double rounding = roundings * 0x1p-23 * (reach * reach + std::abs(offset));
        const double apart = 2.0 * (length * error_ + std::sqrt(error) * longest_);
        queries[q] = {to, static_cast<std::int32_t>(kMiddle) * sum,
                      static_cast<float>(2.0 * static_cast<double>(step) * static_cast<double>(step_)),
                      static_cast<float>(offset + square - apart - rounding), out[q]};
    }
    for (std::size_t t = 0; t < words_.n_tables(); ++t) {
        kernels().byte_bounds(queries, n, bytes_.data() + t * kWords * padded_width_, padded_width_,
                              words_.squares.data() + t * kWords);
        for (std::size_t q = 0; q < n; ++q) queries[q].out += kWords;
    }
    return true;
}

std::size_t CoarseWords::scratch_size() const { return kWords * (words_.support.size() + 1); }

void CoarseWords::distances(const float* x, std::span<const std::uint32_t> words, float* scratch, float* out) const {
    const std::size_t width = words_.support.size();
    float* const found = scratch + kWords * width;
    for (std::size_t first = 0; first < words.size(); first += kWords) {
        const std::size_t n = std::min(kWords, words.size() - first);
        for (std::size_t i = 0; i < n; i += kTogether) {
            const float* rows[kTogether];
            for (std::size_t j = 0; j < kTogether; ++j) {
                rows[j] = rows_.data() + words[first + std::min(i + j, n - 1)] * width;
                if (i + kTogether + j >= n) continue;
                const float* const next = rows_.data() + words[first + i + kTogether + j] * width;
                for (std::size_t d = 0; d < width; d += kLine) __builtin_prefetch(next + d);
            }
            to_columns(rows, width, scratch + i / kPanel * kPanel * width + i % kPanel);
        }
        kernels().squared_distances(&x, 1, scratch, width, &found);
        for (std::size_t i = 0; i < n; ++i) out[words[first + i]] = found[i];
    }
}

} // namespace interlace
