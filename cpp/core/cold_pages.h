// Rows of a mapped file that may be on disk: asks for the pages of all rows of a query at once, before they are read.
//
// Reading a page that is not in memory waits for the disk, and the system reads its neighbours as well. To ask for
// pages takes longer than to compare rows that are in memory, so it is done only for some queries after one that had to
// wait. Does nothing where the system does not count such waits for each thread.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace interlace {

// Shared by all threads that read the rows.
class ColdPages {
public:
    static constexpr std::uint32_t kQueries = 32; // that ask ahead after one that had to wait

    // May be called by any thread at any time.
    bool expected() const { return left_.load(std::memory_order_relaxed) > 0; }
    void found() const { left_.store(kQueries, std::memory_order_relaxed); }
    void count_query() const {
        if (std::uint32_t left = left_.load(std::memory_order_relaxed); left > 0)
            left_.compare_exchange_weak(left, left - 1, std::memory_order_relaxed);
    }

private:
    mutable std::atomic<std::uint32_t> left_{0};
};

// Pages of the rows of one query, in the fewest runs.
class PageRuns {
public:
    struct Run {
        std::uintptr_t first, end; // addresses, whole pages
    };
    // Those that rows of `width` bytes touch, ascending; adjacent ones are one run.
    const std::vector<Run>& of(std::span<const std::uint8_t* const> rows, std::size_t width, std::size_t page);
    void fetch(std::span<const std::uint8_t* const> rows, std::size_t width); // asks the system for them

private:
    std::vector<Run> runs_;
};

// How often this thread has waited for a page from disk; 0 where that is not known.
std::uint64_t waits_for_disk();

} // namespace interlace
