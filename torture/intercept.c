/* A preloaded library that notes every file below one folder that is opened.

   It does nothing until `torture_watch` is called, which a forked child does. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static char secret[PATH_MAX];
static int log_fd = -1;

void torture_watch(const char *folder, int log) {
    snprintf(secret, sizeof secret, "%s", folder);
    log_fd = log;
}

static void note(int fd) {
    char link[64], path[PATH_MAX];
    int before = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = 0;
    size_t below = strlen(secret);
    if (!strncmp(path, secret, below) && (path[below] == '/' || !path[below])) {
        syscall(SYS_write, log_fd, path, strlen(path));
        syscall(SYS_write, log_fd, "\n", (size_t)1);
    }
    errno = before;
}

static int opened(int at, const char *name, int flags, mode_t mode) {
    int fd = (int)syscall(SYS_openat, at, name, flags, mode);
    if (log_fd >= 0 && fd >= 0) note(fd);
    return fd;
}

static mode_t mode_in(int flags, va_list rest) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; }

#define OPEN(name)                                  \
    int name(const char *path, int flags, ...) {    \
        va_list rest;                               \
        va_start(rest, flags);                      \
        mode_t mode = mode_in(flags, rest);         \
        va_end(rest);                               \
        return opened(AT_FDCWD, path, flags, mode); \
    }
#define OPENAT(name)                                     \
    int name(int at, const char *path, int flags, ...) { \
        va_list rest;                                    \
        va_start(rest, flags);                           \
        mode_t mode = mode_in(flags, rest);              \
        va_end(rest);                                    \
        return opened(at, path, flags, mode);            \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)
int __open_2(const char *path, int flags) { return opened(AT_FDCWD, path, flags, 0); }
int __open64_2(const char *path, int flags) { return opened(AT_FDCWD, path, flags, 0); }
int creat(const char *path, mode_t mode) { return opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

static FILE *stream(const char *symbol, const char *name, const char *mode) {
    FILE *(*real)(const char *, const char *) = dlsym(RTLD_NEXT, symbol);
    FILE *file = real(name, mode);
    if (log_fd >= 0 && file) note(fileno(file));
    return file;
}
FILE *fopen(const char *path, const char *mode) { return stream("fopen", path, mode); }
FILE *fopen64(const char *path, const char *mode) { return stream("fopen64", path, mode); }
