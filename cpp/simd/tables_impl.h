// Table arithmetic shared by all levels: plain lane-wise loops over GCC vector types, compiled once per level with
// that level's flags. LANES floats per vector; the result does not depend on it (see kernels.h).
// Include inside the level's own anonymous namespace, after defining LANES.
typedef float Vec __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef std::int32_t IVec __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

inline Vec load(const float* p) { return *reinterpret_cast<const Vec*>(p); }
inline void store(float* p, Vec v) { *reinterpret_cast<Vec*>(p) = v; }
inline Vec vmin(Vec a, Vec b) { return a < b ? a : b; }
inline Vec vmax(Vec a, Vec b) { return a > b ? a : b; }

enum class Sum { kSquaredDifference, kProduct };

// Q queries against two vectors of words at a time: every load of a word serves Q queries.
template <Sum kind, int Q>
void accumulate(const float* const* x, const float* words, std::size_t dim, std::size_t stride, std::size_t width, float* const* out) {
    const std::size_t whole = width - width % (2 * LANES);
    for (std::size_t w = 0; w < whole; w += 2 * LANES) {
        Vec sums[Q][2] = {};
        for (std::size_t d = 0; d < dim; ++d) {
            const Vec a = load(words + d * stride + w), b = load(words + d * stride + w + LANES);
            for (int q = 0; q < Q; ++q) {
                const float value = x[q][d];
                if constexpr (kind == Sum::kProduct) {
                    sums[q][0] += a * value;
                    sums[q][1] += b * value;
                } else {
                    const Vec da = a - value, db = b - value;
                    sums[q][0] += da * da;
                    sums[q][1] += db * db;
                }
            }
        }
        for (int q = 0; q < Q; ++q) {
            store(out[q] + w, sums[q][0]);
            store(out[q] + w + LANES, sums[q][1]);
        }
    }
    for (std::size_t w = whole; w < width; ++w)
        for (int q = 0; q < Q; ++q) {
            float sum = 0;
            for (std::size_t d = 0; d < dim; ++d) {
                const float word = words[d * stride + w];
                if constexpr (kind == Sum::kProduct) sum += word * x[q][d];
                else sum += (word - x[q][d]) * (word - x[q][d]);
            }
            out[q][w] = sum;
        }
}

template <Sum kind>
void accumulate_all(const float* const* x, std::size_t n, const float* words, std::size_t dim, std::size_t width, float* const* out) {
    std::size_t q = 0;
    for (; q + 4 <= n; q += 4) accumulate<kind, 4>(x + q, words, dim, width, width, out + q);
    for (; q < n; ++q) accumulate<kind, 1>(x + q, words, dim, width, width, out + q);
}

void squared_distances(const float* const* x, std::size_t n, const float* words, std::size_t dim, float* const* out) {
    accumulate_all<Sum::kSquaredDifference>(x, n, words, dim, kWords, out);
}

void inner_products(const float* const* x, std::size_t n, const float* words, std::size_t dim, float* const* out) {
    accumulate_all<Sum::kProduct>(x, n, words, dim, kWords, out);
}

void rotate(const float* const* x, std::size_t n, const float* matrix, std::size_t dim, std::size_t width, float* const* out) {
    accumulate_all<Sum::kProduct>(x, n, matrix, dim, width, out);
}

inline float smallest(Vec v) {
    float best = v[0];
    for (int i = 1; i < LANES; ++i) best = v[i] < best ? v[i] : best;
    return best;
}

float add_tables(const float* a, const float* b, float* out) {
    Vec low0 = load(a) + load(b), low1 = low0;
    for (std::size_t w = 0; w < kWords; w += 2 * LANES) {
        const Vec s0 = load(a + w) + load(b + w), s1 = load(a + w + LANES) + load(b + w + LANES);
        store(out + w, s0);
        store(out + w + LANES, s1);
        low0 = vmin(s0, low0);
        low1 = vmin(s1, low1);
    }
    return smallest(vmin(low0, low1));
}

float table_min(const float* table) {
    Vec low = load(table);
    for (std::size_t w = LANES; w < kWords; w += LANES) low = vmin(load(table + w), low);
    return smallest(low);
}

float table_max_abs(const float* table) {
    const Vec none = {};
    Vec high = none;
    for (std::size_t w = 0; w < kWords; w += LANES) {
        Vec v = load(table + w);
        v = v < none ? -v : v;
        v = v <= __FLT_MAX__ ? v : none;
        high = vmax(v, high);
    }
    float best = 0;
    for (int i = 0; i < LANES; ++i) best = high[i] > best ? high[i] : best;
    return best;
}

std::size_t table_argmin(const float* table) {
    const float best = table_min(table);
    for (std::size_t w = 0; w < kWords; w += LANES) {
        const IVec equal = load(table + w) == best;
        std::int32_t any = 0;
        for (int i = 0; i < LANES; ++i) any |= equal[i];
        if (any)
            for (int i = 0; i < LANES; ++i)
                if (equal[i]) return w + i;
    }
    return 0;
}

void quantize(const float* table, float floor, float scale, std::uint8_t* out) {
    for (std::size_t w = 0; w < kWords; ++w) {
        const float v = (table[w] - floor) * scale;
        out[w] = static_cast<std::uint8_t>(static_cast<std::int32_t>(v < 255.0f ? v : 255.0f));
    }
}
