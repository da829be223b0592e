#include "refit.h"

#include "aligned.h"
#include "threads.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace interlace {
namespace {

// Dimensions are independent problems with the same matrix. This many share a pass over the codes: a fixed
// number, so that the result does not depend on the number of threads, which take whole groups.
constexpr std::size_t kGroup = 8;
using Row = double[kGroup];

// Solves (B'B + ridge) x = B'(y - B words) for one group of dimensions, where B [n][n_words] has a one for each word of
// a row. B'B is never made: a product with it reads the codes, adds up the words of each row and adds that to them all.
class Group {
public:
    Group(std::size_t n, const std::uint8_t* codes, const std::uint32_t* starts, std::size_t n_books, double ridge)
        : n_(n), codes_(codes), starts_(starts), n_books_(n_books), n_words_(starts[n_books]), ridge_(ridge),
          scale_(n_words_), x_(n_words_ * kGroup), gradient_(n_words_ * kGroup), direction_(n_words_ * kGroup),
          product_(n_words_ * kGroup) {
        // The diagonal of the matrix, inverted: rows of each word. Inside one book there is nothing else.
        for (std::size_t i = 0; i < n; ++i)
            for (std::size_t j = 0; j < n_books; ++j) ++scale_[starts[j] + codes[i * n_books + j]];
        for (double& count : scale_) count = 1 / (count + ridge);
    }

    // The squared error of the old words in this group.
    double run(const float* y, std::size_t dim, std::size_t width, double tolerance, std::size_t rounds, float* words) {
        double error = 0;
        std::fill(direction_.begin(), direction_.end(), 0.0); // holds the old words first
        for (std::size_t w = 0; w < n_words_; ++w)
            for (std::size_t d = 0; d < width; ++d) direction_[w * kGroup + d] = words[w * dim + d];
        std::fill(gradient_.begin(), gradient_.end(), 0.0);
        for (std::size_t i = 0; i < n_; ++i) {
            Row left = {};
            for (std::size_t d = 0; d < width; ++d) left[d] = y[i * dim + d];
            for (std::size_t j = 0; j < n_books_; ++j) {
                const double* word = direction_.data() + place(i, j);
                for (std::size_t d = 0; d < kGroup; ++d) left[d] -= word[d];
            }
            for (std::size_t d = 0; d < width; ++d) error += left[d] * left[d];
            add(i, left, gradient_.data());
        }
        std::fill(x_.begin(), x_.end(), 0.0);
        Row length, first, step, keep = {};
        lengths(length);
        std::copy(length, length + kGroup, first);
        for (std::size_t round = 0; round < rounds; ++round) {
            if (std::equal(length, length + kGroup, first,
                           [&](double now, double then) { return now <= tolerance * tolerance * then; }))
                break;
            checkpoint();
            // The first direction is the scaled gradient, later ones keep a part of the one before.
            for (std::size_t w = 0; w < n_words_; ++w)
                for (std::size_t d = 0; d < kGroup; ++d) {
                    const std::size_t at = w * kGroup + d;
                    direction_[at] = scale_[w] * gradient_[at] + (round == 0 ? 0.0 : keep[d] * direction_[at]);
                }
            multiply();
            Row curvature = {};
            for (std::size_t at = 0; at < n_words_ * kGroup; at += kGroup)
                for (std::size_t d = 0; d < kGroup; ++d) curvature[d] += direction_[at + d] * product_[at + d];
            for (std::size_t d = 0; d < kGroup; ++d) step[d] = curvature[d] > 0 ? length[d] / curvature[d] : 0.0;
            for (std::size_t at = 0; at < n_words_ * kGroup; at += kGroup)
                for (std::size_t d = 0; d < kGroup; ++d) {
                    x_[at + d] += step[d] * direction_[at + d];
                    gradient_[at + d] -= step[d] * product_[at + d];
                }
            Row before;
            std::copy(length, length + kGroup, before);
            lengths(length);
            for (std::size_t d = 0; d < kGroup; ++d) keep[d] = before[d] > 0 ? length[d] / before[d] : 0.0;
        }
        for (std::size_t w = 0; w < n_words_; ++w)
            for (std::size_t d = 0; d < width; ++d)
                words[w * dim + d] = static_cast<float>(words[w * dim + d] + x_[w * kGroup + d]);
        return error;
    }

private:
    std::size_t place(std::size_t i, std::size_t j) const { return (starts_[j] + codes_[i * n_books_ + j]) * kGroup; }

    void add(std::size_t i, const Row& values, double* sums) const {
        for (std::size_t j = 0; j < n_books_; ++j) {
            double* sum = sums + place(i, j);
            for (std::size_t d = 0; d < kGroup; ++d) sum[d] += values[d];
        }
    }

    // product = (B'B + ridge) direction
    void multiply() {
        for (std::size_t at = 0; at < n_words_ * kGroup; ++at) product_[at] = ridge_ * direction_[at];
        for (std::size_t i = 0; i < n_; ++i) {
            Row total = {};
            for (std::size_t j = 0; j < n_books_; ++j) {
                const double* word = direction_.data() + place(i, j);
                for (std::size_t d = 0; d < kGroup; ++d) total[d] += word[d];
            }
            add(i, total, product_.data());
        }
    }

    // Squared length of the gradient of each dimension, in the scale of the rows of each word.
    void lengths(Row& out) const {
        std::fill(out, out + kGroup, 0.0);
        for (std::size_t w = 0; w < n_words_; ++w)
            for (std::size_t d = 0; d < kGroup; ++d) {
                const double value = gradient_[w * kGroup + d];
                out[d] += scale_[w] * value * value;
            }
    }

    const std::size_t n_;
    const std::uint8_t* codes_;
    const std::uint32_t* starts_;
    const std::size_t n_books_, n_words_;
    const double ridge_;
    std::vector<double> scale_;                          // [n_words]
    Aligned<double> x_, gradient_, direction_, product_; // [n_words][kGroup]
};

} // namespace

double refit_words(const float* y, std::size_t n, std::size_t dim, const std::uint8_t* codes,
                   const std::uint32_t* starts, std::size_t n_books, double ridge, double tolerance, std::size_t rounds,
                   std::size_t threads, float* words) {
    std::vector<double> errors((dim + kGroup - 1) / kGroup);
    parallel_for(errors.size(), threads, [&](std::size_t task, std::size_t) {
        const std::size_t first = task * kGroup;
        errors[task] = Group(n, codes, starts, n_books, ridge)
                           .run(y + first, dim, std::min(kGroup, dim - first), tolerance, rounds, words + first);
    });
    return std::accumulate(errors.begin(), errors.end(), 0.0);
}

} // namespace interlace
