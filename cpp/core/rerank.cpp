#include "rerank.h"

#include "aligned.h"
#include "damaged.h"
#include "threads.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>

namespace interlace {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::size_t kRowsPerCall = 256;  // of a kernel, between checkpoints
constexpr std::size_t kRowsPerTask = 1024; // what one thread takes at a time, at least

struct Candidate {
    float distance; // no NaN
    std::int64_t row;

    bool operator<(const Candidate& other) const {
        return distance != other.distance ? distance < other.distance : row < other.row;
    }
};

// One query at a time; memory is kept from one to the next.
class Reranker {
public:
    Reranker(const StoredVectors& vectors, const RowDistance& distance, std::size_t k)
        : vectors_(vectors), distance_(distance), k_(k), query_((vectors.dim() + kSums - 1) / kSums * kSums) {}

    void run(const float* query, const std::int64_t* rows, std::size_t depth, std::int64_t* out_rows,
             float* out_distances) {
        take(query);
        find(rows, depth);
        const ColdPages& cold = vectors_.cold_pages();
        if (cold.expected()) {
            pages_.fetch(pointers_, vectors_.width());
            cold.count_query();
        }
        const std::uint64_t waits = waits_for_disk();
        compare();
        if (waits_for_disk() != waits) cold.found();
        const std::size_t found = std::min(k_, candidates_.size());
        const auto end = candidates_.begin() + static_cast<std::ptrdiff_t>(found);
        if (found < candidates_.size()) std::nth_element(candidates_.begin(), end, candidates_.end());
        std::sort(candidates_.begin(), end);
        for (std::size_t i = 0; i < found; ++i) {
            out_rows[i] = candidates_[i].row;
            out_distances[i] = candidates_[i].distance;
        }
        std::fill(out_rows + found, out_rows + k_, -1);
        std::fill(out_distances + found, out_distances + k_, kInfinity);
    }

private:
    // Relative to the centre: |q - c - v|^2, or offset - q.c - q.v; zeros follow.
    void take(const float* query) {
        const std::vector<float>& centre = vectors_.centre();
        if (distance_.is_squared) {
            for (std::size_t d = 0; d < centre.size(); ++d) query_[d] = query[d] - centre[d];
            return;
        }
        double product = 0; // every product of two floats is exact
        for (std::size_t d = 0; d < centre.size(); ++d) {
            query_[d] = query[d];
            product += static_cast<double>(query[d]) * centre[d];
        }
        offset_ = static_cast<float>(distance_.offset - product);
    }

    // In the order in which they come: the kernels fetch rows ahead, so an ascending order gains less than sorting
    // costs.
    void find(const std::int64_t* rows, std::size_t depth) {
        candidates_.clear();
        pointers_.clear();
        for (std::size_t i = 0; i < depth; ++i) {
            if (rows[i] < 0) continue;
            if (static_cast<std::uint64_t>(rows[i]) >= vectors_.n_rows())
                throw Damaged("it names row " + std::to_string(rows[i]) + " of " + std::to_string(vectors_.n_rows()));
            candidates_.push_back({0, rows[i]});
            pointers_.push_back(vectors_.at(static_cast<std::uint64_t>(rows[i])));
        }
    }

    void compare() {
        const Kernels& level = kernels();
        const auto sums = distance_.is_squared ? level.stored_distances : level.stored_products;
        float found[kRowsPerCall];
        for (std::size_t first = 0; first < pointers_.size(); first += kRowsPerCall) {
            if (first > 0) checkpoint();
            const std::size_t count = std::min(kRowsPerCall, pointers_.size() - first);
            sums(vectors_.type(), query_.data(), pointers_.data() + first, count, vectors_.dim(), found);
            for (std::size_t i = 0; i < count; ++i) {
                float away = distance_.is_squared ? found[i] : offset_ - found[i];
                if (!std::isfinite(away)) {
                    require_finite(first + i);
                    if (std::isnan(away)) away = kInfinity; // inf - inf
                }
                candidates_[first + i].distance = away;
            }
        }
    }

    // Whether the distance overflowed or the row is no vector: checked only where a distance is not finite.
    void require_finite(std::size_t i) const {
        bool finite = true;
        const auto all = [&](std::size_t size, std::size_t n, auto is_finite) {
            for (std::size_t d = 0; d < n; ++d) finite = finite && is_finite(pointers_[i] + d * size);
        };
        const auto is_float = [](const std::uint8_t* p) {
            float value;
            std::memcpy(&value, p, sizeof value);
            return std::isfinite(value);
        };
        const auto is_half = [](const std::uint8_t* p) {
            std::uint16_t bits;
            std::memcpy(&bits, p, sizeof bits);
            return (bits & 0x7c00) != 0x7c00;
        };
        if (vectors_.type() == Stored::kFloat16) all(2, vectors_.dim(), is_half);
        else all(4, vectors_.type() == Stored::kInt8 ? 2 : vectors_.dim(), is_float);
        if (!finite) throw Damaged("the original of row " + std::to_string(candidates_[i].row) + " is not finite");
    }

    const StoredVectors& vectors_;
    const RowDistance distance_;
    const std::size_t k_;
    float offset_ = 0;
    Aligned<float> query_;
    std::vector<Candidate> candidates_; // of this query
    std::vector<const std::uint8_t*> pointers_;
    PageRuns pages_;
};

} // namespace

StoredVectors::StoredVectors(Stored type, const std::vector<float>& centre, const std::vector<Part>& parts)
    : type_(type), centre_(centre) {
    std::uint64_t end = 0;
    for (const Part& part : parts) {
        if (part.n_rows == 0) continue;
        parts_.push_back(part);
        ends_.push_back(end += part.n_rows);
    }
}

const std::uint8_t* StoredVectors::at(std::uint64_t row) const {
    const std::size_t p =
        parts_.size() == 1
            ? 0
            : static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), row) - ends_.begin());
    return parts_[p].data + (row - (ends_[p] - parts_[p].n_rows)) * width();
}

void rerank(const StoredVectors& vectors, const RowDistance& distance, const float* queries, std::size_t n,
            const Candidates& candidates, std::size_t k, std::size_t threads, std::int64_t* out_rows,
            float* out_distances) {
    const std::size_t group = std::max<std::size_t>(1, kRowsPerTask / std::max<std::size_t>(1, candidates.depth));
    std::vector<std::unique_ptr<Reranker>> workers(threads);
    parallel_for((n + group - 1) / group, threads, [&](std::size_t task, std::size_t worker) {
        if (!workers[worker]) workers[worker] = std::make_unique<Reranker>(vectors, distance, k);
        for (std::size_t q = task * group; q < std::min(n, (task + 1) * group); ++q)
            workers[worker]->run(queries + q * vectors.dim(), candidates.of(q), candidates.depth, out_rows + q * k,
                                 out_distances + q * k);
    });
}

} // namespace interlace
