// Waits for ever in the way that its argument names.
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
	char c;
	puts("waiting");
	fflush(stdout);
	if (!strcmp(argv[1], "read")) return read(0, &c, 1);
	if (!strcmp(argv[1], "sleep")) return sleep(100000);
	if (!strcmp(argv[1], "poll")) {
		struct pollfd fds[1] = {{.fd = 0, .events = POLLIN}};
		return poll(fds, 1, -1);
	}
	for (;;) {
		struct timespec ts;
		clock_gettime(CLOCK_MONOTONIC, &ts);
	}
}
