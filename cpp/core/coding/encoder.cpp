#include "encoder.h"

#include "../threads.h"
#include "norm_codes.h"

#include <algorithm>
#include <limits>

namespace interlace {
namespace {

constexpr std::size_t kAddedBetweenChecks = 1 << 16; // rows of cross terms, 256 additions each

} // namespace

Encoder::Encoder(const Books& books, std::size_t beam, std::size_t sweeps, const ParallelLoss& loss)
    : books_(books), tables_(books), parallel_(books, loss), n_books_(books.books().size()),
      beam_(tables_.independent() && !loss.used() ? 1 : beam), sweeps_(sweeps), sums_(kWords),
      trunks_(kLinkedCells * kWords), scores_(kWords),
      nearest_(books.cells().words(), books.cells().centres(),
               tables_.any_linked() ? std::min(beam_, kLinkedCells) : beam_),
      near_(kRows * nearest_.count()), rotated_(kRows * books.dim()), gathered_(kRows * books.dim()),
      codes_(2 * beam_ * n_books_) {
    tables_.reserve(beam_);
}

void Encoder::run(const float* x, std::size_t n, const CodeRowsOut& out) {
    checkpoint();
    choose_cells(x, n);
    for (std::size_t i = 0; i < n; ++i) {
        const std::size_t in_group = i % BeamTables::kGroup;
        if (in_group == 0) tables_.compute(rotated_.data() + i * books_.dim(), std::min(BeamTables::kGroup, n - i));
        const std::span cells(near_.data() + i * nearest_.count(), nearest_.count());
        tables_.start(in_group, cells);
        if (parallel_.used()) parallel_.start(rotated_.data() + i * books_.dim(), tables_);
        start_paths(cells);
        for (std::size_t j = 1; j < n_books_; ++j) {
            if (parallel_.used()) {
                extend_parallel(j);
                continue;
            }
            if (tables_.separate(j)) settle_cells();
            tables_.linked(j) ? extend(j) : settle(j);
        }
        Path best = *std::min_element(paths_.begin(), paths_.end(),
                                      [](const Path& a, const Path& b) { return a.score < b.score; });
        for (std::size_t sweep = 0; sweep < sweeps_; ++sweep)
            if (!(parallel_.used() ? improve_parallel(best) : improve(best))) break;
        out.set_cell(i, tables_.cell(best.slot));
        const std::uint8_t* codes = codes_of(best);
        std::uint8_t* to = out.codes(i);
        for (const int column : books_.columns())
            *to++ = column >= 0 ? codes[static_cast<std::size_t>(column)]
                                : norm_code(books_, static_cast<std::size_t>(-1 - column), codes);
    }
}

void Encoder::choose_cells(const float* x, std::size_t n) {
    const std::vector<std::uint32_t>& support = books_.cells().words().support;
    const float* from[kRows];
    books_.rotate(x, n, rotated_.data(), true);
    require_finite(rotated_.data(), n * books_.dim(), "a value is not finite, or too large to be coded");
    for (std::size_t i = 0; i < n; ++i) {
        float* values = gathered_.data() + i * books_.dim();
        for (std::size_t d = 0; d < support.size(); ++d) values[d] = rotated_[i * books_.dim() + support[d]];
        from[i] = values;
    }
    nearest_.run(from, n, near_.data());
}

// The beam begins with the nearest cells.
void Encoder::start_paths(std::span<const NearestWords::Scored> cells) {
    paths_.resize(cells.size());
    half_ = 0;
    for (std::uint32_t p = 0; p < cells.size(); ++p) {
        paths_[p] = {cells[p].score, p, p, 0.0f};
        if (!parallel_.used()) continue;
        const float along = parallel_.of_cell(cells[p].word);
        parallel_.add(&along, 1, parallel_.left(), &paths_[p].score);
        paths_[p].left = parallel_.left() - along;
    }
}

// A book that shares dimensions with the cells only: each path takes its best word.
void Encoder::settle(std::size_t j) {
    for (Path& path : paths_) {
        const float* table = tables_.own(path.slot, j);
        const std::size_t word = kernel_.argmin(table);
        codes_of(path)[j] = static_cast<std::uint8_t>(word);
        path.score += table[word];
    }
}

// What follows depends on the cell of a path alone: the best path of each cell goes on.
void Encoder::settle_cells() {
    std::size_t n = 0;
    for (const Path& path : paths_) {
        std::size_t p = 0;
        while (p < n && paths_[p].slot != path.slot) ++p;
        if (p == n) paths_[n++] = path;
        else if (path.score < paths_[p].score) paths_[p] = path;
    }
    paths_.resize(n);
}

Encoder::Trunk Encoder::trunk(std::uint32_t slot, std::size_t j) {
    const std::uint8_t* codes = nullptr;
    std::size_t end = j, n = 0;
    for (const Path& path : paths_) {
        if (path.slot != slot) continue;
        if (n++ == 0) codes = codes_of(path);
        else end = static_cast<std::size_t>(std::mismatch(codes + 1, codes + end, codes_of(path) + 1).first - codes);
    }
    if (n == 0) return {nullptr, 1};
    for (std::size_t i = 1; i < end && j + 1 < n_books_; ++i) // the next book's paths share these words too
        if (const std::int16_t* terms = tables_.cross(i, j + 1))
            for (std::size_t w = 0; w < kWords; w += 32) __builtin_prefetch(terms + codes[i] * kWords + w);
    const std::int16_t* own = tables_.steps(slot, j);
    if (n == 1 || end == 1) return {own, 1};
    std::int16_t* out = trunks_.data() + slot * kWords;
    tables_.add_up(own, codes, j, 1, end, out);
    return {out, end};
}

// A limit that at least `beam_` words are within: each of 16 classes of words has one as small as its minimum.
std::int32_t Encoder::enough(const std::int16_t* sums) const {
    constexpr std::size_t classes = 16;
    if (beam_ > classes) return 32767;
    std::int16_t minima[classes];
    std::copy_n(sums, classes, minima);
    for (std::size_t w = classes; w < kWords; w += classes)
        for (std::size_t i = 0; i < classes; ++i) minima[i] = std::min(minima[i], sums[w + i]);
    std::nth_element(minima, minima + (beam_ - 1), minima + classes);
    return minima[beam_ - 1];
}

void Encoder::start_extending(std::size_t j) {
    if ((added_ += paths_.size() * j) > kAddedBetweenChecks) {
        checkpoint();
        added_ = 0;
    }
    kept_.clear();
}

// Every word of book j on every path competes for a place in the beam.
void Encoder::extend(std::size_t j) {
    constexpr std::int32_t start = BeamTables::kStart;
    const float scale = books_.pair_terms().scale(), factor = finite_inverse(scale);
    const std::size_t n_words = books_.books()[j].n_words;
    start_extending(j);
    Trunk trunks[kLinkedCells];
    for (std::uint32_t slot = 0; slot < tables_.n_slots(); ++slot) trunks[slot] = trunk(slot, j);
    for (std::uint32_t p = 0; p < paths_.size(); ++p) {
        const Trunk& from = trunks[paths_[p].slot];
        tables_.add_up(from.sums, codes_of(paths_[p]), j, from.end, j, sums_.data());
        const float low = paths_[p].score + tables_.offset(paths_[p].slot, j);
        std::int32_t limit = p == 0 ? enough(sums_.data()) : 32767;
        if (kept_.size() == beam_) { // two steps more than rounding can hide
            const float room = (kept_.back().score - low) * factor;
            if (!(room > -65536.0f)) continue;
            limit = room < 65536.0f ? std::min(static_cast<std::int32_t>(room) + start + 2, 32767) : 32767;
            if (limit < -32768) continue;
        }
        const std::size_t n = kernel_.below(sums_.data(), static_cast<std::int16_t>(limit), words_);
        for (std::size_t i = 0; i < n && words_[i] < n_words; ++i)
            keep({low + scale * static_cast<float>(sums_[words_[i]] - start), p, words_[i]});
    }
    advance(j);
}

// The same with a loss that counts errors along the row: words of all books depend on each other.
void Encoder::extend_parallel(std::size_t j) {
    const std::size_t n_words = books_.books()[j].n_words;
    start_extending(j);
    Trunk trunks[kLinkedCells];
    if (tables_.linked(j))
        for (std::uint32_t slot = 0; slot < tables_.n_slots(); ++slot) trunks[slot] = trunk(slot, j);
    for (std::uint32_t p = 0; p < paths_.size(); ++p) {
        if (tables_.linked(j)) {
            constexpr std::int32_t start = BeamTables::kStart;
            const Trunk& from = trunks[paths_[p].slot];
            const float scale = books_.pair_terms().scale();
            const float low = paths_[p].score + tables_.offset(paths_[p].slot, j);
            tables_.add_up(from.sums, codes_of(paths_[p]), j, from.end, j, sums_.data());
            for (std::size_t w = 0; w < kWords; ++w) scores_[w] = low + scale * static_cast<float>(sums_[w] - start);
        } else {
            const float* table = tables_.own(paths_[p].slot, j);
            for (std::size_t w = 0; w < kWords; ++w) scores_[w] = paths_[p].score + table[w];
        }
        parallel_.add(parallel_.of(j), n_words, paths_[p].left, scores_.data());
        std::fill(scores_.begin() + static_cast<std::ptrdiff_t>(n_words), scores_.end(),
                  std::numeric_limits<float>::infinity());
        keep_best(p, n_words);
    }
    advance(j);
}

// Offers the words of path p with the scores scores_, in ascending order.
void Encoder::keep_best(std::uint32_t p, std::size_t n_words) {
    float minima[kGroups], limit = std::numeric_limits<float>::infinity();
    kernel_.minima(scores_.data(), minima);
    if (kept_.size() == beam_) {
        limit = kept_.back().score;
    } else if (kept_.empty() && beam_ <= kGroups) { // each group has a word as good as its minimum
        float sorted[kGroups];
        std::copy_n(minima, kGroups, sorted);
        std::nth_element(sorted, sorted + (beam_ - 1), sorted + kGroups);
        limit = sorted[beam_ - 1];
    }
    std::size_t n = 0;
    for (std::size_t group = 0; group < kGroups; ++group)
        if (!(minima[group] > limit)) words_[n++] = static_cast<std::uint8_t>(group);
    for (std::size_t first = 0; first < n_words; first += kGroups)
        for (std::size_t i = 0; i < n; ++i)
            if (const std::size_t w = first + words_[i]; w < n_words && !(scores_[w] > limit))
                keep({scores_[w], p, static_cast<std::uint32_t>(w)});
}

void Encoder::keep(const Extension& extension) {
    if (kept_.size() == beam_) {
        if (!(extension.score < kept_.back().score)) return;
        kept_.pop_back();
    }
    auto at = kept_.end();
    while (at != kept_.begin() && extension.score < (at - 1)->score) --at;
    kept_.insert(at, extension);
}

// The kept extensions by a word of book j become the paths.
void Encoder::advance(std::size_t j) {
    half_ = beam_ - half_;
    next_.resize(kept_.size());
    for (std::uint32_t p = 0; p < kept_.size(); ++p) {
        const Path& parent = paths_[kept_[p].parent];
        next_[p] = {kept_[p].score, parent.slot, static_cast<std::uint32_t>(half_ + p), 0.0f};
        if (parallel_.used()) next_[p].left = parent.left - parallel_.of(j)[kept_[p].word];
        std::copy_n(codes_of(parent), j, codes_of(next_[p]));
        codes_of(next_[p])[j] = static_cast<std::uint8_t>(kept_[p].word);
    }
    paths_.swap(next_);
}

// One sweep of iterated conditional modes: each book takes the best word given the others. False: nothing changed.
bool Encoder::improve(const Path& path) {
    std::uint8_t* codes = codes_of(path);
    bool changed = false;
    for (std::size_t j = 1; j < n_books_; ++j) {
        if (!tables_.linked(j)) continue;
        add_others(path, j);
        std::size_t best = codes[j];
        for (std::size_t w = 0; w < books_.books()[j].n_words; ++w)
            if (sums_[w] < sums_[best]) best = w;
        changed = changed || best != codes[j];
        codes[j] = static_cast<std::uint8_t>(best);
    }
    return changed;
}

// sums_ [256] = the steps of book j on the path with the cross terms of all other words
void Encoder::add_others(const Path& path, std::size_t j) {
    const std::uint8_t* codes = codes_of(path);
    tables_.add_up(tables_.steps(path.slot, j), codes, j, 1, j, sums_.data());
    for (std::size_t i = j + 1; i < n_books_; ++i)
        if (const std::int16_t* terms = tables_.cross(j, i))
            for (std::size_t w = 0; w < kWords; ++w) {
                const int sum = sums_[w] + terms[w * kWords + codes[i]];
                sums_[w] = static_cast<std::int16_t>(std::clamp(sum, -32768, 32767));
            }
}

bool Encoder::improve_parallel(Path& path) {
    std::uint8_t* codes = codes_of(path);
    bool changed = false;
    for (std::size_t j = 1; j < n_books_; ++j) {
        if (tables_.linked(j)) {
            add_others(path, j);
            const float scale = books_.pair_terms().scale();
            for (std::size_t w = 0; w < kWords; ++w) scores_[w] = scale * static_cast<float>(sums_[w]);
        } else {
            std::copy_n(tables_.own(path.slot, j), kWords, scores_.data());
        }
        const float *along = parallel_.of(j), left = path.left + along[codes[j]];
        const std::size_t n_words = books_.books()[j].n_words;
        parallel_.add(along, n_words, left, scores_.data());
        std::size_t best = codes[j];
        for (std::size_t w = 0; w < n_words; ++w)
            if (scores_[w] < scores_[best]) best = w;
        changed = changed || best != codes[j];
        codes[j] = static_cast<std::uint8_t>(best);
        path.left = left - along[best];
    }
    return changed;
}

} // namespace interlace
