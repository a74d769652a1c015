// Words that bench texts are made of, the most frequent first. Written for this purpose by hand;
// only their lengths, scripts and rough order matter.
#pragma once

#include <string_view>

namespace tessera::bench {

// Lists of words separated by blanks.
std::string_view english_words();    // as they are: function words first, then common nouns...
std::string_view english_stems();    // rarer words; endings are put on them
std::string_view chinese_words();    // words of one to four characters
std::string_view chinese_letters();  // common characters, from which rare words are put together
std::string_view code_words();       // parts of identifiers

}  // namespace tessera::bench
