#include "base/numerics.h"

#include <string>

#include "base/error.h"

namespace deepinfer {

std::string_view to_string(NumericsProfile profile) {
  switch (profile) {
    case NumericsProfile::kExact:
      return "exact";
    case NumericsProfile::kExactCache:
      return "exact+cache";
    case NumericsProfile::kProduction:
      return "production";
  }
  return "unknown";
}

NumericsProfile parse_numerics_profile(std::string_view text, std::string_view origin) {
  for (const NumericsProfile profile :
       {NumericsProfile::kExact, NumericsProfile::kExactCache, NumericsProfile::kProduction}) {
    if (text == to_string(profile)) return profile;
  }
  fail_argument(std::string(origin) + ": '" + std::string(text) +
                "' is not a numerics profile; expected exact, exact+cache or production");
}

}  // namespace deepinfer
