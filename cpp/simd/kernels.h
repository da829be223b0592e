// The inner loops of encoding and search, once per instruction set.
//
// Each level (scalar, avx2, avx512, neon) fills one `Kernels` with its functions; `dispatch.cpp` picks a level
// once. All levels return the same bits: float loops run across words, never across dimensions, so the order of
// additions is the same for any vector width, and the build forbids fused multiply-add.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace interlace {

inline constexpr std::size_t kWords = 256;     // entries of a table; shorter books are padded with +inf
inline constexpr std::size_t kBlock = 64;      // rows of a block of crude codes
inline constexpr std::size_t kScanColumns = 8; // crude columns the byte scan reads; a sum of fewer is still a lower bound
inline constexpr std::size_t kChunk = 16;      // blocks per call of scan(): 1,024 rows between updates of the threshold
inline constexpr std::uint8_t kDead = 255;     // byte of a word that is beyond the budget on its own

// Crude tables of one cell as bytes: values[j][w] <= (table[j][w] - floor_j) * scale, saturated at kDead.
struct alignas(64) ByteTables {
    std::uint8_t values[kScanColumns][kWords];
    std::uint8_t live[kScanColumns][16]; // groups of 16 words (code >> 4) with at least one word that is not dead
    std::uint8_t n_live[kScanColumns];
    std::size_t n_columns;

    void set(std::size_t column, const std::uint8_t* bytes); // copies if needed, and finds the live groups
};

struct Kernels {
    const char* name;

    // out[q][w] = sum_d (x[q][d] - words[d][w])^2   words float [dim][kWords], x and out arrays of n pointers
    void (*squared_distances)(const float* const* x, std::size_t n, const float* words, std::size_t dim, float* const* out);
    // out[q][w] = sum_d x[q][d] * words[d][w]
    void (*inner_products)(const float* const* x, std::size_t n, const float* words, std::size_t dim, float* const* out);
    // out[q][c] = sum_d x[q][d] * matrix[d][c]      matrix float [dim][width], any width
    void (*rotate)(const float* const* x, std::size_t n, const float* matrix, std::size_t dim, std::size_t width, float* const* out);
    // out[w] = a[w] + b[w] over one table; returns the smallest sum
    float (*add_tables)(const float* a, const float* b, float* out);
    float (*table_min)(const float* table);
    float (*table_max_abs)(const float* table); // entries of +inf (padding) do not count
    // first index of the smallest entry
    std::size_t (*table_argmin)(const float* table);
    // out[w] = floor(min((table[w] - floor) * scale, 255))
    void (*quantize)(const float* table, float floor, float scale, std::uint8_t* out);
    // masks[b] bit i: the byte sum of row i of block b is <= threshold (< kDead). blocks: [n_blocks][n_stored][kBlock]
    void (*scan)(const std::uint8_t* blocks, std::size_t n_stored, const ByteTables& tables, std::uint8_t threshold,
                 std::size_t n_blocks, std::uint64_t* masks);
};

// Best level of this machine, or the one INTERLACE_SIMD names (throws std::runtime_error if it cannot run here).
const Kernels& kernels();
std::vector<std::string> available_levels();
void force_level(const std::string& name); // for tests; not thread-safe against running searches

} // namespace interlace
