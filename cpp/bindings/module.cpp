// The native module, and the exceptions that native code throws as Python sees them.
#include "module.h"

#include "../core/damaged.h"
#include "../core/threads.h"

#include <exception>

namespace nb = nanobind;

NB_MODULE(_native, m) {
    using namespace interlace;
    nb::register_exception_translator(
        [](const std::exception_ptr& thrown, void* type) {
            try {
                std::rethrow_exception(thrown);
            } catch (const Damaged& error) {
                PyErr_Format(static_cast<PyObject*>(type), "the index is damaged: %s", error.what());
            }
        },
        nb::object(nb::module_::import_("interlace.errors").attr("DamagedFileError")).release().ptr());
    nb::set_leak_warnings(false); // threads that the end of the process finds at work keep what they use
    nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
        try {
            std::rethrow_exception(thrown);
        } catch (const Interrupted&) { // the exception of the signal's handler is set already
        }
    });
    bind_books(m);
    bind_constants(m);
    bind_segments(m);
    bind_rules(m);
    bind_search(m);
    bind_encode(m);
    bind_learn(m);
    bind_ids(m);
    bind_ranking(m);
    bind_vectors(m);
    bind_text(m);
    bind_kernels(m);
}
