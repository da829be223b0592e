// A small pool of our own: no OpenMP, so no clash with the runtimes of other libraries in the process.
#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <thread>

namespace interlace {

// Runs task(i, worker) for i in 0..n_tasks-1 on at most `threads` threads, the caller's among them; worker is below
// `threads` and held by one thread at a time. Fewer threads do the work where the system refuses to start more. Returns
// when all are done; rethrows the first exception.
void parallel_for(std::size_t n_tasks, std::size_t threads, const std::function<void(std::size_t, std::size_t)>& task);

struct Interrupted {}; // what checkpoint() throws

// A call that can be interrupted while this object exists, on the thread that made it and on those that help it.
class Call {
public:
    enum Answer { kGoOn, kStop, kAskNoMore };

    // `ask` runs on the calling thread only, a few times a second, and must not throw. After kStop this call ends with
    // Interrupted.
    explicit Call(std::function<Answer()> ask);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

private:
    friend void checkpoint();
    friend class Helping;
    friend void parallel_for(std::size_t, std::size_t, const std::function<void(std::size_t, std::size_t)>&);
    void ask_if_due() noexcept;

    const std::function<Answer()> ask_;
    const std::thread::id caller_ = std::this_thread::get_id();
    std::chrono::steady_clock::time_point next_; // when to ask again
    std::atomic<bool> stopped_{false};
};

// Throws Interrupted where the call that this thread works for has to stop. It reads a clock, so it belongs between
// pieces of work of 10 microseconds or more, and no piece should take more than 0.1 seconds.
void checkpoint();

} // namespace interlace
