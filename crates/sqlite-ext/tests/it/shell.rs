//! SQLite's shell, as its users type.

use crate::common::Place;

#[test]
fn databases_of_one_image_in_every_journal_mode() {
    let place = Place::new();
    for mode in ["delete", "truncate", "persist", "memory", "wal"] {
        let text = place.shell(&format!(
            ".open 'file:app.img:/{mode}.db?vfs=varve&create=64M'
             pragma journal_mode={mode};
             create table t(v); insert into t values('one'),('two');
             begin; insert into t values('never'); rollback;
             select group_concat(v) from t;
             .vfsname"
        ));
        assert_eq!(text, format!("{mode}\none,two\nvarve\n"));
        place.e2fsck();
    }
    let text = place.shell(
        ".open 'file:app.img:/wal.db?vfs=varve'
         attach 'file:app.img:/delete.db?vfs=varve' as other;
         begin; insert into t values('w'); insert into other.t values('d'); commit;
         select group_concat(v) from t;
         select group_concat(v) from other.t;
         pragma integrity_check;",
    );
    assert_eq!(text, "one,two,w\none,two,d\nok\n");
    place.e2fsck();
}

#[test]
fn an_image_is_f2fs_if_that_is_asked_for() {
    let place = Place::new();
    let text = place.shell(
        ".open 'file:app.img:/a.db?vfs=varve&create=64M&fs=f2fs'
         create table t(v); insert into t values(7);
         .open 'file:app.img:/a.db?vfs=varve'
         select * from t;",
    );
    assert_eq!(text, "7\n");
    let head = std::fs::read(place.path().join("app.img")).unwrap();
    assert_eq!(head[1024..1028], 0xF2F5_2010_u32.to_le_bytes());
}

#[test]
fn the_extension_may_be_loaded_twice_and_is_not_the_default() {
    let place = Place::new();
    let text = place.shell(
        ".load ./varve
         .load ./varve sqlite3_varve_init
         .open plain.db
         .vfsname
         create table t(v);
         .open 'file:app.img:/a.db?vfs=varve&create=64M'
         .load ./varve
         create table t(v);
         select count(*) from sqlite_master;",
    );
    assert_eq!(text, "unix\n1\n");
    assert!(place.path().join("plain.db").exists());
}

/// Another copy of the file is another library, with mounts and locks of its own.
#[test]
fn a_copy_of_the_extension_beside_it_is_refused() {
    let place = Place::new();
    let text = place.shell(
        ".open 'file:app.img:/a.db?vfs=varve&create=64M'
         create table t(v); insert into t values(7);
         .shell cp varve.so copy.so
         .load ./copy sqlite3_varve_init
         insert into t values(8);
         select group_concat(v) from t;",
    );
    let refused = "varve: another VFS named `varve` is registered";
    assert!(text.contains(refused), "{text}");
    assert!(text.contains("7,8\n"), "{text}");
    place.e2fsck();
}

#[test]
fn a_sorter_larger_than_memory_uses_a_temporary_file() {
    let place = Place::new();
    let text = place.shell(
        ".open 'file:app.img:/a.db?vfs=varve&create=128M'
         pragma temp_store=file; pragma cache_size=10; pragma cache_spill=on;
         create table t(v);
         with recursive n(i) as (select 1 union all select i+1 from n where i<30000)
           insert into t select hex(randomblob(200)) from n;
         create temp table u as select * from t order by v desc;
         create index i on t(v);
         select count(*) from u;
         pragma integrity_check;",
    );
    assert_eq!(text, "30000\nok\n");
    place.e2fsck();
}
