// posix_spawn, two pipes, a deadline.
#include "predictor/sealing/command.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "predictor/outside.h"

extern char** environ;

namespace paddock::sealing {
namespace {

using predictor::refuse;
using Clock = std::chrono::steady_clock;

constexpr size_t kMostComplaint = 200;  // bytes of its standard error that are told

class Pipe {
 public:
  Pipe() {
    if (pipe2(ends_, O_CLOEXEC) != 0) refuse("key: no pipe can be made (", std::strerror(errno), ")");
  }
  ~Pipe() {
    close_write();
    close(ends_[0]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  int read_end() const { return ends_[0]; }
  int write_end() const { return ends_[1]; }
  void close_write() {
    if (ends_[1] >= 0) close(ends_[1]);
    ends_[1] = -1;
  }

 private:
  int ends_[2];
};

// A child that is ended and waited for, whatever happens.
class Child {
 public:
  Child(const std::vector<std::string>& words, const Pipe& out, const Pipe& err) {
    std::vector<char*> arguments;
    for (const auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out.write_end(), 1);
    posix_spawn_file_actions_adddup2(&actions, err.write_end(), 2);
    const int error = posix_spawnp(&id_, arguments[0], &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error) refuse("key: the command ", words[0], " gave none: ", std::strerror(error));
  }
  ~Child() {
    if (id_ <= 0) return;
    kill(id_, SIGKILL);
    wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  // Its exit status; negative: the signal that ended it.
  int wait() {
    int status = 0;
    while (waitpid(id_, &status, 0) < 0 && errno == EINTR) {
    }
    id_ = -1;
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }
  // Whether it has ended, by when it is not waited for.
  bool has_ended() const {
    siginfo_t about{};
    return waitid(P_PID, static_cast<id_t>(id_), &about, WEXITED | WNOHANG | WNOWAIT) != 0 || about.si_pid != 0;
  }

 private:
  pid_t id_ = -1;
};

// Text that grows in one block, so that no copy of it is left behind.
class Sink {
 public:
  explicit Sink(size_t most) { text_.reserve(most + 1); }
  ~Sink() { wipe(text_.data(), text_.size()); }
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
  // False at the end of the pipe.
  bool take(int fd) {
    char part[4096];
    const ssize_t n = read(fd, part, sizeof part);
    if (n < 0) return errno == EINTR || errno == EAGAIN;
    const size_t room = text_.capacity() - text_.size();
    text_.append(part, std::min(static_cast<size_t>(n), room));
    wipe(part, sizeof part);
    return n > 0;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  bool inside = false;  // a word has begun
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote && c == quote) {
      quote = 0;
    } else if (c == '\\' && quote != '\'') {
      if (++i == text.size()) refuse("key: the command cannot be read (nothing stands behind its last backslash)");
      if (quote && text[i] != '"' && text[i] != '\\') word.push_back('\\');
      word.push_back(text[i]);
      inside = true;
    } else if (!quote && (c == '"' || c == '\'')) {
      quote = c;
      inside = true;
    } else if (!quote && std::strchr(" \t\r\n", c)) {
      if (inside) words.push_back(word);
      word.clear();
      inside = false;
    } else {
      word.push_back(c);
      inside = true;
    }
  }
  if (quote) refuse("key: the command cannot be read (a quote is not closed)");
  if (inside) words.push_back(word);
  return words;
}

SecretText output_of(const std::vector<std::string>& words, size_t most, int seconds) {
  const auto deadline = Clock::now() + std::chrono::seconds(seconds);
  Pipe out, err;
  Child child(words, out, err);
  out.close_write();
  err.close_write();
  Sink printed(most), complaint(1 << 16);
  pollfd ends[] = {{out.read_end(), POLLIN, 0}, {err.read_end(), POLLIN, 0}};
  while (ends[0].fd >= 0 || ends[1].fd >= 0 || !child.has_ended()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) refuse("key: the command ", words[0], " gave none: took over ", seconds, " s");
    const bool open = ends[0].fd >= 0 || ends[1].fd >= 0;
    if (poll(ends, 2, static_cast<int>(open ? left : std::min<int64_t>(left, 10))) <= 0) continue;
    if (ends[0].fd >= 0 && ends[0].revents && !printed.take(ends[0].fd)) ends[0].fd = -1;
    if (ends[1].fd >= 0 && ends[1].revents && !complaint.take(ends[1].fd)) ends[1].fd = -1;
    if (printed.text().size() > most) refuse("key: the command ", words[0], " printed over ", most, " bytes");
  }
  if (const int status = child.wait()) {
    std::string text = complaint.text();
    while (!text.empty() && std::strchr(" \t\r\n", text.back())) text.pop_back();
    if (text.size() > kMostComplaint) text.erase(0, text.size() - kMostComplaint);
    refuse("key: the command ", words[0], " ended with status ", status, ": ", text);
  }
  return SecretText(printed.text());
}

}  // namespace paddock::sealing
