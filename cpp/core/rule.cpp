#include "rule.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <sstream>

namespace interlace {

std::span<const float> Rule::spread(std::size_t n_cells) const {
    const auto slot = static_cast<std::size_t>(std::bit_width(n_cells > 0 ? n_cells - 1 : 0));
    return spreads_.at(slot).get([&] {
        constexpr double any = std::numeric_limits<float>::max(); // not infinite: a unit may be 0
        auto made = std::make_unique<std::vector<float>>(std::size_t{1} << slot);
        for (std::size_t rank = 0; rank < made->size(); ++rank) {
            const double room = stop_ - std::log1p(static_cast<double>(rank));
            const double gap = room < 0 ? -1 : weight_ > 0 ? room / weight_ : any;
            (*made)[rank] = static_cast<float>(rank == 0 || gap >= kFarthestGap ? any : gap);
        }
        return made;
    });
}

std::size_t Rule::usual_cells() const {
    return static_cast<std::size_t>(std::clamp(std::exp(std::min(stop_, 20.0)) / 2, 64.0, 1e6));
}

std::string Rule::repr() const {
    std::ostringstream out;
    if (kind_ == Kind::kPaper) out << "Rule.paper(sigma=" << sigma_ << ")";
    else if (kind_ == Kind::kEverything) out << "Rule.everything()";
    else if (is_exact()) out << "Rule.exact()";
    else if (!stops_) out << "Rule.with_share(share=" << share_ << ")";
    else
        out << "Rule.calibrated(share=" << share_ << ", weight=" << weight_ << ", stop=" << stop_
            << ", slack=" << slack_ << ", least=" << least_ << ", reach=" << reach_ << ", inner=" << inner_ << ")";
    return out.str();
}

} // namespace interlace
