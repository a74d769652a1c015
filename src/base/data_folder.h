// Where the files lie that are shipped with the program: the demo model, published configurations,
// shapes of benchmarks. Looked at in this order:
//
//   $TESSERA_SHARE                  if it is set, and then nothing else
//   share/tessera beside the binary a build tree, an unpacked archive
//   ../share/tessera                an installation: PREFIX/bin and PREFIX/share/tessera
//
// "Beside" starts from the real path of the binary. No path is fixed when the program is built, so
// an installation and a build tree can be moved.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

struct DataPlaces {
  std::string share;           // TESSERA_SHARE; empty: not set
  std::string program_folder;  // of the binary, links resolved; empty: not known
};

// Of this process.
DataPlaces data_places();

// The folders that are looked at, in order.
std::vector<std::string> data_folders(const DataPlaces& places);

// The real path of the file or folder `name` ("models/demo") in the first folder that has it.
// Throws Error{bad_file} that names the folders and says to give `instead` ("--model DIR"), or what
// is wrong with TESSERA_SHARE.
std::string find_data(const DataPlaces& places, std::string_view name, std::string_view instead);

}  // namespace tessera
