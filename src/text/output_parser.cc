#include "text/output_parser.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/error.h"
#include "text/output_parser_call.h"
#include "text/output_parser_stop.h"

namespace deepinfer {
namespace {

enum class State {
  kReasoning,
  kContent,
  kBetweenCalls,     ///< inside the calls block, outside of any call: text there is dropped
  kCallName,         ///< behind `<｜DSML｜ invoke name="`
  kCallHeader,       ///< behind the name, up to `>`
  kCallBody,         ///< inside a call, outside of any parameter
  kParameterHeader,  ///< behind `<｜DSML｜ parameter`, up to `>`
  kParameterValue,
  kOver,  ///< behind the calls block: everything is dropped
};

enum class Marker {
  kThinkEnd,
  kCallsBegin,
  kCallsEnd,
  kCallBegin,
  kCallEnd,
  kParameterBegin,
  kParameterEnd,
};

struct MarkerSpelling {
  std::string_view text;
  Marker marker;
};

// Every marker begins with `<` and has no other one inside: a mismatch can be given up byte by
// byte. The spellings without the space are those of V4.
constexpr std::array kMarkers = {
    MarkerSpelling{"</think>", Marker::kThinkEnd},
    MarkerSpelling{"<｜DSML｜ calls>", Marker::kCallsBegin},
    MarkerSpelling{"<｜DSML｜tool_calls>", Marker::kCallsBegin},
    MarkerSpelling{"</｜DSML｜ calls>", Marker::kCallsEnd},
    MarkerSpelling{"</｜DSML｜tool_calls>", Marker::kCallsEnd},
    MarkerSpelling{"<｜DSML｜ invoke name=\"", Marker::kCallBegin},
    MarkerSpelling{"<｜DSML｜invoke name=\"", Marker::kCallBegin},
    MarkerSpelling{"</｜DSML｜ invoke>", Marker::kCallEnd},
    MarkerSpelling{"</｜DSML｜invoke>", Marker::kCallEnd},
    MarkerSpelling{"<｜DSML｜ parameter", Marker::kParameterBegin},
    MarkerSpelling{"<｜DSML｜parameter", Marker::kParameterBegin},
    MarkerSpelling{"</｜DSML｜ parameter>", Marker::kParameterEnd},
    MarkerSpelling{"</｜DSML｜parameter>", Marker::kParameterEnd},
};

bool is_message_text(State state) { return state == State::kReasoning || state == State::kContent; }

bool is_inside_call(State state) {
  return state == State::kCallBody || state == State::kParameterHeader ||
         state == State::kParameterValue;
}

bool is_header(State state) {
  return state == State::kCallName || state == State::kCallHeader ||
         state == State::kParameterHeader;
}

/// Whether the marker means something in the state; otherwise its spelling is text.
bool is_expected(Marker marker, State state, bool parse_tool_calls) {
  if (is_message_text(state)) {
    if (marker == Marker::kThinkEnd) return true;
    return parse_tool_calls && (marker == Marker::kCallsBegin || marker == Marker::kCallBegin);
  }
  if (state == State::kBetweenCalls) {
    return marker == Marker::kCallBegin || marker == Marker::kCallsEnd;
  }
  return marker != Marker::kThinkEnd && marker != Marker::kCallsBegin;
}

}  // namespace

struct OutputParser::Impl {
  explicit Impl(OutputParserOptions given)
      : parse_tool_calls(given.parse_tool_calls), stop(std::move(given.stop)) {
    switch (given.start) {
      case OutputStart::kReasoning:
        state = State::kReasoning;
        skip_newlines = true;
        break;
      case OutputStart::kReasoningContinuation:
        state = State::kReasoning;
        break;
      case OutputStart::kContent:
      case OutputStart::kContentContinuation:
        state = State::kContent;
        break;
      case OutputStart::kCalls:
        state = State::kBetweenCalls;
        break;
    }
  }

  // Output.

  void emit(OutputDelta::Kind kind, std::string_view text) {
    const bool of_call =
        kind == OutputDelta::Kind::kToolCallStart || kind == OutputDelta::Kind::kToolCallArguments;
    const std::size_t index = of_call ? call_count - 1 : 0;
    if (kind == OutputDelta::Kind::kToolCallStart) {
      deltas.push_back({kind, std::string(text), index});
      return;
    }
    if (text.empty()) return;
    if (!deltas.empty() && deltas.back().kind == kind && deltas.back().call_index == index) {
      deltas.back().text += text;
    } else {
      deltas.push_back({kind, std::string(text), index});
    }
  }

  void emit_message_text(std::string_view text) {
    if (state == State::kReasoning) {
      emit(OutputDelta::Kind::kReasoning, text);
      return;
    }
    std::string released;
    stop.push(text, released);
    emit(OutputDelta::Kind::kContent, released);
  }

  void emit_pending_newlines() {
    const std::string newlines(std::exchange(pending_newlines, 0), '\n');
    emit_message_text(newlines);
  }

  void emit_arguments() {
    emit(OutputDelta::Kind::kToolCallArguments, arguments);
    arguments.clear();
  }

  // Text between markers.

  void text(std::string_view text) {
    if (is_message_text(state)) {
      message_text(text);
    } else if (is_inside_call(state)) {
      call.text(text, arguments);
      emit_arguments();
    }
  }

  void message_text(std::string_view text) {
    if (skip_newlines) {
      text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
      if (text.empty()) return;
      skip_newlines = false;
    }
    if (!parse_tool_calls) {
      emit_message_text(text);
      return;
    }
    // Newlines directly before a call belong to its markup, so they wait for what follows.
    const std::size_t last = text.find_last_not_of('\n');
    const std::size_t solid = last == std::string_view::npos ? 0 : last + 1;
    if (solid > 0) {
      emit_pending_newlines();
      emit_message_text(text.substr(0, solid));
    }
    pending_newlines += text.size() - solid;
  }

  // Markers.

  void marker(Marker marker) {
    switch (marker) {
      case Marker::kThinkEnd:
        emit_pending_newlines();
        skip_newlines = state == State::kReasoning;
        state = State::kContent;
        break;
      case Marker::kCallsBegin:
        leave_message_text();
        state = State::kBetweenCalls;
        break;
      case Marker::kCallBegin:
        leave_message_text();
        if (is_inside_call(state)) complete_call();
        state = State::kCallName;
        break;
      case Marker::kCallsEnd:
        if (is_inside_call(state)) complete_call();
        state = State::kOver;
        break;
      case Marker::kCallEnd:
        complete_call();
        state = State::kBetweenCalls;
        break;
      case Marker::kParameterBegin:
        header.clear();
        header_quotes = 0;
        state = State::kParameterHeader;
        break;
      case Marker::kParameterEnd:
        call.end_parameter(arguments);
        emit_arguments();
        state = State::kCallBody;
        break;
    }
  }

  void leave_message_text() {
    if (!is_message_text(state)) return;
    pending_newlines = 0;
    std::string released;
    if (state == State::kContent) stop.flush(released);
    emit(OutputDelta::Kind::kContent, released);
  }

  void complete_call() {
    call.end_call(arguments);
    emit_arguments();
    ++completed_calls;
  }

  // Headers, byte by byte.

  void header_byte(char byte) {
    const bool line_end = byte == '\n';
    switch (state) {
      case State::kCallName:
        // A name never holds these; without the quote the header still has an end.
        if (byte == '"') {
          state = State::kCallHeader;
        } else if (byte == '>' || line_end) {
          begin_call();
        } else {
          header += byte;
        }
        break;
      case State::kCallHeader:
        if (byte == '>' || line_end) begin_call();
        break;
      default:
        if (line_end || (byte == '>' && (header_quotes % 2 == 0 || header.ends_with('"')))) {
          call.begin_parameter(header, arguments);
          emit_arguments();
          header.clear();
          state = State::kParameterValue;
        } else {
          if (byte == '"') ++header_quotes;
          header += byte;
        }
    }
  }

  void begin_call() {
    ++call_count;
    call = CallArguments();
    emit(OutputDelta::Kind::kToolCallStart, header);
    header.clear();
    state = State::kCallBody;
  }

  // The loop.

  void process() {
    std::size_t at = 0;
    while (at < buffer.size() && state != State::kOver && !stop.matched()) {
      if (is_header(state)) {
        header_byte(buffer[at++]);
        continue;
      }
      const std::size_t bracket = std::min(buffer.find('<', at), buffer.size());
      if (bracket > at) text(std::string_view(buffer).substr(at, bracket - at));
      at = bracket;
      if (at == buffer.size()) break;
      const std::string_view rest = std::string_view(buffer).substr(at);
      bool undecided = false;
      const MarkerSpelling* found = nullptr;
      for (const MarkerSpelling& candidate : kMarkers) {
        if (!is_expected(candidate.marker, state, parse_tool_calls)) continue;
        if (rest.starts_with(candidate.text)) found = &candidate;
        undecided = undecided || candidate.text.starts_with(rest);
      }
      if (found != nullptr) {
        at += found->text.size();
        marker(found->marker);
      } else if (undecided) {
        break;
      } else {
        text("<");
        ++at;
      }
    }
    buffer.erase(0, state == State::kOver || stop.matched() ? buffer.size() : at);
  }

  void finish(std::string_view backend_reason) {
    const bool stopped_by_itself = backend_reason == "stop";
    if (is_message_text(state)) {
      text(buffer);
      emit_pending_newlines();
      std::string released;
      stop.flush(released);
      emit(OutputDelta::Kind::kContent, released);
    } else if (is_inside_call(state)) {
      // A half marker in the buffer is dropped: arguments never hold markup.
      if (stopped_by_itself) {
        call.end_call(arguments);
      } else {
        call.cut(arguments);
      }
      emit_arguments();
    }
    buffer.clear();
    if (stop.matched()) {
      finish_reason = "stop";
    } else if (stopped_by_itself && completed_calls > 0) {
      finish_reason = "tool_calls";
    } else {
      finish_reason = backend_reason;
    }
    finished = true;
  }

  const bool parse_tool_calls;
  StopMatcher stop;
  State state = State::kContent;
  std::string buffer;  ///< not yet taken: the beginning of a marker at most, between pushes
  bool skip_newlines = false;
  std::size_t pending_newlines = 0;
  std::string header;
  std::size_t header_quotes = 0;
  CallArguments call;
  std::string arguments;  ///< of the open call, about to be emitted
  std::size_t call_count = 0;
  std::size_t completed_calls = 0;
  std::vector<OutputDelta> deltas;
  bool finished = false;
  std::string finish_reason;
};

OutputParser::OutputParser(OutputParserOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
OutputParser::OutputParser(OutputParser&&) noexcept = default;
OutputParser& OutputParser::operator=(OutputParser&&) noexcept = default;
OutputParser::~OutputParser() = default;

std::vector<OutputDelta> OutputParser::push(std::string_view text) {
  if (impl_->finished) return {};
  impl_->buffer += text;
  impl_->process();
  return std::exchange(impl_->deltas, {});
}

std::vector<OutputDelta> OutputParser::finish(std::string_view backend_reason) {
  if (impl_->finished) return {};
  impl_->finish(backend_reason);
  return std::exchange(impl_->deltas, {});
}

bool OutputParser::stopped() const { return impl_->stop.matched(); }

bool OutputParser::in_reasoning() const { return impl_->state == State::kReasoning; }

const std::string& OutputParser::finish_reason() const { return impl_->finish_reason; }

void ParsedMessage::add(const std::vector<OutputDelta>& deltas) {
  for (const OutputDelta& delta : deltas) {
    switch (delta.kind) {
      case OutputDelta::Kind::kReasoning:
        reasoning += delta.text;
        break;
      case OutputDelta::Kind::kContent:
        content += delta.text;
        break;
      case OutputDelta::Kind::kToolCallStart:
        tool_calls.push_back({delta.text, ""});
        break;
      case OutputDelta::Kind::kToolCallArguments:
        if (delta.call_index >= tool_calls.size()) {
          fail_internal("arguments of tool call " + std::to_string(delta.call_index) +
                        " came before its start");
        }
        tool_calls[delta.call_index].arguments += delta.text;
        break;
    }
  }
}

ParsedMessage parse_output(std::string_view text, OutputParserOptions options,
                           std::string_view backend_reason) {
  OutputParser parser(std::move(options));
  ParsedMessage message;
  message.add(parser.push(text));
  message.add(parser.finish(backend_reason));
  message.finish_reason = parser.finish_reason();
  return message;
}

std::string_view strip_code_fence(std::string_view content) {
  constexpr std::string_view kFence = "```";
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t begin = content.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return content;
  std::string_view inside = content.substr(begin, content.find_last_not_of(kBlank) - begin + 1);
  if (!inside.starts_with(kFence) || !inside.ends_with(kFence)) return content;
  // The opening line may name a language and nothing else.
  const std::size_t line_end = inside.find('\n');
  if (line_end == std::string_view::npos || inside.size() - line_end < 1 + kFence.size()) {
    return content;
  }
  if (inside.substr(kFence.size(), line_end - kFence.size()).find('`') != std::string_view::npos) {
    return content;
  }
  inside = inside.substr(line_end + 1, inside.size() - line_end - 1 - kFence.size());
  // A further fence means that the text is more than one block. (Inside of JSON none begins a
  // line.)
  if (inside.starts_with(kFence) || inside.find("\n```") != std::string_view::npos) return content;
  const std::size_t last = inside.find_last_not_of(kBlank);
  return inside.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

}  // namespace deepinfer
