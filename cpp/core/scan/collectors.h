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

inline std::uint64_t row_of(const std::vector<SegmentView>& segments, const Hit& hit) {
    return segments[hit.segment].row(hit.cell, hit.position);
}

// The k nearest rows, k >= 1. Of equal distances the lower row number wins.
class TopK {
public:
    static constexpr bool kTauFalls = true;

    TopK(const std::vector<SegmentView>& segments, std::size_t k) : segments_(segments), k_(k) {}

    void start() { // before each query
        hits_.clear();
        hits_.reserve(std::min<std::size_t>(k_, 4096) + 1);
    }
    std::size_t rows_needed() const { return k_; }
    bool full() const { return hits_.size() >= k_; }
    float tau() const { return hits_.size() < k_ ? kInfinity : hits_.front().distance; }
    float last_crude() const { return hits_.front().crude; } // of the k-th best row; only when full

    bool offer(const Hit& hit) { // whether tau may have changed
        const auto worse = [this](const Hit& a, const Hit& b) { return before(a, b); };
        if (hits_.size() == k_) {
            if (!before(hit, hits_.front())) return false;
            std::pop_heap(hits_.begin(), hits_.end(), worse);
            hits_.back() = hit;
        } else {
            hits_.push_back(hit);
        }
        std::push_heap(hits_.begin(), hits_.end(), worse);
        return true;
    }

    void finish() {
        std::sort(hits_.begin(), hits_.end(), [this](const Hit& a, const Hit& b) { return before(a, b); });
    }
    const std::vector<Hit>& hits() const { return hits_; } // nearest first after finish()

private:
    // Row numbers are decoded only to break ties.
    bool before(const Hit& a, const Hit& b) const {
        return a.distance != b.distance ? a.distance < b.distance : row_of(segments_, a) < row_of(segments_, b);
    }

    const std::vector<SegmentView>& segments_;
    const std::size_t k_;
    std::vector<Hit> hits_; // heap, the worst in front
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
