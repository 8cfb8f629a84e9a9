//! A mounted stack, from the device model to the file system's paths.

use crate::{AnyFs, Config, MountOptions, RigError};
use base::Nanos;
use block::Queue;
use blockdev::{BlockDevice, Clock, Modelled};
use ctrl::AnyModel;
use std::sync::Arc;
use vfs::{Vfs, WritebackPolicy};

/// A mounted file system and all layers below it. Dropping it is a crash; [`Stack::unmount`] ends
/// it cleanly.
pub struct Stack {
    /// The device.
    pub device: Arc<Modelled<AnyModel>>,
    /// The queue in front of it.
    pub queue: Arc<Queue>,
    /// The file system.
    pub fs: AnyFs,
    /// Paths and open files.
    pub vfs: Arc<Vfs>,
    /// How long the mount took, recovery included.
    pub mount_took: Nanos,
}

impl Stack {
    /// Mounts the file system on `model`, recovering the journal if need be.
    ///
    /// # Errors
    /// The device or the file system refuses.
    pub fn mount(model: AnyModel, config: &Config, clock: Clock) -> Result<Stack, RigError> {
        Stack::mount_through(model, config, clock, |device| device)
    }

    /// Mounts like [`Stack::mount`], with a layer of the caller's between the queue and the device,
    /// such as a recorder.
    ///
    /// # Errors
    /// As [`Stack::mount`].
    pub fn mount_through(
        model: AnyModel,
        config: &Config,
        clock: Clock,
        between: impl FnOnce(Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice>,
    ) -> Result<Stack, RigError> {
        let device = Arc::new(Modelled::new(model, clock));
        let options = (config.mount_options(), config.writeback());
        Stack::mount_with(device, options, between)
    }

    /// Mounts on a device that another owner holds too, with options of the caller's.
    ///
    /// # Errors
    /// As [`Stack::mount`].
    pub fn mount_with(
        device: Arc<Modelled<AnyModel>>,
        (options, policy): (MountOptions, WritebackPolicy),
        between: impl FnOnce(Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice>,
    ) -> Result<Stack, RigError> {
        let start = rt::now();
        let queue = Queue::new(between(device.clone()));
        let fs = AnyFs::mount(queue.clone(), options)?;
        let vfs = Vfs::with_policy(fs.seam(), policy);
        Ok(Stack {
            device,
            queue,
            fs,
            vfs,
            mount_took: rt::now() - start,
        })
    }

    /// Unmounts and hands out the device.
    ///
    /// # Errors
    /// The unmount fails, or the device has lost its power.
    pub fn unmount(self) -> Result<AnyModel, RigError> {
        self.vfs.unmount()?;
        self.device.take_model().ok_or(RigError::PowerOff)
    }
}
