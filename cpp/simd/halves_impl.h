// A rotation in half precision, shared by all levels: half the memory of floats, which is what a single query waits
// for. Comes after stored_impl.h. Every sum adds its terms in ascending order of d, as rotate() does for the same
// numbers in single precision, so it has the same bits. A level defines FINITE_HALVES, HALF_LANES values at any address
// -> floats, where it has an instruction for it; there is neither inf nor NaN among them.
#ifndef FINITE_HALVES
#define HALF_LANES LANES
#define FINITE_HALVES(p) finite_halves(p)
inline Vec finite_halves(const std::uint16_t* p) {
    const UVec half = __builtin_convertvector(*reinterpret_cast<const Halves*>(p), UVec);
    return reinterpret_cast<Vec>((half & 0x7fff) << 13 | (half & 0x8000) << 16) * 0x1p112f; // the exponents differ
}
#endif
using HalfVec = VectorOf<float, HALF_LANES>::Type;

// One vector: the sums of V vectors of columns stay in registers, and the panel is read from end to end.
template <int V> void rotate_panel(const float* x, const std::uint16_t* panel, std::size_t dim, float* out) {
    constexpr std::size_t ahead = 16; // rows of a panel: 2 KB
    HalfVec sums[V] = {};
    for (std::size_t d = 0; d < dim; ++d, panel += kHalfColumns) {
        __builtin_prefetch(panel + ahead * kHalfColumns);
        __builtin_prefetch(panel + ahead * kHalfColumns + kHalfColumns / 2);
        for (int v = 0; v < V; ++v) sums[v] += FINITE_HALVES(panel + v * HALF_LANES) * x[d];
    }
    for (int v = 0; v < V; ++v) store(out + v * HALF_LANES, sums[v]);
}

// Several vectors share the conversion of a block of rows.
void rotate_by_panel(const float* const* x, std::size_t n, const std::uint16_t* panel, std::size_t dim,
                     float* const* out, std::size_t w) {
    alignas(64) float rows[kRowsAtOnce * kHalfColumns];
    const std::size_t fours = n / 4 * 4;
    for (std::size_t first = 0; first < dim; first += kRowsAtOnce) {
        const std::size_t last = first + kRowsAtOnce < dim ? first + kRowsAtOnce : dim;
        const std::uint16_t* const from = panel + first * kHalfColumns;
        for (std::size_t i = 0; i < (last - first) * kHalfColumns; i += HALF_LANES)
            store(rows + i, FINITE_HALVES(from + i));
        for (std::size_t at = 0; at < kHalfColumns; at += 4 * LANES) {
            for (std::size_t q = 0; q < fours; q += 4)
                rotate_tile<4, false>(x + q, rows + at, kHalfColumns, first, last, out + q, w + at);
            for (std::size_t q = fours; q < n; ++q)
                rotate_tile<1, false>(x + q, rows + at, kHalfColumns, first, last, out + q, w + at);
        }
    }
}

void rotate_halves(const float* const* x, std::size_t n, const std::uint16_t* matrix, std::size_t dim,
                   std::size_t width, float* const* out) {
    if (dim == 0) return clear(n, width, out);
    constexpr int vectors = static_cast<int>(kHalfColumns) / HALF_LANES, together = vectors < 8 ? vectors : 8;
    for (std::size_t w = 0; w < width; w += kHalfColumns, matrix += dim * kHalfColumns) {
        if (n != 1) {
            rotate_by_panel(x, n, matrix, dim, out, w);
            continue;
        }
        for (std::size_t at = 0; at < kHalfColumns; at += together * HALF_LANES)
            rotate_panel<together>(x[0], matrix + at, dim, out[0] + w + at);
    }
}
