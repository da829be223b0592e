// Times every kernel of every level that runs here and prints a table: nanoseconds per call, and in brackets the ratio
// to the level below. Fails where a level is slower than the one below it by more than kTolerance.
//
// The machine may be busy: levels take turns, the shortest of many short samples counts, and a kernel that seems slower
// is measured again before it counts as such. Emulated levels say nothing about speed and are left out.
//
// A level may make fewer bytes for its scan than the next one (see ByteTables), so quantize and quantize_steps do not
// compare on their own: they are shown, and count together with the scan of a small cell.
#include "../core/aligned.h"
#include "../simd/kernels.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

using namespace interlace;

namespace {

constexpr double kTolerance = 1.15;
constexpr double kSampleNs = 10000; // long against the clock's resolution, short against a time slice
constexpr int kSamples = 300;       // per level and measurement
constexpr int kMeasurements = 6;    // before a kernel counts as slower

struct Case {
    std::string name;
    std::function<void(const Kernels&)> call;
    bool counts; // against the level below
};

// What the kernels read and write, in the sizes of a usual index: 8 books, 128 dimensions.
struct Data {
    static constexpr std::size_t kQueries = 8, kDim = 128, kBooks = 8;
    Aligned<float> words = Aligned<float>(kDim * kWords), x = Aligned<float>(kQueries * kDim);
    Aligned<float> out = Aligned<float>(kQueries * kWords);
    static constexpr std::size_t kWide = 512; // of a rotation that the first-level cache does not hold
    Aligned<float> matrix = Aligned<float>(kWide * kWide), wide = Aligned<float>(2 * kQueries * kWide);
    Aligned<std::uint16_t> halves = Aligned<std::uint16_t>(kWide * kWide);
    const float* from_wide[kQueries];
    float* to_wide[kQueries];
    const float* from[kQueries];
    float* to[kQueries];
    alignas(64) float table[kWords], group_minima[kGroups], floats[kWords];
    alignas(64) std::int16_t rows[kBooks][kWords], steps[kWords], sums[kWords], step_groups[kGroups];
    Aligned<std::int16_t> dense = Aligned<std::int16_t>(kBooks * 512);
    const std::int16_t* row_pointers[kBooks];
    const std::int16_t* dense_pointers[kBooks];
    std::int16_t step_floor, few, half; // few, half: limits that few or half of the sums are below
    float floor;
    std::uint8_t survivors[kWords];
    Aligned<std::uint8_t> blocks = Aligned<std::uint8_t>(kChunk * kScanColumns * kBlock);
    std::uint64_t masks[kChunk];
    ByteTables bytes;
    static constexpr std::size_t kRows = 64;
    Aligned<std::uint8_t> stored = Aligned<std::uint8_t>(kRows * 4 * kDim);
    const std::uint8_t* stored_rows[kRows];
    float sums_of_rows[kRows];

    explicit Data(const Kernels& scalar) {
        std::mt19937 random(1);
        std::normal_distribution<float> normal;
        for (Aligned<float>* v : {&words, &x, &matrix, &wide})
            for (float& value : *v) value = normal(random);
        for (float& value : table) value = normal(random);
        for (std::uint16_t& value : halves) value = static_cast<std::uint16_t>(0x2000 + random() % 0x1000);
        for (auto& row : rows)
            for (std::int16_t& value : row) value = static_cast<std::int16_t>(random() % 2000);
        for (std::int16_t& value : dense) value = static_cast<std::int16_t>(random() % 100);
        for (std::uint8_t& code : blocks) code = static_cast<std::uint8_t>(random());
        for (std::size_t q = 0; q < kQueries; ++q) from[q] = x.data() + q * kDim, to[q] = out.data() + q * kWords;
        for (std::size_t q = 0; q < kQueries; ++q)
            from_wide[q] = wide.data() + q * kWide, to_wide[q] = wide.data() + (kQueries + q) * kWide;
        for (std::size_t i = 0; i < kBooks; ++i) row_pointers[i] = rows[i], dense_pointers[i] = dense.data() + i * 512;
        for (std::size_t i = 0; i < stored.size(); ++i) stored[i] = i % 4 == 3 ? 0x3c : 0; // small numbers in any type
        for (std::size_t i = 0; i < kRows; ++i) stored_rows[i] = stored.data() + i * 4 * kDim;
        floor = scalar.minima(table, group_minima);
        scalar.to_steps(table, floor, 3000.0f, -8192, steps);
        step_floor = scalar.add_steps(rows[0], rows[1], sums, step_groups);
        std::vector<std::int16_t> sorted(sums, sums + kWords);
        std::sort(sorted.begin(), sorted.end());
        few = sorted[4], half = sorted[kWords / 2];
    }
};

std::vector<Case> cases(Data& d) {
    std::vector<Case> all;
    const auto add = [&](const std::string& name, std::function<void(const Kernels&)> call, bool counts = true) {
        all.push_back({name, std::move(call), counts});
    };
    for (std::size_t n : {std::size_t{1}, Data::kQueries})
        for (std::size_t dim : {std::size_t{16}, Data::kDim}) {
            std::string size = " ";
            size += std::to_string(n) + " x " + std::to_string(dim);
            add("squared_distances" + size,
                [&d, n, dim](const Kernels& k) { k.squared_distances(d.from, n, d.words.data(), dim, d.to); });
            add("inner_products" + size,
                [&d, n, dim](const Kernels& k) { k.inner_products(d.from, n, d.words.data(), dim, d.to); });
            for (std::size_t width : {dim, dim - 1}) // [dim][dim] as a rotation has it, and a width with a remainder
                add(
                    "rotate" + size + " x " + std::to_string(width),
                    [&d, n, dim, width](const Kernels& k) { k.rotate(d.from, n, d.words.data(), dim, width, d.to); },
                    n * dim > 16); // one sum of 16 terms in 16 lanes waits for its additions, at any level
        }
    for (std::size_t n : {std::size_t{1}, Data::kQueries})
        add("rotate " + std::to_string(n) + " x 512 x 512", [&d, n](const Kernels& k) {
            k.rotate(d.from_wide, n, d.matrix.data(), Data::kWide, Data::kWide, d.to_wide);
        });
    for (std::size_t n : {std::size_t{1}, Data::kQueries})
        add("rotate_halves " + std::to_string(n) + " x 512 x 512", [&d, n](const Kernels& k) {
            k.rotate_halves(d.from_wide, n, d.halves.data(), Data::kWide, Data::kWide, d.to_wide);
        });
    constexpr std::pair<Stored, const char*> types[] = {
        {Stored::kFloat32, "float32"}, {Stored::kFloat16, "float16"}, {Stored::kInt8, "int8"}};
    for (const auto& [type, name] : types)
        for (std::size_t dim : {std::size_t{96}, std::size_t{100}}) { // without and with a remainder
            const std::string size = std::string(" 64 x ") + std::to_string(dim) + " " + name;
            add("stored_distances" + size, [&d, type = type, dim](const Kernels& k) {
                k.stored_distances(type, d.x.data(), d.stored_rows, Data::kRows, dim, d.sums_of_rows);
            });
            add("stored_products" + size, [&d, type = type, dim](const Kernels& k) {
                k.stored_products(type, d.x.data(), d.stored_rows, Data::kRows, dim, d.sums_of_rows);
            });
        }
    add("to_steps", [&d](const Kernels& k) { k.to_steps(d.table, d.floor, 3000.0f, -8192, d.steps); });
    for (std::size_t n : {std::size_t{1}, std::size_t{2}, Data::kBooks})
        add("add_rows " + std::to_string(n), [&d, n](const Kernels& k) { k.add_rows(d.row_pointers, n, d.steps); });
    add("below, none", [&d](const Kernels& k) { k.below(d.sums, -32768, d.survivors); });
    add("below, 5", [&d](const Kernels& k) { k.below(d.sums, d.few, d.survivors); });
    add("below, half", [&d](const Kernels& k) { k.below(d.sums, d.half, d.survivors); });
    add("add_terms", [&d](const Kernels& k) { k.add_terms(d.table, d.rows[0], 1e-4f, d.floats); });
    add("min_steps", [&d](const Kernels& k) { k.min_steps(d.rows[0], d.rows[1]); });
    add("add_steps", [&d](const Kernels& k) { k.add_steps(d.rows[0], d.rows[1], d.sums, d.step_groups); });
    for (std::size_t width : {32, 96, 128, 384})
        for (std::size_t n : {std::size_t{2}, Data::kBooks - 1})
            add("square_of_sum " + std::to_string(n) + " x " + std::to_string(width),
                [&d, n, width](const Kernels& k) { k.square_of_sum(d.dense_pointers, n, width); });
    add("minima", [&d](const Kernels& k) { k.minima(d.table, d.group_minima); });
    add("max_abs", [&d](const Kernels& k) { k.max_abs(d.table); });
    add("argmin", [&d](const Kernels& k) { k.argmin(d.table); });
    const auto quantize = [&d](const Kernels& k, std::size_t column) {
        k.quantize(d.table, d.group_minima, d.floor, 40.0f, column, &d.bytes);
    };
    const auto quantize_steps = [&d](const Kernels& k, std::size_t column) {
        k.quantize_steps(d.sums, d.step_groups, d.step_floor, 0.05f, column, &d.bytes);
    };
    add("quantize *", [quantize](const Kernels& k) { quantize(k, 0); }, false);
    add("quantize_steps *", [quantize_steps](const Kernels& k) { quantize_steps(k, 0); }, false);
    constexpr std::size_t n_columns = 7, n_blocks = 4;
    add("quantize and scan 7 x 256 rows", [&d, quantize](const Kernels& k) {
        d.bytes.n_columns = n_columns;
        for (std::size_t j = 0; j < n_columns; ++j) quantize(k, j);
        k.scan(d.blocks.data(), n_columns, nullptr, d.bytes, 200, n_blocks, d.masks);
    });
    add("quantize_steps and scan 7 x 256 rows", [&d, quantize_steps](const Kernels& k) {
        d.bytes.n_columns = n_columns;
        for (std::size_t j = 0; j < n_columns; ++j) quantize_steps(k, j);
        k.scan(d.blocks.data(), n_columns, nullptr, d.bytes, 200, n_blocks, d.masks);
    });
    for (std::size_t columns : {1, 3, 7, 15})
        add("scan " + std::to_string(columns), [&d, columns](const Kernels& k) {
            d.bytes.n_columns = columns;
            k.scan(d.blocks.data(), columns, nullptr, d.bytes, 200, kChunk, d.masks);
        });
    return all;
}

double sample(const Case& c, const Kernels& level, int calls) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) {
        c.call(level);
        asm volatile("" ::: "memory"); // every call counts
    }
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / calls;
}

// Lowers ns [level] to the shortest of more samples.
void measure(const Case& c, const std::vector<const Kernels*>& levels, std::vector<double>& ns) {
    std::vector<int> calls;
    for (const Kernels* level : levels) {
        sample(c, *level, 10); // warm
        calls.push_back(std::clamp(static_cast<int>(kSampleNs / std::max(sample(c, *level, 10), 1.0)), 1, 10000));
    }
    for (int i = 0; i < kSamples; ++i)
        for (std::size_t l = 0; l < levels.size(); ++l) ns[l] = std::min(ns[l], sample(c, *levels[l], calls[l]));
}

// Whether the level is slower than the one below it
bool slower(const Case& c, const std::vector<double>& ns, std::size_t level) {
    return c.counts && level > 0 && ns[level] > ns[level - 1] * kTolerance;
}

bool any_slower(const Case& c, const std::vector<double>& ns) {
    for (std::size_t l = 0; l < ns.size(); ++l)
        if (slower(c, ns, l)) return true;
    return false;
}

} // namespace

int main() {
    std::vector<const Kernels*> levels;
    for (const std::string& name : available_levels()) {
        if (name.rfind("emulated", 0) == 0) continue;
        force_level(name);
        levels.push_back(&kernels());
    }
    std::printf("%-40s", "ns per call (ratio to the level below)");
    for (const Kernels* level : levels) std::printf("%10s         ", level->name);
    std::printf("\n");
    Data data(*levels.front());
    int failures = 0;
    for (const Case& c : cases(data)) {
        std::vector<double> ns(levels.size(), std::numeric_limits<double>::infinity());
        measure(c, levels, ns);
        for (int again = 1; again < kMeasurements && any_slower(c, ns); ++again) measure(c, levels, ns);
        std::printf("%-40s", c.name.c_str());
        for (std::size_t l = 0; l < levels.size(); ++l)
            if (l == 0) std::printf("%10.1f         ", ns[l]);
            else std::printf("%10.1f (%4.2f)%c ", ns[l], ns[l] / ns[l - 1], slower(c, ns, l) ? '!' : ' ');
        std::printf("\n");
        failures += any_slower(c, ns);
    }
    std::printf("%d kernels are slower (!) than at the level below; * does not count, see levels_bench.cpp\n",
                failures);
    return failures == 0 ? 0 : 1;
}
