// Makes the system calls themselves, with the structures as wasi-libc's header has them, and compares what they answer.
// Descriptor 3 is a folder with the file "file", whose content is "file", and the folder "dir".
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wasi/api.h>

#define ALL (~0ULL)
#define FILES (__WASI_RIGHTS_FD_READ | __WASI_RIGHTS_FD_WRITE | __WASI_RIGHTS_FD_SEEK | __WASI_RIGHTS_FD_TELL)

static int bad;

#define WANT(errno, call) want(errno, call, #call, __LINE__)
#define CHECK(cond) \
	do { \
		if (!(cond)) { \
			printf("line %d: not so: %s\n", __LINE__, #cond); \
			bad = 1; \
		} \
	} while (0)

static void want(int errno, int got, const char *call, int line) {
	if (got != errno) {
		printf("line %d: %s is %d, want %d\n", line, call, got, errno);
		bad = 1;
	}
}

static __wasi_fd_t opened(__wasi_fd_t dir, const char *path, int oflags, __wasi_rights_t base, int fdflags) {
	__wasi_fd_t fd = 0;
	int err = __wasi_path_open(dir, 0, path, oflags, base, ALL, fdflags, &fd);
	if (err != 0) {
		printf("open %s: %d\n", path, err);
		exit(1);
	}
	return fd;
}

static __wasi_size_t written(__wasi_fd_t fd, const char *text) {
	__wasi_ciovec_t v[2] = {{(const uint8_t *)text, 1}, {(const uint8_t *)text + 1, strlen(text) - 1}};
	__wasi_size_t n = 0;
	WANT(0, __wasi_fd_write(fd, v, 2, &n));
	return n;
}

static void descriptors(void) {
	__wasi_fdstat_t st;
	WANT(0, __wasi_fd_fdstat_get(3, &st));
	CHECK(st.fs_filetype == __WASI_FILETYPE_DIRECTORY && st.fs_flags == 0);
	CHECK(st.fs_rights_base & __WASI_RIGHTS_PATH_OPEN && st.fs_rights_inheriting & __WASI_RIGHTS_FD_WRITE);
	CHECK(!(st.fs_rights_base & __WASI_RIGHTS_FD_SEEK));

	__wasi_fd_t a = opened(3, "file", 0, FILES, __WASI_FDFLAGS_NONBLOCK), b = opened(3, "file", 0, FILES, 0);
	WANT(0, __wasi_fd_fdstat_get(a, &st));
	CHECK(st.fs_filetype == __WASI_FILETYPE_REGULAR_FILE && st.fs_flags == __WASI_FDFLAGS_NONBLOCK && st.fs_rights_base == FILES);
	WANT(0, __wasi_fd_fdstat_set_rights(a, __WASI_RIGHTS_FD_READ, 0));
	WANT(__WASI_ERRNO_NOTCAPABLE, __wasi_fd_fdstat_set_rights(a, FILES, 0));
	WANT(0, __wasi_fd_renumber(a, b));
	WANT(__WASI_ERRNO_BADF, __wasi_fd_fdstat_get(a, &st));
	WANT(0, __wasi_fd_fdstat_get(b, &st));
	CHECK(st.fs_rights_base == __WASI_RIGHTS_FD_READ && st.fs_flags == __WASI_FDFLAGS_NONBLOCK);
	WANT(__WASI_ERRNO_BADF, __wasi_fd_renumber(a, b));
	WANT(0, __wasi_fd_renumber(b, b));
	CHECK(opened(3, "file", 0, FILES, 0) == a);
	WANT(0, __wasi_fd_close(a));
	WANT(0, __wasi_fd_close(b));
	WANT(__WASI_ERRNO_BADF, __wasi_fd_close(b));

	__wasi_prestat_t p;
	uint8_t name[8] = "?????";
	WANT(0, __wasi_fd_prestat_get(3, &p));
	CHECK(p.tag == __WASI_PREOPENTYPE_DIR && p.u.dir.pr_name_len == 1);
	WANT(0, __wasi_fd_prestat_dir_name(3, name, 1));
	CHECK(!memcmp(name, "/????", 5));
	WANT(__WASI_ERRNO_BADF, __wasi_fd_prestat_get(4, &p));
}

static void content(void) {
	__wasi_fd_t fd = opened(3, "new", __WASI_OFLAGS_CREAT | __WASI_OFLAGS_EXCL, ALL, __WASI_FDFLAGS_APPEND);
	CHECK(written(fd, "abcd") == 4);
	__wasi_filesize_t at;
	WANT(0, __wasi_fd_seek(fd, 1, __WASI_WHENCE_SET, &at));
	CHECK(written(fd, "ef") == 2);
	WANT(0, __wasi_fd_tell(fd, &at));
	CHECK(at == 6);
	__wasi_ciovec_t out = {(const uint8_t *)"XY", 2};
	__wasi_size_t n;
	WANT(0, __wasi_fd_pwrite(fd, &out, 1, 1, &n));
	char buf[16] = {0};
	__wasi_iovec_t in[2] = {{(uint8_t *)buf, 3}, {(uint8_t *)buf + 3, 10}};
	WANT(0, __wasi_fd_pread(fd, in, 2, 0, &n));
	CHECK(n == 6 && !strcmp(buf, "aXYdef"));
	WANT(0, __wasi_fd_seek(fd, -2, __WASI_WHENCE_END, &at));
	CHECK(at == 4);
	WANT(__WASI_ERRNO_INVAL, __wasi_fd_seek(fd, -9, __WASI_WHENCE_CUR, &at));
	WANT(0, __wasi_fd_allocate(fd, 8, 8));
	WANT(0, __wasi_fd_advise(fd, 0, 0, __WASI_ADVICE_WILLNEED));
	WANT(0, __wasi_fd_datasync(fd));
	WANT(0, __wasi_fd_sync(fd));
	WANT(0, __wasi_fd_filestat_set_times(fd, 5, 7, __WASI_FSTFLAGS_ATIM | __WASI_FSTFLAGS_MTIM));
	WANT(__WASI_ERRNO_INVAL, __wasi_fd_filestat_set_times(fd, 0, 0, __WASI_FSTFLAGS_ATIM | __WASI_FSTFLAGS_ATIM_NOW));
	__wasi_filestat_t st, link;
	WANT(0, __wasi_fd_filestat_get(fd, &st));
	CHECK(st.size == 16 && st.atim == 5 && st.mtim == 7 && st.nlink == 1 && st.filetype == __WASI_FILETYPE_REGULAR_FILE);
	WANT(0, __wasi_fd_filestat_set_size(fd, 2));
	WANT(0, __wasi_path_link(3, 0, "new", 3, "dir/second"));
	WANT(0, __wasi_path_filestat_get(3, 0, "dir/second", &link));
	CHECK(link.ino == st.ino && link.dev == st.dev && link.nlink == 2 && link.size == 2);
	WANT(__WASI_ERRNO_EXIST, __wasi_path_link(3, 0, "new", 3, "file"));
	WANT(0, __wasi_fd_close(fd));
}

static void paths(void) {
	__wasi_filestat_t st;
	__wasi_size_t n;
	__wasi_fd_t fd;
	uint8_t text[8] = {0};
	WANT(0, __wasi_path_symlink("dir/second", 3, "link"));
	WANT(0, __wasi_path_readlink(3, "link", text, 5, &n));
	CHECK(n == 5 && !memcmp(text, "dir/s", 6));
	WANT(0, __wasi_path_filestat_get(3, 0, "link", &st));
	CHECK(st.filetype == __WASI_FILETYPE_SYMBOLIC_LINK && st.size == 10);
	WANT(0, __wasi_path_filestat_set_times(3, __WASI_LOOKUPFLAGS_SYMLINK_FOLLOW, "link", 0, 9, __WASI_FSTFLAGS_MTIM));
	WANT(0, __wasi_path_filestat_get(3, 0, "new", &st));
	CHECK(st.mtim == 9);
	WANT(__WASI_ERRNO_LOOP, __wasi_path_open(3, 0, "link", 0, 0, 0, 0, &fd));
	WANT(__WASI_ERRNO_PERM, __wasi_path_open(3, 0, "dir/../../x", 0, 0, 0, 0, &fd));
	WANT(__WASI_ERRNO_PERM, __wasi_path_open(3, 0, "/file", 0, 0, 0, 0, &fd));
	WANT(__WASI_ERRNO_NOTDIR, __wasi_path_open(3, 0, "file", __WASI_OFLAGS_DIRECTORY, 0, 0, 0, &fd));
	WANT(__WASI_ERRNO_ISDIR, __wasi_path_open(3, 0, "dir", 0, __WASI_RIGHTS_FD_WRITE, 0, 0, &fd));
	WANT(__WASI_ERRNO_NOTEMPTY, __wasi_path_remove_directory(3, "dir"));
	WANT(__WASI_ERRNO_ISDIR, __wasi_path_unlink_file(3, "dir"));
	WANT(0, __wasi_path_rename(3, "dir/second", 3, "moved"));
	WANT(0, __wasi_path_create_directory(3, "dir/sub"));
	WANT(0, __wasi_path_rename(3, "dir", 3, "folder"));

	uint8_t buf[256];
	__wasi_dirent_t e;
	fd = opened(3, "folder", __WASI_OFLAGS_DIRECTORY, __WASI_RIGHTS_FD_READDIR, 0);
	WANT(0, __wasi_fd_readdir(fd, buf, sizeof buf, 0, &n));
	CHECK(n == 3 * sizeof e + 1 + 2 + 3);
	memcpy(&e, buf + sizeof e + 1, sizeof e);
	CHECK(e.d_namlen == 2 && e.d_type == __WASI_FILETYPE_DIRECTORY && !memcmp(buf + 2 * sizeof e + 1, "..", 2));
	WANT(0, __wasi_fd_readdir(fd, buf, sizeof buf, e.d_next, &n));
	memcpy(&e, buf, sizeof e);
	CHECK(n == sizeof e + 3 && e.d_type == __WASI_FILETYPE_DIRECTORY && !memcmp(buf + sizeof e, "sub", 3));
	WANT(0, __wasi_path_filestat_get(3, 0, "folder/sub", &st));
	CHECK(e.d_ino == st.ino);
	WANT(0, __wasi_fd_close(fd));
}

static void others(void) {
	__wasi_timestamp_t t, u;
	for (int clock = 0; clock < 4; clock++) {
		WANT(0, __wasi_clock_res_get(clock, &t));
		WANT(0, __wasi_clock_time_get(clock, 1, &u));
		CHECK(t > 0 && t < 1000000000 && u > 0);
	}
	WANT(__WASI_ERRNO_INVAL, __wasi_clock_res_get(4, &t));
	uint8_t random[64] = {0}, zero[64] = {0};
	WANT(0, __wasi_random_get(random, sizeof random));
	CHECK(memcmp(random, zero, sizeof zero));
	WANT(0, __wasi_sched_yield());

	__wasi_subscription_t in[2];
	__wasi_event_t events[2];
	__wasi_size_t n;
	memset(in, 0, sizeof in);
	in[0].userdata = 11;
	in[0].u.tag = __WASI_EVENTTYPE_CLOCK;
	in[0].u.u.clock.id = __WASI_CLOCKID_MONOTONIC;
	in[0].u.u.clock.timeout = 1;
	in[1].userdata = 22;
	in[1].u.tag = __WASI_EVENTTYPE_FD_READ;
	in[1].u.u.fd_read.file_descriptor = 99;
	WANT(0, __wasi_poll_oneoff(in, events, 2, &n));
	CHECK(n >= 1);
	for (__wasi_size_t i = 0; i < n; i++)
		CHECK(events[i].userdata == 11 ? events[i].error == 0 : events[i].error == __WASI_ERRNO_BADF && events[i].userdata == 22);
}

int main(void) {
	descriptors();
	content();
	paths();
	others();
	if (bad)
		return 1;
	puts("all well");
	return 0;
}
