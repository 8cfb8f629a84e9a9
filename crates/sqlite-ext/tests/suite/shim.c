/* SQLite's own tests on databases in an image. Linked to `testfixture`, which is compiled with
 * -DSQLITE_EXTRA_INIT=varve_suite_init, this makes a VFS the default that takes the files of one
 * folder from the image: /FOLDER/test.db is IMAGE:/test.db. Tcl sees the same files, because the
 * tests look at them, copy and damage them by Tcl's own commands. Names without `.db`, everything
 * in other folders, and all of it without VARVE_SUITE_IMAGE stay with the host.
 *
 * Environment: VARVE_SUITE_IMAGE (its size: VARVE_SUITE_SIZE), VARVE_SUITE_FOLDER, VARVE_EXTENSION,
 * VARVE_SUITE_OPTIONS (of the mount), VARVE_SUITE_PLAIN (rollback journals are files, as those of other
 * kinds: none is held), VARVE_SUITE_BATCH (batches of writes are offered, for a `testfixture` that makes them;
 * otherwise not, because many tests leave themselves out where they are). */
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tcl.h>

#define NAMES_MAX 512

static sqlite3_vfs *host, *image;
static sqlite3_vfs shim;
static const char *folder, *image_path;
/* Names that this process has seen, for `glob`: a VFS lists nothing. */
static char *names[NAMES_MAX];
static int names_count;

static int ends_with(const char *name, const char *end) {
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

/* The part of a full path below the folder if the image has it, or NULL. */
static const char *inside(const char *path) {
    static const char *const texts[] = {".tcl", ".txt", ".bin"};
    size_t n = folder == NULL ? 0 : strlen(folder);
    if (n == 0 || path == NULL || strncmp(path, folder, n) != 0 || path[n] != '/')
        return NULL;
    const char *name = path + n + 1;
    if (strchr(name, '/') != NULL || strstr(name, ".db") == NULL)
        return NULL;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (ends_with(name, texts[i]))
            return NULL;
    return name;
}

static void note(const char *name) {
    for (int i = 0; i < names_count; i++)
        if (strcmp(names[i], name) == 0)
            return;
    if (names_count < NAMES_MAX)
        names[names_count++] = strdup(name);
}

/* The name in the image as SQLite passes one to a VFS, with parameters behind it; the caller frees
 * it by sqlite3_free_filename. */
static sqlite3_filename named(const char *name) {
    char *path = sqlite3_mprintf("%s:/%s", image_path, name);
    const char *parameters[] = {"vfs", "varve"};
    sqlite3_filename made = path == NULL ? NULL : sqlite3_create_filename(path, "", "", 1, parameters);
    sqlite3_free(path);
    return made;
}

/* ---- errors on purpose ----
 * The tests count calls of the unix VFS down and let one fail (`sqlite_io_error_pending`,
 * `sqlite_diskfull_pending`; SQLite's os.c has the counters, os_common.h the rules). Here the calls on
 * files of the image are counted, so that what follows an error is done by this VFS. */

extern int sqlite3_io_error_hit, sqlite3_io_error_hardhit, sqlite3_io_error_pending;
extern int sqlite3_io_error_persist, sqlite3_io_error_benign;
extern int sqlite3_diskfull_pending, sqlite3_diskfull;

static const sqlite3_io_methods *real;
static sqlite3_io_methods failing;

static void hit(void) {
    sqlite3_io_error_hit++;
    if (!sqlite3_io_error_benign)
        sqlite3_io_error_hardhit++;
}

static int fails(void) {
    if (!(sqlite3_io_error_persist && sqlite3_io_error_hit) && sqlite3_io_error_pending-- != 1)
        return 0;
    hit();
    return 1;
}

static int is_full(void) {
    if (sqlite3_diskfull_pending == 0)
        return 0;
    if (sqlite3_diskfull_pending != 1) {
        sqlite3_diskfull_pending--;
        return 0;
    }
    hit();
    sqlite3_diskfull = 1;
    sqlite3_io_error_hit = 1;
    return 1;
}

static int f_read(sqlite3_file *file, void *out, int count, sqlite3_int64 at) {
    return fails() ? SQLITE_IOERR_READ : real->xRead(file, out, count, at);
}

static int f_write(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 at) {
    if (fails())
        return SQLITE_IOERR_WRITE;
    return is_full() ? SQLITE_FULL : real->xWrite(file, bytes, count, at);
}

static int f_truncate(sqlite3_file *file, sqlite3_int64 size) {
    return fails() ? SQLITE_IOERR_TRUNCATE : real->xTruncate(file, size);
}

/* Syncs are counted as the unix VFS counts them: one of the file, and with the first sync of a new journal
 * one of its folder, which is remembered behind what the VFS has of the file. */
extern int sqlite3_sync_count, sqlite3_fullsync_count;

static int *syncs_folder(sqlite3_file *file) {
    return (int *)((char *)file + (shim.szOsFile - (int)sizeof(int)));
}

static int f_sync(sqlite3_file *file, int flags) {
    if (is_full())
        return SQLITE_FULL;
    sqlite3_fullsync_count += (flags & 0x0F) == SQLITE_SYNC_FULL;
    sqlite3_sync_count++;
    if (fails())
        return SQLITE_IOERR_FSYNC;
    sqlite3_sync_count += *syncs_folder(file);
    *syncs_folder(file) = 0;
    return real->xSync(file, flags);
}

static int f_characteristics(sqlite3_file *file) {
    int all = real->xDeviceCharacteristics(file);
    return getenv("VARVE_SUITE_BATCH") != NULL ? all : all & ~SQLITE_IOCAP_BATCH_ATOMIC;
}

static int f_size(sqlite3_file *file, sqlite3_int64 *size) {
    return fails() ? SQLITE_IOERR_FSTAT : real->xFileSize(file, size);
}

static int f_reserved(sqlite3_file *file, int *out) {
    return fails() ? SQLITE_IOERR_CHECKRESERVEDLOCK : real->xCheckReservedLock(file, out);
}

/* Lets calls on a file of the image fail when the tests say so. */
static void may_fail(sqlite3_file *file) {
    if (real == NULL) {
        real = file->pMethods;
        failing = *real;
        failing.xRead = f_read;
        failing.xWrite = f_write;
        failing.xTruncate = f_truncate;
        failing.xSync = f_sync;
        failing.xFileSize = f_size;
        failing.xCheckReservedLock = f_reserved;
        failing.xDeviceCharacteristics = f_characteristics;
    }
    if (file->pMethods == real)
        file->pMethods = &failing;
}

static int x_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *file, int flags, int *out) {
    const char *name = inside(path);
    (void)vfs;
    if (name == NULL)
        return host->xOpen(host, path, file, flags, out);
    note(name);
    sqlite3_filename full = named(name);
    if (full == NULL)
        return SQLITE_NOMEM;
    int kind = flags;
    if (getenv("VARVE_SUITE_PLAIN") != NULL && (flags & SQLITE_OPEN_MAIN_JOURNAL) != 0)
        kind = (flags & ~SQLITE_OPEN_MAIN_JOURNAL) | SQLITE_OPEN_SUBJOURNAL;
    int code = image->xOpen(image, full, file, kind, out);
    sqlite3_free_filename(full);
    if (code == SQLITE_OK)
        may_fail(file);
    int journals = SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL | SQLITE_OPEN_WAL;
    *syncs_folder(file) = (flags & SQLITE_OPEN_CREATE) != 0 && (flags & journals) != 0;
    return code;
}

static int x_delete(sqlite3_vfs *vfs, const char *path, int sync) {
    const char *name = inside(path);
    (void)vfs;
    if (name == NULL)
        return host->xDelete(host, path, sync);
    if (fails())
        return SQLITE_IOERR_DELETE;
    sqlite3_filename full = named(name);
    int code = full == NULL ? SQLITE_NOMEM : image->xDelete(image, full, sync);
    sqlite3_free_filename(full);
    sqlite3_sync_count += code == SQLITE_OK && (sync & 1) != 0;
    return code;
}

static int x_access(sqlite3_vfs *vfs, const char *path, int flags, int *out) {
    const char *name = inside(path);
    (void)vfs;
    if (name == NULL)
        return host->xAccess(host, path, flags, out);
    if (fails())
        return SQLITE_IOERR_ACCESS;
    sqlite3_filename full = named(name);
    int code = full == NULL ? SQLITE_NOMEM : image->xAccess(image, full, flags, out);
    sqlite3_free_filename(full);
    return code;
}

static int x_full_pathname(sqlite3_vfs *vfs, const char *name, int room, char *out) {
    (void)vfs;
    return host->xFullPathname(host, name, room, out);
}

/* ---- Tcl ---- */

/* An open file of the image; Tcl reads and writes it as a channel. */
struct channel {
    sqlite3_file *file;
    sqlite3_int64 at;
    int append;
    Tcl_Channel self;
};

static sqlite3_file *opened(const char *name, int create, int writes, int *code) {
    sqlite3_file *file = calloc(1, (size_t)image->szOsFile);
    /* A log is as long as SQLite made it for those who open it as one. */
    int kind = ends_with(name, "-wal") && !writes ? SQLITE_OPEN_WAL : SQLITE_OPEN_SUBJOURNAL;
    int flags = kind | SQLITE_OPEN_READWRITE | (create ? SQLITE_OPEN_CREATE : 0);
    sqlite3_filename full = named(name);
    *code = image->xOpen(image, full, file, flags, &flags);
    sqlite3_free_filename(full);
    if (*code == SQLITE_OK)
        return file;
    free(file);
    return NULL;
}

static int is_there(const char *name) {
    int there = 0;
    sqlite3_filename full = named(name);
    /* Not SQLITE_ACCESS_EXISTS, for which an empty file is none. */
    image->xAccess(image, full, SQLITE_ACCESS_READWRITE, &there);
    sqlite3_free_filename(full);
    return there;
}

static int ch_close(ClientData data, Tcl_Interp *interp) {
    struct channel *channel = data;
    (void)interp;
    channel->file->pMethods->xClose(channel->file);
    free(channel->file);
    free(channel);
    return 0;
}

static int ch_input(ClientData data, char *out, int room, int *error) {
    struct channel *channel = data;
    sqlite3_int64 size = 0;
    if (channel->file->pMethods->xFileSize(channel->file, &size) != SQLITE_OK) {
        *error = EIO;
        return -1;
    }
    if (channel->at >= size)
        return 0;
    if (room > size - channel->at)
        room = (int)(size - channel->at);
    int code = channel->file->pMethods->xRead(channel->file, out, room, channel->at);
    if (code != SQLITE_OK) {
        if (getenv("VARVE_SUITE_DEBUG"))
            fprintf(stderr, "shim: read %d at %lld of %lld: %d\n", room, (long long)channel->at, (long long)size, code);
        *error = EIO;
        return -1;
    }
    channel->at += room;
    return room;
}

static int ch_output(ClientData data, const char *bytes, int count, int *error) {
    struct channel *channel = data;
    if (channel->append)
        channel->file->pMethods->xFileSize(channel->file, &channel->at);
    if (channel->file->pMethods->xWrite(channel->file, bytes, count, channel->at) != SQLITE_OK) {
        *error = EIO;
        return -1;
    }
    channel->at += count;
    return count;
}

static Tcl_WideInt ch_wide_seek(ClientData data, Tcl_WideInt offset, int mode, int *error) {
    struct channel *channel = data;
    sqlite3_int64 size = 0;
    (void)error;
    channel->file->pMethods->xFileSize(channel->file, &size);
    channel->at = offset + (mode == SEEK_END ? size : mode == SEEK_CUR ? channel->at : 0);
    return channel->at;
}

static int ch_seek(ClientData data, long offset, int mode, int *error) {
    return (int)ch_wide_seek(data, offset, mode, error);
}

static void ch_watch(ClientData data, int mask) {
    (void)data;
    (void)mask;
}

static int ch_truncate(ClientData data, Tcl_WideInt length) {
    struct channel *channel = data;
    return channel->file->pMethods->xTruncate(channel->file, length) == SQLITE_OK ? 0 : EIO;
}

static const Tcl_ChannelType channels = {
    "varve", TCL_CHANNEL_VERSION_5, ch_close, ch_input, ch_output, ch_seek, NULL, NULL,
    ch_watch, NULL, NULL, NULL, NULL, NULL, ch_wide_seek, NULL, ch_truncate,
};

/* The name in the image of a path of Tcl, or NULL. */
static const char *inside_tcl(Tcl_Obj *path) {
    Tcl_Obj *full = Tcl_FSGetNormalizedPath(NULL, path);
    return full == NULL ? NULL : inside(Tcl_GetString(full));
}

static int fs_has(Tcl_Obj *path, ClientData *data) {
    (void)data;
    /* Normalizing asks each file system in turn, so only what is a full path is looked at. */
    const char *name = inside(Tcl_GetString(path));
    return name != NULL || inside_tcl(path) != NULL ? TCL_OK : -1;
}

static int fs_stat(Tcl_Obj *path, Tcl_StatBuf *out) {
    const char *name = inside_tcl(path);
    sqlite3_int64 size = 0;
    int code;
    if (name == NULL || !is_there(name)) {
        errno = ENOENT;
        return -1;
    }
    sqlite3_file *file = opened(name, 0, 0, &code);
    if (file != NULL) {
        file->pMethods->xFileSize(file, &size);
        file->pMethods->xClose(file);
        free(file);
    }
    memset(out, 0, sizeof *out);
    out->st_mode = S_IFREG | 0644;
    out->st_size = size;
    out->st_nlink = 1;
    return 0;
}

static int fs_access(Tcl_Obj *path, int mode) {
    const char *name = inside_tcl(path);
    (void)mode;
    if (name != NULL && is_there(name))
        return 0;
    errno = ENOENT;
    return -1;
}

static Tcl_Channel fs_open(Tcl_Interp *interp, Tcl_Obj *path, int mode, int permissions) {
    static int count;
    const char *name = inside_tcl(path);
    int code = SQLITE_CANTOPEN;
    (void)permissions;
    int creates = (mode & O_CREAT) != 0, writes = (mode & (O_WRONLY | O_RDWR)) != 0;
    sqlite3_file *file = name == NULL || (!creates && !is_there(name)) ? NULL : opened(name, creates, writes, &code);
    if (file == NULL) {
        Tcl_SetErrno(ENOENT);
        if (interp != NULL)
            Tcl_SetObjResult(interp, Tcl_ObjPrintf("couldn't open \"%s\": %s", Tcl_GetString(path),
                                                   Tcl_PosixError(interp)));
        return NULL;
    }
    note(name);
    if (mode & O_TRUNC)
        file->pMethods->xTruncate(file, 0);
    struct channel *channel = calloc(1, sizeof *channel);
    channel->file = file;
    channel->append = (mode & O_APPEND) != 0;
    int access = mode & O_RDWR ? TCL_READABLE | TCL_WRITABLE : mode & O_WRONLY ? TCL_WRITABLE : TCL_READABLE;
    char handle[32];
    snprintf(handle, sizeof handle, "varve%d", count++);
    channel->self = Tcl_CreateChannel(&channels, handle, channel, access);
    return channel->self;
}

static int fs_delete(Tcl_Obj *path) {
    const char *name = inside_tcl(path);
    if (name == NULL || !is_there(name)) {
        errno = ENOENT;
        return -1;
    }
    sqlite3_filename full = named(name);
    int code = image->xDelete(image, full, 0);
    sqlite3_free_filename(full);
    errno = EACCES;
    return code == SQLITE_OK ? 0 : -1;
}

/* The files of the image whose names this process knows: databases, and what SQLite puts beside. */
static int image_names(ClientData data, Tcl_Interp *interp, int count, Tcl_Obj *const arguments[]) {
    static const char *const endings[] = {"", "-journal", "-wal"};
    Tcl_Obj *found = Tcl_NewListObj(0, NULL);
    (void)data;
    (void)count;
    (void)arguments;
    for (int i = 0; image_path != NULL && i < names_count; i++)
        for (size_t j = 0; j < sizeof endings / sizeof endings[0]; j++) {
            char name[512];
            snprintf(name, sizeof name, "%s%s", names[i], endings[j]);
            if (is_there(name))
                Tcl_ListObjAppendElement(NULL, found, Tcl_NewStringObj(name, -1));
        }
    Tcl_SetObjResult(interp, found);
    return TCL_OK;
}

/* What `load` of run.tcl calls. */
int Varvesuite_Init(Tcl_Interp *interp) {
    Tcl_CreateObjCommand(interp, "image_names", image_names, NULL, NULL);
    return TCL_OK;
}

/* `glob` of one name; a folder belongs to the host, so that run.tcl adds the names below it. */
static int fs_match(Tcl_Interp *interp, Tcl_Obj *found, Tcl_Obj *dir, const char *pattern, Tcl_GlobTypeData *types) {
    (void)interp;
    (void)types;
    if (pattern == NULL && fs_access(dir, 0) == 0)
        Tcl_ListObjAppendElement(NULL, found, dir);
    return TCL_OK;
}

static const Tcl_Filesystem files = {
    .typeName = "varve",
    .structureLength = sizeof(Tcl_Filesystem),
    .version = TCL_FILESYSTEM_VERSION_1,
    .pathInFilesystemProc = fs_has,
    .statProc = fs_stat,
    .accessProc = fs_access,
    .openFileChannelProc = fs_open,
    .matchInDirectoryProc = fs_match,
    .deleteFileProc = fs_delete,
    .lstatProc = fs_stat,
};

/* ---- start ---- */

static int loaded(void) {
    sqlite3 *db = NULL;
    sqlite3_file *keeper;
    char *why = NULL;
    int code = sqlite3_open(":memory:", &db);
    if (code == SQLITE_OK)
        code = sqlite3_enable_load_extension(db, 1);
    if (code == SQLITE_OK)
        code = sqlite3_load_extension(db, getenv("VARVE_EXTENSION"), NULL, &why);
    sqlite3_close(db);
    image = sqlite3_vfs_find("varve");
    if (code != SQLITE_OK || image == NULL) {
        fprintf(stderr, "shim: the extension: %s\n", why != NULL ? why : sqlite3_errstr(code));
        exit(1);
    }
    /* A file that stays open keeps the image mounted, or this process connected. */
    const char *size = getenv("VARVE_SUITE_SIZE"), *options = getenv("VARVE_SUITE_OPTIONS");
    const char *parameters[] = {"create", size != NULL ? size : "1G", "options", options != NULL ? options : "", 0};
    char *path = sqlite3_mprintf("%s:/keeper", image_path);
    sqlite3_filename full = sqlite3_create_filename(path, "", "", options != NULL ? 2 : 1, parameters);
    int flags = SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    keeper = calloc(1, (size_t)image->szOsFile);
    code = image->xOpen(image, full, keeper, flags, &flags);
    if (code != SQLITE_OK)
        fprintf(stderr, "shim: %s: %s\n", path, sqlite3_errstr(code));
    sqlite3_free_filename(full);
    sqlite3_free(path);
    return code;
}

/* SQLite calls this at the end of each sqlite3_initialize. */
int varve_suite_init(const char *unused) {
    static int is_loaded;
    (void)unused;
    image_path = getenv("VARVE_SUITE_IMAGE");
    if (image_path == NULL)
        return SQLITE_OK;
    if (!is_loaded) {
        is_loaded = 1;
        host = sqlite3_vfs_find(NULL);
        folder = getenv("VARVE_SUITE_FOLDER");
        int code = loaded();
        if (code != SQLITE_OK)
            exit(1);
        Tcl_FSRegister(NULL, &files);
    }
    shim = *image;
    shim.zName = "varve-suite";
    shim.mxPathname = host->mxPathname;
    int most = image->szOsFile > host->szOsFile ? image->szOsFile : host->szOsFile;
    shim.szOsFile = (most + 7) / 8 * 8 + 8;
    shim.xOpen = x_open;
    shim.xDelete = x_delete;
    shim.xAccess = x_access;
    shim.xFullPathname = x_full_pathname;
    return sqlite3_vfs_register(&shim, 1);
}
