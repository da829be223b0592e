// A scan with the number of columns known to the compiler, so that their tables stay in registers.
// Include inside the level's own anonymous namespace, after its scan_columns<COLUMNS>.
void scan(const std::uint8_t* blocks, std::size_t n_stored, const std::uint8_t* fixed, const ByteTables& tables,
          std::uint8_t threshold, std::size_t n_blocks, std::uint64_t* masks) {
    using Scan = decltype(&scan_columns<0>);
    static constexpr Scan by_columns[kScanColumns + 1] = {
        scan_columns<0>,  scan_columns<1>,  scan_columns<2>,  scan_columns<3>,  scan_columns<4>,  scan_columns<5>,
        scan_columns<6>,  scan_columns<7>,  scan_columns<8>,  scan_columns<9>,  scan_columns<10>, scan_columns<11>,
        scan_columns<12>, scan_columns<13>, scan_columns<14>, scan_columns<15>, scan_columns<16>};
    by_columns[tables.n_columns](blocks, n_stored * kBlock, fixed, tables, threshold, n_blocks, masks);
}
