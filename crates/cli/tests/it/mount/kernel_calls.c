/* System calls that no crate here offers: asynchronous direct writes beside buffered reads, and file handles.
 *
 * kernel_calls stale FILE ROUNDS          prints how many rounds read old content
 * kernel_calls handle MOUNT FILE COMMAND  takes a handle of FILE, runs COMMAND, opens the handle: prints its first bytes or the error
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LEN = 65536, PAGE = 4096, READERS = 3 };

static const char *path;
static volatile int done;

static void *read_on(void *unused)
{
	char *buf = malloc(LEN);
	int fd = open(path, O_RDONLY);

	while (!done)
		if (pread(fd, buf, LEN, 0) < 0)
			break;
	close(fd);
	free(buf);
	return unused;
}

static int write_async(aio_context_t ctx, int fd, const char *buf)
{
	struct iocb cb, *list = &cb;
	struct io_event event;

	memset(&cb, 0, sizeof(cb));
	cb.aio_lio_opcode = IOCB_CMD_PWRITE;
	cb.aio_fildes = fd;
	cb.aio_buf = (unsigned long)buf;
	cb.aio_nbytes = LEN;
	if (syscall(SYS_io_submit, ctx, 1, &list) != 1)
		return -1;
	if (syscall(SYS_io_getevents, ctx, 1, 1, &event, NULL) != 1)
		return -1;
	return event.res == LEN ? 0 : -1;
}

static int stale(int rounds)
{
	int out = open(path, O_RDWR | O_CREAT | O_DIRECT, 0644);
	int in = open(path, O_RDONLY), old = 0;
	char *wrote = aligned_alloc(PAGE, LEN), *read = malloc(LEN);
	pthread_t readers[READERS];
	aio_context_t ctx = 0;

	memset(wrote, 0, LEN);
	if (pwrite(out, wrote, LEN, 0) != LEN || syscall(SYS_io_setup, 4, &ctx) != 0)
		return 1;
	for (int i = 0; i < READERS; i++)
		pthread_create(&readers[i], NULL, read_on, NULL);
	for (int round = 1; round <= rounds; round++) {
		memset(wrote, round & 255, LEN);
		if (write_async(ctx, out, wrote) != 0 || pread(in, read, LEN, 0) != LEN)
			return 1;
		old += memcmp(wrote, read, LEN) != 0;
	}
	done = 1;
	for (int i = 0; i < READERS; i++)
		pthread_join(readers[i], NULL);
	printf("%d\n", old);
	return 0;
}

static int handle(const char *mount, const char *file, const char *command)
{
	struct {
		struct file_handle head;
		char bytes[128];
	} h;
	char buf[64];
	int dir = open(mount, O_RDONLY | O_DIRECTORY), id, fd, n;

	h.head.handle_bytes = sizeof(h.bytes);
	if (name_to_handle_at(AT_FDCWD, file, &h.head, &id, 0) != 0 || system(command) != 0)
		return 1;
	fd = open_by_handle_at(dir, &h.head, O_RDONLY);
	if (fd < 0) {
		printf("%s\n", strerrorname_np(errno));
		return 0;
	}
	n = read(fd, buf, sizeof(buf));
	if (n < 0)
		printf("open\n");
	else
		printf("%.*s\n", n, buf);
	return 0;
}

int main(int argc, char **argv)
{
	path = argc > 2 ? argv[2] : "";
	if (argc == 4 && strcmp(argv[1], "stale") == 0)
		return stale(atoi(argv[3]));
	if (argc == 5 && strcmp(argv[1], "handle") == 0)
		return handle(argv[2], argv[3], argv[4]);
	return 2;
}
