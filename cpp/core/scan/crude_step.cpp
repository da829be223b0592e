#include "crude_step.h"

#include <bit>
#include <limits>

namespace interlace {

std::size_t CrudeStep::run(CellTables& tables, const SegmentView& segment, std::size_t first_block, std::size_t count,
                           const std::uint64_t* masks, float limit) {
    std::uint32_t* const offsets = offsets_.data();
    std::size_t n = 0;
    for (std::uint32_t i = 0; i < count; ++i)
        for (std::uint64_t mask = masks[i]; mask != 0; mask &= mask - 1)
            offsets[n++] = i * kBlock + static_cast<std::uint32_t>(std::countr_zero(mask));
    switch (tables.n_crude()) { // the usual numbers of crude columns get loops without inner branches
    case 3:
        return run_columns<3>(tables, segment, first_block, n, limit);
    case 5:
        return run_columns<5>(tables, segment, first_block, n, limit);
    case 7:
        return run_columns<7>(tables, segment, first_block, n, limit);
    case 8:
        return run_columns<8>(tables, segment, first_block, n, limit);
    case 15:
        return run_columns<15>(tables, segment, first_block, n, limit);
    default:
        return run_columns<0>(tables, segment, first_block, n, limit);
    }
}

template <std::size_t N_CRUDE> // 0: any number
std::size_t CrudeStep::run_columns(CellTables& tables, const SegmentView& segment, std::size_t first_block,
                                   std::size_t n, float limit) {
    if (tables.has_terms() && !tables.few_rows())
        n = drop_by_steps<N_CRUDE>(tables, segment.block(first_block), n, limit);
    return tables.lazy_crude(n) ? distances<N_CRUDE, true>(tables, segment, first_block, n, limit)
                                : distances<N_CRUDE, false>(tables, segment, first_block, n, limit);
}

// Drops offsets whose crude distance exceeds the limit by its lower bound in steps: cheaper than floats, and tighter
// than the bytes on a level that compares groups of words only.
template <std::size_t N_CRUDE>
std::size_t CrudeStep::drop_by_steps(const CellTables& tables, const std::uint8_t* blocks, std::size_t n, float limit) {
    const float inverse = (1.0f + 0x1p-20f) / tables.step();
    const float steps = ((limit - tables.sums_base()) + tables.slack()) * inverse;
    if (!(steps < 2e9f) || inverse > std::numeric_limits<float>::max()) return n;
    const std::int32_t most = steps < -2e9f ? -2000000000 : static_cast<std::int32_t>(steps) + 1;
    std::uint32_t* const offsets = offsets_.data();
    const std::int16_t* const sums = tables.sums();
    const std::size_t n_crude = N_CRUDE ? N_CRUDE : tables.n_crude();
    std::size_t kept = 0;
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t offset = offsets[i];
        const std::uint8_t* codes = blocks + offset / kBlock * n_crude * kBlock + offset % kBlock;
        std::int32_t sum = 0;
        for (std::size_t j = 0; j < n_crude; ++j) sum += sums[j * kWords + codes[j * kBlock]];
        offsets[kept] = offset;
        kept += sum <= most;
    }
    return kept;
}

template <std::size_t N_CRUDE, bool LAZY>
std::size_t CrudeStep::distances(const CellTables& cell, const SegmentView& segment, std::size_t first_block,
                                 std::size_t n, float limit) {
    const std::uint8_t* const blocks = segment.block(first_block);
    const std::uint8_t* const fixed = segment.fixed;
    const std::int32_t step = segment.fixed_step;
    const float* const tables = cell.tables();
    const float base = cell.base();
    const std::size_t n_crude = N_CRUDE ? N_CRUDE : cell.n_crude();
    const std::uint32_t* const offsets = offsets_.data();
    std::uint64_t* const positions = positions_.data();
    float* const sums = sums_.data();
    float* const out = distances_.data();
    std::size_t kept = 0;
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t offset = offsets[i];
        const std::uint8_t* codes = blocks + offset / kBlock * n_crude * kBlock + offset % kBlock;
        float crude = base;
        for (std::size_t j = 0; j < n_crude; ++j)
            crude += LAZY ? cell.entry(j, codes[j * kBlock]) : tables[j * kWords + codes[j * kBlock]];
        const std::uint64_t position = first_block * kBlock + offset;
        sums[kept] = crude;
        if (fixed != nullptr) crude += cell.coarse_term(step * fixed[position]);
        positions[kept] = position;
        out[kept] = crude;
        kept += crude <= limit;
    }
    return kept;
}

} // namespace interlace
