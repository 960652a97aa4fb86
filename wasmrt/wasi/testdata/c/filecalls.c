// Does one kind of file call again and again, and says how many nanoseconds that took: filecalls KIND COUNT.
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char buf[4096];

static void check(int good, const char *what) {
	if (!good) {
		perror(what);
		exit(1);
	}
}

static void once(const char *kind, int fd) {
	struct stat st;
	if (!strcmp(kind, "open")) {
		int f = open("file", O_RDONLY);
		check(f >= 0 && close(f) == 0, kind);
	} else if (!strcmp(kind, "open-deep")) {
		int f = open("a/b/c/file", O_RDONLY);
		check(f >= 0 && close(f) == 0, kind);
	} else if (!strcmp(kind, "read")) {
		check(pread(fd, buf, sizeof buf, 0) == sizeof buf, kind);
	} else if (!strcmp(kind, "write")) {
		check(pwrite(fd, buf, sizeof buf, 0) == sizeof buf, kind);
	} else if (!strcmp(kind, "stat")) {
		check(stat("file", &st) == 0, kind);
	} else if (!strcmp(kind, "stat-deep")) {
		check(stat("a/b/c/file", &st) == 0, kind);
	} else if (!strcmp(kind, "stat-missing")) {
		check(stat("none", &st) != 0, kind);
	} else if (!strcmp(kind, "readdir")) {
		DIR *d = opendir("many");
		check(d != NULL, kind);
		int n = 0;
		while (readdir(d))
			n++;
		check(n >= 10000 && closedir(d) == 0, kind);
	} else {
		check(0, "no such kind");
	}
}

int main(int argc, char **argv) {
	check(argc == 3, "usage: filecalls KIND COUNT");
	int n = atoi(argv[2]), fd = open("file", O_RDWR);
	check(fd >= 0, "file");
	struct timespec from, to;
	clock_gettime(CLOCK_MONOTONIC, &from);
	for (int i = 0; i < n; i++)
		once(argv[1], fd);
	clock_gettime(CLOCK_MONOTONIC, &to);
	printf("%lld", (to.tv_sec - from.tv_sec) * 1000000000LL + to.tv_nsec - from.tv_nsec);
	return 0;
}
