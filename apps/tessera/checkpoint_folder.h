// What commands that write a checkpoint folder share.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace tessera {

// Both are the folder itself when empty paths mean the current one; false if one does not exist.
bool is_same_folder(const std::filesystem::path& a, const std::filesystem::path& b);

// Throws Error{io} that names both numbers when the file system of `folder` (which need not exist
// yet) has less than `needed` bytes; `reusable` bytes of it will be replaced. `advice` ends the
// message.
void require_space(const std::string& folder, int64_t needed, int64_t reusable,
                   std::string_view advice);

std::string read_whole_file(const std::string& path);
// Complete or not at all.
void write_whole_file(const std::string& path, std::string_view text);

}  // namespace tessera
