#include "commands/commands.h"
namespace deepinfer::cli {
Command eval_command() { return {.name = "eval", .summary = "", .run = nullptr}; }
}  // namespace deepinfer::cli
