//! An unmodified Linux on our device model, by vhost-user.

use blockdev::{Clock, Modelled};
use ctrl::{AnyModel, Profile};
use guest::Guest;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use varve_serve::{Served, Traffic, vhost};

const MIB: u64 = 1 << 20;

/// A model that is served while `client` runs; the traffic that it saw.
fn with_device(
    device: &Arc<Modelled<AnyModel>>,
    folder: &Path,
    client: impl FnOnce(&Path),
) -> Traffic {
    let socket = folder.join("socket");
    let served = Arc::new(Served::new(device.clone()).expect("an event"));
    let server = vhost::Server::bind(&socket).expect("a socket");
    let serving = served.clone();
    let thread = rt::spawn("server", move || {
        let mut told = Vec::new();
        let done = server.run(&serving, &vhost::Options::default(), &mut |why| {
            told.push(why.to_string());
        });
        done.expect("serves");
        told
    });
    client(&socket);
    served.end();
    let told = thread.join().expect("the server ends");
    assert_eq!(told, [] as [&str; 0], "no client broke the protocol");
    served.traffic()
}

fn device() -> Arc<Modelled<AnyModel>> {
    let profile = Profile::parse("emmc-odroid-xu4").expect("a profile");
    let model = profile.build(Some(128 * MIB), None).expect("a device");
    Arc::new(Modelled::new(model, Clock::Unpaced))
}

/// The content of a device as a file.
fn image_of(device: &Modelled<AnyModel>, path: &Path) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::create(path).unwrap();
    file.set_len(128 * MIB).unwrap();
    device.with_model(|model| {
        model.dump_logical(|lba, bytes| file.write_all_at(bytes, lba.0 * 512).unwrap());
    });
}

#[test]
fn linux_makes_and_fills_an_ext4_whose_flushes_arrive() {
    if let Some(why) = guest::lacks() {
        eprintln!("skipped: {why}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let device = device();
    let traffic = with_device(&device, folder.path(), |socket| {
        let guest = Guest::new(&["in_the_guest", "--exact", "--nocapture"]).unwrap();
        let guest = guest.limit(Duration::from_secs(60)).served(socket);
        let out = guest
            .check(
                "cat /sys/block/$BLOCK0/queue/write_cache
                 mkfs.ext4 -q -O ^has_journal $DISK0; mkfs.ext4 -q -F $DISK0
                 mount $DISK0 $MNT
                 for n in 1 2 3 4 5; do dd if=/dev/urandom of=$MNT/$n bs=64k count=8 conv=fsync 2>/dev/null; done
                 fstrim -v $MNT
                 (cd $MNT; sha256sum [1-5]) >$DIR/sums
                 umount $MNT
                 echo 3 >/proc/sys/vm/drop_caches
                 mount $DISK0 $MNT
                 (cd $MNT; sha256sum -c) <$DIR/sums
                 umount $MNT",
            )
            .expect("the script ends well");
        assert!(out.output.starts_with("write back"), "{}", out.output);
    });
    assert!(traffic.flushes >= 5, "an fsync is a flush: {traffic}");
    assert!(
        traffic.writes > 20 && traffic.reads > 20 && traffic.discards > 0,
        "{traffic}"
    );
    assert_eq!(traffic.failed, 0, "{traffic}");
    let image = folder.path().join("image");
    image_of(&device, &image);
    let fsck = Command::new("e2fsck")
        .args(["-fn".as_ref(), image.as_os_str()])
        .output()
        .unwrap();
    assert!(
        fsck.status.success(),
        "{}",
        String::from_utf8_lossy(&fsck.stdout)
    );
}
