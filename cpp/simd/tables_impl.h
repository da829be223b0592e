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

// Q queries against V vectors of words, from word w on: every load of a word serves Q queries, and Q * V sums run side
// by side.
template <Sum kind, int Q, int V> void accumulate(const float* const* x, const float* words, std::size_t dim,
                                                  std::size_t stride, std::size_t w, float* const* out,
                                                  std::size_t shift) {
    Vec sums[Q][V] = {};
    for (std::size_t d = 0; d < dim; ++d) {
        Vec word[V];
        for (int v = 0; v < V; ++v) word[v] = load(words + d * stride + w + v * LANES);
        for (int q = 0; q < Q; ++q) {
            const float value = x[q][d];
            for (int v = 0; v < V; ++v) {
                if constexpr (kind == Sum::kProduct) {
                    sums[q][v] += word[v] * value;
                } else {
                    const Vec difference = word[v] - value;
                    sums[q][v] += difference * difference;
                }
            }
        }
    }
    for (int q = 0; q < Q; ++q)
        for (int v = 0; v < V; ++v) store(out[q] + shift + w + v * LANES, sums[q][v]);
}

// Columns [dim][width] of a panel or a matrix, four queries at a time; what is left over, of queries or columns, one by
// one. The results go to out[q] + shift.
template <Sum kind> void accumulate_all(const float* const* x, std::size_t n, const float* columns, std::size_t dim,
                                        std::size_t width, float* const* out, std::size_t shift) {
    constexpr std::size_t two = 2 * LANES, pairs = kPanel % two == 0 ? kPanel / two : 1;
    const std::size_t fours = n / 4 * 4;
    for (std::size_t w = 0; w + two <= width; w += two)
        for (std::size_t q = 0; q < fours; q += 4)
            accumulate<kind, 4, 2>(x + q, columns, dim, width, w, out + q, shift);
    for (std::size_t q = fours; q < n; ++q)
        for (std::size_t w = 0; w + two <= width; w += w + pairs * two <= width ? pairs * two : two) {
            if (w + pairs * two <= width) accumulate<kind, 1, 2 * pairs>(x + q, columns, dim, width, w, out + q, shift);
            else accumulate<kind, 1, 2>(x + q, columns, dim, width, w, out + q, shift);
        }
    for (std::size_t w = width / two * two; w < width; ++w)
        for (std::size_t q = 0; q < n; ++q) {
            float sum = 0;
            for (std::size_t d = 0; d < dim; ++d) {
                const float value = columns[d * width + w];
                if constexpr (kind == Sum::kProduct) sum += value * x[q][d];
                else sum += (value - x[q][d]) * (value - x[q][d]);
            }
            out[q][shift + w] = sum;
        }
}

template <Sum kind>
void all_panels(const float* const* x, std::size_t n, const float* words, std::size_t dim, float* const* out) {
    for (std::size_t w = 0; w < kWords; w += kPanel) accumulate_all<kind>(x, n, words + w * dim, dim, kPanel, out, w);
}

void squared_distances(const float* const* x, std::size_t n, const float* words, std::size_t dim, float* const* out) {
    all_panels<Sum::kSquaredDifference>(x, n, words, dim, out);
}

void inner_products(const float* const* x, std::size_t n, const float* words, std::size_t dim, float* const* out) {
    all_panels<Sum::kProduct>(x, n, words, dim, out);
}

void rotate(const float* const* x, std::size_t n, const float* matrix, std::size_t dim, std::size_t width,
            float* const* out) {
    accumulate_all<Sum::kProduct>(x, n, matrix, dim, width, out, 0);
}

// Word w belongs to group w % kGroups, so the running minimum over rows of that many words is the minima of the groups.
constexpr int kVectors = kGroups / LANES; // vectors per row of 64 words

inline float store_minima(const Vec* low, float* group_minima) {
    Vec all = low[0];
    for (int v = 0; v < kVectors; ++v) {
        store(group_minima + v * LANES, low[v]);
        all = vmin(low[v], all);
    }
    float best = all[0];
    for (int i = 1; i < LANES; ++i) best = all[i] < best ? all[i] : best;
    return best;
}

typedef std::int16_t Terms __attribute__((vector_size(LANES * 2), aligned(2), may_alias));
#ifndef WIDEN // levels define it where gcc would convert int16 to float in halves
#define WIDEN(p) __builtin_convertvector(*reinterpret_cast<const Terms*>(p), Vec)
#endif
inline Vec widen(const std::int16_t* p) { return WIDEN(p); }

void add_terms(const float* a, const std::int16_t* terms, float scale, float* out) {
    for (std::size_t w = 0; w < kWords; w += LANES) store(out + w, load(a + w) + widen(terms + w) * scale);
}

float minima(const float* table, float* group_minima) {
    Vec low[kVectors];
    for (int v = 0; v < kVectors; ++v) low[v] = load(table + v * LANES);
    for (std::size_t w = kGroups; w < kWords; w += kGroups)
        for (int v = 0; v < kVectors; ++v) low[v] = vmin(load(table + w + v * LANES), low[v]);
    return store_minima(low, group_minima);
}

float max_abs(const float* table) {
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

std::size_t argmin(const float* table) {
    float group_minima[kGroups];
    const float best = minima(table, group_minima);
    std::size_t first = kWords;
    for (std::size_t group = 0; group < kGroups; ++group)
        if (group_minima[group] == best)
            for (std::size_t w = group; w < first; w += kGroups)
                if (table[w] == best) first = w;
    return first;
}

#ifndef HAS_STEP_ROWS
std::int16_t min_steps(const std::int16_t* steps, const std::int16_t* terms) {
    int best = 32767;
    for (std::size_t w = 0; w < kWords; ++w) {
        const int sum = steps[w] + terms[w];
        best = sum < best ? sum : best;
    }
    return static_cast<std::int16_t>(best < -32768 ? -32768 : best);
}
#endif

constexpr float kMostSteps = 40959.0f;

#ifndef HAS_STEP_ROWS // a level with saturating int16 arithmetic has its own of these
void to_steps(const float* table, float low, float factor, std::int32_t start, std::int16_t* out) {
    for (std::size_t w = 0; w < kWords; ++w) {
        const float steps = (table[w] - low) * factor + 0.5f;
        out[w] = static_cast<std::int16_t>(static_cast<std::int32_t>(steps < kMostSteps ? steps : kMostSteps) + start);
    }
}

void add_rows(const std::int16_t* const* rows, std::size_t n, std::int16_t* out) {
    for (std::size_t w = 0; w < kWords; ++w) out[w] = rows[0][w];
    for (std::size_t i = 1; i < n; ++i)
        for (std::size_t w = 0; w < kWords; ++w) {
            const int sum = out[w] + rows[i][w];
            out[w] = static_cast<std::int16_t>(sum > 32767 ? 32767 : sum < -32768 ? -32768 : sum);
        }
}

std::int32_t square_of_sum(const std::int16_t* const* words, std::size_t n, std::size_t width) {
    std::int32_t total = 0;
    for (std::size_t d = 0; d < width; ++d) {
        std::int32_t sum = 0;
        for (std::size_t i = 0; i < n; ++i) sum += words[i][d];
        total += sum * sum;
    }
    return total;
}

std::size_t below(const std::int16_t* sums, std::int16_t limit, std::uint8_t* words) {
    std::size_t n = 0;
    for (std::size_t w = 0; w < kWords; ++w) {
        words[n] = static_cast<std::uint8_t>(w);
        n += sums[w] <= limit;
        if (n == kWords) break;
    }
    return n;
}
#endif

#ifndef SCANS_GROUPS // the scan reads the byte of every word; a level that reads group minima has its own of these
inline std::uint8_t to_byte(float value) {
    return static_cast<std::uint8_t>(static_cast<std::int32_t>(value < 255.0f ? value : 255.0f));
}

void quantize(const float* table, const float*, float floor, float scale, std::size_t column, ByteTables* out) {
    for (std::size_t w = 0; w < kWords; ++w) out->words[column][w] = to_byte((table[w] - floor) * scale);
}

std::int16_t add_steps(const std::int16_t* steps, const std::int16_t* terms, std::int16_t* sums, std::int16_t*) {
    std::int16_t best = 32767;
    for (std::size_t w = 0; w < kWords; ++w) {
        const int sum = steps[w] + terms[w];
        sums[w] = static_cast<std::int16_t>(sum > 32767 ? 32767 : sum < -32768 ? -32768 : sum);
        best = sums[w] < best ? sums[w] : best;
    }
    return best;
}

void quantize_steps(const std::int16_t* sums, const std::int16_t*, std::int16_t floor, float scale, std::size_t column,
                    ByteTables* out) {
    for (std::size_t w = 0; w < kWords; ++w)
        out->words[column][w] = to_byte(static_cast<float>(sums[w] - floor) * scale);
}
#endif
