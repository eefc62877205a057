#include "interrupt.h"

#include <unistd.h>

#include <csignal>

namespace deepinfer::cli {
namespace {

// A signal handler can reach nothing but globals.
volatile std::sig_atomic_t graceful = 0;
volatile std::sig_atomic_t raised = 0;

extern "C" void on_interrupt(int /*signal*/) {
  if (graceful == 0 || raised != 0) _exit(kInterruptedExit);
  raised = 1;
}

}  // namespace

void install_signal_handling() {
  std::signal(SIGPIPE, SIG_IGN);
  struct sigaction action{};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
}

InterruptScope::InterruptScope() {
  raised = 0;
  graceful = 1;
}

InterruptScope::~InterruptScope() {
  graceful = 0;
  raised = 0;
}

bool InterruptScope::interrupted() const { return raised != 0; }

}  // namespace deepinfer::cli
