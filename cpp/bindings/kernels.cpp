#include "../simd/kernels.h"

#include "arrays.h"
#include "module.h"
#include "released.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

namespace interlace {

// For tests and benchmarks: one kernel at a time.
void bind_kernels(nb::module_& m) {
    m.def(
        "scan_blocks", // tables float [n_columns, 256], each quantized above its minimum
        [](In<std::uint8_t, Three> blocks, In<float, Two> tables, float scale, std::uint8_t threshold,
           Out<std::uint64_t, One> masks) {
            require(blocks.shape(2) == kBlock && tables.shape(0) <= kScanColumns &&
                        tables.shape(0) <= blocks.shape(1) && tables.shape(1) == kWords &&
                        masks.size() == blocks.shape(0) && threshold < kDead,
                    "blocks, tables, threshold or masks do not fit");
            ByteTables bytes;
            bytes.n_columns = tables.shape(0);
            for (std::size_t j = 0; j < bytes.n_columns; ++j) {
                float group_minima[kGroups];
                const float floor = kernels().minima(tables.data() + j * kWords, group_minima);
                kernels().quantize(tables.data() + j * kWords, group_minima, floor, scale, j, &bytes);
            }
            Released released;
            for (std::size_t b = 0; b < masks.size(); b += kChunk)
                kernels().scan(blocks.data() + b * blocks.shape(1) * kBlock, blocks.shape(1), nullptr, bytes, threshold,
                               std::min(kChunk, masks.size() - b), masks.data() + b);
        },
        "blocks"_a.noconvert(), "tables"_a.noconvert(), "scale"_a, "threshold"_a, "masks"_a.noconvert());
    m.def(
        "stream_bytes", // reads every byte once: the limit of any scan
        [](In<std::uint64_t, One> words) {
            Released released;
            std::uint64_t sum[8] = {};
            for (std::size_t i = 0; i + 8 <= words.size(); i += 8)
                for (std::size_t j = 0; j < 8; ++j) sum[j] ^= words.data()[i + j];
            return sum[0] ^ sum[1] ^ sum[2] ^ sum[3] ^ sum[4] ^ sum[5] ^ sum[6] ^ sum[7];
        },
        "words"_a.noconvert());
    m.def("simd_level", [] { return std::string(kernels().name); });
    m.def("simd_levels", &available_levels);
    m.def("force_simd_level", &force_level, "name"_a);
}

} // namespace interlace
