#include "cold_pages.h"

#include <algorithm>

#if defined(__linux__)
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#endif

namespace interlace {

const std::vector<PageRuns::Run>& PageRuns::of(std::span<const std::uint8_t* const> rows, std::size_t width,
                                               std::size_t page) {
    runs_.clear();
    for (const std::uint8_t* row : rows) {
        const auto first = reinterpret_cast<std::uintptr_t>(row);
        runs_.push_back({first / page * page, (first + width + page - 1) / page * page});
    }
    std::sort(runs_.begin(), runs_.end(), [](const Run& a, const Run& b) { return a.first < b.first; });
    std::size_t n = 0;
    for (const Run& run : runs_) {
        if (n > 0 && run.first <= runs_[n - 1].end) runs_[n - 1].end = std::max(runs_[n - 1].end, run.end);
        else runs_[n++] = run;
    }
    runs_.resize(n);
    return runs_;
}

#if defined(__linux__)

void PageRuns::fetch(std::span<const std::uint8_t* const> rows, std::size_t width) {
    static const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    // Only advice: where the system does not take it, the rows are read as usual.
    for (const Run& run : of(rows, width, page))
        static_cast<void>(madvise(reinterpret_cast<void*>(run.first), run.end - run.first, MADV_WILLNEED));
}

std::uint64_t waits_for_disk() {
    rusage used;
    return getrusage(RUSAGE_THREAD, &used) == 0 ? static_cast<std::uint64_t>(used.ru_majflt) : 0;
}

#else

void PageRuns::fetch(std::span<const std::uint8_t* const>, std::size_t) {}
std::uint64_t waits_for_disk() { return 0; }

#endif

} // namespace interlace
