#!/usr/bin/env bash
# The one entry: sets the machine up, builds, runs and tests. `./build.sh help` lists the words.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

# --- what each word needs ------------------------------------------------------------------------

readonly BUILD_PACKAGES=(
  g++ cmake ninja-build pkg-config ccache python3-venv python3-dev
  libhwy-dev libpcre2-dev nlohmann-json3-dev libspdlog-dev libfmt-dev libcli11-dev libyaml-cpp-dev
  libgtest-dev libgmock-dev libbenchmark-dev
)
readonly FUZZ_PACKAGES=(clang-19 libclang-rt-19-dev)
readonly FORMAT_PACKAGES=(clang-format-19)
readonly TIDY_PACKAGES=(clang-tidy-19)

# Debian's own Python: python3-dev's headers belong to it, not to another python3 on PATH.
readonly SYSTEM_PYTHON=/usr/bin/python3
readonly VENV=.venv
readonly RELEASE=build/release
JOBS="${DEEPINFER_BUILD_JOBS:-$(nproc)}"
readonly JOBS

usage() {
  cat <<'TEXT'
Usage: ./build.sh [WORD [ARGUMENT]]

  (no word)        install what is missing, build everything into build/release
  run              the same, then the main job: the bundled checkpoint answers prompts
  test             the same, then every test; a skipped test is a failure
  bench            build, then kernels, the tokenizer, and `deepinfer bench`
  format [--fix]   check the formatting of C++ (clang-format-19) and Python (ruff)
  tidy [all|REF]   clang-tidy-19 on the C++ files changed since REF (default: origin/main, else the
                   commit before this one), newest first, or on all;
                   DEEPINFER_TIDY_SECONDS bounds the time (default: no bound)
  fuzz [SECONDS]   each libFuzzer target for SECONDS (default 60) under ASan and UBSan
  asan, tsan       the C++ tests under ASan and UBSan, or under TSan
  clean            remove build/ (the set-up in .venv stays)
  help             this text

Environment: DEEPINFER_ACCELERATOR=cpu|nvidia|ascend chooses the back end (default cpu);
DEEPINFER_BUILD_JOBS bounds parallel compiler runs (default: all cores).
TEXT
}

step() { printf '\n==> %s\n' "$*" >&2; }
note() { printf '    %s\n' "$*" >&2; }
die() {
  printf 'build.sh: %s\n' "$1" >&2
  exit "${2:-1}"
}

check_accelerator() {
  case "${DEEPINFER_ACCELERATOR:-cpu}" in
    cpu | reference | auto) ;;
    nvidia | ascend)
      die "DEEPINFER_ACCELERATOR=${DEEPINFER_ACCELERATOR}: this version has no such back end yet; \
it has cpu and reference. Unset the variable, or set it to cpu." 2
      ;;
    *)
      die "DEEPINFER_ACCELERATOR=${DEEPINFER_ACCELERATOR}: expected cpu, nvidia or ascend." 2
      ;;
  esac
}

# --- set-up: only what is missing ----------------------------------------------------------------

is_installed() {
  [[ "$(dpkg-query -W -f='${db:Status-Abbrev}' "$1" 2>/dev/null)" == ii* ]]
}

ensure_debian() {
  if ! command -v dpkg-query >/dev/null; then
    note "no dpkg here: taking it that the counterparts of these are installed: $*"
    return
  fi
  local missing=() package
  for package in "$@"; do
    is_installed "$package" || missing+=("$package")
  done
  ((${#missing[@]})) || return 0

  local sudo=()
  if ((EUID != 0)); then
    if command -v sudo >/dev/null && { [[ -t 0 ]] || sudo -n true 2>/dev/null; }; then
      sudo=(sudo)
    else
      echo "build.sh: these Debian packages are missing, and this is neither root nor sudo. Run:" >&2
      echo "apt-get update && apt-get install -y --no-install-recommends ${missing[*]}" >&2
      exit 1
    fi
  fi
  step "Installing from Debian: ${missing[*]}"
  local quiet=(-q -o Dpkg::Use-Pty=0)
  "${sudo[@]}" apt-get "${quiet[@]}" update >&2
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "${quiet[@]}" install -y \
    --no-install-recommends "${missing[@]}" >&2
}

# ensure_python NAME: .venv holds exactly what requirements/NAME.txt pins, checked by hash.
ensure_python() {
  local requirements="requirements/$1.txt" stamp="$VENV/.installed-$1"
  if [[ ! -x $VENV/bin/python ]] || ! "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
    step "Making $VENV from $SYSTEM_PYTHON"
    rm -rf "$VENV"
    "$SYSTEM_PYTHON" -m venv "$VENV"
  fi
  cmp -s "$requirements" "$stamp" && return
  step "Installing from PyPI into $VENV: $requirements"
  "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes \
    -r "$requirements" >&2
  cp "$requirements" "$stamp"
}

# --- build ---------------------------------------------------------------------------------------

configure() {
  step "Configuring $RELEASE"
  cmake --preset release -DDEEPINFER_BUILD_PYTHON=ON "-DPython_EXECUTABLE=$PWD/$VENV/bin/python" >&2
}

# set_up [REQUIREMENTS]: everything up to a configured build tree. `build` and `test` pin the same
# versions of the packages they share.
set_up() {
  check_accelerator
  ensure_debian "${BUILD_PACKAGES[@]}"
  ensure_python build
  if [[ $# -gt 0 ]]; then ensure_python "$1"; fi
  configure
}

build() {
  local targets=()
  if (($#)); then targets=(--target "$@"); fi
  step "Building${*:+ $*} with $JOBS jobs"
  cmake --build --preset release -j "$JOBS" "${targets[@]}" >&2
}

# --- words ---------------------------------------------------------------------------------------

run_main_job() {
  local command=$RELEASE/apps/deepinfer question
  step "The bundled checkpoint completes three texts (deepinfer generate -m tiny)"
  # Sampled: under greedy decoding a model this small repeats itself. The seed makes it the same
  # text everywhere.
  "$command" generate -m tiny --temperature 0.7 --top-p 0.9 --seed 4 -n 48 \
    -p "The main purpose of a file system is" \
    -p "When a process receives a signal," \
    -p "A database index is"
  step "It answers questions (deepinfer chat -m tiny)"
  for question in "What is 17 + 25?" "What is 27 + 58?"; do
    note "$question"
    "$command" chat -m tiny --temperature 0 --thinking on --show-thinking -n 64 -p "$question"
  done
  step "The same engine from Python (examples/offline_inference.py)"
  PYTHONPATH="$RELEASE/python" "$VENV/bin/python" examples/offline_inference.py
  step "Done. Try: $command chat -m tiny"
}

run_tests() {
  local preset=$1 log="build/$1/ctest.log"
  shift
  step "Testing"
  # The runner's closing line stays the last one on stdout, unless a test was skipped.
  local status=0
  ctest --preset "$preset" -j "$JOBS" --no-tests=error "$@" </dev/null | tee "$log" || status=$?
  ((status == 0)) || exit "$status"
  if grep -qE '\*\*\*(Skipped|Not Run)|The following tests did not run' "$log"; then
    die "a test was skipped; every test must run"
  fi
}

sanitize() {
  check_accelerator
  ensure_debian "${BUILD_PACKAGES[@]}"
  step "Configuring and building build/$1"
  cmake --preset "$1" -DDEEPINFER_BUILD_BENCHMARKS=OFF >&2
  cmake --build --preset "$1" -j "$JOBS" >&2
  run_tests "$1"
}

fuzz() {
  local seconds=${1:-60} target
  check_accelerator
  ensure_debian "${BUILD_PACKAGES[@]}" "${FUZZ_PACKAGES[@]}"
  step "Configuring and building build/fuzz"
  cmake --preset fuzz >&2
  cmake --build --preset fuzz -j "$JOBS" --target deepinfer_fuzzers >&2
  shopt -s nullglob
  local targets=(build/fuzz/tests/fuzz/*_fuzz)
  ((${#targets[@]})) || die "no fuzz target was built"
  for target in "${targets[@]}"; do
    local name corpus
    name=$(basename "$target")
    corpus=build/fuzz/corpus/$name
    local seeds=(tests/fuzz/corpus/"$name"/)
    mkdir -p "$corpus" build/fuzz/artifacts
    step "Fuzzing $name for $seconds s"
    "$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 \
      -artifact_prefix="build/fuzz/artifacts/$name-" "$corpus" "${seeds[@]}"
  done
  step "No target found a fault (${#targets[@]} targets, $seconds s each)"
}

bench() {
  set_up test
  build
  step "Kernels, as a share of the read bandwidth probed in the same process"
  "$RELEASE/benchmarks/kernel_benchmark"
  step "Tokenizer against the library tokenizers, one thread"
  "$VENV/bin/python" benchmarks/tokenizer_speed.py --tokenizer "$RELEASE/official-tokenizer" \
    --benchmark "$RELEASE/benchmarks/tokenizer_benchmark"
  step "deepinfer bench -m tiny"
  "$RELEASE/apps/deepinfer" bench -m tiny
}

# Tracked files and new ones that git does not ignore; generated tables (*.inc) are left alone.
project_files() { git ls-files --cached --others --exclude-standard -- "$@"; }

existing() {
  local path
  while read -r path; do
    if [[ -f $path ]]; then printf '%s\n' "$path"; fi
  done
}

format() {
  local clang_mode=(--dry-run -Werror) ruff_check=() ruff_format=(--check) files
  if [[ ${1:-} == --fix ]]; then
    clang_mode=(-i)
    ruff_check=(--fix)
    ruff_format=()
  fi
  ensure_debian "${FORMAT_PACKAGES[@]}" python3-venv
  ensure_python lint
  mapfile -t files < <(project_files '*.cc' '*.h' | existing)
  step "clang-format-19: ${#files[@]} files"
  printf '%s\0' "${files[@]}" | xargs -0 -r -n 50 -P "$JOBS" clang-format-19 "${clang_mode[@]}"
  step "ruff: check and format"
  "$VENV/bin/ruff" check "${ruff_check[@]}" .
  "$VENV/bin/ruff" format "${ruff_format[@]}" .
}

# The C++ sources to check for `tidy $1`: those changed since the base, or all; files of the newest
# commits come first. A changed header stands for the source of the same name.
tidy_files() {
  local base=${1:-}
  if [[ -z $base ]]; then
    base=$(git merge-base HEAD origin/main 2>/dev/null || true)
    if [[ -z $base || $base == "$(git rev-parse HEAD 2>/dev/null)" ]]; then base=HEAD~1; fi
  fi
  {
    if [[ $base != all ]] && git rev-parse -q --verify "$base^{commit}" >/dev/null; then
      git diff --name-only --diff-filter=d "$base"
      git ls-files --others --exclude-standard
    else
      project_files
    fi
  } | sed 's/\.h$/.cc/' | grep -E '^(src|apps|python/bindings)/.*\.cc$' | existing | sort -u >build/tidy.files
  { git log --name-only --format= 2>/dev/null || true; } | awk '!seen[$0]++' |
    grep -xF -f build/tidy.files || true
}

tidy() {
  local seconds=${DEEPINFER_TIDY_SECONDS:-0} checked=0 files failed
  ensure_debian "${TIDY_PACKAGES[@]}"
  set_up
  mapfile -t files < <(tidy_files "$@")
  # Files that no commit knows yet come last.
  mapfile -t -O "${#files[@]}" files < <(grep -vxF -f <(printf '%s\n' "${files[@]:-/}") build/tidy.files)
  # Only what this build compiles has an entry in the compilation database.
  local database=$RELEASE/compile_commands.json known=() file
  for file in "${files[@]}"; do
    if grep -qF "\"$PWD/$file\"" "$database"; then known+=("$file"); fi
  done
  step "clang-tidy-19: ${#known[@]} changed files"
  ((${#known[@]})) || return 0
  failed=$(mktemp)
  local started=$SECONDS
  while ((checked < ${#known[@]})); do
    if ((seconds > 0 && SECONDS - started >= seconds)); then break; fi
    local batch=("${known[@]:checked:JOBS}")
    note "${batch[*]}"
    printf '%s\0' "${batch[@]}" | xargs -0 -n 1 -P "$JOBS" clang-tidy-19 --quiet -p "$RELEASE" \
      --extra-arg=-Wno-unknown-warning-option 2> >(grep -vE 'warnings? generated' >&2) ||
      printf '%s\n' "${batch[@]}" >>"$failed"
    checked=$((checked + ${#batch[@]}))
  done
  note "$checked of ${#known[@]} files checked in $((SECONDS - started)) s"
  if ((checked < ${#known[@]})); then
    note "the bound of $seconds s was reached: the oldest $((${#known[@]} - checked)) were not"
  fi
  if [[ -s $failed ]]; then
    rm -f "$failed"
    die "clang-tidy found faults"
  fi
  rm -f "$failed"
}

case "${1:-build}" in
  build)
    set_up
    build
    step "Built: $RELEASE/apps/deepinfer and the Python package in $RELEASE/python"
    ;;
  run)
    set_up
    build deepinfer_main_job
    run_main_job
    ;;
  test)
    set_up test
    build
    run_tests release "${@:2}"
    ;;
  bench) bench ;;
  format) format "${@:2}" ;;
  tidy)
    mkdir -p build
    tidy "${@:2}"
    ;;
  fuzz) fuzz "${@:2}" ;;
  asan | tsan) sanitize "$1" ;;
  clean) rm -rf build ;;
  help | -h | --help) usage ;;
  *)
    usage >&2
    die "unknown word '$1'" 2
    ;;
esac
