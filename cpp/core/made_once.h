// A value that is computed when it is first needed and then kept.
//
// There is no lock: computing a value can be interrupted by a signal, and a forked child would wait for a lock that a
// thread of the parent held. Two threads may compute the value at the same time; the first result is kept.
#pragma once
#include <atomic>
#include <memory>

namespace interlace {

template <typename T> class MadeOnce {
public:
    MadeOnce() = default;
    MadeOnce(const MadeOnce&) = delete;
    MadeOnce& operator=(const MadeOnce&) = delete;
    ~MadeOnce() { delete value_.load(); }

    const T* known() const { return value_.load(std::memory_order_acquire); } // nullptr: not computed yet

    // make() returns std::unique_ptr<T>
    template <typename Make> const T& get(const Make& make) const {
        const T* found = known();
        if (found != nullptr) return *found;
        std::unique_ptr<T> made = make();
        if (value_.compare_exchange_strong(found, made.get())) return *made.release();
        return *found;
    }

private:
    mutable std::atomic<const T*> value_{nullptr};
};

} // namespace interlace
