/* A preloaded library that sees every change of a file below one folder, and lets one of them fail.

   It does nothing until `torture_arm` is called, which a forked child does. Each change is counted and written to a log;
   the change with the chosen number meets the chosen fate. Without a fate, the library only watches. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum fate { PASS, KILL, ERROR, FULL, HALF };

static char root[PATH_MAX], secret[PATH_MAX];
static long number, chosen;
static int fate, armed, full, log_fd = -1;

void torture_arm(const char *folder, const char *hidden, long at, int what, int log) {
    snprintf(root, sizeof root, "%s", folder);
    snprintf(secret, sizeof secret, "%s", hidden);
    chosen = at, fate = what, log_fd = log, number = 0, full = 0, armed = 1;
}

void torture_disarm(void) { armed = 0; }

static void die(void) {
    syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
    for (;;) pause();
}

static int below(const char *path, const char *folder) {
    size_t length = strlen(folder);
    return length && !strncmp(path, folder, length) && (path[length] == '/' || !path[length]);
}

static void path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = 0;
}

static void resolve(int at, const char *name, char *path) {
    char base[PATH_MAX];
    if (name[0] == '/') {
        snprintf(path, PATH_MAX, "%s", name);
        return;
    }
    if (at == AT_FDCWD) {
        if (!getcwd(base, sizeof base)) base[0] = 0;
    } else {
        path_of(at, base);
    }
    if (snprintf(path, PATH_MAX, "%s/%s", base, name) >= PATH_MAX) path[0] = 0;
}

static void note(const char *call, const char *path, unsigned long inode) {
    char line[PATH_MAX + 96];
    int length = snprintf(line, sizeof line, "%ld\t%s\t%lu\t%s\n", number, call, inode, path);
    if (log_fd >= 0) syscall(SYS_write, log_fd, line, (size_t)length);
}

/* What happens to this call: PASS, ERROR, FULL or HALF; KILL does not return. */
static int met(const char *call, const char *path, unsigned long inode, int takes_space) {
    if (!armed || !below(path, root)) return PASS;
    int before = errno;
    long mine = __atomic_add_fetch(&number, 1, __ATOMIC_SEQ_CST);
    note(call, path, inode);
    errno = before;
    if (mine == chosen && fate == KILL) die();
    if (mine == chosen && fate == FULL) full = 1;
    if (full) return takes_space ? FULL : PASS;
    return mine == chosen ? fate : PASS;
}

static int fail(int what) {
    errno = what == FULL ? ENOSPC : EIO;
    return -1;
}

static unsigned long inode_of(int fd) {
    struct stat found;
    return fstat(fd, &found) ? 0 : (unsigned long)found.st_ino;
}

static int met_fd(const char *call, int fd, int takes_space) {
    char path[PATH_MAX];
    if (!armed) return PASS;
    path_of(fd, path);
    return met(call, path, inode_of(fd), takes_space);
}

/* ---------------------------------------------------------------- opening */

static int is_writing(int flags) { return (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)); }

static void watch(int fd, int writing) {
    char path[PATH_MAX];
    int before = errno;
    path_of(fd, path);
    if (below(path, secret)) note(writing ? "outside-write" : "outside-read", path, 0);
    errno = before;
}

static int opened(int at, const char *name, int flags, mode_t mode) {
    char path[PATH_MAX];
    int writing = is_writing(flags), what = PASS;
    if (armed && writing) {
        resolve(at, name, path);
        what = met("open", path, 0, (flags & O_CREAT) != 0);
        if (what == ERROR || what == FULL) return fail(what);
    }
    int fd = (int)syscall(SYS_openat, at, name, flags, mode);
    if (what == HALF) die();
    if (armed && fd >= 0 && secret[0]) watch(fd, writing);
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
    char path[PATH_MAX];
    int writing = strpbrk(mode, "wa+") != NULL, what = PASS;
    if (armed && writing) {
        resolve(AT_FDCWD, name, path);
        what = met("open", path, 0, 1);
        if (what == ERROR || what == FULL) return fail(what), NULL;
    }
    FILE *file = real(name, mode);
    if (what == HALF) die();
    if (armed && file && secret[0]) watch(fileno(file), writing);
    return file;
}
FILE *fopen(const char *path, const char *mode) { return stream("fopen", path, mode); }
FILE *fopen64(const char *path, const char *mode) { return stream("fopen64", path, mode); }

/* ---------------------------------------------------------------- writing */

static ssize_t wrote(int fd, const void *data, size_t size, off_t at) {
    int what = met_fd("write", fd, 1);
    if (what == ERROR || what == FULL) return fail(what);
    if (what == HALF) size = size / 2;
    ssize_t done = at < 0 ? syscall(SYS_write, fd, data, size) : syscall(SYS_pwrite64, fd, data, size, at);
    if (what == HALF) die();
    return done;
}
ssize_t write(int fd, const void *data, size_t size) { return wrote(fd, data, size, -1); }
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return wrote(fd, data, size, at); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) { return wrote(fd, data, size, at); }

ssize_t writev(int fd, const struct iovec *parts, int count) {
    int what = met_fd("write", fd, 1);
    if (what == ERROR || what == FULL) return fail(what);
    ssize_t done = syscall(SYS_writev, fd, parts, what == HALF ? (count + 1) / 2 : count);
    if (what == HALF) die();
    return done;
}

size_t fwrite(const void *data, size_t size, size_t count, FILE *file) {
    static size_t (*real)(const void *, size_t, size_t, FILE *);
    if (!real) real = dlsym(RTLD_NEXT, "fwrite");
    int what = met_fd("write", fileno(file), 1);
    if (what == ERROR || what == FULL) return (size_t)(fail(what) + 1);
    size_t done = real(data, size, what == HALF ? count / 2 : count, file);
    if (what == HALF) fflush(file), die();
    return done;
}

#define ON_FD(call, name, number, takes_space, declared, ...)   \
    int call declared {                                         \
        int what = met_fd(name, fd, takes_space);               \
        if (what == ERROR || what == FULL) return fail(what);   \
        int done = (int)syscall(number, __VA_ARGS__);           \
        if (what == HALF) die();                                \
        return done;                                            \
    }
ON_FD(fsync, "fsync", SYS_fsync, 1, (int fd), fd)
ON_FD(fdatasync, "fsync", SYS_fdatasync, 1, (int fd), fd)
ON_FD(ftruncate, "truncate", SYS_ftruncate, 0, (int fd, off_t size), fd, size)
ON_FD(ftruncate64, "truncate", SYS_ftruncate, 0, (int fd, off64_t size), fd, size)

/* ---------------------------------------------------------------- names */

static int named(const char *call, int at, const char *name, int takes_space, int *what) {
    char path[PATH_MAX];
    *what = PASS;
    if (!armed) return 0;
    resolve(at, name, path);
    *what = met(call, path, 0, takes_space);
    return *what == ERROR || *what == FULL;
}

#define ON_NAME(call, name, at, path, takes_space, declared, ...)       \
    int call declared {                                                 \
        int what;                                                       \
        if (named(name, at, path, takes_space, &what)) return fail(what); \
        int done = (int)syscall(__VA_ARGS__);                           \
        if (what == HALF) die();                                        \
        return done;                                                    \
    }
#define HERE AT_FDCWD
ON_NAME(unlink, "unlink", HERE, path, 0, (const char *path), SYS_unlinkat, HERE, path, 0)
ON_NAME(unlinkat, "unlink", at, path, 0, (int at, const char *path, int flags), SYS_unlinkat, at, path, flags)
ON_NAME(rmdir, "rmdir", HERE, path, 0, (const char *path), SYS_unlinkat, HERE, path, AT_REMOVEDIR)
ON_NAME(mkdir, "mkdir", HERE, path, 1, (const char *path, mode_t mode), SYS_mkdirat, HERE, path, mode)
ON_NAME(mkdirat, "mkdir", at, path, 1, (int at, const char *path, mode_t mode), SYS_mkdirat, at, path, mode)
ON_NAME(chmod, "chmod", HERE, path, 0, (const char *path, mode_t mode), SYS_fchmodat, HERE, path, mode)
ON_NAME(truncate, "truncate", HERE, path, 0, (const char *path, off_t size), SYS_truncate, path, size)
ON_NAME(symlink, "symlink", HERE, path, 1, (const char *to, const char *path), SYS_symlinkat, to, HERE, path)
ON_NAME(link, "link", HERE, to, 1, (const char *from, const char *to), SYS_linkat, HERE, from, HERE, to, 0)
ON_NAME(rename, "rename", HERE, to, 1, (const char *from, const char *to), SYS_renameat2, HERE, from, HERE, to, 0)
ON_NAME(renameat, "rename", b, to, 1, (int a, const char *from, int b, const char *to), SYS_renameat2, a, from, b, to, 0)
ON_NAME(renameat2, "rename", b, to, 1, (int a, const char *from, int b, const char *to, unsigned flags), SYS_renameat2,
        a, from, b, to, flags)
