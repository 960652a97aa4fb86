// The toolbox: a few of the commands that every Unix has, in one small WASI module. It is called by the name of the
// command (argv[0]), or with it as the first argument.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../include/edgepod.h"

extern char **environ;

static int fail(const char *command, const char *what) {
	fprintf(stderr, "%s: %s: %s\n", command, what, strerror(errno));
	return 1;
}

static int copy(const char *command, int from, const char *name, int to) {
	char buffer[16384];
	ssize_t n;
	while ((n = read(from, buffer, sizeof buffer)) > 0) {
		for (ssize_t done = 0; done < n;) {
			ssize_t m = write(to, buffer + done, n - done);
			if (m < 0)
				return fail(command, "write");
			done += m;
		}
	}
	return n < 0 ? fail(command, name) : 0;
}

static int do_echo(int argc, char **argv) {
	int first = 1, newline = 1;
	if (argc > 1 && strcmp(argv[1], "-n") == 0) {
		newline = 0;
		first = 2;
	}
	for (int i = first; i < argc; i++)
		printf("%s%s", i > first ? " " : "", argv[i]);
	if (newline)
		putchar('\n');
	return 0;
}

static int do_cat(int argc, char **argv) {
	int failed = 0;
	if (argc == 1)
		return copy("cat", 0, "standard input", 1);
	for (int i = 1; i < argc; i++) {
		int fd = open(argv[i], O_RDONLY);
		if (fd < 0) {
			failed = fail("cat", argv[i]);
			continue;
		}
		failed |= copy("cat", fd, argv[i], 1);
		close(fd);
	}
	return failed;
}

static int do_tee(int argc, char **argv) {
	int append = argc > 1 && strcmp(argv[1], "-a") == 0;
	if (argc != 2 + append) {
		fprintf(stderr, "usage: tee [-a] FILE\n");
		return 2;
	}
	const char *name = argv[1 + append];
	int fd = open(name, O_WRONLY | O_CREAT | (append ? O_APPEND : O_TRUNC), 0644);
	if (fd < 0)
		return fail("tee", name);
	char buffer[16384];
	ssize_t n;
	while ((n = read(0, buffer, sizeof buffer)) > 0) {
		if (write(1, buffer, n) != n || write(fd, buffer, n) != n)
			return fail("tee", name);
	}
	return close(fd) < 0 ? fail("tee", name) : 0;
}

// write FILE WORDS...: the words and a newline become the file.
static int do_write(int argc, char **argv) {
	if (argc < 2) {
		fprintf(stderr, "usage: write FILE [WORDS]\n");
		return 2;
	}
	FILE *file = fopen(argv[1], "w");
	if (!file)
		return fail("write", argv[1]);
	for (int i = 2; i < argc; i++)
		fprintf(file, "%s%s", i > 2 ? " " : "", argv[i]);
	fputc('\n', file);
	return fclose(file) ? fail("write", argv[1]) : 0;
}

static int do_ls(int argc, char **argv) {
	const char *name = argc > 1 ? argv[1] : ".";
	DIR *dir = opendir(name);
	if (!dir)
		return fail("ls", name);
	struct dirent *entry;
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] != '.')
			printf("%s\n", entry->d_name);
	}
	closedir(dir);
	return 0;
}

static int do_env(int argc, char **argv) {
	(void)argc, (void)argv;
	for (char **variable = environ; *variable; variable++)
		printf("%s\n", *variable);
	return 0;
}

static void pause_for(double seconds) {
	struct timespec left = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		;
}

static int do_sleep(int argc, char **argv) {
	char *end = "";
	double seconds = argc == 2 ? strtod(argv[1], &end) : -1;
	if (argc == 2 && (strcmp(argv[1], "infinity") == 0 || strcmp(argv[1], "inf") == 0)) {
		for (;;)
			pause_for(1e9);
	}
	if (seconds < 0 || *end) {
		fprintf(stderr, "usage: sleep SECONDS|infinity\n");
		return 2;
	}
	pause_for(seconds);
	return 0;
}

// tick [SECONDS]: a line with the time, again and again.
static int do_tick(int argc, char **argv) {
	double seconds = argc > 1 ? atof(argv[1]) : 1;
	for (long count = 1;; count++) {
		char text[40];
		time_t now = time(NULL);
		strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
		printf("%s tick %ld\n", text, count);
		fflush(stdout);
		pause_for(seconds);
	}
}

static int do_date(int argc, char **argv) {
	(void)argc, (void)argv;
	char text[40];
	time_t now = time(NULL);
	strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
	printf("%s\n", text);
	return 0;
}

// send_all writes all of a text to a socket.
static int send_all(int fd, const char *data, size_t size) {
	while (size > 0) {
		ssize_t n = write(fd, data, size);
		if (n < 0)
			return -1;
		data += n;
		size -= n;
	}
	return 0;
}

// dial connects to a port of a host, and tries again where nobody listens yet.
static int dial(const char *host, const char *port, int tries) {
	int fd;
	while ((fd = edgepod_connect(EDGEPOD_TCP, host, port)) < 0 && errno == ECONNREFUSED && --tries > 0)
		pause_for(0.2);
	return fd;
}

// read_status reads the head of an HTTP answer, and keeps its first line.
static int read_status(FILE *in, char *line, int size) {
	char rest[1024];
	if (!fgets(line, size, in))
		return -1;
	line[strcspn(line, "\r\n")] = 0;
	while (fgets(rest, sizeof rest, in)) {
		if (strcmp(rest, "\r\n") == 0 || strcmp(rest, "\n") == 0)
			return 0;
	}
	return -1;
}

// A URL in parts; site is host and port as the URL has them.
struct url {
	char host[256], port[8];
	const char *path, *site;
	int site_size;
};

// split_url takes http://HOST[:PORT][/PATH] apart.
static int split_url(const char *text, struct url *url) {
	if (strncmp(text, "http://", 7) == 0)
		text += 7;
	else if (strstr(text, "://"))
		return -1;
	size_t size = strcspn(text, "/?#"), host = size;
	url->path = text + size;
	url->site = text;
	url->site_size = (int)size;
	strcpy(url->port, "80");
	if (*text == '[') { // an IPv6 address
		host = strcspn(++text, "]");
		size--;
	} else if (memchr(text, ':', size)) {
		host = strcspn(text, ":");
	}
	const char *colon = memchr(text + host, ':', size > host ? size - host : 0);
	if (colon) {
		size_t digits = text + size - colon - 1;
		if (digits == 0 || digits >= sizeof url->port)
			return -1;
		memcpy(url->port, colon + 1, digits);
		url->port[digits] = 0;
	}
	if (host == 0 || host >= sizeof url->host)
		return -1;
	memcpy(url->host, text, host);
	url->host[host] = 0;
	return 0;
}

// fetch asks for a page and writes it to a file, "-" being the output.
static int fetch(const struct url *url, const char *name, int tries) {
	int fd = dial(url->host, url->port, tries);
	if (fd < 0) {
		fprintf(stderr, "wget: can't connect to %s port %s: %s\n", url->host, url->port, strerror(errno));
		return 1;
	}
	char text[2048];
	int n = snprintf(text, sizeof text, "GET %s%s HTTP/1.0\r\nHost: %.*s\r\nUser-Agent: wget\r\nConnection: close\r\n\r\n",
		*url->path == '/' ? "" : "/", url->path, url->site_size, url->site);
	if (n >= (int)sizeof text || send_all(fd, text, n) < 0)
		return fail("wget", "send the request");
	FILE *in = fdopen(fd, "r");
	if (!in || read_status(in, text, sizeof text) < 0) {
		fprintf(stderr, "wget: the server did not answer with HTTP\n");
		return 1;
	}
	if (strncmp(text, "HTTP/1.", 7) != 0 || strncmp(text + 8, " 2", 2) != 0) {
		fprintf(stderr, "wget: server returned error: %s\n", text);
		return 1;
	}
	FILE *out = strcmp(name, "-") == 0 ? stdout : fopen(name, "w");
	if (!out)
		return fail("wget", name);
	size_t size;
	while ((size = fread(text, 1, sizeof text, in)) > 0)
		fwrite(text, 1, size, out);
	return ferror(in) || fflush(out) ? fail("wget", name) : 0;
}

static int do_wget(int argc, char **argv) {
	const char *name = NULL;
	struct url url;
	int option, tries = 1;
	while ((option = getopt(argc, argv, "qO:t:")) != -1) {
		if (option == 'O')
			name = optarg;
		else if (option == 't')
			tries = atoi(optarg);
		else if (option != 'q')
			return 2;
	}
	if (optind != argc - 1 || split_url(argv[optind], &url) < 0) {
		fprintf(stderr, "usage: wget [-q] [-O FILE|-] [-t TRIES] http://HOST[:PORT][/PATH]\n");
		return 2;
	}
	if (!name) {
		const char *slash = strrchr(url.path, '/');
		name = slash && slash[1] ? slash + 1 : "index.html";
	}
	return fetch(&url, name, tries);
}

// join copies the input to a connection and what comes from it to the output, until the other side has said all.
static int join(int fd) {
	char buffer[16384];
	struct pollfd fds[2] = {{fd, POLLIN, 0}, {0, POLLIN, 0}};
	for (int open = 2;;) {
		if (poll(fds, open, -1) < 0)
			return fail("nc", "poll");
		if (open == 2 && fds[1].revents) {
			ssize_t n = read(0, buffer, sizeof buffer);
			if (n > 0 && send_all(fd, buffer, n) < 0)
				return fail("nc", "write");
			if (n <= 0) {
				shutdown(fd, SHUT_WR);
				open = 1;
			}
		}
		if (fds[0].revents) {
			ssize_t n = read(fd, buffer, sizeof buffer);
			if (n < 0)
				return fail("nc", "read");
			if (n == 0)
				return 0;
			if (send_all(1, buffer, n) < 0)
				return fail("nc", "write");
		}
	}
}

static int do_nc(int argc, char **argv) {
	int option, listens = 0, fd;
	while ((option = getopt(argc, argv, "l")) != -1) {
		if (option != 'l')
			return 2;
		listens = 1;
	}
	if (argc - optind != 2 - listens) {
		fprintf(stderr, "usage: nc HOST PORT | nc -l PORT\n");
		return 2;
	}
	if (!listens) {
		fd = dial(argv[optind], argv[optind + 1], 1);
		return fd < 0 ? fail("nc", argv[optind]) : join(fd);
	}
	int listener = edgepod_listen(EDGEPOD_TCP, (uint16_t)atoi(argv[optind]));
	if (listener < 0 || (fd = accept(listener, NULL, NULL)) < 0)
		return fail("nc", argv[optind]);
	close(listener);
	return join(fd);
}

static int do_exit(int argc, char **argv) {
	return argc > 1 ? atoi(argv[1]) : 0;
}

static int do_true(int argc, char **argv) { return (void)argc, (void)argv, 0; }
static int do_false(int argc, char **argv) { return (void)argc, (void)argv, 1; }

static const struct {
	const char *name, *usage;
	int (*run)(int argc, char **argv);
} commands[] = {
	{"cat", "[FILE...]", do_cat},
	{"date", "", do_date},
	{"echo", "[-n] [WORDS]", do_echo},
	{"env", "", do_env},
	{"exit", "[CODE]", do_exit},
	{"false", "", do_false},
	{"ls", "[FOLDER]", do_ls},
	{"nc", "HOST PORT | -l PORT", do_nc},
	{"sleep", "SECONDS|infinity", do_sleep},
	{"tee", "[-a] FILE", do_tee},
	{"tick", "[SECONDS]", do_tick},
	{"true", "", do_true},
	{"wget", "[-q] [-O FILE|-] [-t TRIES] URL", do_wget},
	{"write", "FILE [WORDS]", do_write},
};

static const char *base(const char *path) {
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

static int find(const char *name, size_t *at) {
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
		if (strcmp(commands[i].name, name) == 0) {
			*at = i;
			return 1;
		}
	}
	return 0;
}

int main(int argc, char **argv) {
	size_t at;
	if (argc > 0 && find(base(argv[0]), &at))
		return commands[at].run(argc, argv);
	if (argc > 1 && find(argv[1], &at))
		return commands[at].run(argc - 1, argv + 1);
	FILE *out = argc > 1 ? stderr : stdout;
	if (argc > 1)
		fprintf(out, "toolbox: there is no command %s; the commands are:\n", argv[1]);
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
		fprintf(out, "  %s %s\n", commands[i].name, commands[i].usage);
	return argc > 1 ? 127 : 0;
}
