// The parts of the native module, each in a file of its own. They convert arrays, check shapes and release the GIL; all
// else is in cpp/core, which does not know Python.
#pragma once
#include <nanobind/nanobind.h>

namespace interlace {

void bind_books(nanobind::module_& m);
void bind_constants(nanobind::module_& m);
void bind_segments(nanobind::module_& m);
void bind_rules(nanobind::module_& m);
void bind_search(nanobind::module_& m);
void bind_encode(nanobind::module_& m);
void bind_learn(nanobind::module_& m);
void bind_ids(nanobind::module_& m);
void bind_ranking(nanobind::module_& m);
void bind_vectors(nanobind::module_& m);
void bind_text(nanobind::module_& m);
void bind_kernels(nanobind::module_& m);

} // namespace interlace
