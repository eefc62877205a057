#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace deepinfer::python {

/// The UTF-8 bytes of a Python string. A lone surrogate becomes bytes that are no UTF-8, which the
/// tokenizer then refuses for that prompt alone. Throws nb::type_error naming `what` for no string.
std::string to_utf8(nanobind::handle object, std::string_view what);

/// A Python string; bytes that are no UTF-8 (a path in a message) become U+FFFD.
nanobind::str to_str(std::string_view utf8);

/// Token ids from any iterable of integers, numpy's included. What no int32 holds is cut to the
/// nearest one: far outside every vocabulary, so the request fails by itself.
std::vector<std::int32_t> to_token_ids(nanobind::handle object, std::string_view what);

void bind_environment(nanobind::module_& module);
void bind_llm(nanobind::module_& module);
void bind_text(nanobind::module_& module);

}  // namespace deepinfer::python
