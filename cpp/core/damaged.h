// What a file says cannot be true: its bytes changed after they were written, and nobody verified them yet.
#pragma once
#include <stdexcept>

namespace interlace {

class Damaged : public std::runtime_error { // DamagedFileError in Python
public:
    using std::runtime_error::runtime_error;
};

} // namespace interlace
