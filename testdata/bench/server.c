// A web server that answers every request with the same text, on the listener whose number EDGEPOD_LISTEN_FD tells.
// Connections stay open. It is the same natively and as a module.
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MOST 64

static const char answer[] =
	"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nhello\n";

static struct pollfd fds[MOST] = {{.events = POLLRDNORM}};
static char requests[MOST][4096];
static size_t filled[MOST];
static int count = 1;

// serve reads what has come, and answers a request that is complete. It returns 0 when the connection is over.
static int serve(int i) {
	ssize_t n = read(fds[i].fd, requests[i] + filled[i], sizeof requests[i] - filled[i] - 1);
	if (n <= 0) return 0;
	filled[i] += n;
	requests[i][filled[i]] = 0;
	if (!strstr(requests[i], "\r\n\r\n")) return filled[i] < sizeof requests[i] - 1;
	filled[i] = 0;
	return write(fds[i].fd, answer, sizeof answer - 1) == sizeof answer - 1;
}

int main(void) {
	const char *number = getenv("EDGEPOD_LISTEN_FD");
	if (!number) return 1;
	fds[0].fd = atoi(number);
	for (;;) {
		if (poll(fds, count, -1) < 0) return 2;
		for (int i = count - 1; i > 0; i--) {
			if (!fds[i].revents || serve(i)) continue;
			close(fds[i].fd);
			count--;
			fds[i] = fds[count];
			filled[i] = filled[count];
			memcpy(requests[i], requests[count], filled[i]);
		}
		if (!fds[0].revents || count == MOST) continue;
		int connection = accept(fds[0].fd, NULL, NULL);
		if (connection < 0) return 3;
		fds[count] = (struct pollfd){.fd = connection, .events = POLLRDNORM};
		filled[count++] = 0;
	}
}
