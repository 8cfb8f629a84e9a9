//! A mounted stack, from the device model to the file system's paths.

use crate::{AnyFs, Config, MountOptions, RigError};
use base::Nanos;
use block::Queue;
use blockdev::{BlockDevice, Clock, Modelled};
use ctrl::AnyModel;
use std::sync::Arc;
use vfs::{Vfs, WritebackPolicy};

/// Commands that the driver of Linux has at the device at once. For an eMMC without command queue
/// it prepares one while another runs (`drivers/mmc/card/queue.c`, `mmc_queue_req` twice); other
/// devices have a queue, of which a scheduler uses as much as a 5.1 eMMC would have.
fn commands_at_once(model: &AnyModel) -> usize {
    match model {
        AnyModel::Emmc(_) => 2,
        AnyModel::Plain(_) | AnyModel::Raw(_) | AnyModel::Nvme(_) => 32,
    }
}

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
        let depth = commands_at_once(&model);
        let device = Arc::new(Modelled::new(model, clock));
        let options = (config.mount_options(), config.writeback());
        Stack::over(device, options, |device| {
            let scheduler = config.scheduler.unwrap_or_default();
            Queue::scheduled(between(device), scheduler, depth).map_err(RigError::Scheduler)
        })
    }

    /// Mounts on a device that another owner holds too, with options of the caller's and without an
    /// I/O scheduler.
    ///
    /// # Errors
    /// As [`Stack::mount`].
    pub fn mount_with(
        device: Arc<Modelled<AnyModel>>,
        options: (MountOptions, WritebackPolicy),
        between: impl FnOnce(Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice>,
    ) -> Result<Stack, RigError> {
        Stack::over(device, options, |device| Ok(Queue::new(between(device))))
    }

    fn over(
        device: Arc<Modelled<AnyModel>>,
        (options, policy): (MountOptions, WritebackPolicy),
        queue_of: impl FnOnce(Arc<dyn BlockDevice>) -> Result<Arc<Queue>, RigError>,
    ) -> Result<Stack, RigError> {
        let start = rt::now();
        let queue = queue_of(device.clone())?;
        let fs = AnyFs::mount(queue.clone(), options)?;
        let vfs = Vfs::with_policy(fs.seam(), policy)?;
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
