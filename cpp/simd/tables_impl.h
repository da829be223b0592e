// Loops over float tables, shared by all levels: GCC vector types of LANES floats, compiled once per level with that
// level's flags. The result does not depend on LANES (see kernels.h). What needs saturating or narrow integers is no
// part of this file: every level has its own.
// Include inside the level's own anonymous namespace, after defining LANES, and TILE: the vectors of words that are in
// use at once with four queries, 2 where there are 16 registers, 4 where there are 32.
template <typename T, int N> struct VectorOf {
    typedef T Type __attribute__((vector_size(N * 4)));
};
using Vec = VectorOf<float, LANES>::Type;
using IVec = VectorOf<std::int32_t, LANES>::Type;

template <typename V = Vec> inline V load(const float* p) { // at any address
    V v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}
template <typename V> inline void store(float* p, V v) { __builtin_memcpy(p, &v, sizeof v); }
template <typename V> inline V vmin(V a, V b) { return a < b ? a : b; }
#ifdef SMALLER // levels define it where gcc would compare and blend instead of taking the minimum: the same bits
inline Vec vmin(Vec a, Vec b) { return SMALLER(a, b); }
#endif
template <typename V> inline V vmax(V a, V b) { return a > b ? a : b; }

// The smallest lane, by halves
template <typename T, int N = LANES> inline T lowest(typename VectorOf<T, N>::Type v) {
    if constexpr (N == 1) {
        return v[0];
    } else {
        typename VectorOf<T, N / 2>::Type low, high;
        __builtin_memcpy(&low, &v, sizeof low);
        __builtin_memcpy(&high, reinterpret_cast<const char*>(&v) + sizeof low, sizeof high);
        return lowest<T, N / 2>(vmin(high, low));
    }
}

enum class Sum { kSquaredDifference, kProduct };

// Some vectors of columns of a matrix [dim][stride]. Two of them are adjacent, the next two are `jump` floats further.
struct Columns {
    const float* first;
    std::size_t stride, jump;
};

// Q queries against V vectors of N columns: every load of a column serves Q queries, and Q * V sums run side by side.
// The results go to out[q] + w; dim >= 1, so that the sums never leave their registers.
template <Sum kind, int N, int Q, int V>
void accumulate(const float* const* x, const Columns& columns, std::size_t dim, float* const* out, std::size_t w) {
    using Vector = typename VectorOf<float, N>::Type;
    Vector sums[Q][V];
    for (int q = 0; q < Q; ++q)
        for (int v = 0; v < V; ++v) sums[q][v] = Vector{};
    const float* row = columns.first;
    std::size_t d = 0;
    do {
        Vector word[V];
        for (int v = 0; v < V; ++v)
            word[v] = load<Vector>(row + v % 2 * N + static_cast<std::size_t>(v / 2) * columns.jump);
        for (int q = 0; q < Q; ++q) {
            const float value = x[q][d];
            for (int v = 0; v < V; ++v) {
                if constexpr (kind == Sum::kProduct) {
                    sums[q][v] += word[v] * value;
                } else {
                    const Vector difference = word[v] - value;
                    sums[q][v] += difference * difference;
                }
            }
        }
        row += columns.stride;
    } while (++d < dim);
    for (int q = 0; q < Q; ++q)
        for (int v = 0; v < V; ++v) store(out[q] + w + v * N, sums[q][v]);
}

// Four queries at a time, as many vectors as registers allow; what is left over one by one.
template <Sum kind, int N, int V> void accumulate_all(const float* const* x, std::size_t n, const Columns& columns,
                                                      std::size_t dim, float* const* out, std::size_t w) {
    constexpr int wide = V < TILE ? V : TILE;
    const std::size_t fours = n / 4 * 4;
    for (int v = 0; v < V; v += wide) {
        const Columns some{columns.first + static_cast<std::size_t>(v / 2) * columns.jump, columns.stride,
                           columns.jump};
        for (std::size_t q = 0; q < fours; q += 4)
            accumulate<kind, N, 4, wide>(x + q, some, dim, out + q, w + static_cast<std::size_t>(v * N));
    }
    for (std::size_t q = fours; q < n; ++q) accumulate<kind, N, 1, V>(x + q, columns, dim, out + q, w);
}

inline void clear(std::size_t n, std::size_t width, float* const* out) { // the sums over no dimensions
    for (std::size_t q = 0; q < n; ++q)
        for (std::size_t w = 0; w < width; ++w) out[q][w] = 0;
}

// Four vectors at a time; a panel has as many, or two of them stand in the next one.
template <Sum kind>
void all_panels(const float* const* x, std::size_t n, const float* words, std::size_t dim, float* const* out) {
    if (dim == 0) return clear(n, kWords, out);
    static_assert(kPanel % (4 * LANES) == 0 || kPanel == 2 * LANES);
    const std::size_t jump = kPanel == 2 * LANES ? dim * kPanel : 2 * LANES;
    for (std::size_t w = 0; w < kWords; w += 4 * LANES)
        accumulate_all<kind, LANES, 4>(x, n, {words + word_place(dim, 0, w), kPanel, jump}, dim, out, w);
}

void squared_distances(const float* const* x, std::size_t n, const float* words, std::size_t dim, float* const* out) {
    all_panels<Sum::kSquaredDifference>(x, n, words, dim, out);
}

void inner_products(const float* const* x, std::size_t n, const float* words, std::size_t dim, float* const* out) {
    all_panels<Sum::kProduct>(x, n, words, dim, out);
}

// Columns from w on. The last vector of columns overlaps the one before it where the width is no multiple of a vector;
// widths below one vector take narrower ones.
template <int N> void rotate_by(const float* const* x, std::size_t n, const float* matrix, std::size_t dim,
                                std::size_t width, std::size_t w, float* const* out) {
    if (width < N) {
        if constexpr (N > 1) rotate_by<N / 2>(x, n, matrix, dim, width, w, out);
        return;
    }
    const auto columns = [&](std::size_t w) { return Columns{matrix + w, width, 2 * N}; };
    for (; w + 4 * N <= width; w += 4 * N) accumulate_all<Sum::kProduct, N, 4>(x, n, columns(w), dim, out, w);
    for (; w + 2 * N <= width; w += 2 * N) accumulate_all<Sum::kProduct, N, 2>(x, n, columns(w), dim, out, w);
    for (; w < width; w += N) {
        const std::size_t at = w + N <= width ? w : width - N;
        accumulate_all<Sum::kProduct, N, 1>(x, n, columns(at), dim, out, at);
    }
}

// A matrix that the caches do not hold is read once for all vectors, a block of its rows at a time; sums wait in `out`.
// Every sum still adds its terms in ascending order of d, so it has the same bits.
constexpr std::size_t kSmallMatrix = 1 << 15; // floats
constexpr std::size_t kRowsAtOnce = 64;       // with 4 * LANES columns they stay in the first-level cache
constexpr int kStreams = 8;                   // rows that one vector alone reads side by side

// Q vectors, rows `first` to `last` of the matrix, 4 * LANES columns from w on; `tile` is where they begin, and rows
// are `width` floats apart. What follows it is fetched unless it is in cache.
template <int Q, bool fetch = true> void rotate_tile(const float* const* x, const float* tile, std::size_t width,
                                                     std::size_t first, std::size_t last, float* const* out,
                                                     std::size_t w) {
    for (int half = 0; half < 4; half += TILE) {
        Vec sums[Q][TILE];
        const std::size_t at = w + static_cast<std::size_t>(half) * LANES;
        for (int q = 0; q < Q; ++q)
            for (int v = 0; v < TILE; ++v) sums[q][v] = first == 0 ? Vec{} : load(out[q] + at + v * LANES);
        const float* row = tile + static_cast<std::size_t>(half) * LANES;
        for (std::size_t d = first; d < last; ++d, row += width) {
            Vec word[TILE];
            for (int v = 0; v < TILE; ++v) {
                word[v] = load(row + v * LANES);
                if (fetch) __builtin_prefetch(row + 4 * LANES + v * LANES); // of the next columns
            }
            for (int q = 0; q < Q; ++q)
                for (int v = 0; v < TILE; ++v) sums[q][v] += word[v] * x[q][d];
        }
        for (int q = 0; q < Q; ++q)
            for (int v = 0; v < TILE; ++v) store(out[q] + at + v * LANES, sums[q][v]);
    }
}

// One vector, R rows of the matrix, all of the first `columns` columns: the rows are read from end to end.
template <int R> void rotate_rows(const float* x, const float* matrix, std::size_t width, std::size_t columns,
                                  std::size_t d, float* out) {
    const float* row = matrix + d * width;
    for (std::size_t w = 0; w < columns; w += 4 * LANES) {
        Vec sums[4];
        for (int v = 0; v < 4; ++v) sums[v] = d == 0 ? Vec{} : load(out + w + v * LANES);
        for (int r = 0; r < R; ++r)
            for (int v = 0; v < 4; ++v)
                sums[v] += load(row + static_cast<std::size_t>(r) * width + w + v * LANES) * x[d + r];
        for (int v = 0; v < 4; ++v) store(out + w + v * LANES, sums[v]);
    }
}

// The first `columns` columns, a multiple of 4 * LANES
void rotate_blocks(const float* const* x, std::size_t n, const float* matrix, std::size_t dim, std::size_t width,
                   std::size_t columns, float* const* out) {
    const std::size_t fours = n / 4 * 4;
    for (std::size_t first = 0; first < dim; first += kRowsAtOnce) {
        const std::size_t last = first + kRowsAtOnce < dim ? first + kRowsAtOnce : dim;
        for (std::size_t w = 0; fours > 0 && w < columns; w += 4 * LANES)
            for (std::size_t q = 0; q < fours; q += 4)
                rotate_tile<4>(x + q, matrix + first * width + w, width, first, last, out + q, w);
        for (std::size_t q = fours; q < n; ++q) {
            std::size_t d = first;
            for (; d + kStreams <= last; d += kStreams) rotate_rows<kStreams>(x[q], matrix, width, columns, d, out[q]);
            for (; d < last; ++d) rotate_rows<1>(x[q], matrix, width, columns, d, out[q]);
        }
    }
}

void rotate(const float* const* x, std::size_t n, const float* matrix, std::size_t dim, std::size_t width,
            float* const* out) {
    if (dim == 0) return clear(n, width, out);
    const std::size_t columns = width / (4 * LANES) * (4 * LANES);
    if (dim * width <= kSmallMatrix || columns == 0) return rotate_by<LANES>(x, n, matrix, dim, width, 0, out);
    rotate_blocks(x, n, matrix, dim, width, columns, out);
    rotate_by<LANES>(x, n, matrix, dim, width, columns, out);
}

typedef std::int16_t Terms __attribute__((vector_size(LANES * 2), aligned(2), may_alias));
#ifndef WIDEN // levels define it where gcc would convert int16 to float in halves
#define WIDEN(p) __builtin_convertvector(*reinterpret_cast<const Terms*>(p), Vec)
#endif
inline Vec widen(const std::int16_t* p) { return WIDEN(p); }

void add_terms(const float* a, const std::int16_t* terms, float scale, float* out) {
    for (std::size_t w = 0; w < kWords; w += LANES) store(out + w, load(a + w) + widen(terms + w) * scale);
}

// Word w belongs to group w % kGroups. NaN is never the smaller one, in whichever lane it stands.
float minima(const float* table, float* group_minima) {
    constexpr int chains = 4; // minima that do not wait for each other
    const Vec none = Vec{} + __builtin_inff();
    Vec all[chains] = {none, none, none, none};
    for (std::size_t group = 0; group < kGroups; group += chains * LANES)
        for (int v = 0; v < chains; ++v) {
            Vec low = none;
            for (std::size_t w = group + v * LANES; w < kWords; w += kGroups) low = vmin(load(table + w), low);
            store(group_minima + group + v * LANES, low);
            all[v] = vmin(low, all[v]);
        }
    return lowest<float>(vmin(vmin(all[0], all[1]), vmin(all[2], all[3])));
}

// As integers: floats without their signs sort alike. `beyond` makes +inf and NaN negative, so that they do not count.
float max_abs(const float* table) {
    constexpr int chains = 4;
    constexpr std::int32_t beyond = 0x00800000;
    using Bits = VectorOf<std::uint32_t, LANES>::Type;
    const IVec zero = IVec{} + beyond;
    IVec most[chains] = {zero, zero, zero, zero};
    for (std::size_t w = 0; w < kWords; w += chains * LANES)
        for (int v = 0; v < chains; ++v) {
            Bits bits;
            __builtin_memcpy(&bits, table + w + v * LANES, sizeof bits);
            most[v] = vmax(reinterpret_cast<IVec>((bits & 0x7fffffff) + beyond), most[v]);
        }
    const std::int32_t bits = -lowest<std::int32_t>(-vmax(vmax(most[0], most[1]), vmax(most[2], most[3]))) - beyond;
    float best;
    __builtin_memcpy(&best, &bits, sizeof best);
    return best;
}

std::size_t argmin(const float* table) {
    constexpr int chains = 4;
    const Vec none = Vec{} + __builtin_inff();
    Vec low[chains] = {none, none, none, none};
    for (std::size_t w = 0; w < kWords; w += chains * LANES)
        for (int v = 0; v < chains; ++v) low[v] = vmin(load(table + w + v * LANES), low[v]);
    const float best = lowest<float>(vmin(vmin(low[0], low[1]), vmin(low[2], low[3])));
    IVec at, first = {}; // from the end, so that the first index of every lane stays
    for (int i = 0; i < LANES; ++i) at[i] = static_cast<std::int32_t>(kWords) + i;
    first = first + static_cast<std::int32_t>(kWords);
    for (std::size_t w = kWords; w > 0; w -= LANES) {
        at -= LANES;
        first = load(table + w - LANES) == best ? at : first;
    }
    const std::int32_t found = lowest<std::int32_t>(first);
    return found < static_cast<std::int32_t>(kWords) ? static_cast<std::size_t>(found) : 0; // 0: all are NaN
}
