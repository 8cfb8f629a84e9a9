//! The operations that every file system of ours runs in the same way.

/// Methods of [`FileSystem`](crate::FileSystem), for its `impl` block in a file system.
///
/// Each of them asks the latch (`guarded`) and runs one operation of the file system: `make` for
/// what makes an inode, `op_link` for `link`, and so on. A change of names is made durable
/// afterwards, if the flags of the directory ask for it (`settle_names`). Methods in which file
/// systems differ are not here: each writes its own.
#[macro_export]
macro_rules! operations {
    () => {
        fn lookup(&self, dir: ::base::Ino, name: &[u8]) -> $crate::FsResult<::base::Ino> {
            self.guarded(|| self.op_lookup(dir, name))
        }
        fn create(
            &self,
            dir: ::base::Ino,
            name: &[u8],
            kind: $crate::FileKind,
            perm: u16,
            rdev: u32,
            creds: $crate::Creds,
        ) -> $crate::FsResult<$crate::Attr> {
            self.guarded(|| {
                let new = $crate::NewInode::node(kind, perm, rdev, creds)?;
                let made = self.make(dir, name, new, $crate::NewContent::Nothing)?;
                self.settle_names(dir).map(|()| made)
            })
        }
        fn mkdir(
            &self,
            dir: ::base::Ino,
            name: &[u8],
            perm: u16,
            creds: $crate::Creds,
        ) -> $crate::FsResult<$crate::Attr> {
            self.guarded(|| {
                let new = $crate::NewInode::dir(perm, creds);
                let made = self.make(dir, name, new, $crate::NewContent::Dots)?;
                self.settle_names(dir).map(|()| made)
            })
        }
        fn symlink(
            &self,
            dir: ::base::Ino,
            name: &[u8],
            target: &[u8],
            creds: $crate::Creds,
        ) -> $crate::FsResult<$crate::Attr> {
            self.guarded(|| {
                $crate::shell::names::check_target(target, self.pages.page_bytes())?;
                let new = $crate::NewInode::symlink(creds);
                let made = self.make(dir, name, new, $crate::NewContent::Target(target))?;
                self.settle_names(dir).map(|()| made)
            })
        }
        fn readlink(&self, ino: ::base::Ino) -> $crate::FsResult<Vec<u8>> {
            self.guarded(|| self.op_readlink(ino))
        }
        fn link(
            &self,
            ino: ::base::Ino,
            dir: ::base::Ino,
            name: &[u8],
        ) -> $crate::FsResult<$crate::Attr> {
            self.guarded(|| {
                let linked = self.op_link(ino, dir, name)?;
                self.settle_names(dir).map(|()| linked)
            })
        }
        fn unlink(&self, dir: ::base::Ino, name: &[u8]) -> $crate::FsResult<()> {
            self.guarded(|| {
                self.op_unlink(dir, name)?;
                self.settle_names(dir)
            })
        }
        fn rmdir(&self, dir: ::base::Ino, name: &[u8]) -> $crate::FsResult<()> {
            self.guarded(|| {
                self.op_rmdir(dir, name)?;
                self.settle_names(dir)
            })
        }
        fn rename(
            &self,
            from_dir: ::base::Ino,
            from: &[u8],
            to_dir: ::base::Ino,
            to: &[u8],
            mode: $crate::RenameMode,
        ) -> $crate::FsResult<()> {
            self.guarded(|| {
                self.op_rename(from_dir, from, to_dir, to, mode)?;
                self.settle_names(from_dir)?;
                self.settle_names(to_dir)
            })
        }
        fn readdir(
            &self,
            dir: ::base::Ino,
            from: u64,
            max: usize,
        ) -> $crate::FsResult<Vec<$crate::DirEntry>> {
            self.guarded(|| self.op_readdir(dir, from, max))
        }
        fn setxattr(
            &self,
            ino: ::base::Ino,
            name: &[u8],
            value: &[u8],
            mode: $crate::XattrMode,
        ) -> $crate::FsResult<()> {
            self.guarded(|| self.op_setxattr(ino, name, value, mode))
        }
        fn getxattr(&self, ino: ::base::Ino, name: &[u8]) -> $crate::FsResult<Vec<u8>> {
            self.guarded(|| self.op_getxattr(ino, name))
        }
        fn listxattr(&self, ino: ::base::Ino) -> $crate::FsResult<Vec<Vec<u8>>> {
            self.guarded(|| self.op_listxattr(ino))
        }
        fn obeys_acls(&self) -> bool {
            true
        }
        fn removexattr(&self, ino: ::base::Ino, name: &[u8]) -> $crate::FsResult<()> {
            self.guarded(|| self.op_removexattr(ino, name))
        }
        fn set_file_flags(
            &self,
            ino: ::base::Ino,
            flags: $crate::FileFlags,
        ) -> $crate::FsResult<()> {
            self.guarded(|| self.change_flags(&*self.inode(ino)?, flags))
        }
        fn project(&self, ino: ::base::Ino) -> $crate::FsResult<u32> {
            self.guarded(|| Ok(self.project_of(&*self.inode(ino)?)))
        }
        fn set_project(&self, ino: ::base::Ino, project: u32) -> $crate::FsResult<()> {
            self.guarded(|| self.change_project(&*self.inode(ino)?, project))
        }
        fn open(&self, ino: ::base::Ino) -> $crate::FsResult<()> {
            self.guarded(|| self.pin(&*self.inode(ino)?))
        }
        fn fsync(&self, ino: ::base::Ino, data_only: bool) -> $crate::FsResult<()> {
            self.guarded(|| {
                if self.options.read_only {
                    return Ok(());
                }
                self.check_writable()?;
                self.sync_inode(&*self.inode(ino)?, data_only)
            })
        }
        fn write_errors(&self, ino: ::base::Ino) -> $crate::WriteErrorCounts {
            let inode = self.inodes.get(ino);
            inode.map_or_else(Default::default, |inode| inode.core().write_errors.counts())
        }
        fn sync(&self) -> $crate::FsResult<()> {
            self.guarded(|| {
                if self.options.read_only {
                    return Ok(());
                }
                self.check_writable()?;
                self.sync_all()
            })
        }
        fn drop_caches(&self) {
            self.pages.drop_clean();
        }
        fn statfs(&self) -> $crate::FsResult<$crate::FsStat> {
            self.guarded(|| Ok(self.stat_fs()))
        }
        fn go_down(&self) -> $crate::FsResult<()> {
            self.guarded(|| self.cut_off())
        }
    };
}
