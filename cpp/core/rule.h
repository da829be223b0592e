// When a search may skip a row or a cell.
//
// tau is the distance of the k-th best row so far, or the radius. The floors of a cell are sums of the smallest table
// entries, so floor = crude_floor + rest_floor is at most the distance of any row in the cell. A row is skipped when
//
//   share       crude - crude_floor > share * (tau - floor); share 1 is exact
//   paper       crude > crude distance of the k-th best row + sigma
//   everything  never
//
// A share rule can also stop: cells are visited in ascending order of their base, and the search ends at the first cell
// that is far by two measures.
//   1. base - smallest base > spread(rank) * unit, that is log(1 + rank) + weight * gap > stop. For l2 the unit is the
//      smallest base, but at least `least`; for the other metrics it is the mean of base - smallest base.
//   2. Its excess over tau is more than `slack`. Where tables are the same in all cells, the excess is base + their
//      smallest entries - tau, in units of the query's span: what an average row adds to those entries. Elsewhere it is
//      sqrt(base) - sqrt(tau). Both scale with the query, so this measure also protects queries of other distributions.
// Hits in cells beyond the slack are strays: those cells were visited for their rank alone.
// A query whose smallest base exceeds `reach` (for ip: reach times its length) is farther from the data than the
// queries that the rule was calibrated with. One whose squared distance from the mean of the data is below `inner` (not
// for ip) is nearer to its middle than they were, where its neighbours are spread over more cells. Both are searched
// with share 1 and no stop.
#pragma once
#include "made_once.h"

#include <array>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace interlace {

inline constexpr double kFarthestGap = 1e6; // a larger gap counts as this one

class Rule {
public:
    enum class Kind { kShare, kPaper, kEverything };

    static Rule exact() { return with_share(1.0f); }
    static Rule with_share(float share) { return Rule(Kind::kShare, share, 0); }
    static Rule paper(float sigma) { return Rule(Kind::kPaper, 1, sigma); }
    static Rule everything() { return Rule(Kind::kEverything, 1, 0); }
    static Rule calibrated(float share, double weight, double stop, float slack, float least, float reach,
                           float inner) {
        return Rule(share, weight, stop, slack, least, reach, inner);
    }

    Kind kind() const { return kind_; }
    bool is_exact() const { return kind_ == Kind::kShare && share_ == 1.0f && !stops_; }
    bool stops() const { return stops_; }
    float share() const { return share_; }
    float sigma() const { return sigma_; }
    double weight() const { return weight_; }
    double stop() const { return stop_; }
    float slack() const { return slack_; }
    float least() const { return least_; }
    float reach() const { return reach_; }
    float inner() const { return inner_; }
    // [at least n_cells] the largest gap at which the cell of each rank is visited; rank 0 always is.
    std::span<const float> spread(std::size_t n_cells) const;
    // Cells that a query visits, roughly, where the rule stops: ranks up to exp(stop) if all of them are equally near,
    // about half as many elsewhere.
    std::size_t usual_cells() const;
    std::string repr() const;

private:
    Rule(Kind kind, float share, float sigma) : kind_(kind), share_(share), sigma_(sigma) {}
    Rule(float share, double weight, double stop, float slack, float least, float reach, float inner)
        : kind_(Kind::kShare), stops_(true), share_(share), weight_(weight), stop_(stop), slack_(slack), least_(least),
          reach_(reach), inner_(inner) {}

    const Kind kind_;
    const bool stops_ = false;
    const float share_ = 1, sigma_ = 0;
    const double weight_ = 0, stop_ = std::numeric_limits<double>::infinity();
    const float slack_ = -std::numeric_limits<float>::infinity(), least_ = 0, reach_ = 0, inner_ = 0;
    // Spreads of 1, 2, 4, 8 ... ranks: they take longer to compute than a single query.
    std::array<MadeOnce<std::vector<float>>, 33> spreads_;
};

} // namespace interlace
