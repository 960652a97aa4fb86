// Answers HTTP requests until the pod is asked to stop. The port is one that the pod declares (ports: in pod.yaml), whose
// listener edgepod makes and hands over.
#include <stdio.h>
#include <sys/socket.h>

#include "edgepod.h"

static int fail(const char *what) {
	perror(what);
	return 1;
}

// answer reads a request's head and greets the last word of its path.
static void answer(int connection) {
	char request[4096], text[256], name[64] = "you", response[512];
	size_t size = 0;
	for (;;) {
		ssize_t n = recv(connection, request + size, sizeof request - 1 - size, 0);
		if (n <= 0)
			return;
		size += (size_t)n;
		request[size] = 0;
		if (strstr(request, "\r\n\r\n"))
			break;
		if (size == sizeof request - 1)
			return;
	}
	sscanf(request, "%*s /greet/%63[a-zA-Z]", name);
	request[strcspn(request, "\r")] = 0;
	printf("%s\n", request);
	int length = snprintf(text, sizeof text, "Hello, %s! I am written in C.\n", name);
	int total = snprintf(response, sizeof response,
		"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", length, text);
	for (int sent = 0; sent < total;) {
		ssize_t n = send(connection, response + sent, (size_t)(total - sent), 0);
		if (n < 0)
			return;
		sent += (int)n;
	}
}

int main(void) {
	setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
	int listener = edgepod_listener("http");
	if (listener < 0)
		return fail("there is no container port called http");
	printf("server is up\n");
	for (;;) {
		int wait = edgepod_wait(listener);
		if (wait < 0)
			return fail("wait");
		if (wait == 0)
			break;
		int connection = accept(listener, NULL, NULL);
		if (connection < 0)
			return fail("accept");
		answer(connection);
		close(connection);
	}
	printf("goodbye\n");
	return 0;
}
