// Compares every level that runs here with `scalar`, kernel by kernel, on random input. `make levels` builds it for
// aarch64 too and runs it under qemu, so that the neon level is tested without such a machine.
#include "../simd/kernels.h"

#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

using namespace interlace;

namespace {

int failures = 0;

void expect(bool ok, const char* level, const char* what) {
    if (ok) return;
    std::printf("FAILED %s: %s\n", level, what);
    ++failures;
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
    return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void compare_tables(const Kernels& k, const Kernels& scalar, std::mt19937& random) {
    std::normal_distribution<float> normal;
    const auto draw = [&](std::size_t n) {
        std::vector<float> v(n);
        for (float& x : v) x = normal(random);
        return v;
    };
    for (std::size_t dim : {0, 1, 3, 17}) {
        const std::vector<float> words = draw(dim * kWords + 1), matrix = draw(dim * 37 + 1);
        for (std::size_t n : {1, 3, 4, 5, 9}) {
            const std::vector<float> x = draw(n * dim + 1);
            std::vector<float> a(n * kWords), b(n * kWords);
            std::vector<const float*> from(n);
            std::vector<float*> to_a(n), to_b(n);
            for (std::size_t i = 0; i < n; ++i)
                from[i] = x.data() + i * dim, to_a[i] = a.data() + i * kWords, to_b[i] = b.data() + i * kWords;
            k.squared_distances(from.data(), n, words.data(), dim, to_a.data());
            scalar.squared_distances(from.data(), n, words.data(), dim, to_b.data());
            expect(same(a, b), k.name, "squared_distances");
            k.inner_products(from.data(), n, words.data(), dim, to_a.data());
            scalar.inner_products(from.data(), n, words.data(), dim, to_b.data());
            expect(same(a, b), k.name, "inner_products");
            k.rotate(from.data(), n, matrix.data(), dim, 37, to_a.data());
            scalar.rotate(from.data(), n, matrix.data(), dim, 37, to_b.data());
            expect(same(a, b), k.name, "rotate");
        }
    }
    for (int round = 0; round < 50; ++round) {
        const std::vector<float> a = draw(kWords), b = draw(kWords);
        std::vector<std::int16_t> terms(kWords);
        for (std::int16_t& t : terms) t = static_cast<std::int16_t>(random());
        std::vector<float> out_a(kWords), out_b(kWords), groups_a(kGroups), groups_b(kGroups);
        std::vector<std::int16_t> steps_a(kWords), steps_b(kWords), sums_a(kWords), sums_b(kWords);
        k.to_steps(a.data(), -3.0f, 9000.0f, -8192, steps_a.data());
        scalar.to_steps(a.data(), -3.0f, 9000.0f, -8192, steps_b.data());
        expect(steps_a == steps_b, k.name, "to_steps");
        const std::int16_t* rows[] = {steps_b.data(), terms.data(), terms.data()};
        for (std::size_t n : {1, 2, 3}) {
            k.add_rows(rows, n, sums_a.data());
            scalar.add_rows(rows, n, sums_b.data());
            expect(sums_a == sums_b, k.name, "add_rows");
        }
        expect(k.min_steps(steps_b.data(), terms.data()) == scalar.min_steps(steps_b.data(), terms.data()), k.name,
               "min_steps");
        for (const std::int16_t limit :
             {static_cast<std::int16_t>(-32768), terms[0], static_cast<std::int16_t>(32767)}) {
            std::vector<std::uint8_t> words_a(kWords), words_b(kWords);
            const std::size_t n = k.below(terms.data(), limit, words_a.data());
            expect(n == scalar.below(terms.data(), limit, words_b.data()) &&
                       std::memcmp(words_a.data(), words_b.data(), n) == 0,
                   k.name, "below");
        }
        k.add_terms(a.data(), terms.data(), 1e-4f, out_a.data());
        scalar.add_terms(a.data(), terms.data(), 1e-4f, out_b.data());
        expect(same(out_a, out_b), k.name, "add_terms");
        alignas(64) std::int16_t steps[kWords], aligned[kWords], sums[kWords], groups[kGroups];
        for (std::size_t w = 0; w < kWords; ++w)
            steps[w] = static_cast<std::int16_t>(random() & 0x7fff), aligned[w] = terms[w];
        const std::int16_t step_min = k.add_steps(steps, aligned, sums, groups);
        expect(step_min == scalar.add_steps(steps, aligned, sums, groups), k.name, "add_steps");
        expect(k.minima(a.data(), groups_a.data()) == scalar.minima(a.data(), groups_b.data()) &&
                   same(groups_a, groups_b),
               k.name, "minima");
        expect(k.max_abs(a.data()) == scalar.max_abs(a.data()), k.name, "max_abs");
        expect(k.argmin(a.data()) == scalar.argmin(a.data()), k.name, "argmin");
    }
}

void compare_scan(const Kernels& k, const Kernels& scalar, std::mt19937& random) {
    std::uniform_real_distribution<float> uniform;
    for (std::size_t columns = 0; columns <= kScanColumns; ++columns)
        for (std::size_t n_blocks : {std::size_t{1}, std::size_t{7}, kChunk}) {
            std::vector<std::uint8_t> blocks(n_blocks * (columns + 1) * kBlock);
            for (std::uint8_t& code : blocks) code = static_cast<std::uint8_t>(random());
            ByteTables mine{}, exact{};
            mine.n_columns = exact.n_columns = columns;
            for (std::size_t j = 0; j < columns; ++j) {
                std::vector<float> table(kWords);
                for (float& t : table) t = uniform(random) * 300.0f;
                float groups[kGroups];
                const float floor = k.minima(table.data(), groups);
                k.quantize(table.data(), groups, floor, 1.0f, j, &mine);
                scalar.quantize(table.data(), groups, floor, 1.0f, j, &exact);
            }
            std::uint64_t a[kChunk] = {}, b[kChunk] = {};
            k.scan(blocks.data(), columns + 1, mine, 200, n_blocks, a);
            scalar.scan(blocks.data(), columns + 1, exact, 200, n_blocks, b);
            const bool superset_only = std::strcmp(k.name, "avx2") == 0; // see avx2.cpp
            for (std::size_t i = 0; i < n_blocks; ++i)
                expect(superset_only ? (b[i] & ~a[i]) == 0 : a[i] == b[i], k.name, "scan");
        }
}

} // namespace

int main() {
    force_level("scalar");
    const Kernels& scalar = kernels();
    std::mt19937 random(1);
    int levels = 0;
    for (const std::string& name : available_levels()) {
        force_level(name);
        compare_tables(kernels(), scalar, random);
        compare_scan(kernels(), scalar, random);
        std::printf("%s compared\n", name.c_str());
        ++levels;
    }
    std::printf("%d passed, %d failed\n", levels, failures);
    return failures == 0 ? 0 : 1;
}
