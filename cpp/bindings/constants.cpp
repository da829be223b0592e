// Numbers that Python code knows too: tests/test_constants.py compares them with those.
#include "../core/books.h"
#include "../core/coding/beam_tables.h"
#include "../core/cross_terms.h"
#include "../core/elias_fano.h"
#include "../core/half_words.h"
#include "../core/nearest_words.h"
#include "../core/packed_ids.h"
#include "../core/query_tables.h"
#include "../core/rotation.h"
#include "../simd/kernels.h"
#include "module.h"

namespace interlace {

void bind_constants(nanobind::module_& m) {
    m.def("constants", []() -> nanobind::typed<nanobind::dict, nanobind::str, nanobind::int_> {
        nanobind::dict found;
        found["Books::kLongCode"] = Books::kLongCode;
        found["BeamTables::kMaxBooks"] = BeamTables::kMaxBooks;
        found["CrossSums::kStep"] = CrossSums::kStep;
        found["RowNumbers::kSample"] = RowNumbers::kSample;
        found["HalfWords::kNarrowest"] = HalfWords::kNarrowest;
        found["NearestWords::kAllTables"] = NearestWords::kAllTables;
        found["PackedIds::kBlock"] = PackedIds::kBlock;
        found["QueryTables::kGroup"] = QueryTables::kGroup;
        found["Rotation::kSmallest"] = Rotation::kSmallest;
        found["kWords"] = kWords;
        found["kHalfColumns"] = kHalfColumns;
        found["kBlock"] = kBlock;
        found["kGroups"] = kGroups;
        found["kScanColumns"] = kScanColumns;
        found["kSums"] = kSums;
        return found;
    });
}

} // namespace interlace
