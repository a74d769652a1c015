#!/bin/bash
# check_isa_objects.sh BUILD_DIR: no weak function may come out of a file compiled for AVX2 or
# AVX-512. The linker keeps one copy of a weak function for the whole program; if that copy uses
# AVX-512, code meant for every x86-64 crashes on an older processor.
set -euo pipefail

build=${1:?usage: check_isa_objects.sh BUILD_DIR}
commands=$build/compile_commands.json
if [ ! -f "$commands" ]; then
  echo "$commands:1: missing; configure the build first (./x build)"
  exit 1
fi

objects=0
missing=0
offences=0
# The list of the current build, so that objects of deleted sources do not count.
while IFS= read -r output; do
  object=$build/$output
  if [ ! -f "$object" ]; then
    missing=$((missing + 1))
    continue
  fi
  objects=$((objects + 1))
  # Columns: name | value | class | type | size | line | section. Names may contain bars.
  weak=$(nm -C --defined-only --format=sysv "$object" | awk -F'|' '
    NF >= 7 && $(NF-4) ~ /[WwVvu]/ && $(NF-3) ~ /FUNC/ {
      name = $1
      for (i = 2; i <= NF - 6; ++i) name = name "|" $i
      sub(/ +$/, "", name)
      print length(name) > 120 ? substr(name, 1, 117) "..." : name
    }')
  if [ -n "$weak" ]; then
    while IFS= read -r name; do
      echo "$output:1: weak function $name; make it static or always_inline, or do not include it"
      offences=$((offences + 1))
    done <<<"$weak"
  fi
done < <(sed -n 's/.* -o \([^ ]*\.o\) -c .*/\1/p' "$commands" |
         grep -E '(^|/)[^/]*avx(2|512)[^/]*\.cc\.o$' | grep -v '_\(test\|bench\)\.cc\.o$')

if [ "$offences" -gt 0 ]; then
  echo "check_isa_objects: FAILED: $offences offence(s) in $objects objects"
  exit 1
fi
note=
if [ "$missing" -gt 0 ]; then
  note=", $missing not built yet"
fi
echo "check_isa_objects: OK: $objects objects$note"
