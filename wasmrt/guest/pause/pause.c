// pause does nothing until its pod is asked to stop, and ends well then.
#include <stdio.h>
#include <string.h>

#include "../include/edgepod.h"

int main(int argc, char **argv) {
	if (argc > 1 && strcmp(argv[1], "-v") == 0) {
		puts("pause of edgepod");
		return 0;
	}
	struct pollfd stop = {edgepod_stop_fd(), POLLIN, 0};
	if (stop.fd < 0) {
		fprintf(stderr, "pause: nobody would tell when to stop: EDGEPOD_STOP_FD is not set\n");
		return 1;
	}
	while (poll(&stop, 1, -1) < 0) {
		if (errno != EINTR) {
			perror("pause");
			return 1;
		}
	}
	return 0;
}
