/* Uses every function of varve.h, rightly and wrongly. The argument is the image file to make. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <varve.h>

static varve_error why;

static void fail(int line, const char *what, int code) {
    fprintf(stderr, "line %d: %s answered %d: %s\n", line, what, code, why.text);
    exit(1);
}

/* The call answers this code, and a failure has a text with these words. */
#define WANT(wanted, words, call)                                                     \
    do {                                                                              \
        int got = (call);                                                             \
        if (got != (wanted) || !strstr(why.text, words)) fail(__LINE__, #call, got);    \
        if (got < 0 && (why.code != got || !why.text[0])) fail(__LINE__, #call, got); \
    } while (0)
#define OK(call) WANT(0, "", call)
#define CHECK(fact)                                      \
    do {                                                 \
        if (!(fact)) fail(__LINE__, #fact, 0);           \
    } while (0)

struct memory {
    unsigned char *bytes;
    uint64_t size;
    int broken;
    int flushes;
};

static int memory_read(void *context, uint64_t offset, void *data, size_t bytes) {
    struct memory *m = context;
    if (m->broken) return m->broken;
    if (offset + bytes > m->size) return -ENXIO;
    memcpy(data, m->bytes + offset, bytes);
    return 0;
}
static int memory_write(void *context, uint64_t offset, const void *data, size_t bytes) {
    struct memory *m = context;
    if (m->broken) return m->broken;
    if (offset + bytes > m->size) return -ENXIO;
    memcpy(m->bytes + offset, data, bytes);
    return 0;
}
static int memory_flush(void *context) {
    struct memory *m = context;
    m->flushes++;
    return m->broken;
}

static void files(const char *image) {
    varve_disk *disk = NULL;
    varve_volume *volume = NULL;
    varve_file *file = NULL;
    varve_dir *dir = NULL;
    varve_attr attr;
    varve_space space;
    varve_atomic_unit unit = {0, 0};
    varve_dirent entry;
    varve_check check;
    varve_part parts[3];
    char text[64];
    int names = 0, code;

    OK(varve_disk_create(image, 32 << 20, &disk, &why));
    CHECK(varve_disk_bytes(disk) == 32 << 20);
    WANT(-EINVAL, "format the disk", varve_mount(disk, NULL, &volume, &why));
    WANT(-EINVAL, "there are: ext4", varve_mkfs(disk, "ntfs", NULL, &why));
    WANT(-EINVAL, "colour=red", varve_mkfs(disk, "ext4", "colour=red", &why));
    WANT(-EINVAL, "`colour=red` is unknown; there are: label=", varve_mkfs(disk, "ext4", "colour=red", &why));
    WANT(-EINVAL, "`journal=big`: it may be a whole number of bytes", varve_mkfs(disk, "ext4", "journal=big", &why));
    WANT(-EINVAL, "`seed=x`: it may be a whole number from 0", varve_mkfs(disk, "ext4", "seed=x", &why));
    WANT(-EINVAL, "`force=1`: it takes no value", varve_mkfs(disk, "ext4", "force=1", &why));
    WANT(-EINVAL, "3072", varve_mkfs(disk, "ext4", "block=3k", &why));
    OK(varve_mkfs(disk, "ext4", "label=from-c,journal=4M,block=4k", &why));
    WANT(-EEXIST, "holds data", varve_mkfs(disk, "ext4", "", &why));
    OK(varve_mkfs(disk, "ext4", "label=from-c,force", &why));
    WANT(-EINVAL, "speed=max", varve_mount(disk, "speed=max", &volume, &why));
    WANT(-EINVAL, "home=remap needs", varve_mount(disk, "scheme=jftl", &volume, &why));
    WANT(-EINVAL, "`cache=0`: it may be", varve_mount(disk, "cache=0", &volume, &why));
    OK(varve_mount(disk, "commit=1,cache=16M", &volume, &why));
    WANT(-EBUSY, "is mounted", varve_disk_close(disk, &why));
    WANT(-EBUSY, "is mounted", varve_fsck(disk, false, &check, &why));

    OK(varve_mkdir(volume, "/dir", 0700, &why));
    WANT(-EEXIST, "/dir", varve_mkdir(volume, "/dir", 0700, &why));
    WANT(-ENOENT, "/no", varve_open(volume, "/no", VARVE_READ, 0, &file, &why));
    WANT(-EINVAL, "0x4000", varve_open(volume, "/no", 0x4000, 0, &file, &why));
    OK(varve_open(volume, "/dir/f", VARVE_READ | VARVE_WRITE | VARVE_CREATE, 0640, &file, &why));
    WANT(11, "", varve_pwrite(file, "hello world", 11, 5000, &why));
    WANT(0, "", varve_pwrite(file, NULL, 0, 0, &why));
    WANT(-EINVAL, "data is NULL", varve_pwrite(file, NULL, 3, 0, &why));
    OK(varve_fdatasync(file, &why));
    OK(varve_fsync(file, &why));
    parts[0] = (varve_part){.offset = 1, .data = "abc", .bytes = 3};
    parts[1] = (varve_part){.offset = 2, .data = "X", .bytes = 1};
    parts[2] = (varve_part){.offset = 3, .data = NULL, .bytes = 0};
    OK(varve_write_atomic(file, parts, 3, &why));
    OK(varve_write_atomic(file, NULL, 0, &why));
    OK(varve_atomic_write_unit(volume, &unit, &why));
    CHECK(unit.min == 4096 && unit.max >= unit.min);
    WANT(-EINVAL, "the unit is NULL", varve_atomic_write_unit(volume, NULL, &why));
    WANT(5, "", varve_pread(file, text, 5, 0, &why));
    CHECK(!memcmp(text, "\0aXc\0", 5));
    WANT(-EINVAL, "parts is NULL", varve_write_atomic(file, NULL, 1, &why));
    WANT(-EFBIG, "write fewer", varve_write_atomic(file, parts, SIZE_MAX / sizeof *parts, &why));
    parts[2].bytes = SIZE_MAX - 3;
    WANT(-EFBIG, "write fewer", varve_write_atomic(file, parts, 3, &why));
    parts[2].bytes = 1;
    parts[0].data = "zzz";
    WANT(-EINVAL, "data of a part is NULL", varve_write_atomic(file, parts, 3, &why));
    parts[1].offset = UINT64_MAX - 4;
    WANT(-EINVAL, "/dir/f", varve_write_atomic(file, parts, 2, &why));
    WANT(5, "", varve_pread(file, text, 5, 0, &why));
    CHECK(!memcmp(text, "\0aXc\0", 5));
    WANT(5, "", varve_pread(file, text, 5, 5006, &why));
    CHECK(!memcmp(text, "world", 5));
    WANT(0, "", varve_pread(file, text, 5, 6000, &why));
    OK(varve_ftruncate(file, 5005, &why));
    OK(varve_fstat(file, &attr, &why));
    CHECK(attr.size == 5005 && attr.mode == 0100640 && attr.nlink == 1);
    WANT(-EBUSY, "1 files are open", varve_unmount(volume, &why));
    OK(varve_close(file, &why));
    OK(varve_open(volume, "/dir/f", VARVE_READ, 0, &file, &why));
    WANT(-EBADF, "/dir/f", varve_pwrite(file, "x", 1, 0, &why));
    WANT(-EBADF, "/dir/f", varve_write_atomic(file, parts, 1, &why));
    OK(varve_close(file, &why));
    OK(varve_open(volume, "/dir/f", VARVE_WRITE | VARVE_APPEND, 0, &file, &why));
    WANT(1, "", varve_pwrite(file, "!", 1, 0, &why));
    OK(varve_close(file, &why));

    OK(varve_link(volume, "/dir/f", "/second", &why));
    OK(varve_symlink(volume, "dir/f", "/link", &why));
    WANT(5, "", varve_readlink(volume, "/link", text, sizeof text, &why));
    CHECK(!strcmp(text, "dir/f"));
    WANT(-ERANGE, "5 bytes", varve_readlink(volume, "/link", text, 5, &why));
    OK(varve_rename(volume, "/second", "/third", &why));
    OK(varve_chmod(volume, "/third", 0600, &why));
    OK(varve_chown(volume, "/third", 7, 8, &why));
    OK(varve_stat(volume, "/link", &attr, &why));
    CHECK(attr.size == 5006 && attr.nlink == 2 && attr.mode == 0100600 && attr.uid == 7 && attr.gid == 8);
    OK(varve_lstat(volume, "/link", &attr, &why));
    CHECK((attr.mode & 0170000) == 0120000);
    WANT(-ENOTEMPTY, "/dir", varve_rmdir(volume, "/dir", &why));
    OK(varve_unlink(volume, "/dir/f", &why));
    OK(varve_rmdir(volume, "/dir", &why));

    for (int n = 0; n < 100; n++) {
        snprintf(text, sizeof text, "/file%d", n);
        OK(varve_open(volume, text, VARVE_WRITE | VARVE_CREATE | VARVE_EXCL, 0644, &file, &why));
        OK(varve_close(file, &why));
    }
    OK(varve_sync_dir(volume, "/", &why));
    OK(varve_opendir(volume, "/", &dir, &why));
    while ((code = varve_readdir(dir, &entry, &why)) == 1) names++;
    CHECK(code == 0 && names == 100 + 5); /* ., .., lost+found, link, third */
    OK(varve_closedir(dir, &why));
    WANT(-ENOTDIR, "/third", varve_opendir(volume, "/third", &dir, &why));
    OK(varve_statfs(volume, &space, &why));
    CHECK(space.bytes > space.free && space.free > 0);
    OK(varve_sync(volume, &why));
    OK(varve_unmount(volume, &why));
    OK(varve_fsck(disk, false, &check, &why));
    CHECK(check.findings == 0 && !check.recovered && !check.first[0] && check.inodes > 0);
    OK(varve_disk_close(disk, &why));
}

static void refused(const char *image) {
    varve_disk *disk = NULL, *second = NULL;
    varve_volume *volume = NULL;
    varve_file *file = NULL;
    WANT(-EINVAL, "of version 99", varve_disk_open_abi(99, image, false, &disk, &why));
    WANT(-EINVAL, "of version 99", varve_disk_ram_abi(99, 1 << 20, &disk, &why));
    WANT(-EINVAL, "of version 99", varve_disk_create_abi(99, "/never", 1 << 20, &disk, &why));
    WANT(-EINVAL, "of version 99", varve_disk_device_abi(99, NULL, &disk, &why));
    WANT(-ENOENT, "/nowhere", varve_disk_open("/nowhere", false, &disk, &why));
    WANT(-EINVAL, "path is NULL", varve_disk_open(NULL, false, &disk, &why));
    WANT(-EINVAL, "the place for the disk", varve_disk_ram(1 << 20, NULL, &why));
    WANT(-EINVAL, "multiple of 4096", varve_disk_ram(5, &disk, &why));
    OK(varve_disk_open(image, false, &disk, &why));
    WANT(-EBUSY, "in use", varve_disk_open(image, false, &second, &why));
    OK(varve_disk_close(disk, &why));
    OK(varve_disk_open(image, true, &disk, &why));
    WANT(-EROFS, "read only", varve_mount(disk, NULL, &volume, &why));
    OK(varve_mount(disk, "ro", &volume, &why));
    {
        varve_atomic_unit unit;
        WANT(-EOPNOTSUPP, "no atomic writes", varve_atomic_write_unit(volume, &unit, &why));
    }
    WANT(-EROFS, "", varve_mkdir(volume, "/x", 0700, &why));
    OK(varve_unmount(volume, &why));
    OK(varve_disk_close(disk, &why));
    WANT(-EINVAL, "volume is NULL", varve_open(NULL, "/", VARVE_READ, 0, &file, &why));
    WANT(-EINVAL, "volume is NULL", varve_unmount(NULL, &why));
    WANT(-EINVAL, "file is NULL", varve_fsync(NULL, &why));
    OK(varve_close(NULL, &why));
    OK(varve_closedir(NULL, &why));
    OK(varve_disk_close(NULL, &why));
    varve_abandon(NULL);
    CHECK(varve_disk_bytes(NULL) == 0);
    CHECK(varve_fsync(NULL, NULL) == -EINVAL); /* without a place for the text */
    CHECK(!strcmp(varve_strerror(-ENOSPC), "no space left on device"));
    CHECK(varve_strerror(-9999)[0] && !strcmp(varve_strerror(0), "success"));
    CHECK(varve_abi_version() == VARVE_ABI_VERSION);
}

static void devices(void) {
    struct memory memory = {calloc(16, 1 << 20), 16 << 20, 0, 0};
    varve_device device = {.context = &memory, .bytes = memory.size};
    varve_disk *disk = NULL;
    varve_volume *volume = NULL;
    varve_file *file = NULL;
    varve_check check;
    int before;

    WANT(-EINVAL, "read of the device is NULL", varve_disk_device(&device, &disk, &why));
    device.read = memory_read;
    device.write = memory_write;
    WANT(-EINVAL, "flush of the device is NULL", varve_disk_device(&device, &disk, &why));
    device.flush = memory_flush;
    device.bytes = 64 << 20;
    WANT(-EIO, "it says that it has 67108864 bytes", varve_disk_device(&device, &disk, &why));
    device.bytes = 0;
    WANT(-EIO, "0 bytes are too short", varve_disk_device(&device, &disk, &why));
    device.bytes = memory.size - 1;
    OK(varve_disk_device(&device, &disk, &why));
    CHECK(varve_disk_bytes(disk) == memory.size - 4096); /* whole blocks */
    OK(varve_disk_close(disk, &why));
    device.bytes = memory.size;
    device.sector_bytes = 100;
    WANT(-EIO, "sectors of 100 bytes", varve_disk_device(&device, &disk, &why));
    device.sector_bytes = 0;
    memory.broken = 3;
    WANT(-EIO, "answered 3; it has to be 0", varve_disk_device(&device, &disk, &why));
    memory.broken = 0;
    OK(varve_disk_device(&device, &disk, &why));
    OK(varve_mkfs(disk, "ext4", NULL, &why));
    OK(varve_mount(disk, "cache=1", &volume, &why));
    OK(varve_open(volume, "/f", VARVE_WRITE | VARVE_CREATE, 0644, &file, &why));
    WANT(4, "", varve_pwrite(file, "kept", 4, 0, &why));
    before = memory.flushes;
    OK(varve_fsync(file, &why));
    CHECK(memory.flushes > before);
    WANT(4, "", varve_pwrite(file, "lost", 4, 4, &why));
    memory.broken = -ENODEV;
    WANT(-EIO, "answered -19", varve_fsync(file, &why));
    varve_close(file, &why);
    WANT(-EIO, "", varve_unmount(volume, &why));
    varve_abandon(volume);
    OK(varve_disk_close(disk, &why));

    /* A stick that claims less than it has: its file system would go on behind the end. */
    memory.broken = 0;
    device.bytes = memory.size / 2;
    OK(varve_disk_device(&device, &disk, &why));
    WANT(-EUCLEAN, "the device 2048", varve_mount(disk, NULL, &volume, &why));
    OK(varve_disk_close(disk, &why));
    device.bytes = memory.size;

    /* Plugged in again: what the fsync covered is there. */
    OK(varve_disk_device(&device, &disk, &why));
    OK(varve_fsck(disk, true, &check, &why));
    CHECK(check.recovered && check.findings == 0);
    OK(varve_mount(disk, NULL, &volume, &why));
    OK(varve_open(volume, "/f", VARVE_READ, 0, &file, &why));
    char text[4];
    WANT(4, "", varve_pread(file, text, 4, 0, &why));
    CHECK(!memcmp(text, "kept", 4));
    OK(varve_close(file, &why));
    OK(varve_unmount(volume, &why));
    OK(varve_disk_close(disk, &why));
    free(memory.bytes);
}

/* Threads of this process. */
static int threads(void) {
    char line[256];
    int count = 0;
    FILE *status = fopen("/proc/self/status", "r");
    CHECK(status);
    while (fgets(line, sizeof line, status)) sscanf(line, "Threads: %d", &count);
    fclose(status);
    return count;
}

/* A volume that is abandoned writes nothing any more, its threads have ended, and its image is
   free: what the next mount makes durable is on the disk of a cut of power. */
static void abandoned(const char *image, const char *kind, const char *made, const char *options) {
    varve_disk *disk = NULL;
    varve_volume *first = NULL, *second = NULL;
    varve_file *file = NULL, *open = NULL;
    varve_check check;
    char name[32], data[8192];
    int before = threads(), n;

    remove(image);
    OK(varve_disk_create(image, 128 << 20, &disk, &why));
    OK(varve_mkfs(disk, kind, made, &why));
    OK(varve_mount(disk, options, &first, &why));
    memset(data, 7, sizeof data);
    for (n = 0; n < 100; n++) {
        snprintf(name, sizeof name, "/old%d", n);
        OK(varve_open(first, name, VARVE_WRITE | VARVE_CREATE, 0644, &file, &why));
        WANT(4096, "", varve_pwrite(file, data, 4096, 0, &why));
        OK(varve_close(file, &why));
    }
    OK(varve_open(first, "/open", VARVE_WRITE | VARVE_CREATE, 0644, &open, &why));
    CHECK(threads() > before);
    varve_abandon(first);
    CHECK(threads() == before);
    varve_close(open, &why);

    OK(varve_mount(disk, NULL, &second, &why));
    memset(data, 9, sizeof data);
    for (n = 0; n < 20; n++) {
        snprintf(name, sizeof name, "/new%d", n);
        OK(varve_open(second, name, VARVE_WRITE | VARVE_CREATE, 0644, &file, &why));
        WANT(8192, "", varve_pwrite(file, data, 8192, 0, &why));
        OK(varve_fsync(file, &why));
        OK(varve_close(file, &why));
    }
    /* The old commit would have come by now. */
    sleep(2);
    varve_abandon(second);
    OK(varve_disk_close(disk, &why));

    /* The lock went with the disk. */
    OK(varve_disk_open(image, false, &disk, &why));
    OK(varve_fsck(disk, true, &check, &why));
    CHECK(check.findings == 0);
    OK(varve_mount(disk, "ro", &second, &why));
    for (n = 0; n < 20; n++) {
        snprintf(name, sizeof name, "/new%d", n);
        OK(varve_open(second, name, VARVE_READ, 0, &file, &why));
        WANT(8192, "", varve_pread(file, data, 8192, 0, &why));
        CHECK(data[0] == 9 && data[8191] == 9);
        OK(varve_close(file, &why));
    }
    OK(varve_unmount(second, &why));
    OK(varve_disk_close(disk, &why));
}

int main(int argc, char **argv) {
    char other[4096];
    if (argc != 2) return 2;
    files(argv[1]);
    refused(argv[1]);
    devices();
    /* On a file of its own: the caller judges the image that `files` has left. */
    snprintf(other, sizeof other, "%s.abandoned", argv[1]);
    abandoned(other, "ext4", NULL, "commit=1");
    abandoned(other, "f2fs", NULL, NULL);
    abandoned(other, "f2fs", "journal=16777216", "scheme=f2fsj,commit=1");
    puts("all checks passed");
    return 0;
}
