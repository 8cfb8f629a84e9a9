//! What is refused, each with a text that says what, where and what to do.

use crate::common::Place;

/// What the shell says of opening `uri`, and the text of `varve_error()`.
fn refused(place: &Place, uri: &str) -> String {
    place.shell(&format!(".open '{uri}'\nselect varve_error();\n"))
}

#[test]
fn names_and_parameters_that_are_not_valid() {
    let place = Place::new();
    let table = [
        (
            "file:app.db?vfs=varve",
            "say an image and a path in it, as in `file:app.img:/app.db?vfs=varve`",
        ),
        ("file:app.img:/?vfs=varve", "app.img:/: is a directory"),
        (
            "file:no/app.img:/a.db?vfs=varve",
            "no/app.img: its folder: No such file or directory",
        ),
        (
            "file:app.img:/a.db?vfs=varve",
            "the parameter create=SIZE, as in `&create=64M`, makes one",
        ),
        (
            "file:app.img:/a.db?vfs=varve&create=64M&mode=rw",
            "makes one",
        ),
        (
            "file:app.img:/a.db?vfs=varve&create=much",
            "create=much: the size of the image, as in create=64M, is a whole number of bytes",
        ),
        (
            "file:app.img:/a.db?vfs=varve&create=64M&fs=ntfs",
            "fs=ntfs; there are: ext4, ext3, f2fs",
        ),
        ("file:app.img:/a.db?vfs=varve&create=5", "multiple of 4096"),
        (
            "file:app.img:/a.db?vfs=varve&create=64M&psow=maybe",
            "psow=maybe; there are: 1, on",
        ),
    ];
    for (uri, expected) in table {
        let text = refused(&place, uri);
        assert!(text.contains("unable to open database"), "{uri}: {text}");
        assert!(text.contains(expected), "{uri}: {text}");
    }
    assert!(!place.path().join("app.img").exists());
}

#[test]
fn images_that_are_not_valid() {
    let place = Place::new();
    let image = place.path().join("app.img");
    std::fs::write(&image, vec![0; 32 << 20]).unwrap();
    let uri = "file:app.img:/a.db?vfs=varve";
    let text = refused(&place, uri);
    assert!(text.contains("holds no ext4, ext3 or F2FS"), "{text}");
    // Zeros that somebody wrote may be the head of anything.
    let text = refused(&place, &format!("{uri}&create=32M"));
    assert!(text.contains("holds no ext4, ext3 or F2FS"), "{text}");
    // A file without content is what a process leaves that ended before it had made the file
    // system.
    let blank = std::fs::File::create(&image).unwrap();
    blank.set_len(64 << 20).unwrap();
    let text = refused(&place, &format!("{uri}&create=32M"));
    assert!(text.contains("holds no ext4, ext3 or F2FS"), "{text}");
    let text = place.shell(&format!(
        ".open '{uri}&create=64M'\ncreate table t(v);\n.tables\n"
    ));
    assert_eq!(text, "t\n");
    let text = refused(&place, "file:app.img:/no/a.db?vfs=varve");
    assert!(text.contains("Open of /no/a.db: no such file"), "{text}");
    let text = refused(&place, "file:app.img:/b.db?vfs=varve&options=speed=max");
    assert!(
        text.contains("app.img: ") && text.contains("speed=max"),
        "{text}"
    );
    std::fs::write(&image, vec![7; 32 << 20]).unwrap();
    let text = refused(&place, &format!("{uri}&create=64M"));
    assert!(text.contains("holds no ext4, ext3 or F2FS"), "{text}");
}

/// making-U1. What fails here is found out when the file system has been made: by the mount, or by
/// the open of the database in it.
#[test]
fn an_open_that_fails_leaves_no_image_that_it_made() {
    let place = Place::new();
    let image = place.path().join("app.img");
    let table = [
        (
            "/a.db?vfs=varve&create=64M&options=speed=max",
            "mount option `speed=max` is unknown",
        ),
        (
            "/a.db?vfs=varve&create=64M&options=cache=0",
            "mount option `cache=0`: it may be a whole number of MiB",
        ),
        (
            "/a.db?vfs=varve&create=64M&fs=f2fs&options=scheme=f2fsj",
            "scheme=f2fsj",
        ),
        ("/no/a.db?vfs=varve&create=64M", "Open of /no/a.db"),
        ("/a.db?vfs=varve&create=64M&options=ro", "Open of /a.db"),
    ];
    for (rest, expected) in table {
        let uri = format!("file:app.img:{rest}");
        let text = refused(&place, &uri);
        assert!(text.contains(expected), "{uri}: {text}");
        assert!(!text.contains("incompatible"), "{uri}: {text}");
        assert!(!image.exists(), "{uri}");
        std::fs::File::create(&image).unwrap();
        let text = refused(&place, &uri);
        assert!(text.contains(expected), "{uri}: {text}");
        assert_eq!(image.metadata().unwrap().len(), 0, "{uri}");
        let blank = std::fs::File::create(&image).unwrap();
        blank.set_len(64 << 20).unwrap();
        let text = refused(&place, &uri);
        assert!(text.contains(expected), "{uri}: {text}");
        let there = image.metadata().unwrap();
        let blocks = std::os::unix::fs::MetadataExt::blocks(&there);
        assert_eq!((there.len(), blocks), (64 << 20, 0), "{uri}");
        std::fs::remove_file(&image).unwrap();
    }
    // A second database that fails takes nothing away from the first.
    let uri = "file:app.img:/a.db?vfs=varve&create=64M&options=cache=16M";
    let text = place.shell(&format!(
        ".open '{uri}'\ncreate table t(v);\n\
         attach 'file:app.img:/no/b.db?vfs=varve&create=64M' as b;\n.tables\n"
    ));
    assert!(text.contains("unable to open database"), "{text}");
    assert!(text.starts_with("t\n"), "{text}");
    place.e2fsck();
}

/// SQLite itself ignores a parameter that nobody reads.
#[test]
fn a_parameter_that_is_unknown_is_an_error_with_its_name() {
    let place = Place::new();
    for (unknown, name) in [
        ("creat=64M", "creat"),
        ("create=64M&option=ro", "option"),
        ("create=64M&modeof=x", "modeof"),
    ] {
        let text = refused(&place, &format!("file:app.img:/a.db?vfs=varve&{unknown}"));
        assert!(
            text.contains(&format!(
                "the parameter `{name}` is unknown; there are: create"
            )),
            "{text}"
        );
        assert!(!place.path().join("app.img").exists(), "{unknown}");
    }
    let uri = "file:app.img:/a.db?vfs=varve&create=64M&mode=rwc&cache=private&_fk=1";
    assert_eq!(
        place.shell(&format!(".open '{uri}'\ncreate table t(v);\n.tables\n")),
        "t\n"
    );
}

/// What is written to an image that was moved away would be lost with it.
#[test]
fn an_image_that_was_replaced_is_refused_while_the_old_one_is_open() {
    let place = Place::new();
    let uri = "file:app.img:/a.db?vfs=varve&create=64M";
    let text = place.shell(&format!(
        ".open '{uri}'\ncreate table t(v);\n.shell mv app.img old.img\n\
         attach '{uri}' as b;\nselect varve_error();\n\
         .shell mv old.img app.img\nattach '{uri}' as b;\nselect count(*) from b.t;\n"
    ));
    assert!(
        text.contains("app.img: was renamed, removed or replaced"),
        "{text}"
    );
    assert!(text.contains("\n0\n"), "{text}");
}

/// What `varve_error()` says where a database can only be read.
pub const READ_ONLY: &str = "app.img: its databases can only be read here: it is mounted read-only";

#[test]
fn a_mount_that_is_read_only_reads() {
    let place = Place::new();
    place.shell(".open 'file:app.img:/a.db?vfs=varve&create=64M'\ncreate table t(v); insert into t values(5);");
    let before = std::fs::read(place.path().join("app.img")).unwrap();
    let text = place.shell(
        ".open 'file:app.img:/a.db?vfs=varve&options=ro'
         select v from t;
         insert into t values(6);
         select varve_error();",
    );
    assert!(text.starts_with("5\n"), "{text}");
    assert!(
        text.contains("attempt to write a readonly database"),
        "{text}"
    );
    assert!(text.contains(READ_ONLY), "{text}");
    // Who asks for no more than to read has what was asked for.
    let text = place.shell(
        ".open 'file:app.img:/a.db?vfs=varve&options=ro&mode=ro'
         select v, varve_error() is null from t;",
    );
    assert_eq!(text, "5|1\n");
    assert!(before == std::fs::read(place.path().join("app.img")).unwrap());
}

#[test]
fn a_full_volume_is_a_full_disk_and_loses_nothing() {
    let place = Place::new();
    let text = place.shell(
        ".open 'file:app.img:/a.db?vfs=varve&create=16M'
         create table t(v); insert into t values(zeroblob(1000));
         with recursive n(i) as (select 1 union all select i+1 from n where i<20000)
           insert into t select zeroblob(4000) from n;
         select count(*) from t; pragma integrity_check;",
    );
    assert!(text.contains("database or disk is full"), "{text}");
    assert!(text.contains("1\nok\n"), "{text}");
    place.e2fsck();
}
