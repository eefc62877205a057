#pragma once

#include <string>
#include <string_view>

namespace deepinfer {

/// Turns the parts of one tool call (header, parameters, bodies) into the JSON text of its
/// arguments, piece by piece. Knows nothing of markers; the output parser finds those.
class CallArguments {
 public:
  /// A parameter begins; its header (what stands between the marker and `>`) is `name="..."
  /// string="true|false"`. Ends an open one.
  void begin_parameter(std::string_view header, std::string& out);

  /// Text inside the parameter if one is open, else in the body of the call.
  void text(std::string_view text, std::string& out);

  void end_parameter(std::string& out);

  /// The call is over: closes what is open, so that the arguments are a JSON object.
  void end_call(std::string& out);

  /// Generation was cut off: delivers what is held of an open parameter and closes nothing.
  void cut(std::string& out);

 private:
  enum class Open { kNothing, kString, kJson };

  Open open_ = Open::kNothing;
  bool any_parameter_ = false;
  std::string held_;  ///< an open JSON value
  std::string body_;  ///< text outside of parameters, as long as there was none
};

}  // namespace deepinfer
