#include "encode.h"

#include "../simd/kernels.h"
#include "threads.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>

namespace interlace {
namespace {

constexpr std::size_t kGroup = 16; // rows that share a pass over the words
constexpr std::size_t kTask = 256; // rows per task

constexpr std::size_t kMaxBooks = 256;
// Where later books overlap, a path gains little from a cell that is not among the nearest, and search has to look for
// the row in more cells.
constexpr std::size_t kCells = 2;
constexpr std::size_t kAddedBetweenChecks = 1 << 16; // rows of cross terms, 256 additions each
constexpr std::int32_t kStart = -8192; // the smallest step of a table: three largest cross terms fit below it

struct Path {
    float score;
    std::uint32_t cell;  // index into the cells the beam began with
    std::uint32_t codes; // slot of its codes
};

struct Extension {
    float score;
    std::uint32_t parent; // index into the beam
    std::uint32_t word;
};

constexpr const char* kNotFinite = "a value is not finite, or too large to be coded";

// Beam search over the books in their order. A path's table for the next book is |w|^2 - 2 (x - c).w for its cell's
// word c, plus the cross terms with the words it has chosen; for books that overlap others these are added up in int16,
// in steps of Books::cross_scale() above the table's minimum.
class Encoder {
public:
    Encoder(const Books& books, std::size_t beam, std::size_t sweeps)
        : books_(books), n_books_(books.books().size()), beam_(beam), sweeps_(sweeps), rotated_(kGroup * books.dim()),
          gathered_(kGroup * books.dim()), linear_(kGroup * n_books_ * kWords), own_(kWords), sums_(kWords),
          trunks_(kCells * kWords), cross_(n_books_ * n_books_), column_(n_books_), linked_(n_books_, false) {
        for (std::size_t j = 0; j < books.n_columns(); ++j)
            if (books.columns()[j] >= 0) column_[static_cast<std::size_t>(books.columns()[j])] = j;
        bool any = books.has_cell_terms();
        for (std::size_t i = 1; i < n_books_; ++i)
            for (std::size_t j = i + 1; j < n_books_; ++j)
                if ((cross_[i * n_books_ + j] = books.cross(i, j)) != nullptr && books.cross_scale() > 0)
                    any = any_linked_ = linked_[i] = linked_[j] = true;
        if (!any) beam_ = 1; // books are independent
        steps_.resize(beam_ * n_books_ * kWords);
        offsets_.resize(beam_ * n_books_);
        codes_.resize(2 * beam_ * n_books_);
    }

    void run(const float* x, std::size_t n, std::uint8_t* codes) {
        checkpoint();
        compute_linear(x, n);
        for (std::size_t i = 0; i < n; ++i, codes += 1 + books_.n_columns()) {
            const float* linear = linear_.data() + i * n_books_ * kWords;
            choose_cells(linear);
            for (std::size_t j = 1; j < n_books_; ++j) linked_[j] ? extend(linear, j) : settle(linear, j);
            std::size_t best = 0;
            for (std::size_t p = 1; p < paths_.size(); ++p)
                if (paths_[p].score < paths_[best].score) best = p;
            for (std::size_t sweep = 0; sweep < sweeps_ && improve(paths_[best]); ++sweep) {
            }
            write(codes_of(paths_[best]), codes);
        }
    }

private:
    const std::int16_t* cross(std::size_t i, std::size_t j) const { return cross_[i * n_books_ + j]; }
    std::uint8_t* codes_of(const Path& path) { return codes_.data() + path.codes * n_books_; }

    // linear[i][book][w] = |w|^2 - 2 x.w
    void compute_linear(const float* x, std::size_t n) {
        const float* from[kGroup];
        float* to[kGroup];
        books_.rotate(x, n, rotated_.data(), true);
        require_finite(rotated_.data(), n * books_.dim(), kNotFinite);
        for (std::size_t j = 0; j < n_books_; ++j) {
            const Book& book = books_.books()[j];
            for (std::size_t i = 0; i < n; ++i) {
                float* values = gathered_.data() + i * books_.dim();
                for (std::size_t d = 0; d < book.support.size(); ++d)
                    values[d] = rotated_[i * books_.dim() + book.support[d]];
                from[i] = values;
                to[i] = linear_.data() + (i * n_books_ + j) * kWords;
            }
            kernel_.inner_products(from, n, book.words.data(), book.support.size(), to);
            for (std::size_t i = 0; i < n; ++i)
                for (std::size_t w = 0; w < kWords; ++w) to[i][w] = book.squares[w] - 2.0f * to[i][w];
        }
    }

    // The beam begins with the nearest cells; a tie goes to the one found first.
    void choose_cells(const float* linear) {
        kept_.clear();
        const std::size_t n = books_.books()[0].n_words;
        float minima[kGroups];
        kernel_.minima(linear, minima);
        float limit = std::numeric_limits<float>::infinity();
        if (beam_ <= kGroups) { // the best cells are among those no farther than so many group minima
            std::nth_element(minima, minima + (beam_ - 1), minima + kGroups);
            limit = minima[beam_ - 1];
        }
        for (std::uint32_t c = 0; c < n; ++c)
            if (linear[c] <= limit) keep({linear[c], 0, c});
        if (any_linked_ && kept_.size() > kCells) kept_.resize(kCells);
        paths_.resize(kept_.size());
        cells_.resize(kept_.size());
        made_.assign(kept_.size() * n_books_, false);
        slots_ = 0;
        for (std::uint32_t p = 0; p < kept_.size(); ++p) {
            cells_[p] = kept_[p].word;
            paths_[p] = {kept_[p].score, p, p};
            codes_of(paths_[p])[0] = static_cast<std::uint8_t>(kept_[p].word);
        }
    }

    void keep(const Extension& extension) {
        if (kept_.size() == beam_) {
            if (!(extension.score < kept_.back().score)) return;
            kept_.pop_back();
        }
        auto at = kept_.end();
        while (at != kept_.begin() && extension.score < (at - 1)->score) --at;
        kept_.insert(at, extension);
    }

    // |w|^2 - 2 (x - c).w
    const float* own(const float* linear, std::uint32_t cell, std::size_t j) {
        const float* table = linear + j * kWords;
        if (!books_.overlap(0, j) || !books_.has_cell_terms()) return table;
        kernel_.add_terms(table, books_.cell_terms(cells_[cell], column_[j]), books_.cell_term_scale(), own_.data());
        return own_.data();
    }

    // A book that shares dimensions with the cell only: each path takes its best word.
    void settle(const float* linear, std::size_t j) {
        for (Path& path : paths_) {
            const float* table = own(linear, path.cell, j);
            const std::size_t word = kernel_.argmin(table);
            codes_of(path)[j] = static_cast<std::uint8_t>(word);
            path.score += table[word];
        }
    }

    const std::int16_t* steps(const float* linear, std::uint32_t cell, std::size_t j) {
        const std::size_t slot = cell * n_books_ + j;
        std::int16_t* out = steps_.data() + slot * kWords;
        if (!made_[slot]) {
            made_[slot] = true;
            const float* table = own(linear, cell, j);
            float group_minima[kGroups];
            offsets_[slot] = kernel_.minima(table, group_minima);
            kernel_.to_steps(table, offsets_[slot], finite_inverse(books_.cross_scale()), kStart, out);
        }
        return out;
    }

    // out = head and the cross terms of book j with the words that `codes` has of the books `first` to `last` - 1
    void add_up(const std::int16_t* head, const std::uint8_t* codes, std::size_t j, std::size_t first, std::size_t last,
                std::int16_t* out) const {
        const std::int16_t* rows[kMaxBooks];
        std::size_t n = 0;
        rows[n++] = head;
        for (std::size_t i = first; i < last; ++i)
            if (const std::int16_t* terms = cross(i, j)) rows[n++] = terms + codes[i] * kWords;
        kernel_.add_rows(rows, n, out);
    }

    // What the tables of book j of all paths from one cell begin with. With many books most of their words are the
    // same, because good paths part late, and cross terms come from a cache farther away.
    struct Trunk {
        const std::int16_t* sums; // steps, with cross terms up to
        std::size_t end;          // this book
    };

    Trunk trunk(const float* linear, std::uint32_t cell, std::size_t j) {
        const std::uint8_t* codes = nullptr;
        std::size_t end = j, n = 0;
        for (const Path& path : paths_) {
            if (path.cell != cell) continue;
            if (n++ == 0) codes = codes_of(path);
            else end = static_cast<std::size_t>(std::mismatch(codes, codes + end, codes_of(path)).first - codes);
        }
        if (n == 0) return {nullptr, 1};
        for (std::size_t i = 1; i < end && j + 1 < n_books_; ++i) // the next book's paths share these words too
            if (const std::int16_t* terms = cross(i, j + 1))
                for (std::size_t w = 0; w < kWords; w += 32) __builtin_prefetch(terms + codes[i] * kWords + w);
        const std::int16_t* own = steps(linear, cell, j);
        if (n == 1 || end == 1) return {own, 1};
        std::int16_t* out = trunks_.data() + cell * kWords;
        add_up(own, codes, j, 1, end, out);
        return {out, end};
    }

    // A limit that at least `beam_` words are within: each of 16 classes of words has one as small as its minimum.
    std::int32_t enough(const std::int16_t* sums) const {
        constexpr std::size_t classes = 16;
        if (beam_ > classes) return 32767;
        std::int16_t minima[classes];
        std::copy_n(sums, classes, minima);
        for (std::size_t w = classes; w < kWords; w += classes)
            for (std::size_t i = 0; i < classes; ++i) minima[i] = std::min(minima[i], sums[w + i]);
        std::nth_element(minima, minima + (beam_ - 1), minima + classes);
        return minima[beam_ - 1];
    }

    // Every word of every path competes.
    void extend(const float* linear, std::size_t j) {
        const float scale = books_.cross_scale(), factor = finite_inverse(scale);
        const std::size_t n_words = books_.books()[j].n_words;
        if ((added_ += paths_.size() * j) > kAddedBetweenChecks) {
            checkpoint();
            added_ = 0;
        }
        kept_.clear();
        Trunk trunks[kCells];
        for (std::uint32_t cell = 0; cell < cells_.size(); ++cell) trunks[cell] = trunk(linear, cell, j);
        for (std::uint32_t p = 0; p < paths_.size(); ++p) {
            const Trunk& from = trunks[paths_[p].cell];
            add_up(from.sums, codes_of(paths_[p]), j, from.end, j, sums_.data());
            const float low = paths_[p].score + offsets_[paths_[p].cell * n_books_ + j];
            std::int32_t limit = p == 0 ? enough(sums_.data()) : 32767;
            if (kept_.size() == beam_) { // two steps more than rounding can hide
                const float room = (kept_.back().score - low) * factor;
                if (!(room > -65536.0f)) continue;
                limit = room < 65536.0f ? std::min(static_cast<std::int32_t>(room) + kStart + 2, 32767) : 32767;
                if (limit < -32768) continue;
            }
            const std::size_t n = kernel_.below(sums_.data(), static_cast<std::int16_t>(limit), words_);
            for (std::size_t i = 0; i < n && words_[i] < n_words; ++i)
                keep({low + scale * static_cast<float>(sums_[words_[i]] - kStart), p, words_[i]});
        }
        slots_ = beam_ - slots_; // the other half of codes_
        next_.resize(kept_.size());
        for (std::uint32_t p = 0; p < kept_.size(); ++p) {
            const Path& parent = paths_[kept_[p].parent];
            next_[p] = {kept_[p].score, parent.cell, static_cast<std::uint32_t>(slots_ + p)};
            std::copy_n(codes_of(parent), j, codes_of(next_[p]));
            codes_of(next_[p])[j] = static_cast<std::uint8_t>(kept_[p].word);
        }
        paths_.swap(next_);
    }

    // One sweep of iterated conditional modes: each book takes the best word given the others. False: nothing changed.
    bool improve(const Path& path) {
        std::uint8_t* codes = codes_of(path);
        bool changed = false;
        for (std::size_t j = 1; j < n_books_; ++j) {
            if (!linked_[j]) continue;
            add_up(steps(nullptr, path.cell, j), codes, j, 1, j, sums_.data());
            for (std::size_t i = j + 1; i < n_books_; ++i)
                if (const std::int16_t* terms = cross(j, i))
                    for (std::size_t w = 0; w < kWords; ++w) {
                        const int sum = sums_[w] + terms[w * kWords + codes[i]];
                        sums_[w] = static_cast<std::int16_t>(std::clamp(sum, -32768, 32767));
                    }
            std::size_t best = codes[j];
            for (std::size_t w = 0; w < books_.books()[j].n_words; ++w)
                if (sums_[w] < sums_[best]) best = w;
            changed = changed || best != codes[j];
            codes[j] = static_cast<std::uint8_t>(best);
        }
        return changed;
    }

    void write(const std::uint8_t* codes, std::uint8_t* out) {
        *out++ = codes[0];
        for (int column : books_.columns())
            *out++ = column >= 0 ? codes[static_cast<std::size_t>(column)]
                                 : norm_code(static_cast<std::size_t>(-1 - column), codes);
    }

    std::uint8_t norm_code(std::size_t index, const std::uint8_t* codes) const {
        const Norm& norm = books_.norms()[index];
        const auto covers = [](const Norm& n, std::uint32_t book) {
            return std::find(n.covers.begin(), n.covers.end(), book) != n.covers.end();
        };
        std::int32_t steps = 0;
        for (std::size_t a = 0; a < norm.covers.size(); ++a)
            for (std::size_t b = a + 1; b < norm.covers.size(); ++b) {
                const std::uint32_t i = norm.covers[a], j = norm.covers[b];
                bool held = false;
                for (std::size_t e = 0; e < index; ++e)
                    held = held || (covers(books_.norms()[e], i) && covers(books_.norms()[e], j));
                const std::int16_t* cross = books_.cross(i, j);
                if (!held && cross != nullptr) steps += cross[codes[i] * kWords + codes[j]];
            }
        const float value = books_.cross_scale() * static_cast<float>(steps);
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
    const std::size_t sweeps_;
    Aligned<float> rotated_, gathered_, linear_, own_;
    Aligned<std::int16_t> sums_, trunks_, steps_; // steps_ [cell of the beam][book][256], where made_
    std::vector<float> offsets_;                  // [cell of the beam][book] the value of step kStart
    std::vector<bool> made_;
    std::vector<const std::int16_t*> cross_; // [i][j] Books::cross, whose check that it was made costs time
    std::vector<std::size_t> column_;        // stored column of a book
    bool any_linked_ = false;
    std::vector<bool> linked_; // books that share dimensions with others than the cell's
    std::vector<std::uint32_t> cells_;
    std::vector<Path> paths_, next_;
    std::vector<Extension> kept_;
    std::vector<std::uint8_t> codes_; // two halves of [beam][n_books]
    std::size_t slots_ = 0;           // first slot of the half in use
    std::size_t added_ = 0;           // rows of cross terms since the last checkpoint
    std::uint8_t words_[kWords];
};

} // namespace

void encode(const Books& books, const float* x, std::size_t n, std::size_t beam, std::size_t sweeps,
            std::size_t threads, std::uint8_t* codes) {
    if (n > 0) books.cross_scale(); // makes the cross terms once, not once for each thread
    std::vector<std::unique_ptr<Encoder>> encoders(threads);
    parallel_for((n + kTask - 1) / kTask, threads, [&](std::size_t task, std::size_t worker) {
        if (!encoders[worker]) encoders[worker] = std::make_unique<Encoder>(books, beam, sweeps);
        const std::size_t end = std::min(n, (task + 1) * kTask);
        for (std::size_t i = task * kTask; i < end; i += kGroup)
            encoders[worker]->run(x + i * books.dim(), std::min(kGroup, end - i), codes + i * (1 + books.n_columns()));
    });
}

void cross_floors(const Books& books, const std::uint8_t* codes, std::size_t n, std::size_t threads,
                  std::int32_t* floors) {
    constexpr std::size_t rows = 16384;
    std::vector<std::vector<std::int32_t>> minima(threads);
    parallel_for((n + rows - 1) / rows, threads, [&](std::size_t task, std::size_t worker) {
        auto& low = minima[worker];
        if (low.empty()) low.assign(kWords, std::numeric_limits<std::int32_t>::max());
        for (std::size_t i = task * rows; i < std::min(n, (task + 1) * rows); ++i) {
            if (i % 1024 == 0) checkpoint();
            const std::uint8_t* code = codes + i * (1 + books.n_columns());
            low[*code] = std::min(low[*code], books.cross_sum(code + 1));
        }
    });
    for (std::size_t c = 0; c < books.n_cells(); ++c) {
        std::int32_t low = std::numeric_limits<std::int32_t>::max();
        for (const auto& part : minima)
            if (!part.empty()) low = std::min(low, part[c]);
        floors[c] = low == std::numeric_limits<std::int32_t>::max() ? 0 : low;
    }
}

} // namespace interlace
