// A scan with the number of columns known to the compiler, so that the tables of few columns stay in registers.
// Include inside the level's own anonymous namespace, after its scan_columns<COLUMNS>.
using Scan = decltype(&scan_columns<0>);
struct ScansByColumns {
    Scan of[kScanColumns + 1];
};
template <std::size_t... COLUMNS> constexpr ScansByColumns scans_of(std::index_sequence<COLUMNS...>) {
    return {{scan_columns<static_cast<int>(COLUMNS)>...}};
}

void scan(const std::uint8_t* blocks, std::size_t n_stored, const std::uint8_t* fixed, const ByteTables& tables,
          std::uint8_t threshold, std::size_t n_blocks, std::uint64_t* masks) {
    static constexpr ScansByColumns by_columns = scans_of(std::make_index_sequence<kScanColumns + 1>());
    by_columns.of[tables.n_columns](blocks, n_stored * kBlock, fixed, tables, threshold, n_blocks, masks);
}
