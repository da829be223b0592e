// Thrown for invalid stored values: the bytes of a file changed after they were written.
#pragma once
#include <stdexcept>

namespace interlace {

class Damaged : public std::runtime_error { // DamagedFileError in Python
public:
    using std::runtime_error::runtime_error;
};

} // namespace interlace
