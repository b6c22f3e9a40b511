/* Kills the process at the n-th call that changes files or descriptors, or in the middle of the n-th call if it writes.
   Preloaded (LD_PRELOAD) into a process that calls `arm`; before that, calls pass through. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/types.h>
#include <unistd.h>

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
WRAP(int, unlink, (const char *path), (path))
WRAP(int, unlinkat, (int dir, const char *path, int flags), (dir, path, flags))
WRAP(int, rmdir, (const char *path), (path))
WRAP(int, mkdir, (const char *path, mode_t mode), (path, mode))
WRAP(int, mkdirat, (int dir, const char *path, mode_t mode), (dir, path, mode))
WRAP(int, chmod, (const char *path, mode_t mode), (path, mode))
WRAP(int, fchmod, (int fd, mode_t mode), (fd, mode))

ssize_t write(int fd, const void *data, size_t size) {
  if (hit()) {
    if (halfway) NEXT(write)(fd, data, size / 2);
    die();
  }
  return NEXT(write)(fd, data, size);
}
