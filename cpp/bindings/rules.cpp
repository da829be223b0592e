#include "../core/rule.h"

#include "arrays.h"
#include "module.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <limits>
#include <memory>
#include <string>

namespace interlace {

void bind_rules(nb::module_& m) {
    nb::class_<Rule>(m, "Rule")
        .def_static("exact", [] { return std::unique_ptr<Rule>(new Rule(Rule::exact())); })
        .def_static(
            "with_share", [](float share) { return std::unique_ptr<Rule>(new Rule(Rule::with_share(share))); },
            nb::kw_only(), "share"_a)
        .def_static(
            "paper", [](float sigma) { return std::unique_ptr<Rule>(new Rule(Rule::paper(sigma))); }, nb::kw_only(),
            "sigma"_a)
        .def_static("everything", [] { return std::unique_ptr<Rule>(new Rule(Rule::everything())); })
        .def_static(
            "calibrated",
            [](float share, double weight, double stop, float slack, float least, float reach, float inner) {
                return std::unique_ptr<Rule>(
                    new Rule(Rule::calibrated(share, weight, stop, slack, least, reach, inner)));
            },
            nb::kw_only(), "share"_a, "weight"_a, "stop"_a, "slack"_a, "least"_a, "reach"_a, "inner"_a)
        .def_prop_ro("kind",
                     [](const Rule& self) {
                         constexpr const char* names[] = {"share", "paper", "everything"};
                         return std::string(names[static_cast<int>(self.kind())]);
                     })
        .def_prop_ro("is_exact", &Rule::is_exact)
        .def_prop_ro("stops", &Rule::stops)
        .def_prop_ro("share", &Rule::share)
        .def_prop_ro("sigma", &Rule::sigma)
        .def_prop_ro("weight", &Rule::weight)
        .def_prop_ro("stop", &Rule::stop)
        .def_prop_ro("slack", &Rule::slack)
        .def_prop_ro("least", &Rule::least)
        .def_prop_ro("reach", &Rule::reach)
        .def_prop_ro("inner", &Rule::inner)
        .def(
            "spread",
            [](const Rule& self, std::size_t n_cells) {
                require(n_cells >= 1 && n_cells <= std::numeric_limits<std::uint32_t>::max(), "n_cells out of range");
                const std::span<const float> gaps = self.spread(n_cells);
                return as_array(std::vector<float>(gaps.begin(), gaps.begin() + static_cast<std::ptrdiff_t>(n_cells)));
            },
            "n_cells"_a)
        .def("__repr__", &Rule::repr);
    m.attr("FARTHEST_GAP") = kFarthestGap;
}

} // namespace interlace
