#include "threads.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <unistd.h>

namespace interlace {
namespace {

// One call of parallel_for. Helpers that arrive after the last task was taken find nothing and leave.
struct Job {
    const std::function<void(std::size_t, std::size_t)>* task;
    std::size_t n_tasks;
    std::atomic<std::size_t> next_task{0}, next_worker{1};
    std::mutex mutex;
    std::condition_variable idle;
    std::size_t active = 0; // helpers inside work()
    std::exception_ptr error;

    void work(std::size_t worker) {
        try {
            for (std::size_t i; (i = next_task.fetch_add(1)) < n_tasks;) (*task)(i, worker);
        } catch (...) {
            next_task = n_tasks;
            const std::lock_guard lock(mutex);
            if (!error) error = std::current_exception();
        }
    }
};

class Pool {
public:
    void offer(const std::shared_ptr<Job>& job, std::size_t helpers) {
        const std::lock_guard lock(mutex_);
        for (std::size_t i = 0; i < helpers; ++i) queue_.push_back(job);
        while (n_threads_ < helpers) {
            std::thread([this] { run(); }).detach();
            ++n_threads_;
        }
        wake_.notify_all();
    }

    pid_t owner() const { return owner_; }

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
            job->work(job->next_worker.fetch_add(1));
            const std::lock_guard lock(job->mutex);
            if (--job->active == 0) job->idle.notify_all();
        }
    }

    const pid_t owner_ = getpid();
    std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<std::shared_ptr<Job>> queue_;
    std::size_t n_threads_ = 0;
};

// Threads do not survive fork(): a child process gets a pool of its own. Pools are never destroyed, because their
// detached threads may outlive static destructors. No lock here: a child would wait for one that a thread held which it
// does not have.
Pool& pool() {
    static std::atomic<Pool*> current{nullptr};
    Pool* found = current.load();
    if (found != nullptr && found->owner() == getpid()) return *found;
    auto made = std::make_unique<Pool>();
    if (current.compare_exchange_strong(found, made.get())) return *made.release();
    return *found; // another thread was quicker
}

} // namespace

void parallel_for(std::size_t n_tasks, std::size_t threads, const std::function<void(std::size_t, std::size_t)>& task) {
    const std::size_t helpers = std::min(threads, n_tasks) - (n_tasks > 0 ? 1 : 0);
    if (n_tasks == 0) return;
    auto job = std::make_shared<Job>();
    job->task = &task;
    job->n_tasks = n_tasks;
    if (helpers > 0) pool().offer(job, helpers);
    job->work(0);
    std::unique_lock lock(job->mutex);
    job->idle.wait(lock, [&] { return job->active == 0; });
    if (job->error) std::rethrow_exception(job->error);
}

} // namespace interlace
