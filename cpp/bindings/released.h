// Native calls without the GIL.
#pragma once
#include "../core/threads.h"

#include <nanobind/nanobind.h>

namespace interlace {

// While it exists, other Python threads run, and checkpoints of native code ask from time to time whether a signal
// handler raised an exception (Ctrl-C): then the call ends with Interrupted, and that exception is set.
class Released {
public:
    Released();
    ~Released();
    Released(const Released&) = delete;
    Released& operator=(const Released&) = delete;

private:
    Call::Answer ask();

    PyThreadState* state_;
    const Call call_;
};

} // namespace interlace
