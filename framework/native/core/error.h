// Errors of the native core: a kind that maps to a Python class of framework.errors, and one message.
#pragma once
#include <exception>
#include <sstream>
#include <string>

#include "core/api.h"

namespace paddock {

enum class ErrorKind { kShape, kDType, kAttribute, kNotSupported, kState, kNumerics, kInternal };

class PADDOCK_API Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}
  ErrorKind kind() const { return kind_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  ErrorKind kind_;
  std::string message_;
};

// Concatenates its arguments' printed forms.
template <class... Args>
std::string cat(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return out.str();
}

template <class... Args>
[[noreturn]] void fail(ErrorKind kind, const Args&... args) {
  throw Error(kind, cat(args...));
}

}  // namespace paddock
