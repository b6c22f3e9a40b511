// Paddock's C++17 interface, over paddock.h: objects that free themselves, exceptions in the place of statuses.
//
//   paddock::Predictor model("exported/");
//   auto outputs = model.run({paddock::tensor(pixels, {1, 416, 416, 3})});
//   const float* boxes = outputs[0].data<float>();
#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "paddock.h"

namespace paddock {

// What a function of paddock.h has refused, with its status.
class PredictorError : public std::runtime_error {
 public:
  PredictorError(paddock_status status, const std::string& what) : std::runtime_error(what), status_(status) {}
  paddock_status status() const noexcept { return status_; }

 private:
  paddock_status status_;
};

inline void expect_ok(paddock_status status) {
  if (status != PADDOCK_OK) throw PredictorError(status, paddock_last_error());
}

// float16 and bfloat16 have no type of C++17: give their bits as uint16_t by the other form of `tensor`.
template <class T>
constexpr paddock_type type_of() {
  using U = std::remove_cv_t<T>;
  constexpr bool whole = std::is_integral_v<U> && std::is_signed_v<U>;
  if constexpr (std::is_same_v<U, float>) {
    return PADDOCK_FLOAT32;
  } else if constexpr (std::is_same_v<U, double>) {
    return PADDOCK_FLOAT64;
  } else if constexpr (std::is_same_v<U, bool>) {
    return PADDOCK_BOOL;
  } else if constexpr (std::is_same_v<U, uint8_t>) {
    return PADDOCK_UINT8;
  } else {
    static_assert(whole && sizeof(U) != 2, "no type of a tensor");
    return sizeof(U) == 1 ? PADDOCK_INT8 : sizeof(U) == 4 ? PADDOCK_INT32 : PADDOCK_INT64;  // `long long` too
  }
}

// A view of memory that somebody else has. Of an output it lives until the next run of its predictor.
class TensorView {
 public:
  TensorView() { raw_.struct_size = sizeof raw_; }
  TensorView(paddock_type type, const void* data, const std::vector<int64_t>& shape) : TensorView() {
    if (shape.size() > PADDOCK_MAX_RANK) throw PredictorError(PADDOCK_BAD_SHAPE, "a tensor has at most 8 axes");
    raw_.type = type;
    raw_.rank = static_cast<int32_t>(shape.size());
    raw_.data = data;
    raw_.bytes = paddock_type_size(type);
    for (size_t i = 0; i < shape.size(); ++i) {
      raw_.shape[i] = shape[i];
      raw_.bytes *= static_cast<uint64_t>(shape[i]);
    }
  }

  paddock_type type() const { return static_cast<paddock_type>(raw_.type); }
  std::vector<int64_t> shape() const { return {raw_.shape, raw_.shape + raw_.rank}; }
  size_t size() const { return raw_.bytes / paddock_type_size(raw_.type); }
  // The elements; T must be the tensor's type, or uint16_t for the bits of a half type.
  template <class T>
  const T* data() const {
    if constexpr (std::is_same_v<T, uint16_t>) {
      if (raw_.type == PADDOCK_FLOAT16 || raw_.type == PADDOCK_BFLOAT16) return static_cast<const T*>(raw_.data);
      throw PredictorError(PADDOCK_BAD_TYPE, "the tensor is no half type");
    } else {
      if (raw_.type == type_of<T>()) return static_cast<const T*>(raw_.data);
      throw PredictorError(PADDOCK_BAD_TYPE, std::string("the tensor is ") + paddock_type_name(raw_.type));
    }
  }
  const void* raw_data() const { return raw_.data; }
  size_t bytes() const { return raw_.bytes; }
  const paddock_tensor& raw() const { return raw_; }
  paddock_tensor& raw() { return raw_; }

 private:
  paddock_tensor raw_{};
};

template <class T>
TensorView tensor(const T* data, const std::vector<int64_t>& shape) {
  return TensorView(type_of<T>(), data, shape);
}

template <class T>
TensorView tensor(const std::vector<T>& data, const std::vector<int64_t>& shape) {
  TensorView view(type_of<T>(), data.data(), shape);
  if (view.size() != data.size()) throw PredictorError(PADDOCK_BAD_SHAPE, "the vector has another size than the shape");
  return view;
}

// Options of loading, by the names that paddock.h lists.
class Options {
 public:
  Options() {
    paddock_options* made = nullptr;
    expect_ok(paddock_options_new(&made));
    self_.reset(made);
  }
  Options& set(const std::string& name, int64_t value) {
    expect_ok(paddock_options_set(self_.get(), name.c_str(), value));
    return *this;
  }
  // Keys of sealed exports: a file, "env:NAME" or "command:WORDS".
  Options& decrypt(const std::string& source) { return key_source("decrypt", source); }
  Options& verify(const std::string& source) { return key_source("verify", source); }
  // A function that gives the bytes; what it throws becomes the error of loading.
  Options& decrypt(std::function<std::string()> function) { return key_function("decrypt", std::move(function)); }
  Options& verify(std::function<std::string()> function) { return key_function("verify", std::move(function)); }
  const paddock_options* get() const { return self_.get(); }

 private:
  using KeyFunction = std::function<std::string()>;
  Options& key_source(const char* name, const std::string& source) {
    expect_ok(paddock_options_set_text(self_.get(), name, source.c_str()));
    return *this;
  }
  Options& key_function(const char* name, KeyFunction function) {
    functions_.push_back(std::make_unique<KeyFunction>(std::move(function)));
    const auto ask = [](void* context, void* key, size_t room, size_t* bytes) -> int32_t {
      const std::string given = (*static_cast<KeyFunction*>(context))();
      *bytes = given.size();
      given.copy(static_cast<char*>(key), room);
      return 0;  // more bytes than there is room for are refused
    };
    expect_ok(paddock_options_set_key_function(self_.get(), name, ask, functions_.back().get()));
    return *this;
  }

  struct Free {
    void operator()(paddock_options* o) const { paddock_options_free(o); }
  };
  std::vector<std::unique_ptr<KeyFunction>> functions_;
  std::unique_ptr<paddock_options, Free> self_;
};

class Predictor;

// Points of objects: x y each, in pixels of the inputs, and how sure they are.
struct Keypoints {
  std::vector<float> points, scores;  // [N, L, 2], [N, L]
};

// A picture of the caller's: rows of red, green and blue bytes without gaps.
struct Picture {
  int height, width;
  const uint8_t* pixels;
};

// Pictures or texts prepared as an export says, and the way back to a picture's own pixels. Made by Predictor::prepare.
class PreparedInputs {
 public:
  // The model's inputs: views that live as long as this.
  const std::vector<TensorView>& inputs() const { return inputs_; }
  // Boxes [count, 4] x1 y1 x2 y2 in pixels of the input as boxes of the picture, cut to it.
  std::vector<float> boxes_back(const float* boxes, int64_t count, int picture = 0) const {
    std::vector<float> back(static_cast<size_t>(4 * count));
    expect_ok(paddock_boxes_back(self_.get(), picture, boxes, count, back.data()));
    return back;
  }
  std::vector<float> points_back(const float* points, int64_t count, int picture = 0) const {
    std::vector<float> back(static_cast<size_t>(2 * count));
    expect_ok(paddock_points_back(self_.get(), picture, points, count, back.data()));
    return back;
  }
  // Classes of the input's pixels [height, width] as those of the picture's own; 255 where the input does not show one.
  std::vector<uint8_t> labels_back(const uint8_t* labels, int height, int width, int picture = 0) const {
    std::vector<uint8_t> back(pixels_.at(static_cast<size_t>(picture)));
    expect_ok(paddock_labels_back(self_.get(), picture, labels, height, width, back.data()));
    return back;
  }
  // Masks [count, size, size] over boxes of the picture as bitmaps of its own pixels, one after the other.
  std::vector<uint8_t> masks_back(const float* masks, int64_t count, int size, const float* boxes, int picture = 0,
                                  double threshold = 0.5) const {
    std::vector<uint8_t> back(static_cast<size_t>(count) * pixels_.at(static_cast<size_t>(picture)));
    expect_ok(paddock_masks_back(self_.get(), picture, masks, count, size, boxes, threshold, back.data()));
    return back;
  }

 private:
  friend class Predictor;
  PreparedInputs(paddock_predictor* model, const std::vector<Picture>& pictures) {
    std::vector<paddock_picture> given;
    for (const Picture& p : pictures) {
      given.push_back({sizeof(paddock_picture), p.height, p.width, 0, int64_t{3} * p.width, p.pixels});
      pixels_.push_back(static_cast<size_t>(p.height) * static_cast<size_t>(p.width));
    }
    paddock_prepared* made = nullptr;
    expect_ok(paddock_prepare(model, given.data(), static_cast<int32_t>(given.size()), &made));
    take(model, made);
  }
  PreparedInputs(paddock_predictor* model, const Picture& p, const std::vector<float>& boxes) {
    if (boxes.size() % 4) throw PredictorError(PADDOCK_BAD_ARGUMENT, "boxes have 4 numbers each");
    const paddock_picture given{sizeof(paddock_picture), p.height, p.width, 0, int64_t{3} * p.width, p.pixels};
    pixels_.assign(boxes.size() / 4, static_cast<size_t>(p.height) * static_cast<size_t>(p.width));
    paddock_prepared* made = nullptr;
    expect_ok(paddock_prepare_objects(model, &given, boxes.data(), static_cast<int32_t>(pixels_.size()), &made));
    take(model, made);
  }
  PreparedInputs(paddock_predictor* model, const std::vector<std::string>& texts,
                 const std::vector<std::string>& seconds) {
    std::vector<paddock_text> given;
    for (size_t i = 0; i < texts.size(); ++i) {
      given.push_back({sizeof(paddock_text), 0, texts[i].data(), texts[i].size(), nullptr, 0});
      if (seconds.empty()) continue;
      given.back().second = seconds.at(i).data();
      given.back().second_bytes = seconds.at(i).size();
    }
    paddock_prepared* made = nullptr;
    expect_ok(paddock_prepare_texts(model, given.data(), static_cast<int32_t>(given.size()), &made));
    take(model, made);
  }
  struct Lines {
    const std::vector<std::string>& texts;
  };
  PreparedInputs(paddock_predictor* model, const Lines& lines) {
    std::vector<const char*> texts;
    std::vector<uint64_t> bytes;
    for (const std::string& line : lines.texts) {
      texts.push_back(line.data());
      bytes.push_back(line.size());
    }
    paddock_prepared* made = nullptr;
    expect_ok(paddock_prepare_lines(model, texts.data(), bytes.data(), static_cast<int32_t>(texts.size()), &made));
    take(model, made);
  }
  PreparedInputs(paddock_predictor* model, const std::vector<std::vector<std::string>>& rows) {
    std::vector<const char*> cells;
    std::vector<uint64_t> bytes;
    for (const auto& row : rows) {
      if (row.size() != rows[0].size()) throw PredictorError(PADDOCK_BAD_ARGUMENT, "rows differ in their columns");
      for (const std::string& cell : row) {
        cells.push_back(cell.data());
        bytes.push_back(cell.size());
      }
    }
    const auto width = static_cast<int32_t>(rows.empty() ? 0 : rows[0].size());
    paddock_prepared* made = nullptr;
    expect_ok(paddock_prepare_rows(model, cells.data(), bytes.data(), static_cast<int32_t>(rows.size()), width, &made));
    take(model, made);
  }
  void take(paddock_predictor* model, paddock_prepared* made) {
    self_.reset(made);
    inputs_.resize(static_cast<size_t>(paddock_input_count(model)));
    for (size_t i = 0; i < inputs_.size(); ++i)
      expect_ok(paddock_prepared_input(made, static_cast<int32_t>(i), &inputs_[i].raw()));
  }
  struct Free {
    void operator()(paddock_prepared* p) const { paddock_prepared_free(p); }
  };
  std::unique_ptr<paddock_prepared, Free> self_;
  std::vector<TensorView> inputs_;
  std::vector<size_t> pixels_;
};

// Texts to the numbers of their tokens.
class Tokenizer {
 public:
  // Of a tokenizer.json.
  explicit Tokenizer(const std::string& file) {
    paddock_tokenizer* made = nullptr;
    expect_ok(paddock_tokenizer_load(file.c_str(), nullptr, &made));
    self_.reset(made);
  }
  // Without the tokens that stand around texts. The text is UTF-8.
  std::vector<int64_t> encode(const std::string& text) const {
    uint64_t count = 0;
    std::vector<int64_t> ids(text.size() + 1);  // mostly enough
    expect_ok(paddock_encode(self_.get(), text.data(), text.size(), ids.data(), ids.size(), &count));
    if (count > ids.size()) {
      ids.resize(count);
      expect_ok(paddock_encode(self_.get(), text.data(), text.size(), ids.data(), ids.size(), &count));
    }
    ids.resize(count);
    return ids;
  }
  // Of a token such as "[CLS]"; -1 where there is none.
  int64_t number(const std::string& token) const { return paddock_token_number(self_.get(), token.c_str()); }

 private:
  friend class Predictor;
  explicit Tokenizer(paddock_predictor* model) {
    paddock_tokenizer* made = nullptr;
    expect_ok(paddock_tokenizer_of(model, &made));
    self_.reset(made);
  }
  struct Free {
    void operator()(paddock_tokenizer* t) const { paddock_tokenizer_free(t); }
  };
  std::unique_ptr<paddock_tokenizer, Free> self_;
};

// An input or output of a model.
struct TensorInfo {
  std::string name;
  paddock_type type;
  std::vector<int64_t> shape;  // as exported
  bool fixed;                  // whether no other shape is possible
};

// An exported model. One thread uses it at a time; give each thread a clone.
class Predictor {
 public:
  explicit Predictor(const std::string& folder) { load(folder, nullptr); }
  Predictor(const std::string& folder, const Options& options) { load(folder, options.get()); }

  Predictor clone() const {
    paddock_predictor* made = nullptr;
    expect_ok(paddock_clone(self_.get(), &made));
    return Predictor(made);
  }

  std::vector<TensorInfo> inputs() const { return infos(paddock_input_count(self_.get()), paddock_input_info); }
  std::vector<TensorInfo> outputs() const { return infos(paddock_output_count(self_.get()), paddock_output_info); }
  // The public key that signed a sealed export, in hexadecimal; nothing where nobody did.
  std::optional<std::string> signer() const {
    const char* key = paddock_signer(self_.get());
    return key ? std::optional<std::string>(key) : std::nullopt;
  }
  std::string metadata() const { return paddock_metadata(self_.get()); }
  // The part of it at a JSON pointer such as "/processor/class_names/0"; nothing where there is none.
  std::optional<std::string> metadata(const std::string& pointer) {
    const char* text = nullptr;
    const paddock_status status = paddock_metadata_at(self_.get(), pointer.c_str(), &text);
    if (status == PADDOCK_BAD_ARGUMENT) return std::nullopt;
    expect_ok(status);
    return text;
  }

  // Pictures as the model's inputs; of a video classifier they are the frames of one clip.
  PreparedInputs prepare(const std::vector<Picture>& pictures) const { return PreparedInputs(self_.get(), pictures); }
  // Objects of one picture for a model of keypoints; boxes [count, 4] as x1 y1 x2 y2 in its pixels.
  PreparedInputs prepare_objects(const Picture& picture, const std::vector<float>& boxes) const {
    return PreparedInputs(self_.get(), picture, boxes);
  }
  // The points in heatmaps [N, H, W, L] that a model of keypoints gave; PreparedInputs::points_back leads them on.
  Keypoints decode_heatmaps(const TensorView& heatmaps) const {
    const std::vector<int64_t> shape = heatmaps.shape();
    if (shape.size() != 4) throw PredictorError(PADDOCK_BAD_SHAPE, "heatmaps have 4 axes");
    const auto count = static_cast<size_t>(shape[0] * shape[3]);
    Keypoints found{std::vector<float>(2 * count), std::vector<float>(count)};
    expect_ok(paddock_decode_heatmaps(self_.get(), &heatmaps.raw(), found.points.data(), found.scores.data()));
    return found;
  }
  // Texts, or pairs of them, as the inputs of a classifier: one ragged batch. UTF-8.
  PreparedInputs prepare(const std::vector<std::string>& texts, const std::vector<std::string>& seconds = {}) const {
    return PreparedInputs(self_.get(), texts, seconds);
  }

  // Names of the columns that a row of a click log has for this model, in order.
  std::vector<std::string> columns() {
    std::vector<std::string> names;
    for (int32_t i = 0; i < paddock_column_count(self_.get()); ++i)
      names.push_back(metadata("/processor/reader/columns/" + std::to_string(i)).value());
    return names;
  }
  // Rows of such cells as the model's inputs; an empty text is a missing value.
  PreparedInputs prepare_rows(const std::vector<std::vector<std::string>>& rows) const {
    return PreparedInputs(self_.get(), rows);
  }

  // Lines of a slot log, as the log has them.
  PreparedInputs prepare_lines(const std::vector<std::string>& lines) const {
    return PreparedInputs(self_.get(), PreparedInputs::Lines{lines});
  }

  Tokenizer tokenizer() const { return Tokenizer(self_.get()); }

  // Runs once. The outputs are views that live until the next run, release() or the end of the predictor.
  std::vector<TensorView> run(const std::vector<TensorView>& inputs) {
    static_assert(sizeof(TensorView) == sizeof(paddock_tensor));
    const auto* raw = inputs.empty() ? nullptr : &inputs[0].raw();
    expect_ok(paddock_run(self_.get(), raw, static_cast<int32_t>(inputs.size())));
    std::vector<TensorView> found(static_cast<size_t>(paddock_output_count(self_.get())));
    for (size_t i = 0; i < found.size(); ++i)
      expect_ok(paddock_output(self_.get(), static_cast<int32_t>(i), &found[i].raw()));
    return found;
  }
  void release() { expect_ok(paddock_release_outputs(self_.get())); }

  std::string memory_report() { return text(paddock_memory_report); }
  void set_profiling(bool on) { expect_ok(paddock_set_profiling(self_.get(), on)); }
  std::string profile() { return text(paddock_profile); }
  paddock_predictor* get() const { return self_.get(); }

 private:
  explicit Predictor(paddock_predictor* made) : self_(made) {}
  void load(const std::string& folder, const paddock_options* options) {
    paddock_predictor* made = nullptr;
    expect_ok(paddock_load(folder.c_str(), options, &made));
    self_.reset(made);
  }
  template <class Ask>
  std::vector<TensorInfo> infos(int32_t count, Ask ask) const {
    std::vector<TensorInfo> list;
    for (int32_t i = 0; i < count; ++i) {
      paddock_info info{};
      info.struct_size = sizeof info;
      expect_ok(ask(self_.get(), i, &info));
      list.push_back(
          {info.name, static_cast<paddock_type>(info.type), {info.shape, info.shape + info.rank}, info.fixed != 0});
    }
    return list;
  }
  template <class Ask>
  std::string text(Ask ask) {
    const char* json = nullptr;
    expect_ok(ask(self_.get(), &json));
    return json;
  }

  struct Free {
    void operator()(paddock_predictor* p) const { paddock_free(p); }
  };
  std::unique_ptr<paddock_predictor, Free> self_;
};

}  // namespace paddock
