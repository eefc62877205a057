#!/usr/bin/env bash
# Proves the two commands of the README on a bare Debian 12: bootstraps one into a folder, puts a
# fresh clone of this repository into it, runs `./build.sh run` and `./build.sh test` there, and
# prints the time each took. Needs root and debootstrap, about 4 GB of disk and the network.
#
#   tools/fresh_debian.sh [FOLDER]        default: a new folder under ${TMPDIR:-/tmp}
#
# Environment: KEEP=1 leaves the folder (unmounted) for a look; WORDS="run test" are the words of
# build.sh to run; CLONE_FROM names another repository or worktree to clone (its last commit).
#
# The host's own way to packages is used and written nowhere: its apt sources, keys and settings,
# resolver, pip configuration, certificates and proxy variables go into the folder.
set -euo pipefail

readonly SUITE=bookworm
repository=$(git -C "$(dirname "${BASH_SOURCE[0]}")" rev-parse --show-toplevel)
readonly CLONE_FROM="${CLONE_FROM:-$repository}"
readonly WORDS="${WORDS:-run test}"

((EUID == 0)) || { echo "fresh_debian.sh: must be root (chroot and mounts)" >&2; exit 1; }
command -v debootstrap >/dev/null || {
  echo "fresh_debian.sh: debootstrap is missing: apt-get install -y debootstrap" >&2
  exit 1
}

made_root=
if (($#)); then
  mkdir -p "$1"
  root=$(cd "$1" && pwd)
  [[ $root != / && -z $(ls -A "$root") ]] || {
    echo "fresh_debian.sh: $root must be an empty folder" >&2
    exit 1
  }
else
  root=$(mktemp -d "${TMPDIR:-/tmp}/fresh-debian.XXXXXX")
  made_root=$root
fi
readonly root made_root

mounts=()
clean_up() {
  local status=$? index still=
  ((status == 0)) || echo "fresh_debian.sh: failed (exit $status)" >&2
  for ((index = ${#mounts[@]} - 1; index >= 0; --index)); do
    umount "${mounts[index]}" 2>/dev/null || umount -l "${mounts[index]}" || still=1
  done
  # Never delete through a mount: proc, sys and dev are the host's.
  if [[ -n $still ]] || grep -q " $root/" /proc/mounts; then
    echo "fresh_debian.sh: something is still mounted below $root, leaving it" >&2
  elif [[ -z ${KEEP:-} ]]; then
    rm -rf --one-file-system "${root:?}"/* "${root:?}"/.[!.]* 2>/dev/null || true
    if [[ -n $made_root ]]; then rmdir "$root" || true; fi
  else
    echo "fresh_debian.sh: kept $root" >&2
  fi
  exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

step() { printf '\n=== %s\n' "$*"; }
declare -A seconds
timed() {
  local name=$1 started=$SECONDS
  shift
  "$@"
  seconds[$name]=$((SECONDS - started))
}

# The first Debian mirror of the host's apt sources, in either of apt's two file formats.
mirror() {
  cat /etc/apt/sources.list /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list \
    2>/dev/null | awk '
      /^URIs:/ { url = $2 }
      /^deb / { url = ($2 ~ /^\[/) ? $0 : $2; sub(/^deb +\[[^]]*\] +/, "", url); sub(/ .*/, "", url) }
      url ~ /\/debian\/?$/ { print url; exit }'
}

step "Bootstrapping Debian ($SUITE, minbase) into $root"
url=$(mirror || true)  # none: debootstrap's own default
timed debootstrap debootstrap --variant=minbase "$SUITE" "$root" ${url:+"$url"}

step "Taking over the host's way to packages"
copy() { # copy PATH...: into the same place below the root, links followed
  local path
  for path in "$@"; do
    [[ -e $path ]] || continue
    mkdir -p "$root$(dirname "$path")"
    rm -rf "${root:?}$path"
    cp -rL "$path" "$root$path"
  done
}
copy /etc/resolv.conf /etc/hosts /etc/pip.conf /root/.config/pip /root/.pip/pip.conf
# apt: the host's sources, keys, access settings; not settings of other programs.
rm -f "$root/etc/apt/sources.list"
copy /etc/apt/sources.list /etc/apt/sources.list.d /etc/apt/trusted.gpg.d /etc/apt/keyrings \
  /etc/apt/auth.conf /etc/apt/auth.conf.d /usr/share/keyrings
for file in /etc/apt/apt.conf /etc/apt/apt.conf.d/*; do
  if [[ -f $file ]] && grep -qiE 'proxy|Acquire|Verify-' "$file"; then copy "$file"; fi
done
# Certificates: an inspecting proxy's root is in the host's bundle. When the package
# ca-certificates comes in, it makes the bundle anew, from the local folder too.
copy /etc/ssl/certs/ca-certificates.crt /usr/local/share/ca-certificates
kept_variables=()
while IFS='=' read -r -d '' name value; do
  case "${name,,}" in
    http_proxy | https_proxy | ftp_proxy | all_proxy | no_proxy) kept_variables+=("$name=$value") ;;
    pip_index_url | pip_extra_index_url | pip_cert | pip_trusted_host | pip_default_timeout | \
      ssl_cert_file | requests_ca_bundle | curl_ca_bundle) kept_variables+=("$name=$value") ;;
  esac
done < <(env -0)

step "Cloning the repository into it"
git clone -q --no-hardlinks "$CLONE_FROM" "$root/root/deepinfer"
git -C "$root/root/deepinfer" log -1 --format='commit %h: %s'
# The clone's origin is a path that means nothing inside.
git -C "$root/root/deepinfer" remote remove origin

for folder in proc sys dev dev/pts dev/shm; do
  [[ -d /$folder ]] || continue
  mkdir -p "$root/$folder"
  mount --bind "/$folder" "$root/$folder"
  mounts+=("$root/$folder")
done

inside() {
  chroot "$root" /usr/bin/env -i HOME=/root TERM="${TERM:-dumb}" LANG=C.UTF-8 \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "${kept_variables[@]}" "$@"
}

for word in $WORDS; do
  step "./build.sh $word"
  timed "./build.sh $word" inside bash -c "cd /root/deepinfer && ./build.sh $word </dev/null"
done

step "Times on $(nproc) cores"
for name in debootstrap ${WORDS// /$'\n'}; do
  key=$name
  [[ $name == debootstrap ]] || key="./build.sh $name"
  printf '%-20s %d min %02d s\n' "$key" $((${seconds[$key]} / 60)) $((${seconds[$key]} % 60))
done
