#include "../core/number_text.h"
#include "arrays.h"
#include "module.h"
#include "released.h"

#include <cstdint>
#include <string_view>

namespace interlace {
namespace {

bool py_parse_rows(In<std::uint8_t, One> text, Out<float, Two> out) {
    const std::string_view view(reinterpret_cast<const char*>(text.data()), text.shape(0));
    Released released;
    return parse_rows(view, out.shape(0), out.shape(1), out.data());
}

} // namespace

void bind_text(nb::module_& m) { m.def("parse_rows", &py_parse_rows, "text"_a.noconvert(), "out"_a.noconvert()); }

} // namespace interlace
