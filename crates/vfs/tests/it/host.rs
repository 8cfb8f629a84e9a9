//! What the host takes for each call: the constant of the call and its components, once.

use base::Nanos;
use base::cost::host;
use rt::{Sim, SimConfig};
use std::sync::Arc;
use testkit::model::ModelFs;
use varve_vfs::{File, FileKind, OpenFlags, RenameMode, SetAttr, Vfs};

const BOTH: OpenFlags = OpenFlags::READ_WRITE;

/// What `call` is charged, on a file system that charges nothing.
fn charged<R>(call: impl FnOnce() -> R) -> (Nanos, R) {
    let before = rt::charged();
    let result = call();
    (Nanos(rt::charged().0 - before.0), result)
}

/// `call`, and so many components.
fn walked(call: Nanos, components: u64) -> Nanos {
    Nanos(call.0 + components * host::COMPONENT.0)
}

fn in_a_simulation(body: impl Fn(&Arc<Vfs>)) {
    let outcome = Sim::new(SimConfig::seeded(1)).run(|| {
        let vfs = Vfs::new(ModelFs::new());
        vfs.mkdir("/d", 0o755).unwrap();
        body(&vfs);
        vfs.unmount().unwrap();
    });
    outcome.unwrap();
}

#[test]
fn a_call_by_path_costs_its_constant_and_its_components() {
    in_a_simulation(|vfs| {
        let all = SetAttr {
            perm: Some(0o600),
            ..SetAttr::default()
        };
        let mut found = Vec::new();
        let mut call = |name, wanted, run: &dyn Fn()| found.push((name, charged(run).0, wanted));
        call("mkdir", walked(host::MKDIR, 2), &|| {
            vfs.mkdir("/d/e", 0o755).map(drop).unwrap();
        });
        call("mknod", walked(host::CREATE, 2), &|| {
            let made = vfs.mknod("/d/f", FileKind::File, 0o644, 0);
            made.map(drop).unwrap();
        });
        call("symlink", walked(host::CREATE, 1), &|| {
            vfs.symlink("/d", "/s").map(drop).unwrap();
        });
        call("a link on the way", walked(host::STAT, 3), &|| {
            vfs.stat("/s/f").map(drop).unwrap();
        });
        call("lstat", walked(host::STAT, 1), &|| {
            vfs.lstat("/s").map(drop).unwrap();
        });
        call("readlink", walked(host::CALL, 1), &|| {
            vfs.readlink("/s").map(drop).unwrap();
        });
        call("set_attr", walked(host::SETATTR, 2), &|| {
            vfs.set_attr("/d/f", &all).map(drop).unwrap();
        });
        call("link", walked(host::LINK, 4), &|| {
            vfs.link("/d/f", "/d/g").map(drop).unwrap();
        });
        call("rename", walked(host::RENAME, 3), &|| {
            vfs.rename("/d/g", "/g", RenameMode::Replace).unwrap();
        });
        call("unlink", walked(host::UNLINK, 1), &|| {
            vfs.unlink("/g").unwrap();
        });
        call("rmdir", walked(host::RMDIR, 2), &|| {
            vfs.rmdir("/d/e").unwrap();
        });
        // Two chunks: the entries, and none behind them.
        call("readdir", walked(Nanos(2 * host::CALL.0), 1), &|| {
            vfs.readdir("/d").map(drop).unwrap();
        });
        for (name, found, wanted) in found {
            assert_eq!(found, wanted, "{name}");
        }
    });
}

#[test]
fn a_call_on_an_open_file_costs_its_constant() {
    in_a_simulation(|vfs| {
        let (made, file) = charged(|| vfs.open("/d/f", BOTH | OpenFlags::CREATE, 0o644).unwrap());
        assert_eq!(made, walked(host::CREATE, 2));
        type Call<'a> = (&'a str, Nanos, &'a dyn Fn(&File));
        let calls: [Call<'_>; 6] = [
            ("write", host::WRITE, &|f| {
                assert_eq!(f.write_at(0, &[1; 4]).unwrap(), 4);
            }),
            ("read", host::READ, &|f| {
                assert_eq!(f.read_at(0, &mut [0; 4]).unwrap(), 4);
            }),
            ("fsync", host::FSYNC, &|f| f.fsync().unwrap()),
            ("fdatasync", host::FSYNC, &|f| f.fdatasync().unwrap()),
            ("stat", host::STAT, &|f| f.stat().map(drop).unwrap()),
            ("truncate", host::SETATTR, &|f| f.truncate(0).unwrap()),
        ];
        for (name, wanted, call) in calls {
            assert_eq!(charged(|| call(&file)).0, wanted, "{name}");
        }
        assert_eq!(charged(|| file.close().unwrap()).0, host::CLOSE);
        let synced = OpenFlags::WRITE | OpenFlags::APPEND | OpenFlags::SYNC;
        let (opened, file) = charged(|| vfs.open("/d/f", synced, 0).unwrap());
        assert_eq!(opened, walked(host::OPEN, 2));
        let (wrote, _) = charged(|| file.write_at(0, &[1; 4]).unwrap());
        assert_eq!(wrote, host::WRITE, "its sync is no call of its own");
        file.close().unwrap();
    });
}
