#include "threads.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#ifndef _WIN32
#include <pthread.h>
#endif

namespace interlace {
namespace {

constexpr std::chrono::milliseconds kAskEvery{50};

thread_local Call* current = nullptr; // the call that this thread works for

} // namespace

Call::Call(std::function<Answer()> ask) : ask_(std::move(ask)), next_(std::chrono::steady_clock::now() + kAskEvery) {
    current = this;
}

Call::~Call() { current = nullptr; }

void Call::ask_if_due() noexcept {
    if (std::this_thread::get_id() != caller_ || stopped_) return;
    if (std::chrono::steady_clock::now() < next_) return;
    const Answer answer = ask_();
    if (answer == kStop) stopped_ = true;
    next_ = answer == kAskNoMore ? std::chrono::steady_clock::time_point::max()
                                 : std::chrono::steady_clock::now() + kAskEvery;
}

void checkpoint() {
    if (current == nullptr) return;
    current->ask_if_due();
    if (current->stopped_.load(std::memory_order_relaxed)) throw Interrupted{};
}

// A helper works for the call of another thread.
class Helping {
public:
    explicit Helping(Call* call) { current = call; }
    ~Helping() { current = nullptr; }
};

namespace {

// One call of parallel_for. Helpers that arrive after the last task was taken find nothing and leave.
struct Job {
    const std::function<void(std::size_t, std::size_t)>* task;
    std::size_t n_tasks;
    Call* call; // of the caller, or nullptr
    std::atomic<std::size_t> next_task{0}, next_worker{1};
    std::mutex mutex;
    std::condition_variable idle;
    std::size_t active = 0; // helpers inside work()
    std::exception_ptr error;

    void work(std::size_t worker) {
        try {
            for (std::size_t i; (i = next_task.fetch_add(1)) < n_tasks;) {
                checkpoint();
                (*task)(i, worker);
            }
        } catch (...) {
            next_task = n_tasks;
            const std::lock_guard lock(mutex);
            if (!error) error = std::current_exception();
        }
    }
};

class Pool {
public:
    // Never throws: the caller would leave, and its job in the queue would run on objects that no longer exist.
    void offer(const std::shared_ptr<Job>& job, std::size_t helpers) noexcept {
        const std::lock_guard lock(mutex_);
        try {
            for (; n_threads_ < helpers; ++n_threads_) std::thread([this] { run(); }).detach();
        } catch (const std::exception&) {
            // The system has no more threads, or no memory for one: those that are there do the work.
        }
        try {
            for (std::size_t i = 0; i < std::min(helpers, n_threads_); ++i) queue_.push_back(job);
        } catch (const std::exception&) { // no memory: fewer of them help
        }
        wake_.notify_all();
    }

private:
    void run() {
        for (;;) {
            std::shared_ptr<Job> job;
            {
                std::unique_lock lock(mutex_);
                wake_.wait(lock, [this] { return !queue_.empty(); });
                job = std::move(queue_.front());
                queue_.pop_front();
            }
            {
                const std::lock_guard lock(job->mutex);
                if (job->next_task >= job->n_tasks) continue; // the caller may be gone already
                ++job->active;
            }
            {
                const Helping helping(job->call);
                job->work(job->next_worker.fetch_add(1));
            }
            const std::lock_guard lock(job->mutex);
            if (--job->active == 0) job->idle.notify_all();
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<std::shared_ptr<Job>> queue_;
    std::size_t n_threads_ = 0;
};

std::atomic<Pool*> current_pool{nullptr};

#ifndef _WIN32 // which has no fork()
// Threads do not survive fork(), and a mutex may be held by one of them: a child process gets a pool of its own. This
// runs when the module is loaded, not when a pool is first used: fork() may come in between.
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] { current_pool = nullptr; });
#endif

// Pools are never destroyed, because their detached threads may outlive static destructors. No lock here: a child would
// wait for a lock that a thread of its parent holds.
Pool& pool() {
    Pool* found = current_pool.load();
    if (found != nullptr) return *found;
    auto made = std::make_unique<Pool>();
    if (current_pool.compare_exchange_strong(found, made.get())) return *made.release();
    return *found; // another thread was first
}

} // namespace

void parallel_for(std::size_t n_tasks, std::size_t threads, const std::function<void(std::size_t, std::size_t)>& task) {
    const std::size_t helpers = std::min(threads, n_tasks) - (n_tasks > 0 ? 1 : 0);
    if (n_tasks == 0) return;
    auto job = std::make_shared<Job>();
    job->task = &task;
    job->n_tasks = n_tasks;
    job->call = current;
    if (helpers > 0) pool().offer(job, helpers);
    job->work(0);
    std::unique_lock lock(job->mutex);
    while (!job->idle.wait_for(lock, kAskEvery, [&] { return job->active == 0; })) {
        if (current == nullptr) continue;
        lock.unlock(); // helpers of a call that stops leave at their next checkpoint
        current->ask_if_due();
        lock.lock();
    }
    if (job->error) std::rethrow_exception(job->error);
    if (current != nullptr && current->stopped_) throw Interrupted{};
}

} // namespace interlace
