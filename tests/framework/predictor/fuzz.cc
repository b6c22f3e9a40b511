// Changes sealed exports, metadata of pictures and tokenizers at random, and reads them, for sanitizers to watch:
//
//   fuzz SEEDS COUNT [SEED]
//
// SEEDS is a folder that tests/framework/predictor/fuzz.py has made; that script builds and runs this program too.
// Prints how many of each kind were read and refused. A refusal is FileError, Error or std::invalid_argument; anything
// else, and a changed seal that opens, ends the program with status 1.
#include <sys/stat.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <sstream>
#include <vector>

#include "core/error.h"
#include "image/heatmaps.h"
#include "image/rows.h"
#include "op/op.h"
#include "predictor/pictures/prepared.h"
#include "predictor/rows/prepared.h"
#include "predictor/rows/sha256.h"
#include "predictor/sealing/opening.h"
#include "predictor/texts/sequences.h"
#include "predictor/texts/tokenizer.h"

namespace paddock {
// Of operators nothing is linked; masks are not pasted here.
OpDef& find_op(std::string_view) { fail(ErrorKind::kNotSupported, "no operators here"); }
std::vector<Tensor> run_op(const OpDef&, const std::vector<Tensor>&, const std::vector<AttrValue>&) { return {}; }
int OpDef::attr_index(std::string_view) const { return -1; }
}  // namespace paddock

namespace {

namespace fs = std::filesystem;
using namespace paddock;
using pictures::PreparedPictures;

std::mt19937_64 random_bits;
size_t below(size_t n) { return n ? random_bits() % n : 0; }

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

// Bytes changed, cut out, doubled, put in; numbers and quotes among them, so that JSON often stays JSON.
std::string changed(std::string text) {
  static const char* words[] = {"0", "-1", "999999999999", "1e400", "null", "[]", "{}", "\"\"", "true",
                                "2", ",",  "\"a\"",        "NaN",   "65536"};
  for (size_t times = 1 + below(4); times; --times) {
    const size_t at = below(text.size() + 1), size = std::min(below(9), text.size() - at);
    switch (below(6)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 1:
        text.erase(at, size);
        break;
      case 2:
        text.insert(at, text.substr(at, size));
        break;
      case 3:
        text.resize(at);
        break;
      default: {  // a number or a word becomes another
        const size_t digit = text.find_first_of("0123456789\"tfn", at);
        if (digit != text.npos) {
          const size_t end = text.find_first_of(",]}:\n ", digit + 1);
          text.replace(digit, std::min(end, text.size()) - digit, words[below(std::size(words))]);
        }
      }
    }
  }
  return text;
}

std::map<std::string, std::pair<long, long>> counts;  // read, refused

template <class F>
bool tried(const std::string& kind, F&& f) {
  try {
    f();
    ++counts[kind].first;
    return true;
  } catch (const predictor::FileError&) {
  } catch (const Error&) {
  } catch (const std::invalid_argument&) {
  }
  ++counts[kind].second;
  return false;
}

void open(const fs::path& folder, const std::string& secret) {
  sealing::OpeningKeys keys;
  keys.decrypt = sealing::key_of_bytes(secret.data(), secret.size());
  // Without its owner's key a signature can be taken off, as in Python.
  if (fs::path(folder).filename() != "encrypted")
    keys.verify = sealing::key_of_text(folder / ".." / ".." / "owner.pub.pem");
  sealing::open_sealed(folder, keys, {});
}

void fuzz_seal(const fs::path& folder, const std::string& secret) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  const fs::path path = files[below(files.size())];
  const std::string whole = read(path), other = changed(whole);
  if (other == whole) return;
  write(path, other);
  const bool is_open = tried("seal", [&] { open(folder, secret); });
  write(path, whole);
  // Spaces and the like in a seal.json that is not signed change nothing.
  if (is_open && (fs::exists(folder / "seal.sig") || path.filename() != "seal.json")) {
    std::fprintf(stderr, "fuzz: a changed %s was opened\n", path.c_str());
    std::exit(1);
  }
}

void fuzz_text(const std::string& text, const std::string& shown) {
  const std::string other = changed(text);
  tried("tokenizer", [&] {
    const predictor::JsonDocument document(other);
    const auto* kind = document.root().find("kind");
    const auto made =
        kind ? texts::TextTokenizer::of_metadata(document.root()) : texts::TextTokenizer::of_json(document.root());
    made->encode(shown);
  });
}

void fuzz_encode(const texts::TextTokenizer& tokenizer, const std::string& shown) {
  tried("text", [&] { tokenizer.encode(changed(shown)); });
}

std::string base64(const std::string& bytes) {
  static const char* digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; ++k)
      bits = bits << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; ++k) text += i + k > bytes.size() ? '=' : digits[bits >> (18 - 6 * k) & 63];
  }
  return text;
}

// A table of characters; units are changed as a whole too, so that steps lead elsewhere.
void fuzz_charsmap(std::string table, const std::string& shown) {
  for (size_t times = below(4); times; --times) {
    const uint32_t unit =
        below(2) ? static_cast<uint32_t>(random_bits()) : static_cast<uint32_t>(below(table.size()) << 10);
    std::memcpy(table.data() + 4 + below(table.size() / 4 - 2) * 4, &unit, sizeof unit);
  }
  if (below(2)) table = changed(std::move(table));
  const std::string text =
      R"({"model": {"type": "WordLevel", "vocab": {"<unk>": 0}, "unk_token": "<unk>"}, "normalizer":)"
      R"({"type": "Precompiled", "precompiled_charsmap": ")" +
      base64(table) + "\"}}";
  tried("charsmap", [&] {
    const predictor::JsonDocument document(text);
    const auto made = texts::TextTokenizer::of_json(document.root());
    made->encode(shown);
    try {
      made->encode(changed(shown));
    } catch (const Error&) {  // no UTF-8
    }
  });
}

void fuzz_pictures(const std::string& text) {
  const std::string other = changed(text);
  tried("metadata", [&] {
    const predictor::JsonDocument document(other);
    const int height = 1 + static_cast<int>(below(40)), width = 1 + static_cast<int>(below(40));
    const std::vector<uint8_t> pixels(static_cast<size_t>(height * width) * 3, 7);
    const pictures::GivenPicture picture{height, width, 3 * width, pixels.data()};
    const auto prepared = [&] {
      if (text.find("ObjectCrop") == text.npos || below(2))
        return PreparedPictures(document.root(), 1 << 16, {picture});
      std::vector<std::array<float, 4>> boxes(1 + below(3));
      for (auto& box : boxes)
        for (float& v : box) v = std::ldexp(static_cast<float>(below(200)) - 99, static_cast<int>(below(30)) - 8);
      return PreparedPictures(document.root(), 1 << 16, picture, boxes);
    };
    const PreparedPictures made = prepared();
    std::vector<float> boxes(8, 3.f);
    made.boxes_back(0, boxes.data(), 2, boxes.data());
    made.points_back(0, boxes.data(), 4, boxes.data());
    std::vector<uint8_t> labels(36, 1), back(pixels.size() / 3);
    made.labels_back(0, labels.data(), 6, 6, back.data());
  });
}

// A line of a slot log, mostly one that is read.
std::string slot_line() {
  static const std::string pieces[] = {"item:3", "tags:1", "tags:x", "price:2.5", "price:dear", "other:1", "user:7",
                                       ":",      "6:",     ":6",     "\xff:1",    "\t",         "é:é",     "liked:2"};
  std::string line = below(8) ? "1" : "";
  for (size_t times = below(5); times; --times) line += " " + pieces[below(4) ? below(5) : below(std::size(pieces))];
  return below(4) ? line : changed(line);
}

void fuzz_heatmaps() {
  const auto side = [] { return static_cast<int64_t>(below(9)); };
  const int64_t height = side(), width = side(), count = side();
  std::vector<float> maps(static_cast<size_t>(height * width * count)), points(16), scores(8);
  static const float odd[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 1e-45f};
  for (float& v : maps) v = below(20) ? static_cast<float>(below(1000)) / 999 : odd[below(std::size(odd))];
  static const double sizes[] = {0.1, 1, 2, 4096, 0, -1, 1e300, NAN};
  const double stride = sizes[below(4) ? below(4) : below(std::size(sizes))], sigma = sizes[below(3) ? below(3) : 3];
  tried("heatmaps", [&] {
    image::decode_heatmaps({maps.data(), height, width, count}, stride, sigma, points.data(), scores.data());
    for (size_t k = 0; k < static_cast<size_t>(2 * count); ++k)
      if (!std::isfinite(points[k])) std::abort();  // whatever the maps hold
  });
}

// The reader of rows that metadata state, the list of published rows and the header of a file of them.
void fuzz_rows(const fs::path& folder, const std::string& metadata) {
  const fs::path list = folder / "rows" / "rows.json";
  const std::string listed = read(list);
  fs::path base;
  for (const auto& entry : fs::directory_iterator(folder / "rows"))
    if (entry.path().extension() == ".base") base = entry.path();
  const std::string whole = read(base);
  std::string text = metadata;
  const size_t kind = below(4);  // of 3 nothing but the rows is drawn
  if (kind == 0) text = changed(metadata);
  if (kind == 1) write(list, changed(listed));
  if (kind == 2) {
    uint32_t length;
    std::memcpy(&length, whole.data() + 12, sizeof length);
    std::string header = changed(whole.substr(48, length));
    if (below(2)) header.resize(length, ' ');
    const auto size = static_cast<uint32_t>(header.size());
    const auto digest = rows::sha256(header);
    std::string other = whole.substr(0, 12) + std::string(reinterpret_cast<const char*>(&size), 4);
    other += std::string(reinterpret_cast<const char*>(digest.data()), digest.size()) + header;
    other += std::string(length > size ? length - size : 0, '\0') +
             whole.substr(std::max<size_t>(48 + length, other.size()));
    write(base, other);
  }
  tried("rows", [&] {
    const predictor::JsonDocument document(text);
    const auto plan = rows::row_plan(document.root(), folder, {});
    static const std::string cells[] = {"", "1", "-7.5", "a|b", "3.4.2024", "1e30", "x", "i1|i2|i3|i4|i5"};
    std::vector<std::string_view> given(plan.takes_lines() ? 3 : plan.columns.size() * 3);
    std::vector<std::string> lines(plan.takes_lines() ? 3 : 0);
    for (auto& cell : given) cell = cells[below(4) ? 0 : below(std::size(cells))];  // mostly rows that are read
    for (size_t i = 0; i < lines.size(); ++i) given[i] = lines[i] = slot_line();
    if (!given.empty()) rows::PreparedRows(plan, given, 3).input("sparse");
  });
  if (kind == 1) write(list, listed);
  if (kind == 2) write(base, whole);
}

}  // namespace

extern "C" const paddock::image::PictureRows& paddock_picture_rows();

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  image::set_picture_rows(paddock_picture_rows());
  const fs::path seeds = argv[1];
  random_bits.seed(argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 0);
  std::vector<std::string> tokenizers, metadata, charsmaps;
  for (const auto& entry : fs::directory_iterator(seeds / "charsmaps")) charsmaps.push_back(read(entry.path()));
  for (const auto& entry : fs::directory_iterator(seeds / "tokenizers")) tokenizers.push_back(read(entry.path()));
  for (const auto& entry : fs::directory_iterator(seeds / "metadata")) metadata.push_back(read(entry.path()));
  std::vector<std::unique_ptr<texts::TextTokenizer>> whole;
  for (const auto& text : tokenizers) {
    const predictor::JsonDocument document(text);
    whole.push_back(document.root().find("kind") ? texts::TextTokenizer::of_metadata(document.root())
                                                 : texts::TextTokenizer::of_json(document.root()));
  }
  const std::string slots = read(seeds / "slots");
  const std::string clicks = read(seeds / "clicks"), secret = read(seeds / "secret"), shown = read(seeds / "text");
  std::vector<fs::path> sealed;
  for (const auto& entry : fs::directory_iterator(seeds / "sealed")) sealed.push_back(entry.path());
  for (const auto& folder : sealed) open(folder, secret);
  for (long i = std::strtol(argv[2], nullptr, 10); i > 0; --i) {
    fuzz_seal(sealed[below(sealed.size())], secret);
    fuzz_text(tokenizers[below(tokenizers.size())], shown);
    fuzz_encode(*whole[below(whole.size())], shown);
    fuzz_pictures(metadata[below(metadata.size())]);
    fuzz_charsmap(charsmaps[below(charsmaps.size())], shown);
    fuzz_rows(seeds, clicks);
    fuzz_rows(seeds, slots);
    fuzz_heatmaps();
  }
  for (const auto& [kind, found] : counts)
    std::printf("%s: %ld read, %ld refused\n", kind.c_str(), found.first, found.second);
}
