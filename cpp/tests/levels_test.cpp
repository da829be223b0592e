// Compares every level that runs here with `scalar`, kernel by kernel, on random input. `make levels` builds it for
// aarch64 too and runs it under qemu, so that the neon level is tested without such a machine.
#include "../core/aligned.h"
#include "../simd/kernels.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

using namespace interlace;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

class Comparison {
public:
    Comparison(const Kernels& level, const Kernels& scalar) : level_(level), scalar_(scalar), random_(1) {}

    int failures() const { return failures_; }

    void run() {
        for (std::size_t dim : {0, 1, 2, 3, 7, 8, 17, 64})
            for (std::size_t n : {0, 1, 3, 4, 5, 8, 9}) products(dim, n);
        for (std::size_t width : {0, 4, 8, 12, 128})
            for (std::size_t n : {0, 1, 3, 4, 5, 8}) byte_bounds(width, n);
        for (std::size_t n : {0, 1, 3, 4, 5, 9}) large_rotations(n);
        for (std::size_t n : {0, 1, 2, 4, 5, 9}) rotations_in_halves(n);
        for (int round = 0; round < 100; ++round) {
            tables(round);
            steps();
        }
        for (std::size_t n = 1; n <= 17; ++n) sums_of_rows(n);
        for (const Stored type : {Stored::kFloat32, Stored::kFloat16, Stored::kInt8})
            for (std::size_t dim : {0, 1, 2, 7, 8, 31, 32, 33, 63, 64, 65, 127, 128, 200}) stored_rows(type, dim);
        every_half();
        for (std::size_t columns = 0; columns <= kScanColumns; ++columns)
            for (std::size_t n_blocks : {std::size_t{0}, std::size_t{1}, std::size_t{7}, kChunk})
                scan(columns, n_blocks);
    }

private:
    void expect(bool ok, const std::string& what) {
        if (ok) return;
        std::printf("FAILED %s: %s\n", level_.name, what.c_str());
        ++failures_;
    }

    // call(level, out) fills out [n]; both levels must leave the same bytes there.
    template <typename T, typename F> void same(const std::string& what, std::size_t n, F call) {
        Aligned<T> mine(n + 64), exact(n + 64); // what follows must not change
        std::memset(mine.data(), 0x5a, mine.size() * sizeof(T));
        std::memset(exact.data(), 0x5a, exact.size() * sizeof(T));
        call(level_, mine.data());
        call(scalar_, exact.data());
        expect(std::memcmp(mine.data(), exact.data(), mine.size() * sizeof(T)) == 0, what);
    }

    Aligned<float> normal(std::size_t n) {
        std::normal_distribution<float> draw;
        Aligned<float> v(n);
        for (float& x : v) x = draw(random_);
        return v;
    }

    Aligned<std::int16_t> integers(std::size_t n, std::int32_t low, std::int32_t high) {
        std::uniform_int_distribution<std::int32_t> draw(low, high);
        Aligned<std::int16_t> v(n);
        for (std::int16_t& x : v) x = static_cast<std::int16_t>(draw(random_));
        return v;
    }

    void products(std::size_t dim, std::size_t n) {
        const Aligned<float> words = normal(dim * kWords), x = normal(n * dim);
        std::vector<const float*> from;
        for (std::size_t i = 0; i < n; ++i) from.push_back(x.data() + i * dim);
        const auto rows = [n](float* out, std::size_t width) {
            std::vector<float*> to;
            for (std::size_t i = 0; i < n; ++i) to.push_back(out + i * width);
            return to;
        };
        same<float>("squared_distances", n * kWords, [&](const Kernels& k, float* out) {
            k.squared_distances(from.data(), n, words.data(), dim, rows(out, kWords).data());
        });
        same<float>("inner_products", n * kWords, [&](const Kernels& k, float* out) {
            k.inner_products(from.data(), n, words.data(), dim, rows(out, kWords).data());
        });
        for (std::size_t width : {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 127, 128, 129})
            same<float>("rotate, width " + std::to_string(width), n * width, [&](const Kernels& k, float* out) {
                k.rotate(from.data(), n, words.data(), dim, width, rows(out, width).data());
            });
    }

    void byte_bounds(std::size_t width, std::size_t n) {
        const Aligned<std::int16_t> some = integers(kWords * width, 0, 255), signs = integers(n * width, -127, 127);
        const Aligned<std::uint8_t> words(some.begin(), some.end());
        const Aligned<std::int8_t> x(signs.begin(), signs.end());
        const Aligned<float> squares = normal(kWords), scales = normal(n + 1), starts = normal(n + 1);
        same<float>("byte_bounds", n * kWords, [&](const Kernels& k, float* out) {
            std::vector<ByteQuery> queries;
            for (std::size_t q = 0; q < n; ++q)
                queries.push_back({x.data() + q * width, 17 * static_cast<std::int32_t>(q) - 40, scales[q], starts[q],
                                   out + q * kWords});
            k.byte_bounds(queries.data(), n, words.data(), width, squares.data());
        });
    }

    // Larger than kSmallMatrix: a block of rows at a time, with and without remainders; not those of one level alone.
    void large_rotations(std::size_t n) {
        for (std::size_t dim : {128, 200, 263})
            for (std::size_t width : {257, 320, 399}) {
                const Aligned<float> matrix = normal(dim * width), x = normal(n * dim);
                std::vector<const float*> from;
                for (std::size_t i = 0; i < n; ++i) from.push_back(x.data() + i * dim);
                same<float>("rotate, large", n * width, [&](const Kernels& k, float* out) {
                    std::vector<float*> to;
                    for (std::size_t i = 0; i < n; ++i) to.push_back(out + i * width);
                    k.rotate(from.data(), n, matrix.data(), dim, width, to.data());
                });
                if (n == 0) continue;
                std::vector<float> mine(width);
                float* to[] = {mine.data()};
                level_.rotate(from.data(), 1, matrix.data(), dim, width, to);
                for (std::size_t w = 0; w < width; ++w) { // the order of additions itself
                    float sum = 0;
                    for (std::size_t d = 0; d < dim; ++d) sum += matrix[d * width + w] * x[d];
                    expect(sum == mine[w], "rotate, large, against a plain loop");
                }
            }
    }

    // The same bits as the floats of the same values have, subnormal ones among them.
    void rotations_in_halves(std::size_t n) {
        for (std::size_t dim : {0, 1, 63, 64, 65, 200})
            for (std::size_t width : {kHalfColumns, 3 * kHalfColumns}) {
                const Aligned<float> x = normal(n * dim);
                Aligned<std::uint16_t> halves(dim * width);
                Aligned<float> floats(dim * width);
                for (std::size_t d = 0; d < dim; ++d)
                    for (std::size_t w = 0; w < width; ++w) {
                        const std::uint32_t size = random_() % 0x7c00, sign = random_() % 2;
                        const std::uint32_t exponent = size >> 10, rest = size & 0x3ff;
                        const float value = exponent == 0 ? std::ldexp(static_cast<float>(rest), -24)
                                                          : std::ldexp(static_cast<float>(rest + 1024),
                                                                       static_cast<int>(exponent) - 25);
                        floats[d * width + w] = sign != 0 ? -value : value;
                        halves[(w / kHalfColumns * dim + d) * kHalfColumns + w % kHalfColumns] =
                            static_cast<std::uint16_t>(sign << 15 | size);
                    }
                std::vector<const float*> from;
                for (std::size_t i = 0; i < n; ++i) from.push_back(x.data() + i * dim);
                same<float>("rotate_halves", n * width, [&](const Kernels& k, float* out) {
                    std::vector<float*> to;
                    for (std::size_t i = 0; i < n; ++i) to.push_back(out + i * width);
                    if (&k == &level_) k.rotate_halves(from.data(), n, halves.data(), dim, width, to.data());
                    else k.rotate(from.data(), n, floats.data(), dim, width, to.data());
                });
            }
    }

    // Ties, +inf as padding has it, and NaN, which must not make a difference between levels.
    void tables(int round) {
        Aligned<float> table = normal(kWords);
        if (round % 4 == 1)
            for (float& value : table) value = std::round(value);
        if (round % 4 == 2)
            for (std::size_t w = random_() % kWords; w < kWords; ++w) table[w] = kInf;
        if (round % 4 == 3)
            for (int i = 0; i < 50; ++i) table[random_() % kWords] = i % 2 ? kNan : kInf;
        if (round == 2) std::fill(table.begin(), table.end(), kInf);
        if (round == 3) std::fill(table.begin(), table.end(), kNan);
        same<float>("minima", kGroups + 1,
                    [&](const Kernels& k, float* out) { out[kGroups] = k.minima(table.data(), out); });
        same<float>("max_abs", 1, [&](const Kernels& k, float* out) { *out = k.max_abs(table.data()); });
        same<std::size_t>("argmin", 1, [&](const Kernels& k, std::size_t* out) { *out = k.argmin(table.data()); });
        float groups[kGroups];
        const float low = scalar_.minima(table.data(), groups);
        const std::size_t first = scalar_.argmin(table.data());
        expect(first < kWords && (table[first] == low || std::isnan(table[first])),
               "argmin is the index of the minimum");
        same<std::int16_t>("to_steps", kWords, [&](const Kernels& k, std::int16_t* out) {
            k.to_steps(table.data(), low, round % 2 ? 9000.0f : 1e-3f, -8192, out);
        });
        const Aligned<std::int16_t> terms = integers(kWords, -32768, 32767);
        same<float>("add_terms", kWords,
                    [&](const Kernels& k, float* out) { k.add_terms(table.data(), terms.data(), 1e-4f, out); });
        if (low < kInf)
            for (const float scale : {0.0f, 1.0f, 60.0f, 1e30f})
                same_bytes("quantize", [&](const Kernels& k, ByteTables* out) {
                    float own[kGroups];
                    k.quantize(table.data(), own, k.minima(table.data(), own), scale, 1, out);
                });
    }

    // A level that reads group minima has those of the bytes that the others have.
    template <typename F> void same_bytes(const std::string& what, F call) {
        ByteTables mine, exact;
        std::memset(&mine, 0x5a, sizeof mine);
        std::memset(&exact, 0x5a, sizeof exact);
        call(level_, &mine);
        call(scalar_, &exact);
        if (scans_groups())
            for (std::size_t g = 0; g < kGroups; ++g)
                expect(mine.groups[1][g] == std::min(exact.words[1][g], exact.words[1][g + kGroups]), what);
        else expect(std::memcmp(&mine, &exact, sizeof mine) == 0, what);
    }

    bool scans_groups() const { return std::strcmp(level_.name, "avx2") == 0; } // see avx2.cpp

    void steps() {
        const bool extreme = random_() % 2 == 0; // most sums saturate, on either side
        const Aligned<std::int16_t> steps = integers(kWords, extreme ? -32768 : 0, extreme ? 32767 : 20000),
                                    terms = integers(kWords, extreme ? -32768 : -20000, extreme ? 32767 : 12000);
        same<std::int16_t>("min_steps", 1, [&](const Kernels& k, std::int16_t* out) {
            *out = k.min_steps(steps.data(), terms.data());
        });
        alignas(64) std::int16_t groups[kGroups];
        same<std::int16_t>("add_steps", kWords + 1, [&](const Kernels& k, std::int16_t* out) {
            out[kWords] = k.add_steps(steps.data(), terms.data(), out, groups);
        });
        for (const float scale : {0.0f, 3e-3f, 1.0f, 1e30f})
            same_bytes("quantize_steps", [&](const Kernels& k, ByteTables* out) {
                alignas(64) std::int16_t sums[kWords], own[kGroups];
                const std::int16_t floor = k.add_steps(steps.data(), terms.data(), sums, own);
                k.quantize_steps(sums, own, floor, scale, 1, out);
            });
        for (const int limit : {-32768, static_cast<int>(steps[0]), -1, 0, 32767}) {
            Aligned<std::uint8_t> mine(kWords + 64, 0x5a), exact(kWords);
            const std::int16_t top = static_cast<std::int16_t>(limit);
            const std::size_t n = level_.below(steps.data(), top, mine.data());
            expect(n == scalar_.below(steps.data(), top, exact.data()) &&
                       std::memcmp(mine.data(), exact.data(), n) == 0 &&
                       std::all_of(mine.begin() + kWords, mine.end(), [](std::uint8_t w) { return w == 0x5a; }),
                   "below");
        }
    }

    void sums_of_rows(std::size_t n) {
        const Aligned<std::int16_t> rows = integers(n * kWords, -32768, 32767);
        std::vector<const std::int16_t*> pointers;
        for (std::size_t i = 0; i < n; ++i) pointers.push_back(rows.data() + i * kWords);
        same<std::int16_t>("add_rows", kWords,
                           [&](const Kernels& k, std::int16_t* out) { k.add_rows(pointers.data(), n, out); });
        for (std::size_t width = 32; width <= 512; width += 32) {
            // no sum leaves int16 and no square int32, yet they come near
            const std::int32_t most = static_cast<std::int32_t>(std::sqrt(2147483647.0 / width)) / static_cast<int>(n);
            const Aligned<std::int16_t> words = integers(n * width, std::max(-most, -32767), std::min(most, 32767));
            std::vector<const std::int16_t*> at;
            for (std::size_t i = 0; i < n; ++i) at.push_back(words.data() + i * width);
            same<std::int32_t>("square_of_sum", 1, [&](const Kernels& k, std::int32_t* out) {
                *out = k.square_of_sum(at.data(), n, width);
            });
        }
    }

    // Rows at odd addresses, one behind the other: a value of the next one must not be read as one of this.
    void stored_rows(Stored type, std::size_t dim) {
        constexpr std::size_t n = 19;
        const std::size_t width = stored_head(type) + dim * stored_size(type);
        const Aligned<float> values = normal(n * (dim + 2));
        Aligned<float> x = normal(dim);
        x.resize((dim + kSums - 1) / kSums * kSums);
        std::vector<std::uint8_t> bytes(1 + n * width);
        std::vector<const std::uint8_t*> rows;
        for (std::size_t i = 0; i < n; ++i) {
            std::uint8_t* row = bytes.data() + 1 + i * width;
            rows.push_back(row);
            if (type == Stored::kFloat16)
                for (std::size_t d = 0; d < dim; ++d) { // finite ones, subnormal ones among them
                    const std::uint16_t half = static_cast<std::uint16_t>(random_() % 0x7c00 | random_() % 2 << 15);
                    std::memcpy(row + 2 * d, &half, sizeof half);
                }
            else if (type == Stored::kFloat32) std::memcpy(row, values.data() + i * dim, 4 * dim);
            else {
                std::memcpy(row, values.data() + 2 * i, 8);
                for (std::size_t d = 0; d < dim; ++d) row[8 + d] = static_cast<std::uint8_t>(random_());
            }
        }
        for (std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{2}, n}) {
            same<float>("stored_distances", count, [&](const Kernels& k, float* out) {
                k.stored_distances(type, x.data(), rows.data(), count, dim, out);
            });
            same<float>("stored_products", count, [&](const Kernels& k, float* out) {
                k.stored_products(type, x.data(), rows.data(), count, dim, out);
            });
        }
    }

    // A product with 1 is the value itself; NaN are compared as such.
    void every_half() {
        std::vector<float> one(kSums);
        one[0] = 1;
        for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
            const std::uint16_t half = static_cast<std::uint16_t>(bits);
            std::uint8_t row[2];
            std::memcpy(row, &half, sizeof half);
            const std::uint8_t* rows[] = {row};
            float mine, exact;
            level_.stored_products(Stored::kFloat16, one.data(), rows, 1, 1, &mine);
            scalar_.stored_products(Stored::kFloat16, one.data(), rows, 1, 1, &exact);
            const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
            const double size = exponent == 31 ? (mantissa ? NAN : INFINITY)
                                : exponent     ? std::ldexp(1024 + mantissa, exponent - 25)
                                               : std::ldexp(mantissa, -24);
            const double value = bits & 0x8000 ? -size : size;
            expect(std::isnan(value) ? std::isnan(mine) && std::isnan(exact) : mine == value && exact == value,
                   "half " + std::to_string(bits));
        }
    }

    void scan(std::size_t columns, std::size_t n_blocks) {
        std::uniform_real_distribution<float> uniform;
        std::vector<std::uint8_t> blocks(n_blocks * (columns + 1) * kBlock + 1);
        for (std::uint8_t& code : blocks) code = static_cast<std::uint8_t>(random_());
        ByteTables mine{}, exact{};
        mine.n_columns = exact.n_columns = columns;
        for (std::size_t j = 0; j < columns; ++j) {
            std::vector<float> table(kWords);
            for (float& t : table) t = uniform(random_) * 300.0f;
            float groups[kGroups];
            const float floor = level_.minima(table.data(), groups);
            level_.quantize(table.data(), groups, floor, 1.0f, j, &mine);
            scalar_.quantize(table.data(), groups, floor, 1.0f, j, &exact);
        }
        std::vector<std::uint8_t> fixed(n_blocks * kBlock + 1);
        for (std::uint8_t& code : fixed) code = static_cast<std::uint8_t>(random_() % kGroups);
        for (std::size_t g = 0; g < kGroups; ++g) mine.fixed[g] = exact.fixed[g] = static_cast<std::uint8_t>(random_());
        std::uint64_t a[kChunk] = {}, b[kChunk] = {};
        const std::uint8_t* const none = nullptr;
        const std::uint8_t* const bytes = fixed.data() + 1; // at any address
        for (const std::uint8_t* more : {none, bytes})
            for (const std::uint8_t threshold : {0, 30, 200, 254}) {
                level_.scan(blocks.data(), columns + 1, more, mine, threshold, n_blocks, a);
                scalar_.scan(blocks.data(), columns + 1, more, exact, threshold, n_blocks, b);
                for (std::size_t i = 0; i < kChunk; ++i)
                    expect(scans_groups() ? (b[i] & ~a[i]) == 0 : a[i] == b[i], "scan");
            }
    }

    const Kernels& level_;
    const Kernels& scalar_;
    std::mt19937 random_;
    int failures_ = 0;
};

} // namespace

int main() {
    force_level("scalar");
    const Kernels& scalar = kernels();
    int levels = 0, failures = 0;
    for (const std::string& name : available_levels()) {
        force_level(name);
        Comparison comparison(kernels(), scalar);
        comparison.run();
        std::printf("%s compared\n", name.c_str());
        failures += comparison.failures();
        ++levels;
    }
    std::printf("%d levels compared, %d failures\n", levels, failures);
    return failures == 0 ? 0 : 1;
}
