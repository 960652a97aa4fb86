// A guest that serves one connection on its first declared port, or calls such a server over localhost.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define IMPORT(name) __attribute__((import_module("wasi_snapshot_preview1"), import_name(name)))

#ifdef CALL
int32_t sock_open(int32_t family, int32_t type, int32_t *fd) IMPORT("sock_open");
int32_t sock_connect(int32_t fd, void *address, int32_t port) IMPORT("sock_connect");

int main(int argc, char **argv) {
	uint8_t localhost[4] = {127, 0, 0, 1};
	struct {
		uint8_t *data;
		uint32_t size;
	} address = {localhost, sizeof localhost};
	int32_t fd, error = sock_open(1, 2, &fd);
	if (!error)
		error = sock_connect(fd, &address, atoi(argv[1]));
	if (error) {
		printf("error %d\n", error);
		return 1;
	}
	char answer[64];
	write(fd, argv[2], strlen(argv[2]));
	ssize_t n = read(fd, answer, sizeof answer);
	printf("%.*s\n", n > 0 ? (int)n : 0, answer);
	return 0;
}
#else
int main(void) {
	const char *first = getenv("EDGEPOD_LISTEN_FD");
	printf("%s %s\n", getenv("LISTEN_FDS"), getenv("LISTEN_FDNAMES"));
	fflush(stdout);
	char answer[80] = "you said ", *question = answer + 9;
	int fd = accept(first ? atoi(first) : -1, NULL, NULL);
	ssize_t n = read(fd, question, 64);
	if (n <= 0)
		return 1;
	write(fd, answer, 9 + n);
	close(fd);
	return 0;
}
#endif
