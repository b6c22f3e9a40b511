// Running a program for what it prints, such as a key service's client. No shell reads its words.
#pragma once
#include <string>
#include <vector>

#include "predictor/sealing/wiped.h"

namespace paddock::sealing {

// Words as a POSIX shell cuts them: quotes and backslashes, nothing else is special. Throws FileError where a quote is
// not closed.
std::vector<std::string> words_of(const std::string& text);

// What a program prints to its standard output. Throws FileError where it cannot be started, fails, prints more than
// `most` bytes or takes longer.
SecretText output_of(const std::vector<std::string>& words, size_t most, int seconds);

}  // namespace paddock::sealing
