#include "text/output_parser_call.h"

#include <nlohmann/json.hpp>

#include "text/python_json.h"

namespace deepinfer {
namespace {

/// The key of a parameter. The last quote before the `string` attribute or the end closes it,
/// because names are written without escaping and may hold quotes themselves. Markup is cut off.
std::string_view parameter_name(std::string_view header) {
  constexpr std::string_view kOpening = " name=\"";
  const std::size_t at = header.find(kOpening);
  if (at == std::string_view::npos) return {};
  std::string_view name = header.substr(at + kOpening.size());
  const std::size_t attribute = name.rfind("\" string=\"");
  name = name.substr(0, attribute != std::string_view::npos ? attribute : name.rfind('"'));
  name = name.substr(0, name.find("</｜DSML｜"));
  return name.substr(0, name.find("<｜DSML｜"));
}

bool is_string_parameter(std::string_view header) {
  return header.find(" string=\"true\"") != std::string_view::npos;
}

bool is_json(std::string_view text) {
  // The library skips a byte order mark and takes a NUL for the end; in the middle of the arguments
  // both would be errors.
  if (text.starts_with("\uFEFF") || text.find('\0') != std::string_view::npos) return false;
  return json_depth(text) <= kMaxJsonDepth && nlohmann::json::accept(text);
}

/// Whether more text could still make it JSON: the parser's complaint is about the end.
bool is_json_beginning(std::string_view text) {
  if (json_depth(text) > kMaxJsonDepth) return false;
  try {
    return !nlohmann::json::parse(text).is_discarded();
  } catch (const nlohmann::json::parse_error& error) {
    return error.byte > text.size();
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

}  // namespace

void CallArguments::begin_parameter(std::string_view header, std::string& out) {
  end_parameter(out);
  out += any_parameter_ ? ", " : "{";
  any_parameter_ = true;
  body_.clear();
  out += json_string(parameter_name(header)) + ": ";
  if (is_string_parameter(header)) {
    open_ = Open::kString;
    out += '"';
  } else {
    open_ = Open::kJson;
  }
}

void CallArguments::text(std::string_view text, std::string& out) {
  switch (open_) {
    case Open::kString:
      append_json_escaped(text, out);
      break;
    case Open::kJson:
      held_ += text;
      break;
    case Open::kNothing:
      if (!any_parameter_) body_ += text;
      break;
  }
}

void CallArguments::end_parameter(std::string& out) {
  if (open_ == Open::kString) out += '"';
  if (open_ == Open::kJson) out += is_json(held_) ? held_ : json_string(held_);
  held_.clear();
  open_ = Open::kNothing;
}

void CallArguments::end_call(std::string& out) {
  end_parameter(out);
  if (any_parameter_) {
    out += '}';
    return;
  }
  const std::string_view body = trim(body_);
  out += body.starts_with('{') && is_json(body) ? body : "{}";
}

void CallArguments::cut(std::string& out) {
  if (open_ == Open::kJson) {
    if (is_json_beginning(held_)) {
      out += held_;
    } else {
      out += '"';
      append_json_escaped(held_, out);
    }
  }
  held_.clear();
  open_ = Open::kNothing;
}

}  // namespace deepinfer
