#include "encode.h"

#include "coding/encoder.h"
#include "threads.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <stdexcept>
#include <vector>

namespace interlace {

void encode(const Books& books, const float* x, std::size_t beam, std::size_t sweeps, const ParallelLoss& loss,
            std::size_t threads, const CodeRowsOut& out) {
    constexpr std::size_t rows = Encoder::kRows; // of a task
    const std::size_t n = out.size();
    if (n > 0) { // once, not once for each thread
        books.pair_terms(threads);
        books.cells().prepare_terms(threads);
    }
    std::vector<std::unique_ptr<Encoder>> encoders(threads);
    parallel_for((n + rows - 1) / rows, threads, [&](std::size_t task, std::size_t worker) {
        if (!encoders[worker]) encoders[worker] = std::make_unique<Encoder>(books, beam, sweeps, loss);
        const std::size_t first = task * rows;
        encoders[worker]->run(x + first * books.dim(), std::min(rows, n - first), out.from(first));
    });
}

void cross_floors(const Books& books, const CodeRows& rows, std::size_t threads, std::int32_t* floors) {
    constexpr std::size_t rows_of_task = 16384;
    constexpr std::int32_t none = std::numeric_limits<std::int32_t>::max();
    const std::size_t n = rows.size();
    std::vector<std::vector<std::int32_t>> minima(threads); // [n_cells] of each thread
    parallel_for((n + rows_of_task - 1) / rows_of_task, threads, [&](std::size_t task, std::size_t worker) {
        auto& low = minima[worker];
        if (low.empty()) low.assign(books.n_cells(), none);
        for (std::size_t i = task * rows_of_task; i < std::min(n, (task + 1) * rows_of_task); ++i) {
            if (i % 1024 == 0) checkpoint();
            const std::uint32_t cell = rows.cell(i);
            if (cell >= low.size()) throw std::invalid_argument("a row names a cell that is not there");
            low[cell] = std::min(low[cell], books.cross_sum(cell, rows.codes(i)));
        }
    });
    for (std::size_t c = 0; c < books.n_cells(); ++c) {
        std::int32_t low = none;
        for (const auto& part : minima)
            if (!part.empty()) low = std::min(low, part[c]);
        floors[c] = low == none ? 0 : low;
    }
}

} // namespace interlace
