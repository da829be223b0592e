// Calls checkpoint() after every few thousand pieces of work.
#pragma once
#include "../threads.h"

#include <cstdint>

namespace interlace {

class Pace {
public:
    void add(std::uint64_t pieces) {
        if ((pieces_ += pieces) < kPiecesBetweenChecks) return;
        pieces_ = 0;
        checkpoint();
    }

private:
    // A piece (a cell, a chunk of rows, a survivor) takes between a fraction of a microsecond and about 20
    // microseconds, the latter for survivors of thousands of dimensions.
    static constexpr std::uint64_t kPiecesBetweenChecks = 4096;
    std::uint64_t pieces_ = 0; // since the last checkpoint
};

} // namespace interlace
