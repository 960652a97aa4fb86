// Does what its first argument says.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wasi/api.h>

extern char **environ;

static int copy(FILE *from) {
	int c;
	if (!from) {
		perror("open");
		return 1;
	}
	while ((c = getc(from)) != EOF)
		putchar(c);
	return 0;
}

static int preopens(void) {
	__wasi_prestat_t p;
	for (int fd = 3; __wasi_fd_prestat_get(fd, &p) == 0; fd++) {
		char name[512] = {0};
		if (__wasi_fd_prestat_dir_name(fd, (uint8_t *)name, p.u.dir.pr_name_len) != 0)
			return 1;
		printf("%d %s\n", fd, name);
	}
	return 0;
}

int main(int argc, char **argv) {
	const char *what = argc > 1 ? argv[1] : "";
	if (!strcmp(what, "args")) {
		for (int i = 0; i < argc; i++)
			printf("%s%c", argv[i], i + 1 < argc ? ' ' : '\n');
		return 0;
	}
	if (!strcmp(what, "env")) {
		for (char **e = environ; e && *e; e++)
			puts(*e);
		return 0;
	}
	if (!strcmp(what, "cat"))
		return copy(stdin);
	if (!strcmp(what, "show"))
		return copy(fopen(argv[2], "r"));
	if (!strcmp(what, "preopens"))
		return preopens();
	if (!strcmp(what, "exit"))
		return atoi(argv[2]);
	__builtin_trap();
}
