// Vectors that start at a cache line: tables are read and written in whole lines.
#pragma once
#include <cstddef>
#include <new>
#include <vector>

namespace interlace {

template <typename T> struct LineAllocator {
    using value_type = T;
    LineAllocator() = default;
    template <typename U> LineAllocator(const LineAllocator<U>&) {}
    T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t{64})); }
    void deallocate(T* p, std::size_t) { ::operator delete(p, std::align_val_t{64}); }
    template <typename U> bool operator==(const LineAllocator<U>&) const { return true; }
};

// The same without setting the values of a new vector: for buffers of which a call writes what it reads.
template <typename T> struct UnsetAllocator : LineAllocator<T> {
    template <typename U> struct rebind {
        using other = UnsetAllocator<U>;
    };
    void construct(T*) noexcept {}
};

template <typename T> using Unset = std::vector<T, UnsetAllocator<T>>;
template <typename T> using Aligned = std::vector<T, LineAllocator<T>>;

} // namespace interlace
