// Memory for what was encrypted: not in core dumps, and zeroed before it is given back.
#pragma once
#include <cstddef>
#include <string>
#include <utility>

namespace paddock::sealing {

// Zeroes bytes, which no compiler leaves out.
void wipe(void* data, size_t bytes) noexcept;

// Pages of their own for weights.
class Wiped {
 public:
  explicit Wiped(size_t bytes);
  ~Wiped();
  Wiped(const Wiped&) = delete;
  Wiped& operator=(const Wiped&) = delete;
  char* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  char* data_;
  size_t size_;
};

// A key's bytes or its text; in ordinary memory, zeroed when it is destroyed or moved from.
class SecretText {
 public:
  SecretText() = default;
  explicit SecretText(std::string text) : text_(std::move(text)) { wipe_all(text); }
  SecretText(SecretText&& other) noexcept : text_(std::move(other.text_)) { wipe_all(other.text_); }
  SecretText& operator=(SecretText&& other) noexcept {
    wipe_all(text_);
    text_ = std::move(other.text_);
    wipe_all(other.text_);
    return *this;
  }
  SecretText(const SecretText&) = delete;
  SecretText& operator=(const SecretText&) = delete;
  ~SecretText() { wipe_all(text_); }
  const std::string& text() const { return text_; }

 private:
  // All its room: a short text lies in the object itself, where a move leaves it.
  static void wipe_all(std::string& text) noexcept {
    text.resize(text.capacity());
    wipe(text.data(), text.size());
    text.clear();
  }

  std::string text_;
};

}  // namespace paddock::sealing
