#pragma once

#include <string>

#include "base/error.h"

namespace deepinfer {

/// A request that cannot be served as it is. Carries what an HTTP answer or a batch record needs.
class RequestError : public Error {
 public:
  /// `field` is the path of the offending value (`messages[0].role`), empty when it is the body.
  RequestError(std::string field, const std::string& message, int status = 400)
      : Error(ErrorKind::kInvalidArgument, message), field_(std::move(field)), status_(status) {}

  /// HTTP status: 400, or 404 for a model that isn't served.
  int status() const { return status_; }
  const std::string& field() const { return field_; }
  /// The OpenAI error body, one line: `{"error": {"message": ..., "type": ..., ...}}`.
  std::string to_json() const;

 private:
  std::string field_;
  int status_;
};

}  // namespace deepinfer
