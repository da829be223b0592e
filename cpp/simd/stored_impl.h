// Sums over the dimensions of stored rows, shared by all levels: vector types of LANES floats, as in tables_impl.h,
// which comes before this file. The order of additions is that of kSums (kernels.h), whatever LANES. A level defines
// FROM_HALVES and FROM_BYTES, LANES values at any address -> floats, where it has instructions for it.

typedef std::uint16_t Halves __attribute__((vector_size(LANES * 2), aligned(1), may_alias));
typedef std::uint8_t Bytes __attribute__((vector_size(LANES), aligned(1), may_alias));
using UVec = VectorOf<std::uint32_t, LANES>::Type;

// float16 -> float, exactly; no step of it meets a subnormal float, which takes a hundred cycles on some CPUs.
inline Vec halves_to_floats(const std::uint8_t* p) {
    const UVec half = __builtin_convertvector(*reinterpret_cast<const Halves*>(p), UVec);
    const UVec bits = (half & 0x7fff) << 13, usual = bits + (112u << 23); // the exponents have other biases
    const Vec small = reinterpret_cast<Vec>(bits + (113u << 23)) - 0x1p-14f;
    UVec found = bits < (1u << 23) ? reinterpret_cast<UVec>(small) : usual;
    found = bits >= (31u << 23) ? usual + (112u << 23) : found; // inf and NaN
    return reinterpret_cast<Vec>(found | (half & 0x8000) << 16);
}
#ifndef FROM_HALVES
#define FROM_HALVES(p) halves_to_floats(p)
#endif
#ifndef FROM_BYTES
#define FROM_BYTES(p) __builtin_convertvector(__builtin_convertvector(*reinterpret_cast<const Bytes*>(p), IVec), Vec)
#endif

// How the values of one row become floats: LANES of them from p on.
struct FromFloats {
    explicit FromFloats(const std::uint8_t*) {}
    Vec operator()(const std::uint8_t* p) const {
        Vec v;
        __builtin_memcpy(&v, p, sizeof v);
        return v;
    }
};
struct FromHalves {
    explicit FromHalves(const std::uint8_t*) {}
    Vec operator()(const std::uint8_t* p) const { return FROM_HALVES(p); }
};
struct FromSteps {
    float head[2]; // low, step
    explicit FromSteps(const std::uint8_t* row) { __builtin_memcpy(head, row, sizeof head); }
    Vec operator()(const std::uint8_t* p) const { return FROM_BYTES(p) * head[1] + head[0]; }
};

template <Sum kind> inline void add_one(Vec& sum, Vec x, Vec value) {
    if constexpr (kind == Sum::kProduct) {
        sum += x * value;
    } else {
        const Vec difference = x - value;
        sum += difference * difference;
    }
}

// The sum of all lanes, by halves
template <int N = LANES> inline float total(typename VectorOf<float, N>::Type v) {
    if constexpr (N == 1) {
        return v[0];
    } else {
        typename VectorOf<float, N / 2>::Type low, high;
        __builtin_memcpy(&low, &v, sizeof low);
        __builtin_memcpy(&high, reinterpret_cast<const char*>(&v) + sizeof low, sizeof high);
        return total<N / 2>(low + high);
    }
}

template <Sum kind, Stored type, typename From>
inline float stored_sum(const float* x, const std::uint8_t* row, std::size_t dim) {
    constexpr int n_vectors = static_cast<int>(kSums) / LANES;
    constexpr std::size_t size = stored_size(type);
    const From from(row);
    row += stored_head(type);
    Vec sums[n_vectors] = {};
    std::size_t d = 0;
    for (; d + kSums <= dim; d += kSums)
        for (int v = 0; v < n_vectors; ++v)
            add_one<kind>(sums[v], load(x + d + v * LANES), from(row + (d + v * LANES) * size));
    for (int v = 0; d < dim; ++v, d += LANES) {
        if (d + LANES <= dim) {
            add_one<kind>(sums[v], load(x + d), from(row + d * size));
            continue;
        }
        // What follows the row must not be read; what a byte of 0 stands for need not be 0.
        std::uint8_t rest[LANES * size] = {};
        __builtin_memcpy(rest, row + d * size, (dim - d) * size);
        IVec lane;
        for (int i = 0; i < LANES; ++i) lane[i] = i;
        const Vec value = from(rest);
        add_one<kind>(sums[v], load(x + d), lane < static_cast<std::int32_t>(dim - d) ? value : Vec{});
    }
    for (int half = n_vectors / 2; half > 0; half /= 2)
        for (int v = 0; v < half; ++v) sums[v] += sums[v + half];
    return total(sums[0]);
}

// Rows are anywhere in memory: those that come are fetched while one is added up, about 2,048 bytes ahead.
template <Sum kind, Stored type, typename From>
void stored_sums(const float* x, const std::uint8_t* const* rows, std::size_t n, std::size_t dim, float* out) {
    constexpr std::size_t line = 64, ahead_bytes = 2048;
    const std::size_t width = stored_head(type) + dim * stored_size(type);
    const std::size_t ahead = width >= ahead_bytes ? 1 : ahead_bytes / (width + 1);
    const auto fetch = [width](const std::uint8_t* row) {
        for (std::size_t at = 0; at < width; at += line) __builtin_prefetch(row + at);
        if (width > 0) __builtin_prefetch(row + width - 1);
    };
    for (std::size_t i = 0; i < n && i < ahead; ++i) fetch(rows[i]);
    for (std::size_t i = 0; i < n; ++i) {
        if (i + ahead < n) fetch(rows[i + ahead]);
        out[i] = stored_sum<kind, type, From>(x, rows[i], dim);
    }
}

template <Sum kind> void stored_sums_of(Stored type, const float* x, const std::uint8_t* const* rows, std::size_t n,
                                        std::size_t dim, float* out) {
    switch (type) {
    case Stored::kFloat32:
        return stored_sums<kind, Stored::kFloat32, FromFloats>(x, rows, n, dim, out);
    case Stored::kFloat16:
        return stored_sums<kind, Stored::kFloat16, FromHalves>(x, rows, n, dim, out);
    case Stored::kInt8:
        return stored_sums<kind, Stored::kInt8, FromSteps>(x, rows, n, dim, out);
    }
}

void stored_distances(Stored type, const float* x, const std::uint8_t* const* rows, std::size_t n, std::size_t dim,
                      float* out) {
    stored_sums_of<Sum::kSquaredDifference>(type, x, rows, n, dim, out);
}

void stored_products(Stored type, const float* x, const std::uint8_t* const* rows, std::size_t n, std::size_t dim,
                     float* out) {
    stored_sums_of<Sum::kProduct>(type, x, rows, n, dim, out);
}
