//! POSIX ACLs and the umask: the same script on mounts of ext4 and F2FS, and on the kernel's ext4,
//! line by line.

use super::place::{Place, shell};
use rustix::fs::{XattrFlags, removexattr, setxattr};
use std::path::Path;

/// Permissions of users and groups: access ACLs, default ACLs, masks and modes, umasks,
/// set-group-ID; `show` prints mode, owner and ACL.
const SCRIPT: &str = r#"
chmod 755 .
umask 022; touch f; mkdir d; stat -c '%a' f d
umask 077; touch g; mkdir e; mkfifo p; stat -c '%a' g e p
umask 000; touch h; mknod c c 1 3; ln -s f s; stat -c '%a %F' h c s
setfacl -m u:65534:rw f; stat -c '%a' f; getfacl -cn f
@nobody 'echo x >> f; cat f'
chmod 600 f; getfacl -cn f
@nobody 'cat f'
chmod 664 f; getfacl -cn f
@nobody 'cat f'
setfacl -m m::r f; stat -c '%a' f; getfacl -cn f
@nobody 'echo y >> f'
setfacl -m g:50:rwx,g::- f; stat -c '%a' f; getfacl -cn f
@nobody 'setfacl -m u:65534:rwx f'
setfacl -x u:65534 f; getfacl -cn f
setfacl -b f; stat -c '%a' f; getfacl -cn f
setfacl -b f; setfacl -k f
setfacl -k d; setfacl -d -m u:65534:rwx,g::r d; getfacl -cn d
umask 077; touch d/f; mkdir d/e; mkdir d/e/e; touch d/e/e/f; mkfifo d/p; ln -s f d/s; (: > d/redirected); stat -c '%n %a' d/*
getfacl -cn d/f; getfacl -cn d/e; getfacl -cn d/e/e; getfacl -cn d/e/e/f; getfacl -cn d/p
umask 022; mkdir -m 1750 d/m; install -m 4711 f d/i; stat -c '%n %a' d/m d/i; getfacl -cn d/m; getfacl -cn d/i
@nobody 'cd d/e && touch there && rm there'
setfacl -k d; umask 027; touch d/after; mkdir d/after-dir; stat -c '%n %a' d/after d/after-dir
mkdir sg; chgrp 50 sg; chmod 2770 sg; setfacl -d -m u:65534:rwx,o::r sg; setfacl -m u:65534:rwx sg; getfacl -n sg
@nobody 'umask 077; mkdir sg/a; touch sg/b; mkdir sg/a/c'
umask 077; mkdir sg/r; touch sg/q; stat -c '%n %a %u %g' sg sg/* sg/a/c
getfacl -n sg/a; getfacl -n sg/b; getfacl -n sg/q
touch k; chown 65534:77 k; chmod 2775 k; @nobody 'setfacl -m u:1:r k'; stat -c '%a' k; getfacl -n k
touch l; chown 65534:50 l; chmod 2775 l; @nobody 'setfacl -m u:1:r l'; stat -c '%a' l
touch o; chown 65534:77 o; chmod 2775 o; setfacl -m u:1:r o; stat -c '%a' o
@nobody 'chmod 2775 k'; stat -c '%a' k
mkdir locked; chmod 700 locked; touch locked/f; @nobody 'ls locked'
setfacl -m u:65534:x locked; @nobody 'ls locked; stat -c %n locked/f'
setfacl -m g:50:rx locked; setfacl -x u:65534 locked; @nobody 'ls locked'
chmod g-rx locked; @nobody 'ls locked'
cp -a f copied; setfacl -m u:3:r f; cp -a f copied2; getfacl -cn copied2; cp f copied3; getfacl -cn copied3
mv f moved; getfacl -cn moved; ln moved hard; setfacl -m u:4:w hard; getfacl -cn moved
chown 5:6 moved; stat -c '%a %u %g' moved; getfacl -cn moved
setfacl -m u:5:rwx s; setfacl -d -m u:5:rwx moved
setfacl --set u::r,g::r moved
setfacl --set u::r,g::r,o::r moved; getfacl -cn moved; stat -c '%a' moved
for i in $(seq 100 160); do echo u:$i:r; done > list; setfacl -M list moved; getfacl -cn moved | wc -l
rm -rf d sg; ls -I lost+found
"#;

/// More than a block of ext4 has room for; an inode of F2FS and its node have.
const LONG: &str = "for i in $(seq 1000 1445); do echo u:$i:r; done > list; setfacl -M list moved";

fn errno<T>(result: rustix::io::Result<T>) -> Option<i32> {
    result.err().map(|e| e.raw_os_error())
}

/// By system calls: what the tools above do not do.
fn calls(dir: &Path) -> String {
    let file = dir.join("calls");
    std::fs::write(&file, b"").expect("room");
    let (access, default) = ("system.posix_acl_access", "system.posix_acl_default");
    let remove = |path: &Path, name: &str| errno(removexattr(path, name));
    let set = |path: &Path, name: &str, value: &[u8]| {
        errno(setxattr(path, name, value, XattrFlags::empty()))
    };
    let entry =
        |tag: u16, perm: u16| [&tag.to_le_bytes()[..], &perm.to_le_bytes(), &[0xFF; 4]].concat();
    let of = |entries: &[Vec<u8>]| [&2u32.to_le_bytes()[..], &entries.concat()].concat();
    let plain = of(&[entry(1, 6), entry(4, 4), entry(0x20, 0)]);
    let short = of(&[entry(1, 6), entry(4, 4)]);
    let results = [
        remove(&file, access),
        remove(&file, default),
        remove(dir, access),
        remove(dir, default),
        remove(&file, "user.none"),
        set(&file, access, &plain),
        remove(&file, access),
        set(&file, default, &plain),
        set(&file, access, &short),
        set(&file, access, &plain[..11]),
        set(&file, access, &[1; 4]),
        set(&file, access, &of(&[])),
        set(&dir.join("s"), access, &plain),
    ];
    format!("{results:?}")
}

fn on(place: &Place) -> String {
    shell(&place.dir(), SCRIPT) + &calls(&place.dir())
}

fn long(place: &Place) -> String {
    shell(&place.dir(), LONG)
}

#[test]
fn acls_and_umasks_as_on_the_kernels_ext4() {
    let theirs = Place::new("ext4");
    theirs.mount_by_kernel();
    let (wanted, wanted_long) = (on(&theirs), long(&theirs));
    theirs.umount_kernel();
    for (kind, options) in [
        ("ext4", "allow_other"),
        ("ext4", "allow_other,writeback,attr_timeout=0"),
        ("f2fs", "allow_other"),
        ("f2fs", "allow_other,writeback,attr_timeout=0"),
    ] {
        let ours = Place::new(kind);
        ours.mount(options);
        let (got, got_long) = (on(&ours), long(&ours));
        ours.umount();
        ours.judge(kind);
        let differ: Vec<_> = (wanted.lines().zip(got.lines()))
            .filter(|(a, b)| a != b)
            .collect();
        assert!(wanted == got, "{kind}, {options}: {differ:#?}\n{got}");
        match kind {
            "ext4" => assert_eq!(got_long, wanted_long, "{options}"),
            _ => assert!(got_long.contains("Some(0)"), "{got_long}"),
        }
    }
    assert!(wanted.contains("user:65534:rw-"), "{wanted}");
}
