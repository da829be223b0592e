#include "encode.h"

#include "../simd/kernels.h"
#include "threads.h"

#include <algorithm>
#include <limits>
#include <memory>

namespace interlace {
namespace {

constexpr std::size_t kGroup = QueryTables::kGroup;
constexpr std::size_t kTask = 256; // rows per task

struct Path {
    float score;
    std::size_t parent; // index into the previous beam
    std::size_t word;
};

class Encoder {
public:
    Encoder(const Books& books, std::size_t beam)
        : books_(books), n_books_(books.books().size()), beam_(beam), rotated_(kGroup * books.dim()),
          gathered_(kGroup * books.dim()), linear_(kGroup * n_books_ * kWords), sums_(kWords),
          linked_(n_books_, false) {
        bool any_cell_overlap = false;
        for (std::size_t i = 1; i < n_books_; ++i) {
            any_cell_overlap = any_cell_overlap || books.overlap(0, i);
            for (std::size_t j = 1; j < n_books_; ++j)
                if (i != j && books.overlap(i, j)) linked_[i] = true;
        }
        if (!any_cell_overlap && std::none_of(linked_.begin(), linked_.end(), [](bool b) { return b; }))
            beam_ = 1; // books are independent
    }

    void run(const float* x, std::size_t n, std::uint8_t* codes) {
        compute_linear(x, n);
        for (std::size_t i = 0; i < n; ++i, codes += 1 + books_.n_columns()) {
            search_beam(linear_.data() + i * n_books_ * kWords);
            write(codes);
        }
    }

private:
    // linear[i][book][w] = |w|^2 - 2 x.w
    void compute_linear(const float* x, std::size_t n) {
        const float* from[kGroup];
        float* to[kGroup];
        books_.rotate(x, n, rotated_.data(), true);
        for (std::size_t j = 0; j < n_books_; ++j) {
            const Book& book = books_.books()[j];
            for (std::size_t i = 0; i < n; ++i) {
                float* values = gathered_.data() + i * books_.dim();
                for (std::size_t d = 0; d < book.support.size(); ++d)
                    values[d] = rotated_[i * books_.dim() + book.support[d]];
                from[i] = values;
                to[i] = linear_.data() + (i * n_books_ + j) * kWords;
            }
            kernels().inner_products(from, n, book.words.data(), book.support.size(), to);
            for (std::size_t i = 0; i < n; ++i)
                for (std::size_t w = 0; w < kWords; ++w) to[i][w] = book.squares[w] - 2.0f * to[i][w];
        }
    }

    void search_beam(const float* linear) {
        paths_.assign(1, {0.0f, 0, 0});
        codes_.assign(1, {});
        codes_[0].resize(n_books_);
        for (std::size_t j = 0; j < n_books_; ++j) {
            const bool branch = j == 0 || linked_[j];
            kept_.clear();
            for (std::size_t p = 0; p < paths_.size(); ++p) {
                const float* scores = linear + j * kWords;
                for (std::size_t i = 0; i < j; ++i)
                    if (const float* cross = books_.cross(i, j)) {
                        kernel_.add_tables(scores, cross + codes_[p][i] * kWords, sums_.data());
                        scores = sums_.data();
                    }
                if (branch) {
                    keep_best(p, scores, books_.books()[j].n_words);
                } else {
                    const std::size_t word = kernel_.argmin(scores);
                    kept_.push_back({paths_[p].score + scores[word], p, word});
                }
            }
            next_codes_.resize(kept_.size());
            for (std::size_t p = 0; p < kept_.size(); ++p) {
                next_codes_[p] = codes_[kept_[p].parent];
                next_codes_[p][j] = static_cast<std::uint8_t>(kept_[p].word);
            }
            codes_.swap(next_codes_);
            paths_.swap(kept_);
        }
    }

    // Inserts the extensions of one path into the sorted list of the best; a tie goes to the one found first.
    void keep_best(std::size_t parent, const float* scores, std::size_t n_words) {
        for (std::size_t w = 0; w < n_words; ++w) {
            const float score = paths_[parent].score + scores[w];
            if (kept_.size() == beam_) {
                if (!(score < kept_.back().score)) continue;
                kept_.pop_back();
            }
            auto at = kept_.end();
            while (at != kept_.begin() && score < (at - 1)->score) --at;
            kept_.insert(at, {score, parent, w});
        }
    }

    void write(std::uint8_t* out) {
        std::size_t best = 0;
        for (std::size_t p = 1; p < paths_.size(); ++p)
            if (paths_[p].score < paths_[best].score) best = p;
        const std::vector<std::uint8_t>& codes = codes_[best];
        *out++ = codes[0];
        for (int column : books_.columns())
            *out++ = column >= 0 ? codes[static_cast<std::size_t>(column)]
                                 : norm_code(static_cast<std::size_t>(-1 - column), codes);
    }

    std::uint8_t norm_code(std::size_t index, const std::vector<std::uint8_t>& codes) const {
        const Norm& norm = books_.norms()[index];
        const auto covers = [](const Norm& n, std::uint32_t book) {
            return std::find(n.covers.begin(), n.covers.end(), book) != n.covers.end();
        };
        float value = 0;
        for (std::size_t a = 0; a < norm.covers.size(); ++a)
            for (std::size_t b = a + 1; b < norm.covers.size(); ++b) {
                const std::uint32_t i = norm.covers[a], j = norm.covers[b];
                bool held = false;
                for (std::size_t e = 0; e < index; ++e)
                    held = held || (covers(books_.norms()[e], i) && covers(books_.norms()[e], j));
                const float* cross = books_.cross(i, j);
                if (!held && cross != nullptr) value += cross[codes[i] * kWords + codes[j]];
            }
        std::size_t best = 0;
        float error = std::numeric_limits<float>::infinity();
        for (std::size_t w = 0; w < kWords; ++w) { // padding is +inf
            const float difference = value < norm.values[w] ? norm.values[w] - value : value - norm.values[w];
            if (difference < error) {
                error = difference;
                best = w;
            }
        }
        return static_cast<std::uint8_t>(best);
    }

    const Books& books_;
    const Kernels& kernel_ = kernels();
    const std::size_t n_books_;
    std::size_t beam_;
    Aligned<float> rotated_, gathered_, linear_, sums_;
    std::vector<bool> linked_;
    std::vector<Path> paths_, kept_;
    std::vector<std::vector<std::uint8_t>> codes_, next_codes_;
};

} // namespace

void encode(const Books& books, const float* x, std::size_t n, std::size_t beam, std::size_t threads,
            std::uint8_t* codes) {
    std::vector<std::unique_ptr<Encoder>> encoders(threads);
    parallel_for((n + kTask - 1) / kTask, threads, [&](std::size_t task, std::size_t worker) {
        if (!encoders[worker]) encoders[worker] = std::make_unique<Encoder>(books, beam);
        const std::size_t end = std::min(n, (task + 1) * kTask);
        for (std::size_t i = task * kTask; i < end; i += kGroup)
            encoders[worker]->run(x + i * books.dim(), std::min(kGroup, end - i), codes + i * (1 + books.n_columns()));
    });
}

void nearest(const float* x, std::size_t n, std::size_t dim, const float* words, std::size_t k, std::size_t threads,
             std::int32_t* index, float* score) {
    Aligned<float> transposed(dim * kWords, 0.0f), squares(kWords, std::numeric_limits<float>::infinity());
    for (std::size_t w = 0; w < k; ++w) {
        squares[w] = 0;
        for (std::size_t d = 0; d < dim; ++d) {
            transposed[d * kWords + w] = words[w * dim + d];
            squares[w] += words[w * dim + d] * words[w * dim + d];
        }
    }
    parallel_for((n + kTask - 1) / kTask, threads, [&](std::size_t task, std::size_t) {
        alignas(64) float scores[kGroup][kWords];
        const std::size_t end = std::min(n, (task + 1) * kTask);
        for (std::size_t first = task * kTask; first < end; first += kGroup) {
            const std::size_t count = std::min(kGroup, end - first);
            const float* from[kGroup];
            float* to[kGroup];
            for (std::size_t i = 0; i < count; ++i) {
                from[i] = x + (first + i) * dim;
                to[i] = scores[i];
            }
            kernels().inner_products(from, count, transposed.data(), dim, to);
            for (std::size_t i = 0; i < count; ++i) {
                for (std::size_t w = 0; w < kWords; ++w) scores[i][w] = squares[w] - 2.0f * scores[i][w];
                const std::size_t best = kernels().argmin(scores[i]);
                index[first + i] = static_cast<std::int32_t>(best);
                score[first + i] = scores[i][best];
            }
        }
    });
}

void cluster_sums(const float* x, std::size_t n, std::size_t dim, const std::int32_t* labels, std::size_t k,
                  std::size_t threads, double* sums, std::int64_t* counts) {
    std::fill(sums, sums + k * dim, 0.0);
    std::fill(counts, counts + k, 0);
    for (std::size_t i = 0; i < n; ++i) ++counts[labels[i]];
    const std::size_t width =
        (dim + threads - 1) / threads; // each thread owns some dimensions, so the order of additions is fixed
    parallel_for((dim + width - 1) / width, threads, [&](std::size_t task, std::size_t) {
        const std::size_t first = task * width, last = std::min(dim, first + width);
        for (std::size_t i = 0; i < n; ++i) {
            double* sum = sums + static_cast<std::size_t>(labels[i]) * dim;
            for (std::size_t d = first; d < last; ++d) sum[d] += x[i * dim + d];
        }
    });
}

} // namespace interlace
