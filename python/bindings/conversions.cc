#include "conversions.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace nb = nanobind;

namespace deepinfer::python {
namespace {

std::string type_of(nb::handle object) { return nb::type_name(object.type()).c_str(); }

}  // namespace

std::string to_utf8(nb::handle object, std::string_view what) {
  if (!PyUnicode_Check(object.ptr())) {
    const std::string message = fmt::format("{} must be a string, not {}", what, type_of(object));
    throw nb::type_error(message.c_str());
  }
  const nb::object bytes =
      nb::steal(PyUnicode_AsEncodedString(object.ptr(), "utf-8", "surrogatepass"));
  if (!bytes.is_valid()) throw nb::python_error();
  return {PyBytes_AS_STRING(bytes.ptr()), static_cast<std::size_t>(PyBytes_GET_SIZE(bytes.ptr()))};
}

nb::str to_str(std::string_view utf8) {
  PyObject* text =
      PyUnicode_DecodeUTF8(utf8.data(), static_cast<Py_ssize_t>(utf8.size()), "replace");
  if (text == nullptr) throw nb::python_error();
  return nb::steal<nb::str>(text);
}

std::vector<std::int32_t> to_token_ids(nb::handle object, std::string_view what) {
  std::vector<std::int32_t> ids;
  if (!nb::hasattr(object, "__iter__")) {
    const std::string message =
        fmt::format("{} must be a list of integers, not {}", what, type_of(object));
    throw nb::type_error(message.c_str());
  }
  for (const nb::handle item : nb::iter(object)) {
    const nb::object index = nb::steal(PyNumber_Index(item.ptr()));
    if (!index.is_valid()) {
      PyErr_Clear();
      const std::string message = fmt::format("{} must hold integers, not {}", what, type_of(item));
      throw nb::type_error(message.c_str());
    }
    int overflow = 0;
    long long value = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
    if (overflow != 0) value = overflow > 0 ? std::numeric_limits<long long>::max() : -1;
    ids.push_back(static_cast<std::int32_t>(
        std::clamp<long long>(value, std::numeric_limits<std::int32_t>::min(),
                              std::numeric_limits<std::int32_t>::max())));
  }
  return ids;
}

}  // namespace deepinfer::python
