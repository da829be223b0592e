// The best words for given codes, by least squares.
#pragma once
#include <cstddef>
#include <cstdint>

namespace interlace {

// Words [starts[n_books]][dim], those of book j in rows starts[j] to starts[j + 1] - 1, that lower
// |y_i - sum_j words[starts[j] + codes[i][j]]|^2 summed over the n rows of y [n][dim], plus `ridge` times the squared
// distance of each word from its old value. `words` holds the old words and receives the new ones. codes [n][n_books].
// Conjugate gradients end after `rounds`, or when the gradient has fallen to the share `tolerance` of its first length.
// Returns the squared error of the old words, summed over rows and dimensions. The result does not depend on the number
// of threads.
double refit_words(const float* y, std::size_t n, std::size_t dim, const std::uint8_t* codes,
                   const std::uint32_t* starts, std::size_t n_books, double ridge, double tolerance, std::size_t rounds,
                   std::size_t threads, float* words);

} // namespace interlace
