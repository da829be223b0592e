#include "rotation.h"

#include "../simd/kernels.h"
#include "half.h"

#include <algorithm>

namespace interlace {
namespace {

constexpr std::size_t kGroup = 32; // vectors that share a pass over the matrix

} // namespace

Rotation::Rotation(std::vector<float> matrix, std::size_t dim) : dim_(dim), floats_(std::move(matrix)) {
    if (floats_.empty() || dim < kSmallest || dim % kHalfColumns != 0) return;
    Aligned<std::uint16_t> halves(floats_.size());
    for (std::size_t d = 0; d < dim; ++d)
        for (std::size_t w = 0; w < dim; ++w)
            if (!to_half(floats_[d * dim + w], halves[(w / kHalfColumns * dim + d) * kHalfColumns + w % kHalfColumns]))
                return;
    halves_ = std::move(halves);
    std::vector<float>().swap(floats_);
}

void Rotation::apply(const float* x, std::size_t n, const float* mean, float* out) const {
    const auto centre = [&](const float* row, float* to) {
        for (std::size_t d = 0; d < dim_; ++d) to[d] = mean != nullptr ? row[d] - mean[d] : row[d];
    };
    if (floats_.empty() && halves_.empty()) {
        for (std::size_t i = 0; i < n; ++i) centre(x + i * dim_, out + i * dim_);
        return;
    }
    std::vector<float> centred(std::min(n, kGroup) * dim_);
    const float* from[kGroup];
    float* to[kGroup];
    for (std::size_t first = 0; first < n; first += kGroup) {
        const std::size_t count = std::min(kGroup, n - first);
        for (std::size_t i = 0; i < count; ++i) {
            centre(x + (first + i) * dim_, centred.data() + i * dim_);
            from[i] = centred.data() + i * dim_;
            to[i] = out + (first + i) * dim_;
        }
        if (in_halves()) kernels().rotate_halves(from, count, halves_.data(), dim_, dim_, to);
        else kernels().rotate(from, count, floats_.data(), dim_, dim_, to);
    }
}

} // namespace interlace
