/* Counts its starts in a file on a block device of its own, which is here a file of the host, and says how much memory
 * that took.
 *
 * cc callbacks.c -lvarve -o callbacks && ./callbacks stick.img
 */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <varve.h>

#define BYTES (16u << 20)

static int stick_read(void *context, uint64_t offset, void *data, size_t bytes) {
    ssize_t n = pread(*(int *)context, data, bytes, (off_t)offset);
    return n == (ssize_t)bytes ? 0 : n < 0 ? -errno : -EIO;
}
static int stick_write(void *context, uint64_t offset, const void *data, size_t bytes) {
    ssize_t n = pwrite(*(int *)context, data, bytes, (off_t)offset);
    return n == (ssize_t)bytes ? 0 : n < 0 ? -errno : -EIO;
}
static int stick_flush(void *context) {
    return fdatasync(*(int *)context) ? -errno : 0;
}

static varve_error why;

static int check(int code) {
    if (code < 0) {
        fprintf(stderr, "%s (%s)\n", why.text, varve_strerror(code));
        exit(1);
    }
    return code;
}

/* Prints the lines of /proc/self/status about memory. */
static void memory(const char *when) {
    char line[128];
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, "VmHWM", 5) || !strncmp(line, "RssAnon", 7)) printf("%s %s", when, line);
    if (status) fclose(status);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s IMAGE\n", argv[0]);
        return 2;
    }
    int stick = open(argv[1], O_RDWR | O_CREAT, 0644);
    if (stick < 0 || ftruncate(stick, BYTES)) {
        perror(argv[1]);
        return 1;
    }
    memory("before");
    varve_device device = {&stick, BYTES, 512, stick_read, stick_write, stick_flush, NULL};
    varve_disk *disk;
    varve_volume *volume;
    varve_file *file;
    check(varve_disk_device(&device, &disk, &why));
    int code = varve_mount(disk, "cache=1", &volume, &why);
    if (code == -EINVAL) { /* No file system yet. */
        check(varve_mkfs(disk, "ext4", NULL, &why));
        code = varve_mount(disk, "cache=1", &volume, &why);
    }
    check(code);
    unsigned starts = 0;
    check(varve_open(volume, "/starts", VARVE_READ | VARVE_WRITE | VARVE_CREATE, 0644, &file, &why));
    check(varve_pread(file, &starts, sizeof starts, 0, &why));
    starts++;
    check(varve_pwrite(file, &starts, sizeof starts, 0, &why));
    check(varve_fsync(file, &why));
    check(varve_close(file, &why));
    /* More than the cache holds, so that the figure below is an honest one. */
    static char data[4096];
    check(varve_open(volume, "/data", VARVE_WRITE | VARVE_CREATE, 0644, &file, &why));
    for (unsigned n = 0; n < 1024; n++) check(varve_pwrite(file, data, sizeof data, n * 4096u, &why));
    check(varve_fsync(file, &why));
    check(varve_close(file, &why));
    memory("mounted");
    check(varve_unmount(volume, &why));
    check(varve_disk_close(disk, &why));
    close(stick);
    printf("booted %u times\n", starts);
    memory("after");
    return 0;
}
