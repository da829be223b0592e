// Chooses the kernels once: the best level that was compiled and that this CPU can run, or the one that was named.
#include "kernels.h"

#include <atomic>
#include <cstdlib>
#include <stdexcept>
#ifdef INTERLACE_HAVE_AVX2
#include <cpuid.h>
#endif

namespace interlace {

const Kernels& scalar_kernels();
#ifdef INTERLACE_HAVE_AVX2
const Kernels& avx2_kernels();
#endif
#ifdef INTERLACE_HAVE_AVX512
const Kernels& avx512_kernels();
#endif
#ifdef INTERLACE_HAVE_NEON
const Kernels& neon_kernels();
#endif

namespace {
std::vector<const Kernels*>& added() {
    static std::vector<const Kernels*> levels;
    return levels;
}

#ifdef INTERLACE_HAVE_AVX2
// Conversions of float16. Every CPU with AVX2 has them, but virtual machines may hide them; compilers differ in whether
// __builtin_cpu_supports knows the name.
bool has_f16c() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

std::vector<const Kernels*> runnable() { // in ascending order of preference
    std::vector<const Kernels*> levels = added();
    levels.push_back(&scalar_kernels());
#ifdef INTERLACE_HAVE_NEON
    levels.push_back(&neon_kernels());
#endif
#ifdef INTERLACE_HAVE_AVX2
    if (__builtin_cpu_supports("avx2") && has_f16c()) levels.push_back(&avx2_kernels());
#endif
#ifdef INTERLACE_HAVE_AVX512
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vbmi") &&
        __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("avx512vnni"))
        levels.push_back(&avx512_kernels());
#endif
    return levels;
}

const Kernels* find(const std::string& name) {
    std::string known;
    for (const Kernels* level : runnable()) {
        if (name == level->name) return level;
        known += (known.empty() ? "" : ", ") + std::string(level->name);
    }
    throw std::runtime_error("SIMD level '" + name +
                             "' cannot run here (INTERLACE_SIMD); this machine and build offer: " + known);
}

std::atomic<const Kernels*> chosen{nullptr};
} // namespace

const Kernels& kernels() {
    const Kernels* level = chosen.load(std::memory_order_acquire);
    if (level == nullptr) {
        const char* wanted = std::getenv("INTERLACE_SIMD");
        level = (wanted != nullptr && *wanted != '\0') ? find(wanted) : runnable().back();
        chosen.store(level, std::memory_order_release);
    }
    return *level;
}

std::vector<std::string> available_levels() {
    std::vector<std::string> names;
    for (const Kernels* level : runnable()) names.emplace_back(level->name);
    return names;
}

void add_level(const Kernels& level) { added().push_back(&level); }

void force_level(const std::string& name) { chosen.store(find(name), std::memory_order_release); }

} // namespace interlace
