// Arrays as Python passes them, taken as they are: a wrong dtype, order or number of dimensions is an error.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace nb = nanobind;
using namespace nb::literals;

namespace interlace {

template <typename T, typename Shape> using In = nb::ndarray<nb::numpy, const T, Shape, nb::c_contig, nb::device::cpu>;
template <typename T, typename Shape> using Out = nb::ndarray<nb::numpy, T, Shape, nb::c_contig, nb::device::cpu>;
using One = nb::ndim<1>;
using Two = nb::ndim<2>;
using Three = nb::ndim<3>;

inline void require(bool condition, const char* what) {
    if (!condition) throw std::invalid_argument(what);
}

template <typename T, typename A> std::span<const T> view(const A& array) { return {array.data(), array.size()}; }

// An array that owns its memory
template <typename T> nb::ndarray<nb::numpy, T, One> as_array(std::vector<T>&& values) {
    auto* kept = new std::vector<T>(std::move(values));
    kept->reserve(1); // an address also where it is empty
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::ndarray<nb::numpy, T, One>(kept->data(), {kept->size()}, owner);
}

} // namespace interlace
