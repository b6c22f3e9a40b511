// Scores rows of a click log with an exported model such as DeepFM: click EXPORTED_FOLDER ROWS
//
// ROWS is a CSV, or of a model that learnt from one a slot log, whose lines are `label slot:sign slot:sign ...`. A CSV
// has a line of names, then a row a line; values are parted by commas and hold none. Columns that the model
// does not read are left out, those that it reads and that are not there count as missing. The rows of its table lie
// beside the export. Prints the scores of each row, in the order of the model's labels.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <paddock.hpp>
#include <sstream>

namespace {

constexpr size_t kTogether = 512;  // rows in one run

std::vector<std::string> cells_of(std::string line) {
  if (!line.empty() && line.back() == '\r') line.pop_back();
  if (line.find('"') != std::string::npos) throw std::runtime_error("a quoted value; this program takes plain ones");
  std::vector<std::string> cells(1);
  for (const char c : line) {
    if (c == ',')
      cells.emplace_back();
    else
      cells.back() += c;
  }
  return cells;
}

void score(paddock::Predictor& model, const paddock::PreparedInputs& prepared, size_t rows) {
  const auto outputs = model.run(prepared.inputs());
  const float* scores = outputs[0].data<float>();
  for (size_t i = 0; i < rows; ++i) {
    const size_t labels = outputs[0].size() / rows;
    for (size_t k = 0; k < labels; ++k) std::printf("%s%.9g", k ? " " : "", scores[i * labels + k]);
    std::printf("\n");
  }
}

void score_lines(paddock::Predictor& model, std::istream& file) {
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line == "\r") continue;
    lines.push_back(line);
    if (lines.size() == kTogether) score(model, model.prepare_lines(lines), lines.size()), lines.clear();
  }
  if (!lines.empty()) score(model, model.prepare_lines(lines), lines.size());
}

void score_table(paddock::Predictor& model, std::istream& file) {
  const auto wanted = model.columns();
  std::string line;
  if (!std::getline(file, line)) throw std::runtime_error("there are no rows");
  const auto names = cells_of(line);
  std::vector<std::vector<std::string>> rows;
  while (std::getline(file, line)) {
    const auto cells = cells_of(line);
    if (cells.size() != names.size()) throw std::runtime_error("a row has another number of values than names");
    rows.emplace_back(wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      const auto found = std::find(names.begin(), names.end(), wanted[i]);
      if (found != names.end()) rows.back()[i] = cells[static_cast<size_t>(found - names.begin())];
    }
    if (rows.size() == kTogether) score(model, model.prepare_rows(rows), rows.size()), rows.clear();
  }
  if (!rows.empty()) score(model, model.prepare_rows(rows), rows.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: click EXPORTED_FOLDER ROWS\n"), 2;
  try {
    paddock::Predictor model(argv[1]);
    std::ifstream file(argv[2], std::ios::binary);
    if (!file) throw std::runtime_error(std::string(argv[2]) + ": cannot be opened");
    if (model.metadata("/processor/reader/kind") == "slot")
      score_lines(model, file);
    else
      score_table(model, file);
  } catch (const std::exception& e) {
    return std::fprintf(stderr, "click: %s\n", e.what()), 1;
  }
}
