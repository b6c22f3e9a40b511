/* Kills the process at the n-th call that changes files or descriptors, or in the middle of the n-th call if it writes.
   Preloaded (LD_PRELOAD) into a process that calls `arm`; before that, calls pass through. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define MOST_BUFFERS 1024

static long calls, fatal = -2;
static int halfway;

void arm(long n, int middle) {
  calls = 0;
  halfway = middle;
  fatal = n;
}

long called(void) { return calls; }

static int hit(void) { return fatal > -2 && calls++ == fatal; }

static void die(void) { kill(getpid(), SIGKILL); }

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define WRAP(type, name, parameters, arguments) \
  type name parameters {                        \
    if (hit()) die();                           \
    return NEXT(name) arguments;                \
  }

#define WRAP_OPEN(name, parameters, arguments)       \
  int name parameters {                              \
    va_list rest;                                    \
    va_start(rest, flags);                           \
    mode_t mode = va_arg(rest, mode_t);              \
    va_end(rest);                                    \
    if (hit()) die();                                \
    return NEXT(name) arguments;                     \
  }

WRAP_OPEN(open, (const char *path, int flags, ...), (path, flags, mode))
WRAP_OPEN(open64, (const char *path, int flags, ...), (path, flags, mode))
WRAP_OPEN(openat, (int dir, const char *path, int flags, ...), (dir, path, flags, mode))
WRAP_OPEN(openat64, (int dir, const char *path, int flags, ...), (dir, path, flags, mode))
WRAP(int, close, (int fd), (fd))
WRAP(int, fsync, (int fd), (fd))
WRAP(int, fdatasync, (int fd), (fd))
WRAP(int, ftruncate, (int fd, off_t size), (fd, size))
WRAP(int, ftruncate64, (int fd, off64_t size), (fd, size))
WRAP(int, rename, (const char *from, const char *to), (from, to))
WRAP(int, renameat, (int a, const char *from, int b, const char *to), (a, from, b, to))
WRAP(int, renameat2, (int a, const char *from, int b, const char *to, unsigned flags), (a, from, b, to, flags))
WRAP(int, link, (const char *from, const char *to), (from, to))
WRAP(int, linkat, (int a, const char *from, int b, const char *to, int flags), (a, from, b, to, flags))
WRAP(int, symlink, (const char *from, const char *to), (from, to))
WRAP(int, symlinkat, (const char *from, int dir, const char *to), (from, dir, to))
WRAP(int, truncate, (const char *path, off_t size), (path, size))
WRAP(int, truncate64, (const char *path, off64_t size), (path, size))
WRAP(int, fallocate, (int fd, int mode, off_t at, off_t size), (fd, mode, at, size))
WRAP(int, flock, (int fd, int how), (fd, how))
WRAP(int, unlink, (const char *path), (path))
WRAP(int, unlinkat, (int dir, const char *path, int flags), (dir, path, flags))
WRAP(int, rmdir, (const char *path), (path))
WRAP(int, mkdir, (const char *path, mode_t mode), (path, mode))
WRAP(int, mkdirat, (int dir, const char *path, mode_t mode), (dir, path, mode))
WRAP(int, chmod, (const char *path, mode_t mode), (path, mode))
WRAP(int, fchmod, (int fd, mode_t mode), (fd, mode))

/* `half` is the same call with half of the bytes. */
#define WRAP_WRITE(name, parameters, arguments, half) \
  ssize_t name parameters {                           \
    if (hit()) {                                      \
      if (halfway) NEXT(name) half;                   \
      die();                                          \
    }                                                 \
    return NEXT(name) arguments;                      \
  }

WRAP_WRITE(write, (int fd, const void *data, size_t size), (fd, data, size), (fd, data, size / 2))
WRAP_WRITE(pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at), (fd, data, size / 2, at))
WRAP_WRITE(pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at),
           (fd, data, size / 2, at))
WRAP_WRITE(sendfile, (int to, int from, off_t *at, size_t size), (to, from, at, size), (to, from, at, size / 2))
WRAP_WRITE(sendfile64, (int to, int from, off64_t *at, size_t size), (to, from, at, size), (to, from, at, size / 2))
WRAP_WRITE(copy_file_range, (int from, off64_t *a, int to, off64_t *b, size_t size, unsigned flags),
           (from, a, to, b, size, flags), (from, a, to, b, size / 2, flags))

/* Half of them is the first buffers, and half of the one after them. */
static int halve(const struct iovec *whole, int count, struct iovec *half) {
  if (count > MOST_BUFFERS) count = MOST_BUFFERS;
  const int kept = count / 2 + 1;
  memcpy(half, whole, kept * sizeof *half);
  half[kept - 1].iov_len /= 2;
  return kept;
}

ssize_t writev(int fd, const struct iovec *buffers, int count) {
  struct iovec half[MOST_BUFFERS];
  if (hit()) {
    if (halfway && count > 0) NEXT(writev)(fd, half, halve(buffers, count, half));
    die();
  }
  return NEXT(writev)(fd, buffers, count);
}

ssize_t pwritev(int fd, const struct iovec *buffers, int count, off_t at) {
  struct iovec half[MOST_BUFFERS];
  if (hit()) {
    if (halfway && count > 0) NEXT(pwritev)(fd, half, halve(buffers, count, half), at);
    die();
  }
  return NEXT(pwritev)(fd, buffers, count, at);
}
