// Chooses the kernels once: the best level that was compiled and that this CPU can run, or the one that was named.
#include "kernels.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <initializer_list>
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
struct Features {
    bool avx2 = false, avx512 = false;
};

bool has_all(unsigned word, std::initializer_list<int> bits) {
    return std::all_of(bits.begin(), bits.end(), [word](int bit) { return ((word >> bit) & 1) != 0; });
}

// What the CPU has and the operating system saves. __builtin_cpu_supports would need a run-time library that clang-cl
// does not link. Virtual machines may hide F16C, which every CPU with AVX2 has.
Features features() {
    Features found;
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid(1, &a, &b, &c, &d) == 0 || !has_all(c, {27, 28, 29})) return found; // OSXSAVE, AVX, F16C
    unsigned saved = 0, upper = 0;
    __asm__ volatile("xgetbv" : "=a"(saved), "=d"(upper) : "c"(0));
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return found;
    found.avx2 = has_all(saved, {1, 2}) && has_all(b, {5});
    found.avx512 = found.avx2 && has_all(saved, {5, 6, 7}) && has_all(b, {16, 17, 30, 31}) && // F, DQ, BW, VL
                   has_all(c, {1, 6, 11});                                                    // VBMI, VBMI2, VNNI
    return found;
}
#endif

std::vector<const Kernels*> runnable() { // in ascending order of preference
    std::vector<const Kernels*> levels = added();
    levels.push_back(&scalar_kernels());
#ifdef INTERLACE_HAVE_NEON
    levels.push_back(&neon_kernels());
#endif
#ifdef INTERLACE_HAVE_AVX2
    const Features cpu = features();
    if (cpu.avx2) levels.push_back(&avx2_kernels());
#endif
#ifdef INTERLACE_HAVE_AVX512
    if (cpu.avx512) levels.push_back(&avx512_kernels());
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
