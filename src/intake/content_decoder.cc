#include "intake/content_decoder.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <new>
#include <string>

#include "base/ascii.h"

namespace tessera::intake {
namespace {

// Window sizes as inflateInit2() has them.
constexpr int kGzipWindow = 16 + MAX_WBITS;
constexpr int kZlibWindow = MAX_WBITS;
constexpr int kBareWindow = -MAX_WBITS;

// RFC 1950 section 2.2: the method is 8 and the two bytes are a multiple of 31.
bool is_zlib_header(std::string_view bytes) {
  const unsigned first = static_cast<unsigned char>(bytes[0]);
  const unsigned second = static_cast<unsigned char>(bytes[1]);
  return (first & 15U) == 8 && (first * 256 + second) % 31 == 0;
}

}  // namespace

std::optional<ContentCoding> parse_content_coding(std::string_view value) {
  if (value.empty() || is_equal_in_any_case(value, "identity")) {
    return ContentCoding::identity;
  }
  if (is_equal_in_any_case(value, "gzip") || is_equal_in_any_case(value, "x-gzip")) {
    return ContentCoding::gzip;
  }
  if (is_equal_in_any_case(value, "deflate")) {
    return ContentCoding::deflate;
  }
  return std::nullopt;
}

struct ContentDecoder::Inflater {
  Inflater() = default;
  ~Inflater() {
    if (is_started) {
      inflateEnd(&stream);
    }
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  void start(int window) {
    if (inflateInit2(&stream, window) != Z_OK) {
      throw std::bad_alloc();
    }
    is_started = true;
  }

  z_stream stream{};
  bool is_started = false;
  bool is_at_end = false;
  std::string start_bytes;  // kept until there are enough of them to tell the form
};

ContentDecoder::ContentDecoder(ContentCoding coding, int64_t max_bytes)
    : coding_(coding), max_bytes_(max_bytes) {
  if (coding != ContentCoding::identity) {
    inflater_ = std::make_unique<Inflater>();
  }
  if (coding == ContentCoding::gzip) {
    inflater_->start(kGzipWindow);
  }
}

ContentDecoder::~ContentDecoder() = default;

void ContentDecoder::expect(int64_t bytes) {
  decoded_.reserve(static_cast<size_t>(std::clamp<int64_t>(bytes, 0, max_bytes_)));
}

ContentDecoder::Status ContentDecoder::push(std::string_view data) {
  if (coding_ == ContentCoding::identity) {
    return append(data.data(), data.size());
  }
  if (inflater_->is_started) {
    return inflate(data);
  }
  inflater_->start_bytes += data;
  if (inflater_->start_bytes.size() < 2) {
    return Status::ok;
  }
  inflater_->start(is_zlib_header(inflater_->start_bytes) ? kZlibWindow : kBareWindow);
  return inflate(std::exchange(inflater_->start_bytes, {}));
}

bool ContentDecoder::is_whole() const { return inflater_ == nullptr || inflater_->is_at_end; }

ContentDecoder::Status ContentDecoder::append(const void* data, size_t bytes) {
  if (static_cast<int64_t>(decoded_.size() + bytes) > max_bytes_) {
    return Status::too_large;
  }
  const auto* begin = static_cast<const std::byte*>(data);
  decoded_.insert(decoded_.end(), begin, begin + bytes);
  return Status::ok;
}

ContentDecoder::Status ContentDecoder::inflate(std::string_view data) {
  z_stream& stream = inflater_->stream;
  // zlib does not write to its input, but its type says so.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  std::array<Bytef, 16384> block;
  do {
    if (inflater_->is_at_end) {
      return stream.avail_in == 0 ? Status::ok : Status::corrupt;
    }
    stream.next_out = block.data();
    stream.avail_out = static_cast<uInt>(block.size());
    const int code = ::inflate(&stream, Z_NO_FLUSH);
    if (code == Z_MEM_ERROR) {
      throw std::bad_alloc();
    }
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
      return Status::corrupt;
    }
    inflater_->is_at_end = code == Z_STREAM_END;
    const Status status = append(block.data(), block.size() - stream.avail_out);
    if (status != Status::ok) {
      return status;
    }
  } while (stream.avail_in > 0 || stream.avail_out == 0);
  return Status::ok;
}

}  // namespace tessera::intake
