// The first step for the rows that the byte scan lets through: crude distances, compared with the limit.
#pragma once
#include "../segment.h"
#include "cell_tables.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace interlace {

class CrudeStep {
public:
    CrudeStep()
        : offsets_(kChunk * kBlock), positions_(kChunk * kBlock), sums_(kChunk * kBlock), distances_(kChunk * kBlock) {}

    // Rows whose bits are set in masks [count], in position order; returns how many have a crude distance within the
    // limit. Bit i of masks[b] is row i of block first_block + b.
    std::size_t run(CellTables& tables, const SegmentView& segment, std::size_t first_block, std::size_t count,
                    const std::uint64_t* masks, float limit);

    std::uint64_t position(std::size_t i) const { return positions_[i]; } // of the i-th row within the limit
    float sum(std::size_t i) const { return sums_[i]; } // base and tables, which the whole distance begins with
    float distance(std::size_t i) const { return distances_[i]; } // the same with the coarse part of the row

private:
    template <std::size_t N_CRUDE> std::size_t run_columns(CellTables& tables, const SegmentView& segment,
                                                           std::size_t first_block, std::size_t n, float limit);
    template <std::size_t N_CRUDE>
    std::size_t drop_by_steps(const CellTables& tables, const std::uint8_t* blocks, std::size_t n, float limit);
    template <std::size_t N_CRUDE, bool LAZY> std::size_t distances(const CellTables& tables,
                                                                    const SegmentView& segment, std::size_t first_block,
                                                                    std::size_t n, float limit);

    std::vector<std::uint32_t> offsets_;   // of rows in the chunk: block * 64 + lane
    std::vector<std::uint64_t> positions_; // of rows in the segment
    std::vector<float> sums_, distances_;
};

} // namespace interlace
