//! The handshake with the kernel: what is asked of it, and what it grants.

use crate::options::{Options, Transport};
use crate::server::Server;
use fuser::{InitFlags, KernelConfig};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the handshake with the kernel has brought; read after it.
#[derive(Clone, Default)]
pub(crate) struct Agreed {
    /// The kernel leaves the umask to the file system.
    pub unmasked: Arc<AtomicBool>,
    /// Requests come over the ring as soon as it is registered.
    pub ring: Arc<AtomicBool>,
}

/// Asks the kernel for what `options` want.
///
/// # Errors
/// It has not what they cannot do without.
pub(super) fn agree(
    config: &mut KernelConfig,
    options: &Options,
    server: &Server,
    agreed: &Agreed,
) -> io::Result<()> {
    let wanted = [
        InitFlags::FUSE_CACHE_SYMLINKS,
        InitFlags::FUSE_DO_READDIRPLUS,
        InitFlags::FUSE_EXPORT_SUPPORT,
        InitFlags::FUSE_HANDLE_KILLPRIV_V2,
        InitFlags::FUSE_HAS_IOCTL_DIR,
        InitFlags::FUSE_PARALLEL_DIROPS,
        InitFlags::FUSE_READDIRPLUS_AUTO,
    ];
    for flag in wanted {
        // An older kernel without it does more work itself.
        let _ = config.add_capabilities(flag);
    }
    if !options.writeback {
        // With both, Linux 6.18 now and then lost an `O_TRUNC` beside direct writes: programs saw
        // the new content, and behind it the volume kept the old one. Without it the kernel cuts
        // by a request of its own.
        let _ = config.add_capabilities(InitFlags::FUSE_ATOMIC_O_TRUNC);
    }
    if options.transport != Transport::Device {
        let offered = config.add_capabilities(InitFlags::FUSE_OVER_IO_URING);
        agreed.ring.store(offered.is_ok(), Ordering::Relaxed);
    }
    if !agreed.ring.load(Ordering::Relaxed) {
        // Without it the kernel drops its pages after each direct write (ring-Q2).
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
    }
    if options.writeback
        && config
            .add_capabilities(InitFlags::FUSE_WRITEBACK_CACHE)
            .is_err()
    {
        return Err(io::Error::from_raw_os_error(libc::EPROTONOSUPPORT));
    }
    // fuse-U5.
    if server.vfs().fs().obeys_acls() {
        let acls = InitFlags::FUSE_POSIX_ACL | InitFlags::FUSE_DONT_MASK;
        // A kernel without them applies the umask itself, and allows no ACL to be set.
        let unmasked = config.add_capabilities(acls).is_ok();
        agreed.unmasked.store(unmasked, Ordering::Relaxed);
    }
    // Limits of the kernel win.
    let _ = config.set_max_write(options.max_write);
    if let Err(most) = config.set_max_readahead(options.max_write) {
        let _ = config.set_max_readahead(most);
    }
    let _ = config.set_max_background(options.threads.max(16) as u16);
    Ok(())
}
