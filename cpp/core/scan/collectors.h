// What a scan keeps: the k nearest rows, or all rows within a radius.
//
// A collector says how near a row must be (tau), and takes the rows that are. It is a template argument of Scanner, so
// that the scan of either kind has no branch for the other.
#pragma once
#include "../segment.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace interlace {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A row that was compared by its whole code. The floors are those of its cell.
struct Hit {
    float distance, crude, crude_floor, floor;
    std::uint32_t segment, cell;
    std::uint64_t position; // in the segment
};

// What row_of() will read, into the cache
inline void fetch_row(const std::vector<SegmentView>& segments, const Hit& hit) {
    segments[hit.segment].fetch_row(hit.cell, hit.position);
}

inline std::uint64_t row_of(const std::vector<SegmentView>& segments, const Hit& hit) {
    return segments[hit.segment].row(hit.cell, hit.position);
}

// The k nearest rows, k >= 1. Of equal distances the lower row number wins.
class TopK {
    struct Key { // a heap moves its entries often: these are small
        float distance;
        std::uint32_t slot; // in kept_
    };

    // Row numbers are decoded only to break ties.
    bool before(const Key& a, const Key& b) const {
        return a.distance != b.distance ? a.distance < b.distance
                                        : row_of(segments_, kept_[a.slot]) < row_of(segments_, kept_[b.slot]);
    }
    auto order() const {
        return [this](const Key& a, const Key& b) { return before(a, b); };
    }

public:
    static constexpr bool kTauFalls = true;

    TopK(const std::vector<SegmentView>& segments, std::size_t k) : segments_(segments), k_(k) {}

    void start() { // before each query
        const std::size_t room = std::min<std::size_t>(k_, 4096);
        kept_.clear();
        kept_.reserve(room);
        heap_.clear();
        heap_.reserve(room);
    }
    std::size_t rows_needed() const { return k_; }
    bool full() const { return heap_.size() >= k_; }
    float tau() const { return heap_.size() < k_ ? kInfinity : heap_.front().distance; }
    float last_crude() const { return kept_[heap_.front().slot].crude; } // of the k-th best row; only when full

    bool offer(const Hit& hit) { // whether tau may have changed
        if (heap_.size() < k_) {
            heap_.push_back({hit.distance, static_cast<std::uint32_t>(kept_.size())});
            kept_.push_back(hit);
            std::push_heap(heap_.begin(), heap_.end(), order());
            return true;
        }
        const Key worst = heap_.front();
        if (hit.distance > worst.distance) return false;
        if (hit.distance == worst.distance && row_of(segments_, hit) >= row_of(segments_, kept_[worst.slot]))
            return false;
        kept_[worst.slot] = hit;
        sink({hit.distance, worst.slot});
        return true;
    }

    void finish() {
        std::sort(heap_.begin(), heap_.end(), order());
        hits_.clear();
        for (const Key& key : heap_) hits_.push_back(kept_[key.slot]);
    }
    const std::vector<Hit>& kept() const { return kept_; } // in any order
    const std::vector<Hit>& hits() const { return hits_; } // nearest first, after finish()

private:
    // Replaces the worst entry of the full heap.
    void sink(const Key& key) {
        std::size_t at = 0;
        for (std::size_t child = 1; child < heap_.size(); child = 2 * at + 1) {
            if (child + 1 < heap_.size() && before(heap_[child], heap_[child + 1])) ++child;
            if (!before(key, heap_[child])) break;
            heap_[at] = heap_[child];
            at = child;
        }
        heap_[at] = key;
    }

    const std::vector<SegmentView>& segments_;
    const std::size_t k_;
    std::vector<Hit> kept_;
    std::vector<Key> heap_; // the worst in front
    std::vector<Hit> hits_;
};

// All rows within a radius. Tau is the radius and stays.
class Radius {
public:
    static constexpr bool kTauFalls = false;

    struct Row {
        float distance;
        std::uint64_t row; // in the index
        bool operator<(const Row& other) const {
            return distance != other.distance ? distance < other.distance : row < other.row;
        }
    };

    explicit Radius(const std::vector<SegmentView>& segments) : segments_(segments) {}

    void start(float radius) { // before each query
        radius_ = radius;
        rows_.clear();
    }
    static constexpr std::size_t rows_needed() { return 0; }
    static constexpr bool full() { return true; }
    float tau() const { return radius_; }
    bool offer(const Hit& hit) {
        rows_.push_back({hit.distance, row_of(segments_, hit)});
        return false;
    }
    void finish() { std::sort(rows_.begin(), rows_.end()); }
    const std::vector<Row>& rows() const { return rows_; } // nearest first after finish()

private:
    const std::vector<SegmentView>& segments_;
    float radius_ = 0;
    std::vector<Row> rows_;
};

} // namespace interlace
