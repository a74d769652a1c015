#!/usr/bin/env python3
"""Writes the Unicode 16 general-category table that the tokenizer's patterns use.

  python unicode_categories.py > src/tokenizer/unicode_categories.cc

Needs the package unicodedata2 16.0.0, or a Python whose own unicodedata is Unicode 16.
"""

import sys

try:
    import unicodedata2 as unicodedata
except ImportError:
    import unicodedata

VERSION = "16.0.0"
PER_LINE = 10
# In the order of enum class Category (src/tokenizer/unicode.h).
CATEGORIES = ("Cc Cf Cn Co Cs Ll Lm Lo Lt Lu Mc Me Mn Nd Nl No "
              "Pc Pd Pe Pf Pi Po Ps Sc Sk Sm So Zl Zp Zs").split()


def entries():
    """(first code point << 5) | category, wherever the category changes."""
    previous = None
    for code_point in range(0x110000):
        category = unicodedata.category(chr(code_point))
        if category != previous:
            yield code_point << 5 | CATEGORIES.index(category)
            previous = category


def main():
    if unicodedata.unidata_version != VERSION:
        sys.exit(f"unicodedata has Unicode {unicodedata.unidata_version}, need {VERSION}; "
                 "install unicodedata2==16.0.0")
    table = [f"0x{entry:x}," for entry in entries()]
    print(f"// General categories of Unicode {VERSION}, written by scripts/oracle/"
          "unicode_categories.py.")
    print('#include "tokenizer/unicode.h"\n\nnamespace tessera {\n')
    print("// (first code point << 5) | category; an entry holds until the next one.")
    print("// clang-format off")
    print("static constexpr uint32_t kRanges[] = {")
    for start in range(0, len(table), PER_LINE):
        print("    " + " ".join(table[start:start + PER_LINE]))
    print("};\n// clang-format on\n")
    print("std::span<const uint32_t> unicode_category_ranges() { return kRanges; }\n")
    print("}  // namespace tessera")


if __name__ == "__main__":
    main()
