/* Mounts an image in a process that may start only a few threads, reads a file, unmounts.
   Exit code 0: it did. 3: the mount was refused with -EAGAIN and a text, and the threads that it
   had started have ended. */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "varve.h"

static int threads(void) {
    int count = 0;
    DIR *dir = opendir("/proc/self/task");
    for (struct dirent *entry; dir && (entry = readdir(dir));) count += entry->d_name[0] != '.';
    if (dir) closedir(dir);
    return count;
}

static int refused(varve_disk *disk, int code, const varve_error *why, int before) {
    printf("%d %s\n", code, why->text);
    if (code != -EAGAIN || why->code != code || !strstr(why->text, "no thread for")) return 1;
    if (!strstr(why->text, "ulimit -u")) return 1;
    /* A thread that was waited for may still be listed for a moment. */
    for (int tries = 0; threads() > before; tries++) {
        if (tries == 1000) {
            printf("%d threads are left of %d\n", threads(), before);
            return 1;
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return varve_disk_close(disk, NULL) == 0 ? 3 : 1;
}

int main(int argc, char **argv) {
    varve_error why = {0};
    varve_disk *disk = NULL;
    varve_volume *volume = NULL;
    varve_file *file = NULL;
    char text[6] = "";
    if (argc != 3) return 2;
    if (varve_disk_open(argv[1], false, &disk, &why)) goto failed;
    int before = threads();
    int code = varve_mount(disk, argv[2], &volume, &why);
    if (code) return refused(disk, code, &why, before);
    if (varve_open(volume, "/f", VARVE_READ, 0, &file, &why)) goto failed;
    if (varve_pread(file, text, 5, 0, &why) != 5 || strcmp(text, "hello")) goto failed;
    if (varve_close(file, &why) || varve_unmount(volume, &why)) goto failed;
    return varve_disk_close(disk, &why) == 0 ? 0 : 1;
failed:
    printf("%s\n", why.text);
    return 1;
}
