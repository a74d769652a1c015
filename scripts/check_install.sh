#!/bin/bash
# check_install.sh BUILD_DIR: installs a complete release build in several ways below a temporary
# folder, moves the trees about, makes the packages, and asks each program about a shipped picture.
# One line per check that fails; exit status 1 when there is one.
set -euo pipefail

if [ ! -f "${1:-}/CMakeCache.txt" ]; then
  echo "usage: check_install.sh BUILD_DIR (a folder in which everything is built)" >&2
  exit 2
fi
build=$(cd "$1" && pwd)
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
checks=0
failed=0

# check WHAT COMMAND...: the command must succeed.
check() {
  checks=$((checks + 1))
  if ! "${@:2}" >"$work/log" 2>&1; then
    echo "$1: $(tail -1 "$work/log")"
    failed=$((failed + 1))
  fi
}

# bare PROGRAM ARGUMENTS...: without any environment, away from the source tree.
bare() (
  cd /
  exec env -i "$@"
)

# answers SHARE PROGRAM [NAME=VALUE...]: the program finds its demo model at SHARE.
answers() {
  local share=$1 program=$2 answer
  answer=$(bare "${@:3}" "$program" run --quiet --image \
    "$share/models/demo/eval/images/p019.jpg" "Count the carrots.") || return 1
  [ "$answer" = Four. ] || { echo "answer '$answer', expected 'Four.'"; return 1; }
  bare "${@:3}" "$program" inspect --json >"$work/inspect.json" || return 1
  grep -qF "\"model\":\"$(readlink -f "$share")/models/demo\"" "$work/inspect.json" ||
    { echo "another model than that of $share: $(head -c 200 "$work/inspect.json")"; return 1; }
}

# refuses PART PROGRAM [NAME=VALUE...]: status 2 and one line that has PART.
refuses() {
  local status=0
  bare "${@:3}" "$2" run --quiet hello >"$work/out" 2>"$work/err" || status=$?
  [ "$status" = 2 ] && [ "$(wc -l <"$work/err")" = 1 ] && grep -qF -- "$1" "$work/err" ||
    { echo "status $status: $(head -3 "$work/err")"; return 1; }
}

# A tree PREFIX is complete, readable by everybody, and knows nothing of this machine's folders.
check_tree() {
  local prefix=$1 path
  for path in bin/tessera share/tessera/configs share/tessera/shapes share/doc/tessera/README.md; do
    check "$path" test -e "$prefix/$path"
  done
  check "files that others cannot read" test -z "$(find "$prefix" ! -type l ! -perm -o=r)"
  check "paths of the build in $prefix" test -z "$(grep -rlF -e "$source/" -e "$build/" "$prefix")"
}

check_prefix() {
  check "cmake --install" cmake --install "$build" --prefix "$work/first"
  check_tree "$work/first"
  check "installed" answers "$work/first/share/tessera" "$work/first/bin/tessera"
  mv "$work/first" "$work/moved away"
  local prefix="$work/moved away"
  check "moved" answers "$prefix/share/tessera" "$prefix/bin/tessera"
  ln -s "$prefix/bin/tessera" "$work/link"
  check "started by a link" answers "$prefix/share/tessera" "$work/link"
  mkdir -p "$work/flat/share"
  cp "$prefix/bin/tessera" "$work/flat/"
  cp -R "$prefix/share/tessera" "$work/flat/share/"
  check "data beside the program" answers "$work/flat/share/tessera" "$work/flat/tessera"
  check "TESSERA_SHARE" answers "$work/flat/share/tessera" "$prefix/bin/tessera" \
    "TESSERA_SHARE=$work/flat/share/tessera"
  check "wrong TESSERA_SHARE" refuses "TESSERA_SHARE=$work/nowhere: no such folder" \
    "$prefix/bin/tessera" "TESSERA_SHARE=$work/nowhere"
  mkdir -p "$work/alone/bin"
  cp "$prefix/bin/tessera" "$work/alone/bin/"
  check "no data" refuses "models/demo: not found in $work/alone/bin/share/tessera" \
    "$work/alone/bin/tessera"
  check_generated "$prefix"
}

# Manual pages for every command; completions that complete.
check_generated() {
  local prefix=$1 page
  if [ -d "$build/completions" ]; then
    mkdir "$work/completions"
    cp "$prefix/share/bash-completion/completions/tessera" "$prefix/share/zsh/site-functions/_tessera" \
      "$work/completions/"
    check completions python3 "$source/scripts/check_completions.py" "$prefix/bin/tessera" \
      "$work/completions"
  else
    echo "check_install: not checked: completions (made without Python 3)"
  fi
  if [ -d "$build/manual" ]; then
    while read -r page; do
      check "manual page $page.1" gzip -t "$prefix/share/man/man1/$page.1.gz"
    done < <(python3 "$source/scripts/cli_help.py" "$prefix/bin/tessera" | tr ' ' -)
  else
    echo "check_install: not checked: manual pages (made without help2man)"
  fi
}

check_destdir() {
  check "DESTDIR" env "DESTDIR=$work/stage" cmake --install "$build" --prefix /usr
  check "installed with DESTDIR" answers "$work/stage/usr/share/tessera" "$work/stage/usr/bin/tessera"
}

check_archive() {
  check "cpack -G TGZ" cpack -G TGZ --config "$build/CPackConfig.cmake" -B "$work/tgz"
  mkdir "$work/unpacked"
  check "unpack" tar -xzf "$(echo "$work"/tgz/*.tar.gz)" -C "$work/unpacked" --strip-components=1
  check_tree "$work/unpacked"
  check "unpacked" answers "$work/unpacked/share/tessera" "$work/unpacked/bin/tessera"
}

check_debian_package() {
  local package
  if ! command -v dpkg-shlibdeps >/dev/null; then
    echo "check_install: not checked: Debian package (no dpkg-shlibdeps here)"
    return
  fi
  check "cpack -G DEB" cpack -G DEB --config "$build/CPackConfig.cmake" -B "$work/deb"
  check "cpack -G DEB again" cpack -G DEB --config "$build/CPackConfig.cmake" -B "$work/deb2"
  package=$(echo "$work"/deb/*.deb)
  check "same package twice" cmp "$package" "$work/deb2/$(basename "$package")"
  check "package unpacks" dpkg-deb -x "$package" "$work/root"
  check_tree "$work/root/usr"
  check "from the package" answers "$work/root/usr/share/tessera" "$work/root/usr/bin/tessera"
  check "package name" test "$(dpkg-deb -f "$package" Package)" = tessera
  check "dependencies" grep -q 'libc6 (>=.*libstdc++6' <(dpkg-deb -f "$package" Depends)
}

check_prefix
check_destdir
check_archive
check_debian_package
if [ "$failed" -gt 0 ]; then
  echo "check_install: FAILED: $failed of $checks checks"
  exit 1
fi
echo "check_install: OK: $checks checks"
