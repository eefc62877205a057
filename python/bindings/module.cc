#include <nanobind/nanobind.h>

#include <exception>

#include "base/error.h"
#include "conversions.h"

namespace nb = nanobind;

namespace deepinfer::python {
namespace {

/// Which Python exception an error kind becomes. `checkpoint_error` is borrowed from the module.
PyObject* exception_of(ErrorKind kind, PyObject* checkpoint_error) {
  switch (kind) {
    case ErrorKind::kInvalidArgument:
      return PyExc_ValueError;
    case ErrorKind::kCheckpoint:
      return checkpoint_error;
    case ErrorKind::kUnsupported:
      return PyExc_NotImplementedError;
    case ErrorKind::kOutOfMemory:
      return PyExc_MemoryError;
    case ErrorKind::kIo:
      return PyExc_OSError;
    case ErrorKind::kInternal:
      return PyExc_RuntimeError;
  }
  return PyExc_RuntimeError;
}

void translate(const std::exception_ptr& pointer, void* checkpoint_error) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Error& error) {
    const nb::str message = to_str(error.what());
    PyErr_SetObject(exception_of(error.kind(), static_cast<PyObject*>(checkpoint_error)),
                    message.ptr());
  }
}

}  // namespace
}  // namespace deepinfer::python

NB_MODULE(_core, module) {
  module.doc() = "The C++ engine; use the classes of the package deepinfer.";
  module.attr("__version__") = DEEPINFER_VERSION;

  // Missing files are to be caught as FileNotFoundError, bad contents as ValueError, and one
  // checkpoint can be both; io.UnsupportedOperation is made the same way.
  const nb::object bases =
      nb::make_tuple(nb::handle(PyExc_FileNotFoundError), nb::handle(PyExc_ValueError));
  PyObject* checkpoint_error = PyErr_NewExceptionWithDoc(
      "deepinfer.CheckpointError",
      "A checkpoint or tokenizer that is missing, incomplete, corrupt or unsupported.", bases.ptr(),
      nullptr);
  if (checkpoint_error == nullptr) throw nb::python_error();
  module.attr("CheckpointError") = nb::steal(checkpoint_error);
  nb::register_exception_translator(&deepinfer::python::translate, checkpoint_error);

  deepinfer::python::bind_environment(module);
  deepinfer::python::bind_text(module);
  deepinfer::python::bind_llm(module);
}
