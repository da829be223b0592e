#include "number_text.h"

#include <charconv>
#include <version>

namespace interlace {

#if defined(__cpp_lib_to_chars)

namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

const char* skip_space(const char* at, const char* end) {
    while (at != end && is_space(*at)) {
        ++at;
    }
    return at;
}

// After the character that must come next; null if another does.
const char* take(const char* at, const char* end, char wanted) {
    at = skip_space(at, end);
    return at != end && *at == wanted ? at + 1 : nullptr;
}

const char* number(const char* at, const char* end, float* out) {
    at = skip_space(at, end);
    const char* first = at != end && *at == '-' ? at + 1 : at;
    if (first == end || *first < '0' || *first > '9') { // from_chars also reads inf and nan
        return nullptr;
    }
    double value = 0;
    const auto found = std::from_chars(at, end, value);
    *out = static_cast<float>(value);
    return found.ec == std::errc() ? found.ptr : nullptr;
}

} // namespace

bool parse_rows(std::string_view text, std::size_t rows, std::size_t dim, float* out) {
    const char *at = text.data(), *end = at + text.size();
    for (std::size_t i = 0; i < rows; ++i) {
        at = take(at, end, '[');
        for (std::size_t j = 0; at != nullptr && j < dim; ++j) {
            at = j == 0 ? at : take(at, end, ',');
            at = at == nullptr ? at : number(at, end, out++);
        }
        at = at == nullptr ? at : take(at, end, ']');
        if (at == nullptr) {
            return false;
        }
    }
    return skip_space(at, end) == end;
}

#else

bool parse_rows(std::string_view, std::size_t, std::size_t, float*) { return false; }

#endif

} // namespace interlace
