/* Kills the process at the n-th call that changes files or descriptors, or in the middle of the n-th call if it writes.
   Or lets calls that a full or broken disk refuses fail with an error, from the n-th on (`fail`), those below one folder.
   Preloaded (LD_PRELOAD) into a process that calls `arm` or `fail`; before that, calls pass through. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <limits.h>
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

static long refusals, first_refused = -1, last_refused;
static int refused_with;
static char refused_below[PATH_MAX];

/* The n-th write, rename, fsync, mkdir, or open for writing below `folder` fails with `error`, and `count - 1` more. */
void fail(long n, long count, int error, const char *folder) {
  refusals = 0;
  refused_with = error;
  strncpy(refused_below, folder, PATH_MAX - 1);
  last_refused = n + count;
  first_refused = n;
}

long refused(void) { return refusals; }

static int refuses(const char *path) {
  if (first_refused < 0 || strncmp(path, refused_below, strlen(refused_below))) return 0;
  long n = __sync_fetch_and_add(&refusals, 1);
  if (n < first_refused || n >= last_refused) return 0;
  errno = refused_with;
  return 1;
}

static int refuses_fd(int fd) {
  char link[64], path[PATH_MAX];
  if (first_refused < 0) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t size = readlink(link, path, sizeof path - 1);
  if (size < 0) return 0;
  path[size] = 0;
  return refuses(path);
}

/* A name below a folder's descriptor. */
static int refuses_at(int dir, const char *name) {
  if (first_refused < 0) return 0;
  return name[0] == '/' || dir == AT_FDCWD ? refuses(name) : refuses_fd(dir);
}

static int hit(void) { return fatal > -2 && calls++ == fatal; }

static void die(void) { kill(getpid(), SIGKILL); }

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define WRAP(type, name, parameters, arguments) \
  type name parameters {                        \
    if (hit()) die();                           \
    return NEXT(name) arguments;                \
  }

/* The same of a call that a disk may refuse. */
#define WRAP_REFUSED(type, name, parameters, arguments, refusal) \
  type name parameters {                                        \
    if (hit()) die();                                           \
    if (refusal) return -1;                                     \
    return NEXT(name) arguments;                                \
  }

#define WRAP_OPEN(name, parameters, arguments, refusal) \
  int name parameters {                              \
    va_list rest;                                    \
    va_start(rest, flags);                           \
    mode_t mode = va_arg(rest, mode_t);              \
    va_end(rest);                                    \
    if (hit()) die();                                \
    if (flags & O_CREAT && refusal) return -1;       \
    return NEXT(name) arguments;                     \
  }

WRAP_OPEN(open, (const char *path, int flags, ...), (path, flags, mode), refuses(path))
WRAP_OPEN(open64, (const char *path, int flags, ...), (path, flags, mode), refuses(path))
WRAP_OPEN(openat, (int dir, const char *path, int flags, ...), (dir, path, flags, mode), refuses_at(dir, path))
WRAP_OPEN(openat64, (int dir, const char *path, int flags, ...), (dir, path, flags, mode), refuses_at(dir, path))
WRAP(int, close, (int fd), (fd))
WRAP_REFUSED(int, fsync, (int fd), (fd), refuses_fd(fd))
WRAP_REFUSED(int, fdatasync, (int fd), (fd), refuses_fd(fd))
WRAP(int, ftruncate, (int fd, off_t size), (fd, size))
WRAP(int, ftruncate64, (int fd, off64_t size), (fd, size))
WRAP_REFUSED(int, rename, (const char *from, const char *to), (from, to), refuses(to))
WRAP_REFUSED(int, renameat, (int a, const char *from, int b, const char *to), (a, from, b, to), refuses_at(b, to))
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
WRAP_REFUSED(int, mkdir, (const char *path, mode_t mode), (path, mode), refuses(path))
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
    if (refuses_fd(to)) return -1;                    \
    return NEXT(name) arguments;                      \
  }

WRAP_WRITE(write, (int to, const void *data, size_t size), (to, data, size), (to, data, size / 2))
WRAP_WRITE(pwrite, (int to, const void *data, size_t size, off_t at), (to, data, size, at), (to, data, size / 2, at))
WRAP_WRITE(pwrite64, (int to, const void *data, size_t size, off64_t at), (to, data, size, at),
           (to, data, size / 2, at))
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
  if (refuses_fd(fd)) return -1;
  return NEXT(writev)(fd, buffers, count);
}

ssize_t pwritev(int fd, const struct iovec *buffers, int count, off_t at) {
  struct iovec half[MOST_BUFFERS];
  if (hit()) {
    if (halfway && count > 0) NEXT(pwritev)(fd, half, halve(buffers, count, half), at);
    die();
  }
  if (refuses_fd(fd)) return -1;
  return NEXT(pwritev)(fd, buffers, count, at);
}
