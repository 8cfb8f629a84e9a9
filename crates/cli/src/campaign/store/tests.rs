//! What is put is got, whole or not at all.

use super::shared::WAITING_MAX;
use super::*;

const ID: &str = "ab0123";

fn store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    (dir, store)
}

#[test]
fn what_is_put_is_got_and_listed() {
    let (_dir, store) = store();
    assert_eq!(store.get(ID, Run::First).unwrap(), None);
    store.put(ID, Run::First, &By::default(), "{}\n").unwrap();
    let kept = store.get(ID, Run::First).unwrap().unwrap();
    assert_eq!(kept.text, "{}\n");
    assert_eq!(store.get(ID, Run::Second).unwrap(), None);
    let all = store.present(Run::First).unwrap();
    assert_eq!(all.into_iter().collect::<Vec<_>>(), [Id::of(ID)]);
}

#[test]
fn a_result_that_is_cut_off_changed_or_another_job_s_is_none() {
    let (_dir, store) = store();
    store
        .put(ID, Run::First, &By::default(), "{\"a\": 1}")
        .unwrap();
    let path = store.path(ID, Run::First);
    let whole = fs::read(&path).unwrap();
    let end = whole.len();
    let text = String::from_utf8(whole.clone()).unwrap();
    let changed = text.replace("{\"a\": 1}", "{\"a\": 2}");
    let others = text.replace(ID, "ab9999");
    let later = text.replace("\"varve_result\":1", "\"varve_result\":2");
    for (bytes, word) in [
        (whole[..end - 1].to_vec(), "7 of 8 bytes"),
        (whole[..10].to_vec(), "cut off"),
        (Vec::new(), "cut off"),
        (changed.into_bytes(), "checksum"),
        (others.into_bytes(), "result of ab9999"),
        (later.into_bytes(), "version 2"),
        (vec![0xff, 0xfe], "no text"),
    ] {
        fs::write(&path, bytes).unwrap();
        let why = store.get(ID, Run::First).unwrap_err().to_string();
        assert!(why.contains(word), "{why}");
    }
    store.put_aside(ID, Run::First).unwrap();
    assert_eq!(store.get(ID, Run::First).unwrap(), None);
    store.put_aside(ID, Run::First).unwrap();
}

#[test]
fn attempts_are_counted_one_by_one_and_forgiven_together() {
    let (_dir, store) = store();
    let attempt = |why: &str| Attempt {
        why: why.into(),
        by: By::default(),
    };
    for why in ["one", "two"] {
        store.note(ID, &attempt(why)).unwrap();
    }
    store.note("ab0124", &attempt("of another")).unwrap();
    let mut whys: Vec<_> = store.attempts(ID).unwrap();
    whys.sort_by(|a, b| a.why.cmp(&b.why));
    assert_eq!(whys, [attempt("one"), attempt("two")]);
    assert_eq!(store.attempted().unwrap().len(), 2);
    let folder = store.attempts_of(ID);
    let one = names(&folder).unwrap().remove(0);
    store.forgive(ID).unwrap();
    assert!(store.attempts(ID).unwrap().is_empty());
    // They stay known, with what they cost.
    assert_eq!(store.attempted().unwrap().len(), 2);
    assert_eq!(store.all_attempts(ID).unwrap().len(), 2);
    // Another copy of the store brings one back.
    fs::copy(folder.join(format!("{one}{FORGIVEN}")), folder.join(&one)).unwrap();
    assert!(store.attempts(ID).unwrap().is_empty());
    store.note(ID, &attempt("three")).unwrap();
    assert_eq!(store.attempts(ID).unwrap(), [attempt("three")]);
    assert_eq!(store.attempts("ab0124").unwrap().len(), 1);
}

#[test]
fn what_is_being_written_is_not_there_yet() {
    let (_dir, store) = store();
    let folder = store.path(ID, Run::First);
    let folder = folder.parent().unwrap();
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join(".part-x"), "half").unwrap();
    assert!(store.present(Run::First).unwrap().is_empty());
}

/// The files of packs, in order.
fn packs(store: &Store) -> Vec<PathBuf> {
    let folder = store.dir.join(pack::FOLDER);
    let names = names(&folder).unwrap();
    names.into_iter().map(|name| folder.join(name)).collect()
}

/// A store with the results `0` alone and `1` to `9` in a pack.
fn with_a_pack() -> (tempfile::TempDir, Store) {
    let (dir, store) = store();
    for n in 0..10 {
        let id = format!("{n:032x}");
        store.put_soon(&id, &By::default(), &n.to_string()).unwrap();
    }
    store.settle().unwrap();
    assert_eq!(packs(&store).len(), 1);
    (dir, store)
}

fn texts(store: &Store) -> Vec<String> {
    let get = |n| store.get(&format!("{n:032x}"), Run::First).ok().flatten();
    (0..10).filter_map(get).map(|kept| kept.text).collect()
}

#[test]
fn results_that_come_at_once_share_a_file_and_are_found_by_every_store_of_the_folder() {
    let (dir, store) = with_a_pack();
    let all: Vec<String> = (0..10).map(|n| n.to_string()).collect();
    assert_eq!(texts(&store), all);
    let alone = store.path(&format!("{:032x}", 0), Run::First);
    assert!(alone.exists(), "what comes alone has a file of its own");
    let other = Store::existing(dir.path()).unwrap();
    assert_eq!(texts(&other), all);
    let ids = (0..10).map(|n| Id::of(&format!("{n:032x}")));
    assert_eq!(other.present(Run::First).unwrap(), ids.collect());
    assert_eq!(
        other.get(&format!("{:032x}", 10), Run::First).unwrap(),
        None
    );
}

#[test]
fn what_waits_is_found_and_what_is_not_written_is_not_there() {
    let (dir, store) = store();
    for n in 0..3 {
        let id = format!("{n:032x}");
        store.put_soon(&id, &By::default(), &n.to_string()).unwrap();
    }
    assert_eq!(texts(&store), ["0", "1", "2"]);
    // A process that is killed settles nothing.
    drop(store);
    assert_eq!(texts(&Store::existing(dir.path()).unwrap()), ["0"]);
}

/// A text that no other makes smaller: its block holds it alone.
fn noise(n: u8) -> String {
    let hash = |line: u16| sum(&[&[n][..], &line.to_le_bytes()].concat());
    (0..1024).map(hash).collect()
}

fn id(n: u8) -> String {
    format!("{n:032x}")
}

/// A store with the result 0 alone and 1 to 9 in a pack, each in a block of its own.
fn with_blocks() -> (tempfile::TempDir, Store) {
    let (dir, store) = store();
    for n in 0..10 {
        let text = noise(n);
        store.put_soon(&id(n), &By::default(), &text).unwrap();
    }
    store.settle().unwrap();
    assert_eq!(packs(&store).len(), 1);
    (dir, store)
}

/// Which of the results of [`with_blocks`] are there and right.
fn right(store: &Store) -> Vec<u8> {
    let get = |n| store.get(&id(n), Run::First).ok().flatten();
    let is_right = |n: &u8| get(*n).is_some_and(|kept| kept.text == noise(*n));
    (0..10).filter(is_right).collect()
}

#[test]
fn a_pack_that_is_cut_off_is_named_and_what_is_whole_of_it_is_kept() {
    let (dir, store) = with_blocks();
    let path = packs(&store).remove(0);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 2]).unwrap();
    let store = Store::existing(dir.path()).unwrap();
    let damaged = store.damaged_packs().unwrap();
    assert!(damaged[0].1.contains("bytes are there"), "{}", damaged[0].1);
    assert_eq!(right(&store), [0], "nothing of it counts as it is");
    store.put_pack_aside(&path).unwrap();
    assert_eq!(right(&store), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert!(store.damaged_packs().unwrap().is_empty());
    assert_eq!(fs::read_dir(dir.path().join("damaged")).unwrap().count(), 1);
    let bytes = fs::read(&packs(&store)[0]).unwrap();
    let why = |bytes: &[u8]| {
        fs::write(&packs(&store)[0], bytes).unwrap();
        let store = Store::existing(dir.path()).unwrap();
        store.damaged_packs().unwrap()[0].1.clone()
    };
    assert!(why(b"").contains("its first line"));
    // The index begins behind the first line.
    let index = 1 + bytes.iter().position(|b| *b == b'\n').unwrap();
    let why = why(&flipped(&bytes, index + 8));
    assert!(why.contains("its index: a checksum is wrong"), "{why}");
}

fn flipped(bytes: &[u8], at: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= 1;
    bytes
}

#[test]
fn a_damaged_block_of_a_pack_is_put_aside_without_the_others() {
    let (dir, store) = with_blocks();
    let path = packs(&store).remove(0);
    let other = Store::existing(dir.path()).unwrap();
    // It knows where the results lie, and has no pack open.
    assert_eq!(other.present(Run::First).unwrap().len(), 10);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, flipped(&bytes, bytes.len() - 100)).unwrap();
    let why = store.get(&id(9), Run::First).unwrap_err().to_string();
    assert!(why.contains("a checksum is wrong"), "{why}");
    store.put_aside(&id(9), Run::First).unwrap();
    assert_eq!(store.get(&id(9), Run::First).unwrap(), None);
    assert_eq!(right(&store), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(right(&other), right(&store), "the new pack is found");
}

/// A pack of which every result is whole has, mended, the name of the damaged one.
#[test]
fn a_pack_with_bytes_behind_it_is_mended_in_its_place() {
    let (dir, store) = with_blocks();
    let path = packs(&store).remove(0);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, [&whole[..], b"x"].concat()).unwrap();
    let again = Store::existing(dir.path()).unwrap();
    again.put_pack_aside(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), whole);
    assert_eq!(right(&again).len(), 10);
    drop(store);
}

/// What two stores that were brought together both have is taken from the pack that is whole.
#[test]
fn a_damaged_copy_hides_no_whole_one() {
    let (dir, store) = with_blocks();
    let path = packs(&store).remove(0);
    let bytes = fs::read(&path).unwrap();
    // Damage of the last block leaves the index of that pack whole.
    for name in ["00", "ff"] {
        fs::write(path.with_file_name(name), &bytes).unwrap();
    }
    for damaged in [path.clone(), path.with_file_name("00")] {
        fs::write(&damaged, flipped(&bytes, bytes.len() - 100)).unwrap();
    }
    let again = Store::existing(dir.path()).unwrap();
    assert!(again.get(&id(9), Run::First).unwrap().is_some());
}

/// The first line of a pack says what memory its parts take.
#[test]
fn a_pack_that_promises_more_than_its_bytes_can_become_is_damaged() {
    let (_dir, store) = with_blocks();
    let path = packs(&store).remove(0);
    let bytes = fs::read(&path).unwrap();
    let line = bytes.iter().position(|b| *b == b'\n').unwrap();
    let mut head: serde_json::Value = serde_json::from_slice(&bytes[..line]).unwrap();
    head["blocks"][0][1] = (1_u64 << 62).into();
    let mut changed = serde_json::to_vec(&head).unwrap();
    changed.extend(&bytes[line..]);
    fs::write(&path, changed).unwrap();
    let mut known = super::pack::Packs::default();
    let damaged = known.refresh(&store.dir).unwrap();
    assert!(
        damaged[0].why.contains("cannot become"),
        "{}",
        damaged[0].why
    );
}

#[test]
fn results_of_a_pack_take_a_fifth_of_their_bytes() {
    let (_dir, store) = store();
    let mut bytes = 0;
    for n in 0..1000u32 {
        // Figures that differ, in a text that does not.
        let hash = sum(&n.to_le_bytes());
        let text = format!(
            r#"{{"points":21,"enumerated":{},"deduplicated":77,"pruned":{},"beyond":0,"judged":34,"nested":0,"violations":0,"findings":[],"losses":{{"2":{{"states":1,"acked":0,"ops_max":1}}}}}}"#,
            u32::from_str_radix(&hash[..4], 16).unwrap(),
            u32::from_str_radix(&hash[4..8], 16).unwrap(),
        );
        bytes += text.len() as u64;
        store.put_soon(&hash[..32], &By::default(), &text).unwrap();
    }
    store.settle().unwrap();
    let length = |path: &PathBuf| fs::metadata(path).unwrap().len();
    let packed: u64 = packs(&store).iter().map(length).sum();
    assert!(packed < bytes / 5, "{packed} of {bytes}");
    let first = &sum(&0u32.to_le_bytes())[..32];
    assert!(store.get(first, Run::First).unwrap().is_some());
}

#[test]
fn packs_of_other_layouts_are_refused_and_left_alone() {
    let (dir, store) = with_a_pack();
    let refused = || {
        let opened = Store::open(dir.path()).map(drop);
        let opened = opened.and_then(|()| Store::existing(dir.path())?.damaged_packs());
        opened.unwrap_err().to_string()
    };
    let later = dir.path().join(pack::FOLDER).join("later");
    fs::write(&later, "{\"varve_pack\":3,\"unheard\":[]}\n").unwrap();
    let why = refused();
    assert!(
        why.contains("packed/later") && why.contains("layout 3"),
        "{why}"
    );
    assert!(later.exists(), "it is another program's");
    fs::remove_file(&later).unwrap();
    fs::create_dir(dir.path().join("packs")).unwrap();
    assert!(Store::existing(dir.path()).is_ok(), "nothing is in it");
    fs::write(dir.path().join("packs/ab"), "{\"varve_pack\":1}\n").unwrap();
    for opened in [Store::open(dir.path()), Store::existing(dir.path())] {
        let why = opened.err().unwrap().to_string();
        assert!(why.contains("packs has results in layout 1"), "{why}");
        assert!(why.contains("name another folder"), "{why}");
    }
    assert_eq!(texts(&store).len(), 10);
}

#[test]
fn a_pack_whose_version_is_damaged_is_no_other_program_s() {
    let (dir, store) = with_blocks();
    let path = packs(&store).remove(0);
    let bytes = fs::read(&path).unwrap();
    let digit = bytes.iter().position(|b| *b == b'2').unwrap();
    fs::write(&path, flipped(&bytes, digit)).unwrap();
    let again = Store::existing(dir.path()).unwrap();
    let damaged = again.damaged_packs().unwrap();
    let why = &damaged[0].1;
    assert!(
        why.contains("version 3 of its first line is damage"),
        "{why}"
    );
}

#[test]
fn a_pack_that_another_worker_puts_aside_while_copies_are_counted_is_looked_for_anew() {
    let (dir, store) = with_blocks();
    let path = packs(&store).remove(0);
    let bytes = fs::read(&path).unwrap();
    fs::write(path.with_file_name("copy"), &bytes).unwrap();
    let other = Store::existing(dir.path()).unwrap();
    assert_eq!(other.present(Run::First).unwrap().len(), 10);
    // It has no pack open yet.
    fs::rename(path.with_file_name("copy"), path.with_file_name("moved")).unwrap();
    assert_eq!(other.copies(&id(3)).unwrap().len(), 2);
}

#[test]
fn a_program_in_the_place_of_ours_is_not_run() {
    let (dir, store) = store();
    let path = store.put_program("b").unwrap();
    let own = fs::read("/proc/self/exe").unwrap();
    assert_eq!(fs::read(&path).unwrap(), own);
    fs::write(&path, "#!/bin/sh\n").unwrap();
    let again = Store::existing(dir.path()).unwrap();
    assert_eq!(again.put_program("b").unwrap(), path);
    assert_eq!(fs::read(&path).unwrap(), own);
}

#[test]
fn much_is_written_at_once() {
    let (_dir, store) = store();
    let large = "x".repeat(WAITING_MAX / 2);
    for n in 0..4 {
        store
            .put_soon(&format!("{n:032x}"), &By::default(), &large)
            .unwrap();
    }
    assert_eq!(packs(&store).len(), 1);
    assert!(locked(&store.waiting).bytes < WAITING_MAX);
}

#[test]
fn every_copy_of_a_result_is_found_wherever_it_lies() {
    let (dir, store) = store();
    let put = |texts: [&str; 2]| {
        let results = [("ab01", texts[0]), ("ab02", texts[1])];
        let results = results.map(|(id, text)| pack::Named {
            id: id.into(),
            kept: Kept {
                by: By::default(),
                text: text.into(),
            },
        });
        let bytes = pack::packed(&results);
        let name = &sum(&bytes)[..32];
        fs::write(dir.path().join(pack::FOLDER).join(name), bytes).unwrap();
    };
    put(["a", "b"]);
    store.present(Run::First).unwrap();
    assert_eq!(
        store.copies("ab01").unwrap().len(),
        0,
        "one copy is no matter"
    );
    put(["a", "c"]);
    store.present(Run::First).unwrap();
    let texts = |id: &str| -> Vec<String> {
        let copies = store.copies(id).unwrap().into_iter();
        let mut texts: Vec<String> = copies.map(|(kept, _)| kept.text).collect();
        texts.sort();
        texts
    };
    assert_eq!(
        (texts("ab01"), texts("ab02")),
        (vec!["a".into(), "a".into()], vec!["b".into(), "c".into()])
    );
    store.put("ab01", Run::First, &By::default(), "d").unwrap();
    assert_eq!(texts("ab01"), ["a", "a", "d"]);
}

#[test]
fn a_folder_in_the_place_of_a_pack_is_damage_and_no_end() {
    let (dir, store) = store();
    fs::create_dir(dir.path().join("packed/folder")).unwrap();
    assert_eq!(store.damaged_packs().unwrap().len(), 1);
}
