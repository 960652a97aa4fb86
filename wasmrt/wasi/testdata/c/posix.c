// Uses files as a POSIX program does, and says what is not as it should be. Its root holds "file" and "dir/inner", the
// mount "ro" holds "fixed" and a planted link "out".
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int failed;

#define CHECK(cond)                                                            \
	do {                                                                       \
		if (!(cond)) {                                                         \
			printf("line %d: %s, errno %d (%s)\n", __LINE__, #cond, errno, strerror(errno)); \
			failed = 1;                                                        \
		}                                                                      \
	} while (0)

#define FAILS(call, want)          \
	do {                           \
		errno = 0;                 \
		CHECK((call) == -1);       \
		CHECK(errno == (want));    \
	} while (0)

static void files(void) {
	char buf[16] = {0};
	int fd = open("/new", O_CREAT | O_EXCL | O_RDWR, 0644);
	CHECK(fd > 2);
	CHECK(write(fd, "0123456789", 10) == 10);
	CHECK(lseek(fd, -3, SEEK_END) == 7);
	CHECK(read(fd, buf, sizeof buf) == 3 && memcmp(buf, "789", 3) == 0);
	CHECK(pread(fd, buf, 2, 4) == 2 && memcmp(buf, "45", 2) == 0);
	CHECK(pwrite(fd, "ab", 2, 0) == 2);
	CHECK(lseek(fd, 0, SEEK_CUR) == 10);
	CHECK(ftruncate(fd, 4) == 0);
	CHECK(posix_fallocate(fd, 0, 8) == 0);
	CHECK(fsync(fd) == 0 && fdatasync(fd) == 0);
	CHECK(!isatty(fd));
	struct stat st;
	CHECK(fstat(fd, &st) == 0 && st.st_size == 8 && S_ISREG(st.st_mode));
	struct timespec times[2] = {{5, 7}, {6, 8}};
	CHECK(futimens(fd, times) == 0);
	CHECK(stat("new", &st) == 0 && st.st_mtim.tv_sec == 6 && st.st_mtim.tv_nsec == 8);
	CHECK(close(fd) == 0);
	FAILS(close(fd), EBADF);
	FAILS(open("/new", O_CREAT | O_EXCL | O_RDWR, 0644), EEXIST);

	fd = open("new", O_WRONLY | O_APPEND);
	CHECK(write(fd, "zz", 2) == 2);
	CHECK(pwrite(fd, "A", 1, 0) == 1);
	FAILS(read(fd, buf, 1), EBADF);
	CHECK(fcntl(fd, F_GETFL) & O_APPEND);
	CHECK(fcntl(fd, F_SETFL, 0) == 0);
	CHECK(!(fcntl(fd, F_GETFL) & O_APPEND));
	CHECK(close(fd) == 0);
	fd = open("new", O_RDONLY);
	CHECK(read(fd, buf, sizeof buf) == 10 && buf[0] == 'A' && buf[9] == 'z');
	FAILS(write(fd, buf, 1), EBADF);
	CHECK(close(fd) == 0);
	CHECK(unlink("new") == 0);
	FAILS(stat("new", &st), ENOENT);
	FAILS(open("file", O_RDONLY | O_DIRECTORY), ENOTDIR);
	FAILS(open("dir", O_WRONLY), EISDIR);
}

static int count(const char *path) {
	DIR *d = opendir(path);
	CHECK(d != NULL);
	int n = 0;
	struct dirent *e;
	while (d && (e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) n++;
	}
	if (d) closedir(d);
	return n;
}

static void folders(void) {
	char name[64];
	CHECK(mkdir("many", 0755) == 0);
	FAILS(mkdir("many", 0755), EEXIST);
	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof name, "many/%0*d", 1 + i % 50, i);
		int fd = open(name, O_CREAT | O_WRONLY, 0644);
		CHECK(fd > 2 && close(fd) == 0);
	}
	CHECK(count("many") == 300);
	FAILS(rmdir("many"), ENOTEMPTY);
	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof name, "/many/%0*d", 1 + i % 50, i);
		CHECK(unlink(name) == 0);
	}
	CHECK(rmdir("many") == 0);
	CHECK(count("/") == 3); // the mount shows up
	CHECK(rename("file", "dir/moved") == 0);
	CHECK(link("dir/moved", "file") == 0);
	struct stat st;
	CHECK(stat("file", &st) == 0 && st.st_nlink == 2);
	CHECK(unlink("dir/moved") == 0);
	int dfd = open("dir", O_RDONLY | O_DIRECTORY);
	CHECK(fstatat(dfd, "inner", &st, 0) == 0 && st.st_size == 9);
	FAILS(openat(dfd, "../file", O_RDONLY), EPERM);
	char buf[4];
	FAILS(read(dfd, buf, 4), EISDIR);
	FAILS(lseek(dfd, 0, SEEK_SET), EBADF);
	CHECK(close(dfd) == 0);
}

static void links(void) {
	char buf[16] = {0};
	struct stat st;
	CHECK(symlink("dir/inner", "link") == 0);
	CHECK(readlink("link", buf, sizeof buf) == 9 && memcmp(buf, "dir/inner", 9) == 0);
	CHECK(lstat("link", &st) == 0 && S_ISLNK(st.st_mode));
	CHECK(stat("link", &st) == 0 && S_ISREG(st.st_mode));
	FAILS(open("link", O_RDONLY | O_NOFOLLOW), ELOOP);
	CHECK(unlink("link") == 0);
	FAILS(symlink("/etc/passwd", "abs"), EPERM);
	const char *out[] = {"../secret", "../../../../../../../../etc/passwd", "dir/../../secret"};
	for (int i = 0; i < 3; i++) {
		CHECK(symlink(out[i], "out") == 0);
		FAILS(open("out", O_RDONLY), EPERM);
		FAILS(open("out", O_WRONLY | O_CREAT, 0644), EPERM);
		CHECK(unlink("out") == 0);
	}
	FAILS(open("/ro/out", O_RDONLY), EPERM);
	FAILS(open("/../secret", O_RDONLY), EPERM);
}

static void readOnly(void) {
	FAILS(open("ro/fixed", O_WRONLY), EROFS);
	FAILS(open("ro/fixed", O_RDONLY | O_TRUNC), EROFS);
	FAILS(open("ro/new", O_CREAT | O_WRONLY, 0644), EROFS);
	FAILS(mkdir("ro/new", 0755), EROFS);
	FAILS(mkdir("ro", 0755), EEXIST);
	FAILS(unlink("ro/fixed"), EROFS);
	FAILS(rename("ro/fixed", "stolen"), EXDEV);
	FAILS(link("ro/fixed", "stolen"), EXDEV);
	FAILS(rmdir("ro"), EBUSY);
	int fd = open("ro/fixed", O_RDONLY);
	CHECK(fd > 2);
	FAILS(ftruncate(fd, 0), EBADF);
	FAILS(futimens(fd, NULL), EROFS);
	CHECK(close(fd) == 0);
}

static void clocks(void) {
	struct timespec before, after, wait = {0, 2000000};
	CHECK(clock_gettime(CLOCK_MONOTONIC, &before) == 0);
	CHECK(nanosleep(&wait, NULL) == 0);
	CHECK(clock_gettime(CLOCK_MONOTONIC, &after) == 0);
	long long took = (after.tv_sec - before.tv_sec) * 1000000000LL + after.tv_nsec - before.tv_nsec;
	CHECK(took >= 2000000);
	CHECK(time(NULL) > 1600000000);
	struct pollfd fds[2] = {{.fd = 0, .events = POLLIN}, {.fd = 1, .events = POLLOUT}};
	CHECK(poll(fds, 2, -1) >= 1 && fds[1].revents & POLLOUT);
	unsigned char random[64] = {0};
	CHECK(getentropy(random, sizeof random) == 0);
	CHECK(memcmp(random, random + 32, 32) != 0);
}

int main(int argc, char **argv) {
	CHECK(argc == 2 && strcmp(argv[1], "arg") == 0);
	CHECK(getenv("NAME") && strcmp(getenv("NAME"), "value") == 0);
	files();
	folders();
	links();
	readOnly();
	clocks();
	FAILS(lseek(0, 0, SEEK_CUR), ESPIPE);
	FAILS(lseek(1, 0, SEEK_SET), ESPIPE);
	char line[64];
	while (fgets(line, sizeof line, stdin)) fprintf(stderr, "read %s", line);
	puts(failed ? "failed" : "all well");
	return failed ? 1 : 7;
}
