//! POSIX ACLs, and how they and the mode change each other.

use super::{KINDS, after_power_cut, volume};
use crate::common::{end, mount};
use fscore::{Errno, FileSystem, XattrMode};
use testkit::Brief;
use testkit::errno;
use testkit::posix::{ACCESS, DEFAULT, NOBODY, ROOT, acl, chmod, file, named_acl};

#[test]
fn acls_and_modes_go_together_and_stay() {
    for options in KINDS {
        let ram = volume(options);
        let fs = mount(&ram, options);
        let root = fs.root();
        assert!(fs.obeys_acls());
        let perm = |ino| fs.getattr(ino).expect("stat").perm;
        let get = |ino, name: &[u8]| fs.getxattr(ino, name);
        let top = fs.mkdir(root, b"top", 0o777, ROOT).expect("mkdir").ino;
        assert_eq!(perm(top), 0o755, "the umask counts");
        let set = |ino, name: &[u8], value: &[u8]| fs.setxattr(ino, name, value, XattrMode::Any);
        let plain = acl(&[(1, 7, NOBODY), (4, 6, NOBODY), (0x20, 0, NOBODY)]);
        set(top, ACCESS, &plain).expect("no more than a mode");
        assert_eq!(perm(top), 0o760, "the mode follows");
        assert_eq!(errno(get(top, ACCESS)), Errno::NoData);
        fs.removexattr(top, ACCESS).expect("there is none");
        let other = fs.removexattr(top, b"user.none");
        assert_eq!(errno(other), Errno::NoData, "others have to be there");
        set(top, DEFAULT, &named_acl(7, 7)).expect("a default ACL");
        // What both allow; a directory takes the default ACL over.
        let inner = fs.mkdir(top, b"inner", 0o750, ROOT).expect("mkdir").ino;
        assert_eq!(perm(inner), 0o750);
        assert_eq!(get(inner, DEFAULT).expect("inherited"), named_acl(7, 7));
        let masked = acl(&[
            (1, 7, NOBODY),
            (2, 7, 1000),
            (4, 5, NOBODY),
            (0x10, 5, NOBODY),
            (0x20, 0, NOBODY),
        ]);
        assert_eq!(get(inner, ACCESS).expect("inherited"), masked);
        let f = file(&*fs, inner, "f", 0o666);
        assert_eq!(perm(f), 0o660, "no umask beside a default ACL");
        set(f, ACCESS, &named_acl(4, 6)).expect("an access ACL");
        assert_eq!(perm(f), 0o761);
        chmod(&*fs, f, 0o705).expect("chmod");
        let after = get(f, ACCESS).expect("still there");
        let entry = |n: usize| u16::from_le_bytes([after[4 + 8 * n + 2], after[4 + 8 * n + 3]]);
        assert_eq!(
            (entry(2), entry(3), entry(4)),
            (5, 0, 5),
            "the mask, not the group"
        );
        let short = acl(&[
            (1, 7, NOBODY),
            (2, 7, 1000),
            (4, 5, NOBODY),
            (0x20, 1, NOBODY),
        ]);
        assert_eq!(errno(set(f, ACCESS, &short)), Errno::Inval);
        assert_eq!(errno(set(f, DEFAULT, &plain)), Errno::Access);
        let link = fs.symlink(top, b"l", b"f", ROOT).expect("symlink");
        assert_eq!(
            (link.perm, fs.listxattr(link.ino).expect("list").len()),
            (0o777, 0)
        );
        // One that needs a node of its own, handed on.
        let mut many = vec![(1, 7, NOBODY)];
        many.extend((1..=300).map(|id| (2, 4, id)));
        many.extend([(4, 5, NOBODY), (0x10, 7, NOBODY), (0x20, 1, NOBODY)]);
        set(inner, DEFAULT, &acl(&many)).expect("a long one");
        let long = file(&*fs, inner, "long", 0o640);
        assert_eq!(
            get(long, ACCESS).expect("inherited").len(),
            acl(&many).len()
        );
        fs.unmount().expect("unmount");
        let fs = mount(&ram, options);
        let attr = fs.getattr(f).expect("stat");
        assert_eq!(attr.perm, 0o705);
        assert_eq!(fs.getxattr(f, ACCESS).expect("stored"), after);
        end(&fs, &ram);
    }
}

/// f2fs-xattr-X1: a cut leaves an ACL and the mode that goes with it, or neither; what was synced
/// stays.
#[test]
fn a_cut_leaves_an_acl_with_its_mode() {
    for options in KINDS {
        for seed in 0..12 {
            let start = volume(options).blocks().into_iter().collect();
            let left = after_power_cut(start, options, seed, move |fs| {
                let f = file(fs, fs.root(), "f", 0o640);
                for step in 0..20u16 {
                    let mask = step % 8;
                    match step % 3 {
                        0 => chmod(fs, f, 0o700 | mask << 3),
                        _ => fs.setxattr(f, ACCESS, &named_acl(step % 7, mask), XattrMode::Any),
                    }
                    .expect("changed");
                    if step % 4 == (seed % 4) as u16 {
                        fs.sync().expect("sync");
                    }
                }
            });
            let fs = mount(&left, options);
            let f = fs.find(b"f");
            let perm = fs.getattr(f).expect("stat").perm;
            let value = fs.getxattr(f, ACCESS).expect("synced");
            let mask = u16::from_le_bytes([value[4 + 8 * 3 + 2], value[4 + 8 * 3 + 3]]);
            assert_eq!(perm >> 3 & 7, mask, "{options}, seed {seed}");
            fs.unmount().expect("unmount");
        }
    }
}
