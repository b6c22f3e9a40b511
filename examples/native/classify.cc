// Classifies texts with an exported classifier, such as BERT:
//
//   ./classify exported/ "a fine film" "a waste of time"
//
// prints for each text its best class and the score of every class. All texts are one ragged batch, without padding.
#include <algorithm>
#include <cstdio>
#include <paddock.hpp>

namespace {

void classify(const std::string& folder, const std::vector<std::string>& texts) {
  paddock::Predictor model(folder);
  std::vector<std::string> classes;
  while (const auto name = model.metadata("/processor/classes/" + std::to_string(classes.size())))
    classes.push_back(*name);
  const auto prepared = model.prepare(texts);
  const auto outputs = model.run(prepared.inputs());
  if (classes.empty() || outputs.at(0).size() != texts.size() * classes.size())
    throw std::runtime_error(folder + ": is no classifier of texts");
  const float* scores = outputs[0].data<float>();
  for (size_t i = 0; i < texts.size(); ++i, scores += classes.size()) {
    std::printf("%s\n",
                classes.at(static_cast<size_t>(std::max_element(scores, scores + classes.size()) - scores)).c_str());
    for (size_t k = 0; k < classes.size(); ++k) std::printf("  %s %.5f\n", classes[k].c_str(), double(scores[k]));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: classify EXPORT TEXT...\n");
    return 2;
  }
  try {
    classify(argv[1], {argv + 2, argv + argc});
  } catch (const std::exception& e) {
    std::fprintf(stderr, "classify: %s\n", e.what());
    return 1;
  }
  return 0;
}
