#include "released.h"

#include <chrono>
#include <thread>

namespace nb = nanobind;

namespace interlace {
namespace {

// Takes the GIL back. When the interpreter is shutting down, versions before 3.14 end the thread by pthread_exit, which
// unwinds the stack: through destructors that must not throw (std::terminate) and catch blocks that swallow it (abort).
// It is caught here instead, and the thread sleeps until the process ends, as in later versions.
void take_gil(PyThreadState* state) {
    try {
        PyEval_RestoreThread(state);
    } catch (...) {
        for (;;) std::this_thread::sleep_for(std::chrono::hours(24));
    }
}

// Python runs signal handlers on its main thread only.
bool on_main_thread() {
    const nb::object main = nb::module_::import_("threading").attr("main_thread")();
    return nb::cast<unsigned long>(main.attr("ident")) == PyThread_get_thread_ident();
}

} // namespace

Released::Released() : state_(PyEval_SaveThread()), call_([this] { return ask(); }) {}

Released::~Released() { take_gil(state_); }

Call::Answer Released::ask() {
    take_gil(state_);
    Call::Answer answer = Call::kAskNoMore;
    try {
        if (PyErr_CheckSignals() != 0) answer = Call::kStop;
        else if (on_main_thread()) answer = Call::kGoOn;
    } catch (nb::python_error& error) { // the interpreter is about to end
        error.discard_as_unraisable("interlace");
    }
    state_ = PyEval_SaveThread();
    return answer;
}

} // namespace interlace
