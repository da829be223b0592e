// A scan of few columns has their number known to the compiler, so that the tables stay in registers. With more columns
// the tables of one are loaded once for several blocks.
// Include inside the level's own anonymous namespace, after its scan_columns<COLUMNS> and scan_many.
inline constexpr std::size_t kFewColumns = 15;
using Scan = decltype(&scan_columns<0>);
struct ScansByColumns {
    Scan of[kFewColumns + 1];
};
template <std::size_t... COLUMNS> constexpr ScansByColumns scans_of(std::index_sequence<COLUMNS...>) {
    return {{scan_columns<static_cast<int>(COLUMNS)>...}};
}

void scan(const std::uint8_t* blocks, std::size_t n_stored, const std::uint8_t* fixed, const ByteTables& tables,
          std::uint8_t threshold, std::size_t n_blocks, std::uint64_t* masks) {
    static constexpr ScansByColumns by_columns = scans_of(std::make_index_sequence<kFewColumns + 1>());
    const Scan chosen = tables.n_columns <= kFewColumns ? by_columns.of[tables.n_columns] : scan_many;
    chosen(blocks, n_stored * kBlock, fixed, tables, threshold, n_blocks, masks);
}
