//! What a power cut may lose, and what it may not.

use super::loss::{LossJob, Lost, simulated};
use super::measure::Host;
use super::objects::{meta, recovered};
use super::recovery::{Act, RecoveryJob};
use super::system::{Size, System};
use rig::{Clock, Config, Stack};
use rt::SimConfig;
use vfs::OpenFlags;
use work::RunConfig;
use work::fsck::Verdict;
use work::fsck::second_opinion;

const FILES: u32 = 400;
const WORKLOAD: &str = "meta:op=create,count=400,size=4k,width=100";

fn stack(system: System) -> Config {
    let size = Size {
        bytes: 256 << 20,
        ring: 4 << 20,
        shorter: 1,
    };
    system.stack("nvme-980pro", size, 1)
}

/// Runs with an operation each 50 to 500 ms, so that the run is several periods long.
fn loss(system: System, workload: &str) -> Lost {
    let job = LossJob {
        run: RunConfig {
            stack: stack(system),
            workload: workload.into(),
            seed: 1,
            recording: None,
        },
        host: Host::cores(4),
        stands_for: 20_000,
        cuts: 6,
    };
    job.run().expect("runs, and recovers to a prefix")
}

/// After every cut, what is older than the commit before the last one is there, so no committed
/// epoch is lost.
#[test]
fn loss_is_bounded_by_a_period() {
    for system in [System::F2fsj, System::PageJournal, System::Checkpoint5Bg] {
        for op in ["create,size=4k", "unlink,size=0", "mkdir"] {
            let workload = format!("meta:op={op},count={FILES},width=100");
            let found = loss(system, &workload);
            let name = format!("{system:?} {op}: {found:?}");
            assert!(found.seconds > 11.0 && found.commits >= 2, "{name}");
            assert!(found.oldest_s() <= 5.6, "{name}");
            let worst = found.worst();
            assert!(worst.lost > 0 && worst.lost < worst.done, "{name}");
        }
    }
}

#[test]
fn an_interval_of_60_s_loses_what_a_commit_each_5_s_keeps() {
    let workload = "meta:op=mkdir,count=400,width=100";
    let stock = loss(System::Checkpoint60, workload);
    let worst = stock.worst();
    assert_eq!((stock.commits, worst.lost), (0, worst.done), "{stock:?}");
    assert_eq!(stock, loss(System::Checkpoint60, workload), "again");
}

#[test]
fn what_was_synced_is_there_whatever_did_it() {
    for (system, fsynced) in [
        (System::F2fsj, true),
        (System::F2fsj, false),
        (System::PageJournal, true),
        (System::PageJournal, false),
        (System::Checkpoint60, true),
        (System::Ext4, true),
        (System::Ext4, false),
    ] {
        for act in [Act::Create, Act::Delete] {
            let job = RecoveryJob {
                stack: stack(system),
                fsynced: fsynced && act == Act::Create,
                act,
                files: 300,
                host: Host::cores(4),
            };
            let found = job.run().expect("recovers");
            let name = format!("{system:?} {act:?} {fsynced}: {found:?}");
            assert_eq!(found.recovered, 1.0, "{name}");
            assert!(found.mount_ms > 0.0 && found.clean_ms > 0.0, "{name}");
            if system != System::Checkpoint60 {
                assert!(found.epochs > 0 && found.records > 0, "{name}");
            }
        }
    }
}

/// A state that no prefix of the operations leaves is an error, not a loss.
#[test]
fn a_hole_in_what_is_recovered_is_seen() {
    let config = stack(System::F2fsj);
    let spec = meta(WORKLOAD).unwrap();
    let model = config.format().unwrap();
    let why = simulated(SimConfig::seeded(1), || {
        let stack = Stack::mount(model, &config, Clock::Runtime)?;
        stack.vfs.mkdir("/d0", 0o755)?;
        let mut found = Vec::new();
        for n in [0, 1, 3] {
            let flags = OpenFlags::WRITE | OpenFlags::CREATE;
            let file = stack.vfs.open(format!("/d0/e{n}"), flags, 0o644)?;
            file.close()?;
            found.push(recovered(&stack.vfs, &spec).map(|r| (r.ops, r.whole)));
        }
        stack.unmount()?;
        Ok(found)
    });
    let found = why.unwrap();
    assert!(matches!(found[1], Ok((2, 0))), "{found:?}");
    let Err(e) = &found[2] else {
        panic!("{found:?}");
    };
    assert!(e.to_string().contains("no prefix"), "{e}");
}

#[test]
fn fsck_f2fs_passes_what_recovery_leaves() {
    let folder = tempfile::tempdir().unwrap();
    for system in [System::F2fsj, System::PageJournal, System::Checkpoint60] {
        let job = RecoveryJob {
            stack: stack(system),
            fsynced: true,
            act: Act::Create,
            files: 200,
            host: Host::cores(4),
        };
        let volume = job.volume().expect("a volume");
        let (_, media) = job
            .cut(volume)
            .and_then(|m| job.recover(m))
            .expect("recovers");
        let model = job.stack.attach(media).expect("its own medium");
        let verdict = second_opinion(job.stack.fs, &model, folder.path()).unwrap();
        let clean = matches!(verdict, Verdict::Clean | Verdict::NotInstalled);
        assert!(clean, "{system:?}: {verdict:?}");
    }
}
