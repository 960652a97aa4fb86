// Asks the server for a page for each of its arguments, and prints the answers.
#include <stdio.h>

#include "edgepod.h"

// dial connects to the server. The container with it may need a moment.
static int dial(const char *host, const char *port) {
	int fd;
	for (int tries = 0; (fd = edgepod_connect(EDGEPOD_TCP, host, port)) < 0 && errno == ECONNREFUSED && tries < 1200; tries++)
		usleep(50000);
	return fd;
}

int main(int argc, char **argv) {
	char text[1024];
	for (int i = 1; i < argc; i++) {
		int fd = dial("localhost", "8080");
		if (fd < 0) {
			perror("connect");
			return 1;
		}
		int size = snprintf(text, sizeof text, "GET /greet/%s HTTP/1.0\r\nHost: localhost\r\n\r\n", argv[i]);
		if (size >= (int)sizeof text || write(fd, text, (size_t)size) != size) {
			perror("send");
			return 1;
		}
		FILE *in = fdopen(fd, "r");
		while (fgets(text, sizeof text, in) && strcmp(text, "\r\n") != 0)
			;
		while (fgets(text, sizeof text, in))
			fputs(text, stdout);
		fclose(in);
	}
	return 0;
}
