// The inner loops of encoding and search, once per instruction set.
//
// Each level (scalar, avx2, avx512, neon) fills one `Kernels` with its functions; `dispatch.cpp` chooses a
// level once. All levels return the same bits: float loops run across words, never across dimensions, so the order of
// additions is the same for any vector width, and the build forbids fused multiply-add. Sums over the dimensions of
// stored rows have an order of their own (kSums).
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace interlace {

inline constexpr std::size_t kWords = 256; // entries of a table; shorter books are padded with +inf
inline constexpr std::size_t kPanel = 32;  // words that are stored together
// Words float [kWords / kPanel][dim][kPanel]: a kernel goes through one panel after the other, and a panel stays in the
// first-level cache while it serves several vectors.
inline std::size_t word_place(std::size_t dim, std::size_t d, std::size_t w) {
    return (w / kPanel * dim + d) * kPanel + w % kPanel;
}
// Words as bytes uint8 [kWords / kByteWords][width / 4][kByteWords][4]; width is a multiple of 4.
inline constexpr std::size_t kByteWords = 16;
// Matrices of float16 [width / kHalfColumns][dim][kHalfColumns]: one vector alone reads them from end to end.
inline constexpr std::size_t kHalfColumns = 64;
inline constexpr std::size_t kBlock = 64; // rows of a block of crude codes
// Crude columns that the byte scan reads at most; a sum of fewer is still a lower bound.
inline constexpr std::size_t kScanColumns = 128;
inline constexpr std::size_t kChunk = 16; // blocks per call of scan(): 1,024 rows between updates of the threshold
// Words with the same w % 128 are a group; learning puts near words into one group.
inline constexpr std::size_t kGroups = 128;
inline constexpr float kMostSteps = 40959.0f; // where to_steps() saturates, above its start
inline constexpr std::uint8_t kDead = 255;    // byte of a word that exceeds the budget by itself

// Crude tables of one cell as bytes: floor((table - floor) * scale), saturated at kDead. A level fills what its scan
// reads: the byte of every word, or the smallest byte of every group of words.
struct alignas(64) ByteTables {
    std::uint8_t words[kScanColumns][kWords];
    std::uint8_t groups[kScanColumns][kGroups];
    std::uint8_t fixed[kGroups]; // of a byte for each row that is below kGroups, if the rows have one
    std::size_t n_columns;
};

// How the originals of rows are stored (codec/originals.py): dim values of a row after the head.
//   kFloat32, kFloat16  little-endian values
//   kInt8               head: two floats, low and step; value = low + step * byte
enum class Stored : std::uint8_t { kFloat32, kFloat16, kInt8 };
inline constexpr std::size_t stored_head(Stored type) { return type == Stored::kInt8 ? 8 : 0; }
inline constexpr std::size_t stored_size(Stored type) {
    return type == Stored::kFloat32 ? 4 : type == Stored::kFloat16 ? 2 : 1;
}
// Sums that run side by side over the dimensions of a stored row: sum j has the dimensions d with d % kSums == j. They
// are added by halves, j to j + kSums / 2, and so on. This order is the same for every level.
inline constexpr std::size_t kSums = 32;

// A query for byte_bounds, in whole numbers.
struct ByteQuery {
    const std::int8_t* x; // [width]
    std::int32_t shift;   // what the products have too much
    float scale, start;
    float* out; // [kWords]
};

// References, so that a level which leaves one out does not compile.
struct Kernels {
    const char* name;

    // out[q][w] = sum_d (x[q][d] - words[d][w])^2   words in the order of word_place, x and out arrays of n pointers
    void (&squared_distances)(const float* const* x, std::size_t n, const float* words, std::size_t dim,
                              float* const* out);
    // out[q][w] = sum_d x[q][d] * words[d][w]       the same shapes
    void (&inner_products)(const float* const* x, std::size_t n, const float* words, std::size_t dim,
                           float* const* out);
    // out[w] = start + (squares[w] - scale * (sum_d x[d] * words[d][w] - shift)) of each query; words as bytes, see
    // kByteWords
    void (&byte_bounds)(const ByteQuery* queries, std::size_t n, const std::uint8_t* words, std::size_t width,
                        const float* squares);
    // out[q][c] = sum_d x[q][d] * matrix[d][c]      matrix float [dim][width], any width
    void (&rotate)(const float* const* x, std::size_t n, const float* matrix, std::size_t dim, std::size_t width,
                   float* const* out);
    // The same for a matrix of float16, see kHalfColumns; width is a multiple of it
    void (&rotate_halves)(const float* const* x, std::size_t n, const std::uint16_t* matrix, std::size_t dim,
                          std::size_t width, float* const* out);
    // out[w] = start + the nearest integer to (table[w] - low) * factor, saturated at kMostSteps + start
    void (&to_steps)(const float* table, float low, float factor, std::int32_t start, std::int16_t* out);
    // out[w] = rows[0][w] + rows[1][w] + ..., saturated after every addition; n >= 1
    void (&add_rows)(const std::int16_t* const* rows, std::size_t n, std::int16_t* out);
    // The words w with sums[w] <= limit, ascending; returns their number n. What follows them in words [kWords] is
    // undefined.
    std::size_t (&below)(const std::int16_t* sums, std::int16_t limit, std::uint8_t* words);
    // out[w] = a[w] + scale * terms[w]
    void (&add_terms)(const float* a, const std::int16_t* terms, float scale, float* out);
    // The smallest of steps[w] + terms[w], saturated
    std::int16_t (&min_steps)(const std::int16_t* steps, const std::int16_t* terms);
    // Lower bounds in steps: sums[w] = steps[w] + terms[w], saturated, and group_minima [kGroups] of them where the
    // level's quantize_steps reads these; returns the smallest.
    std::int16_t (&add_steps)(const std::int16_t* steps, const std::int16_t* terms, std::int16_t* sums,
                              std::int16_t* group_minima);
    // As quantize, of sums in steps: bytes floor((sum - floor) * scale), floor at most the smallest sum
    void (&quantize_steps)(const std::int16_t* sums, const std::int16_t* group_minima, std::int16_t floor, float scale,
                           std::size_t column, ByteTables* out);
    // |words[0] + words[1] + ...|^2; no sum leaves int16, no square int32. width is a multiple of 32.
    std::int32_t (&square_of_sum)(const std::int16_t* const* words, std::size_t n, std::size_t width);
    // The smallest entry, and that of every group: group_minima [kGroups]
    float (&minima)(const float* table, float* group_minima);
    float (&max_abs)(const float* table);      // entries of +inf (padding) do not count
    std::size_t (&argmin)(const float* table); // first index of the smallest entry; 0 if all are NaN
    // Fills one column of `out`; floor is at most the smallest entry, bytes sum to at most (sum of tables - sum of
    // floors) * scale.
    void (&quantize)(const float* table, const float* group_minima, float floor, float scale, std::size_t column,
                     ByteTables* out);
    // masks[b] bit i is set if the byte sum of row i of block b is <= threshold (< kDead). It may be set for other rows
    // too: a level is free to compare a smaller sum. blocks: [n_blocks][n_stored][kBlock], n_blocks <= kChunk; fixed:
    // [n_blocks][kBlock] codes of one more column, for tables.fixed, or nullptr
    void (&scan)(const std::uint8_t* blocks, std::size_t n_stored, const std::uint8_t* fixed, const ByteTables& tables,
                 std::uint8_t threshold, std::size_t n_blocks, std::uint64_t* masks);
    // out[i] = sum_d (x[d] - rows[i][d])^2   n stored rows at any address; x has zeros up to a multiple of kSums
    void (&stored_distances)(Stored type, const float* x, const std::uint8_t* const* rows, std::size_t n,
                             std::size_t dim, float* out);
    // out[i] = sum_d x[d] * rows[i][d]       the same shapes
    void (&stored_products)(Stored type, const float* x, const std::uint8_t* const* rows, std::size_t n,
                            std::size_t dim, float* out);
};

// Best level of this machine, or the one INTERLACE_SIMD names (throws std::runtime_error if it cannot run here).
const Kernels& kernels();
std::vector<std::string> available_levels();
void force_level(const std::string& name); // for tests; not thread-safe against running searches
void add_level(const Kernels& level);      // for tests, before the first search: a level that runs only by name

} // namespace interlace
