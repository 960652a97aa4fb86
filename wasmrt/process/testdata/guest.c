// A guest that behaves as its arguments say: the word that names the behaviour comes after the program's name.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile int sink;
static char *volatile kept;

static int copy(const char *from, const char *to) {
	char buf[4096];
	FILE *in = fopen(from, "r"), *out = to ? fopen(to, "w") : stdout;
	if (!in || !out) {
		fprintf(stderr, "%s: %s\n", in ? to : from, strerror(errno));
		return 1;
	}
	size_t n;
	while ((n = fread(buf, 1, sizeof buf, in)) > 0)
		fwrite(buf, 1, n, out);
	return fclose(out) ? 1 : 0;
}

static int put(const char *path, const char *text) {
	FILE *f = fopen(path, "w");
	if (!f || fputs(text, f) < 0 || fclose(f)) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return 1;
	}
	return 0;
}

int main(int argc, char **argv) {
	const char *what = argc > 1 ? argv[1] : "exit", *a = argc > 2 ? argv[2] : "", *b = argc > 3 ? argv[3] : "";
	if (!strcmp(what, "exit"))
		return *a ? atoi(a) : 0;
	if (!strcmp(what, "print")) {
		puts(a);
		fprintf(stderr, "%s", b);
		return 0;
	}
	if (!strcmp(what, "sleep")) {
		puts("sleeping");
		fflush(stdout);
		for (;;)
			sleep(1000);
	}
	if (!strcmp(what, "heed")) {
		char c;
		const char *fd = getenv("EDGEPOD_STOP_FD");
		struct pollfd look = {fd ? atoi(fd) : -1, POLLIN, 0};
		poll(&look, 1, 0); // from here on, requests are seen
		puts("waiting");
		fflush(stdout);
		if (read(look.fd, &c, 1) == 0) {
			puts("asked to stop");
			return atoi(a);
		}
		return 99;
	}
	if (!strcmp(what, "loop")) {
		puts("looping");
		fflush(stdout);
		for (;;)
			sink++;
	}
	if (!strcmp(what, "grow")) {
		unsigned long pages = 0;
		while (__builtin_wasm_memory_grow(0, 16) != (size_t)-1)
			pages += 16;
		printf("grew %lu pages\n", pages);
		return 0;
	}
	if (!strcmp(what, "hold")) {
		unsigned long pages = 0;
		while (__builtin_wasm_memory_grow(0, 16) != (size_t)-1)
			pages += 16;
		printf("holds %lu pages\n", pages);
		fflush(stdout);
		for (;;)
			sleep(1000);
	}
	if (!strcmp(what, "open")) {
		int n = 0;
		while (open("/tmp/file", O_CREAT | O_RDWR, 0600) >= 0)
			n++;
		printf("%d %s\n", n, strerror(errno));
		return put("/tmp/other", "x") ? 0 : 1; // there is no descriptor for it
	}
	if (!strcmp(what, "spew")) {
		static char bytes[1 << 16];
		for (unsigned i = 0; i < sizeof bytes; i++)
			bytes[i] = i * 7 % 251 == '\n' ? 27 : i * 7 % 251; // no line ever ends
		for (long i = 0; i < atol(a); i++)
			fwrite(bytes, 1, sizeof bytes, stdout);
		return 0;
	}
	if (!strcmp(what, "touch")) {
		for (;;) {
			char *p = malloc(1 << 20);
			if (!p) {
				puts("malloc failed");
				return 3;
			}
			memset(p, 1, 1 << 20);
			kept = p;
		}
	}
	if (!strcmp(what, "trap"))
		__builtin_trap();
	if (!strcmp(what, "flood")) {
		for (long i = 0; i < atol(a); i++)
			printf("line %ld of a flood that fills the log and more\n", i);
		return 0;
	}
	if (!strcmp(what, "put"))
		return put(a, b);
	if (!strcmp(what, "cat"))
		return copy(a, NULL);
	if (!strcmp(what, "link"))
		return symlink(a, b) ? (perror("symlink"), 1) : copy(b, NULL);
	if (!strcmp(what, "wait")) {
		while (access(a, F_OK))
			usleep(1000);
		return atoi(b);
	}
	if (!strcmp(what, "env")) {
		puts(getenv(a) ? getenv(a) : "(none)");
		return 0;
	}
	fprintf(stderr, "unknown word %s\n", what);
	return 2;
}
