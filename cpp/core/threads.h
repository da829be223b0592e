// A small pool of our own: no OpenMP, so no clash with the runtimes of other libraries in the process.
#pragma once
#include <cstddef>
#include <functional>

namespace interlace {

// Runs task(i, worker) for i in 0..n_tasks-1 on at most `threads` threads, the caller's among them; worker is below
// `threads` and held by one thread at a time. Returns when all are done; rethrows the first exception.
void parallel_for(std::size_t n_tasks, std::size_t threads, const std::function<void(std::size_t, std::size_t)>& task);

} // namespace interlace
