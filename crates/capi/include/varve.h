/* The C interface of Varve: ext4, ext3 and F2FS on image files, in memory and on devices of the caller's.
 *
 * Made by cbindgen from crates/capi; to change it, change the sources and run their tests with VARVE_BLESS=1.
 *
 * - A function that may fail answers 0 or a count, or a negative errno. Its last argument takes the reason as a
 *   text, and may be NULL.
 * - All functions may be called by several threads at once, but none for a handle that another thread closes.
 * - What varve_fsync or varve_fdatasync has covered survives a cut of power. varve_unmount makes all durable.
 */

#ifndef VARVE_H
#define VARVE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/*
 The version of this interface. It changes when a program has to be compiled anew.
 */
#define VARVE_ABI_VERSION 1

/*
 Bytes of the text of an error, with the zero at its end.
 */
#define VARVE_TEXT_BYTES 512

/*
 Open to read.
 */
#define VARVE_READ 1

/*
 Open to write.
 */
#define VARVE_WRITE 2

/*
 Make the file if there is none.
 */
#define VARVE_CREATE 4

/*
 With VARVE_CREATE: -EEXIST if the name exists.
 */
#define VARVE_EXCL 8

/*
 Cut the file to size 0.
 */
#define VARVE_TRUNC 16

/*
 Each varve_pwrite goes to the end of the file, whatever its offset.
 */
#define VARVE_APPEND 32

/*
 Each write is durable when it returns.
 */
#define VARVE_SYNC 64

/*
 An open directory. It is ended by varve_closedir, before its volume is.
 */
typedef struct varve_dir varve_dir;

/*
 A disk that can hold a volume. It is ended by varve_disk_close.
 */
typedef struct varve_disk varve_disk;

/*
 An open file. It is ended by varve_close, before its volume is.
 */
typedef struct varve_file varve_file;

/*
 A mounted volume. It is ended by varve_unmount, or by varve_abandon.
 */
typedef struct varve_volume varve_volume;

/*
 What a check found.
 */
typedef struct varve_check {
  /*
   Number of findings.
   */
  uint64_t findings;
  /*
   The volume was not unmounted, and was recovered.
   */
  bool recovered;
  /*
   Inodes in use.
   */
  uint64_t inodes;
  /*
   Blocks in use.
   */
  uint64_t blocks;
  /*
   The first finding, or why the volume cannot be mounted; empty if it is clean.
   */
  char first[512];
} varve_check;

/*
 Why a call failed.
 */
typedef struct varve_error {
  /*
   The negative errno that the call answered, or 0.
   */
  int code;
  /*
   What failed, where and why, in UTF-8; cut at its end if it is longer.
   */
  char text[VARVE_TEXT_BYTES];
} varve_error;

/*
 An entry of a directory.
 */
typedef struct varve_dirent {
  /*
   Inode number.
   */
  uint64_t ino;
  /*
   The kind, as the upper bits of st_mode of Linux.
   */
  uint32_t mode;
  /*
   The name, any bytes but / and zero.
   */
  char name[256];
} varve_dirent;

/*
 A block device of the caller's. Each function answers 0 or a negative errno. They are called by
 threads of the library, too, but one at a time. Offsets and lengths are bytes and multiples of
 `sector_bytes`.
 */
typedef struct varve_device {
  /*
   Passed to each function.
   */
  void *context;
  /*
   The size in bytes; it must not change.
   */
  uint64_t bytes;
  /*
   512 or 4096; 0 means 512. A cut of power leaves each sector old or new.
   */
  uint32_t sector_bytes;
  /*
   Fills `data` from `offset` on.
   */
  int (*read)(void *context, uint64_t offset, void *data, size_t bytes);
  /*
   Writes `data` at `offset`. It may be volatile until a flush.
   */
  int (*write)(void *context, uint64_t offset, const void *data, size_t bytes);
  /*
   Makes all that was written survive a cut of power.
   */
  int (*flush)(void *context);
  /*
   The content of these bytes is no longer needed; may be NULL.
   */
  int (*discard)(void *context, uint64_t offset, uint64_t bytes);
} varve_device;

/*
 A part of an atomic write.
 */
typedef struct varve_part {
  /*
   Where it is written, in bytes from the beginning of the file.
   */
  uint64_t offset;
  /*
   What is written.
   */
  const void *data;
  /*
   Bytes of it.
   */
  size_t bytes;
} varve_part;

/*
 What varve_stat, varve_lstat and varve_fstat tell of an inode.
 */
typedef struct varve_attr {
  /*
   Inode number.
   */
  uint64_t ino;
  /*
   Size in bytes.
   */
  uint64_t size;
  /*
   Allocated space in units of 512 bytes.
   */
  uint64_t blocks;
  /*
   Kind and permission bits, as st_mode of Linux.
   */
  uint32_t mode;
  /*
   Hard links.
   */
  uint32_t nlink;
  /*
   Owner.
   */
  uint32_t uid;
  /*
   Group.
   */
  uint32_t gid;
  /*
   Last access, seconds since 1970.
   */
  int64_t atime;
  /*
   Last change of the content, seconds since 1970.
   */
  int64_t mtime;
  /*
   Last change of the inode, seconds since 1970.
   */
  int64_t ctime;
  /*
   Nanoseconds of these times.
   */
  uint32_t atime_ns;
  /*
   Nanoseconds of mtime.
   */
  uint32_t mtime_ns;
  /*
   Nanoseconds of ctime.
   */
  uint32_t ctime_ns;
} varve_attr;

/*
 Space and inodes of a volume.
 */
typedef struct varve_space {
  /*
   Bytes of a block.
   */
  uint32_t block_bytes;
  /*
   Bytes of the volume.
   */
  uint64_t bytes;
  /*
   Bytes that are free.
   */
  uint64_t free;
  /*
   Inodes.
   */
  uint64_t inodes;
  /*
   Inodes that are free.
   */
  uint64_t inodes_free;
} varve_space;

/*
 Lengths of a single write that is all there or not at all after a cut of power, in bytes.
 */
typedef struct varve_atomic_unit {
  /*
   The shortest.
   */
  uint32_t min;
  /*
   The longest.
   */
  uint32_t max;
} varve_atomic_unit;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 The version of the interface of the library that runs.
 */
uint32_t varve_abi_version(void);

/*
 Checks the volume on a disk that is not mounted. One that was not unmounted is recovered first:
 with `recover` on the disk, otherwise in memory only. Answers 0 if it is clean, and 1 if not.
 */
int varve_fsck(const struct varve_disk *disk,
               bool recover,
               struct varve_check *check,
               struct varve_error *error);

/*
 Opens a directory to read it.
 */
int varve_opendir(const struct varve_volume *volume,
                  const char *path,
                  struct varve_dir **dir,
                  struct varve_error *error);

/*
 The next entry, `.` and `..` among them. Answers 1, or 0 at the end.
 */
int varve_readdir(struct varve_dir *dir, struct varve_dirent *entry, struct varve_error *error);

/*
 Ends an open directory. NULL is 0.
 */
int varve_closedir(struct varve_dir *dir, struct varve_error *error);

/*
 Opens an image file or a block device of the host; with `read_only` nothing is ever written to
 it. It stays locked until it is closed. Use the macro varve_disk_open, which passes `abi`.
 */
int varve_disk_open_abi(uint32_t abi,
                        const char *path,
                        bool read_only,
                        struct varve_disk **disk,
                        struct varve_error *error);

/*
 Makes an image file of `bytes` zeros, or uses an empty one. Use the macro varve_disk_create,
 which passes `abi`.
 */
int varve_disk_create_abi(uint32_t abi,
                          const char *path,
                          uint64_t bytes,
                          struct varve_disk **disk,
                          struct varve_error *error);

/*
 A disk of `bytes` zeros in memory. Use the macro varve_disk_ram, which passes `abi`.
 */
int varve_disk_ram_abi(uint32_t abi,
                       uint64_t bytes,
                       struct varve_disk **disk,
                       struct varve_error *error);

/*
 A device of the caller's, whose description is copied. Its first and last 4096 bytes are read,
 so that one that lies about its size is found here. Use the macro varve_disk_device, which
 passes `abi`.
 */
int varve_disk_device_abi(uint32_t abi,
                          const struct varve_device *device,
                          struct varve_disk **disk,
                          struct varve_error *error);

/*
 The size of a disk in bytes; 0 for NULL.
 */
uint64_t varve_disk_bytes(const struct varve_disk *disk);

/*
 Makes a file system: `kind` is ext4, ext3 or f2fs. `options` may be NULL, or several of these
 with commas between: label=TEXT, journal=SIZE (0: none), block=SIZE, seed=NUMBER, force (writes
 over data). A size is a number of bytes, or one with k, M, G or T behind it (powers of 1024).
 */
int varve_mkfs(const struct varve_disk *disk,
               const char *kind,
               const char *options,
               struct varve_error *error);

/*
 Ends a disk; -EBUSY while a volume on it is mounted, and then it stays open. The functions of a
 device are not called any more when it returns 0. NULL is 0.
 */
int varve_disk_close(struct varve_disk *disk, struct varve_error *error);

/*
 The text of a code that a function answered. It belongs to the library and stays valid.
 */
const char *varve_strerror(int code);

/*
 Opens the file at `path`. `flags` are VARVE_READ and others, joined with |; `mode` are the
 permission bits of a file that is made.
 */
int varve_open(const struct varve_volume *volume,
               const char *path,
               uint32_t flags,
               uint32_t mode,
               struct varve_file **file,
               struct varve_error *error);

/*
 Ends an open file; nothing becomes durable by it. The file has ended in any case; an error says
 that a write failed of which nobody was told. NULL is 0.
 */
int varve_close(struct varve_file *file, struct varve_error *error);

/*
 Reads at most `bytes` bytes at `offset`. Answers how many; 0 at the end of the file.
 */
int varve_pread(const struct varve_file *file,
                void *data,
                size_t bytes,
                uint64_t offset,
                struct varve_error *error);

/*
 Writes at most `bytes` bytes at `offset`. Answers how many, which is fewer only if there are
 more than an int holds, or space runs out.
 */
int varve_pwrite(const struct varve_file *file,
                 const void *data,
                 size_t bytes,
                 uint64_t offset,
                 struct varve_error *error);

/*
 Writes all parts, so that after a cut of power either all of them are there or none is, and no
 reader sees one alone; durable behind varve_fdatasync. Where parts overlap, the later one
 counts. Nothing has changed behind -EINVAL, -EBADF, -EOPNOTSUPP (this mount has no atomic
 writes), -EFBIG (more than one transaction holds) and -ENOSPC.
 */
int varve_write_atomic(const struct varve_file *file,
                       const struct varve_part *parts,
                       size_t count,
                       struct varve_error *error);

/*
 Makes content and metadata of a file durable.
 */
int varve_fsync(const struct varve_file *file, struct varve_error *error);

/*
 Makes the content of a file durable, and of its metadata what is needed to read it.
 */
int varve_fdatasync(const struct varve_file *file, struct varve_error *error);

/*
 Cuts a file, or extends it with zeros.
 */
int varve_ftruncate(const struct varve_file *file, uint64_t bytes, struct varve_error *error);

/*
 Tells of an open file.
 */
int varve_fstat(const struct varve_file *file, struct varve_attr *stat, struct varve_error *error);

/*
 Tells of the inode at `path`, symbolic links followed.
 */
int varve_stat(const struct varve_volume *volume,
               const char *path,
               struct varve_attr *stat,
               struct varve_error *error);

/*
 Tells of the inode at `path`; of a symbolic link itself.
 */
int varve_lstat(const struct varve_volume *volume,
                const char *path,
                struct varve_attr *stat,
                struct varve_error *error);

/*
 Makes a directory.
 */
int varve_mkdir(const struct varve_volume *volume,
                const char *path,
                uint32_t mode,
                struct varve_error *error);

/*
 Removes an empty directory.
 */
int varve_rmdir(const struct varve_volume *volume, const char *path, struct varve_error *error);

/*
 Removes a name that is no directory.
 */
int varve_unlink(const struct varve_volume *volume, const char *path, struct varve_error *error);

/*
 Renames, and replaces what has the new name.
 */
int varve_rename(const struct varve_volume *volume,
                 const char *from,
                 const char *to,
                 struct varve_error *error);

/*
 Gives a file another name.
 */
int varve_link(const struct varve_volume *volume,
               const char *old,
               const char *new_name,
               struct varve_error *error);

/*
 Makes a symbolic link at `path` that leads to `target`.
 */
int varve_symlink(const struct varve_volume *volume,
                  const char *target,
                  const char *path,
                  struct varve_error *error);

/*
 Copies where a symbolic link leads to `target`, which has `bytes` bytes, and ends it with a
 zero. Answers its length; -ERANGE if there is no room for it.
 */
int varve_readlink(const struct varve_volume *volume,
                   const char *path,
                   char *target,
                   size_t bytes,
                   struct varve_error *error);

/*
 Changes the permission bits.
 */
int varve_chmod(const struct varve_volume *volume,
                const char *path,
                uint32_t mode,
                struct varve_error *error);

/*
 Changes owner and group.
 */
int varve_chown(const struct varve_volume *volume,
                const char *path,
                uint32_t uid,
                uint32_t gid,
                struct varve_error *error);

/*
 Makes the names in a directory durable.
 */
int varve_sync_dir(const struct varve_volume *volume, const char *path, struct varve_error *error);

/*
 Mounts the file system on a disk, and recovers it if it was not unmounted. `options` may be
 NULL, or those of `varve mount -o`: ro, commit=SECONDS, cache=SIZE, scheme=PRESET and others.
 */
int varve_mount(const struct varve_disk *disk,
                const char *options,
                struct varve_volume **volume,
                struct varve_error *error);

/*
 Makes everything durable, marks the volume clean and ends it. On an error the volume stays:
 close the files and directories after -EBUSY, and call it again; after another one it is shut
 down, and varve_abandon ends it.
 */
int varve_unmount(struct varve_volume *volume, struct varve_error *error);

/*
 Ends a volume as a cut of power would: what no sync has covered may be gone, nothing is written
 to its disk any more, and its threads end. Its open files must not be used again, but for
 varve_close. The functions of a device of the caller's are not called any more. NULL does
 nothing.
 */
void varve_abandon(struct varve_volume *volume);

/*
 Makes everything on the volume durable.
 */
int varve_sync(const struct varve_volume *volume, struct varve_error *error);

/*
 Tells space and inodes.
 */
int varve_statfs(const struct varve_volume *volume,
                 struct varve_space *space,
                 struct varve_error *error);

/*
 Tells the single writes that varve_write_atomic takes whatever the file looks like, as statx
 tells stx_atomic_write_unit_min and _max: lengths from `min` to `max` that are powers of two, at
 offsets that are multiples of them. Several parts together may be longer or shorter. -EOPNOTSUPP
 if this mount has no atomic writes, or sets no bound to one write (f2fs).
 */
int varve_atomic_write_unit(const struct varve_volume *volume,
                            struct varve_atomic_unit *unit,
                            struct varve_error *error);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* VARVE_H */

/* Checked by the library: a program compiled with the header of another version is refused. */
#define varve_disk_open(...) varve_disk_open_abi(VARVE_ABI_VERSION, __VA_ARGS__)
#define varve_disk_create(...) varve_disk_create_abi(VARVE_ABI_VERSION, __VA_ARGS__)
#define varve_disk_ram(...) varve_disk_ram_abi(VARVE_ABI_VERSION, __VA_ARGS__)
#define varve_disk_device(...) varve_disk_device_abi(VARVE_ABI_VERSION, __VA_ARGS__)
