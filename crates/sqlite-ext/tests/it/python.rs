//! Python's module `sqlite3`: threads, forks, processes that are killed.

use crate::common::{PRELUDE, Place, text_of};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

/// Connections of several threads insert into one database, and read meanwhile.
const THREADS: &str = "
mode = sys.argv[1] if len(sys.argv) > 1 else MODE
a = db(); a.execute(f'pragma journal_mode={mode}'); a.execute('create table t(who, n)'); a.commit()
failed = []
def work(who):
    try:
        c = db(uri='', isolation_level=None)
        last = 0
        for n in range(40):
            c.execute('begin immediate')
            c.execute('insert into t values(?, ?)', (who, n))
            c.execute('commit')
            count = c.execute('select count(*) from t').fetchone()[0]
            if count <= last: failed.append(f'{who}: {count} rows after {last}')
            last = count
        c.close()
    except Exception as e:
        failed.append(f'{who}: {e}')
threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
[t.start() for t in threads]; [t.join() for t in threads]
print(failed, a.execute('select count(*), count(distinct who) from t').fetchone())
print(a.execute('pragma integrity_check').fetchone()[0])
a.close()
";

#[test]
fn threads_with_connections_of_their_own_lose_no_row() {
    for mode in ["delete", "wal"] {
        let place = Place::new();
        let out = place.python(&format!("MODE='{mode}'\n{THREADS}"));
        assert_eq!(text_of(&out), "[] (240, 6)\nok\n", "{mode}");
        place.e2fsck();
    }
}

#[test]
fn a_reader_keeps_a_writer_of_a_rollback_journal_out_and_no_other_reader() {
    let place = Place::new();
    let out = place.python(
        "
a = db(isolation_level=None, timeout=0); b = db(isolation_level=None, timeout=0)
c = db(isolation_level=None, timeout=0)
a.execute('create table t(v)')
def tries(c, sql):
    try: return c.execute(sql).fetchall()
    except sqlite3.OperationalError as e: return str(e)
print(tries(b, 'begin'), tries(b, 'select * from t'))
print(tries(a, 'begin immediate'), tries(a, 'insert into t values(1)'))
print(tries(c, 'select * from t'), tries(c, 'begin immediate'))
print(tries(a, 'commit'))
print(tries(c, 'select * from t'))
print(tries(b, 'commit'), tries(a, 'commit'), tries(c, 'select * from t'))
",
    );
    let expected = "[] []\n[] []\n[] database is locked\ndatabase is locked\ndatabase is locked\n\
                    [] [] [(1,)]\n";
    assert_eq!(text_of(&out), expected);
}

#[test]
fn a_forked_process_is_refused_and_the_parent_goes_on() {
    let place = Place::new();
    let out = place.python(
        "
a = db(isolation_level=None); a.execute('create table t(v)')
child = os.fork()
if child == 0:
    code = 0
    try: a.execute('insert into t values(1)')
    except sqlite3.OperationalError as e: code |= 1 if 'disk I/O error' in str(e) else 4
    try: db()
    except sqlite3.OperationalError as e: code |= 2 if 'this one forked from' in why() else 8
    try: a.close()
    except sqlite3.OperationalError: code |= 16
    os._exit(code)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
a.execute('insert into t values(2)')
print(a.execute('select * from t').fetchall())
a.close()
",
    );
    assert_eq!(text_of(&out), "3\n[(2,)]\n");
    place.e2fsck();
}

/// The function `exit` of C ends the process without closing anything.
#[test]
fn a_process_that_ends_in_order_without_closing_has_lost_nothing() {
    for (mode, sync) in [("delete", "full"), ("delete", "normal"), ("wal", "normal")] {
        let place = Place::new();
        place.python(&format!(
            "
import ctypes
a = db(isolation_level=None)
a.execute('pragma journal_mode={mode}'); a.execute('pragma synchronous={sync}')
a.execute('create table t(n)')
for n in range(10): a.execute('insert into t values(?)', (n,))
ctypes.CDLL(None).exit(0)
"
        ));
        let text = place.shell(
            ".open 'file:app.img:/app.db?vfs=varve'
             select count(*) from t;",
        );
        assert_eq!(text.trim_end(), "10", "{mode}, {sync}");
        place.e2fsck();
    }
}

#[test]
fn an_image_that_could_not_be_made_is_not_in_the_way() {
    let place = Place::new();
    let out = place.python(
        "
for size in ['8000000T', '64M']:
    try:
        c = sqlite3.connect(f'file:new.img:/a.db?vfs=varve&create={size}', uri=True)
        c.execute('create table t(v)'); c.close(); print('made')
    except sqlite3.OperationalError as e: print(e, os.path.exists('new.img'))
open('empty.img', 'w').close()
c = sqlite3.connect('file:empty.img:/a.db?vfs=varve&create=64M', uri=True)
c.execute('create table t(v)'); c.close(); print('made')
",
    );
    assert_eq!(
        text_of(&out),
        "unable to open database file False\nmade\nmade\n"
    );
}

/// Commits rows for ever and tells each.
const WRITER: &str = "
a = db(isolation_level=None)
a.execute(f'pragma journal_mode={MODE}'); a.execute(f'pragma synchronous={SYNC}')
a.execute('create table if not exists t(n integer primary key, v)')
n = a.execute('select coalesce(max(n), 0) from t').fetchone()[0]
while True:
    n += 1
    a.execute('begin'); a.execute('insert into t values(?, randomblob(3000))', (n,))
    if n % 3 == 0: a.execute('delete from t where n < ?', (n - 50,))
    a.execute('commit')
    print(n, flush=True)
";

#[test]
fn what_a_killed_process_has_acknowledged_is_there() {
    for (mode, sync) in [
        ("delete", "extra"),
        // The journal is held in memory, so nothing hangs on its removal.
        ("delete", "full"),
        ("truncate", "full"),
        ("persist", "full"),
        ("wal", "full"),
    ] {
        let place = Place::new();
        let mut acked = 0;
        for round in 1..=4 {
            acked = killed_after(&place, (mode, sync), acked + 37 * round);
            let text = place.shell(
                ".open 'file:app.img:/app.db?vfs=varve'
                 pragma integrity_check; select max(n) from t;",
            );
            let (check, rows) = text.trim_end().split_once('\n').expect("two lines");
            assert_eq!(check, "ok", "{mode}: {text}");
            let rows: u64 = rows.parse().unwrap();
            assert!(rows >= acked, "{mode}: {rows} rows of {acked} acknowledged");
            acked = rows;
            place.e2fsck();
        }
    }
}

/// Kills a writer once it has told row `enough`; answers the last row that it told.
fn killed_after(place: &Place, (mode, sync): (&str, &str), enough: u64) -> u64 {
    killed_in(
        place,
        &format!("MODE='{mode}'; SYNC='{sync}'\n{WRITER}"),
        enough,
    )
}

fn killed_in(place: &Place, program: &str, enough: u64) -> u64 {
    let mut command = place.python_command();
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    write!(input, "{PRELUDE}\n{program}").unwrap();
    drop(input);
    let mut told = 0;
    let mut is_killed = false;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        told = line.unwrap().parse().unwrap();
        if told >= enough && !is_killed {
            child.kill().unwrap();
            is_killed = true;
        }
    }
    child.wait().unwrap();
    assert!(is_killed, "the writer ended by itself after row {told}");
    told
}

/// Debian's SQLite makes no batches. Its journal stays empty, also while the pages of a transaction
/// are written, and one that is too large for memory has a file as everywhere.
#[test]
fn a_journal_is_held_in_memory_until_it_is_too_large() {
    let place = Place::new();
    let out = place.python(
        "
a = db(isolation_level=None); b = db(isolation_level=None, timeout=0)
a.execute('create table t(v)')
a.execute('pragma cache_size=5')
def fill(n):
    a.execute('begin immediate')
    for i in range(n): a.execute('insert into t values(randomblob(100000))')
for n, end in [(3, 'commit'), (3, 'rollback'), (200, 'rollback'), (200, 'commit'), (2, 'commit')]:
    fill(n); a.execute(end)
    print(n, end, b.execute('select count(*), sum(length(v)) from t').fetchone(),
        b.execute('pragma integrity_check').fetchone()[0])
a.execute('delete from t'); a.execute('vacuum'); print(b.execute('pragma page_count').fetchone()[0])
a.close(); b.close()
",
    );
    let expected = "3 commit (3, 300000) ok\n3 rollback (3, 300000) ok\n\
                    200 rollback (3, 300000) ok\n200 commit (203, 20300000) ok\n\
                    2 commit (205, 20500000) ok\n2\n";
    assert_eq!(text_of(&out), expected);
    place.e2fsck();
}

/// A transaction over two databases has to be in both or in none, wherever the process is killed.
const PAIRS: &str = "
a = db(isolation_level=None)
a.execute('attach \"file:app.img:/other.db?vfs=varve\" as other')
a.execute(f'pragma journal_mode={MODE}'); a.execute(f'pragma other.journal_mode={MODE}')
a.execute('pragma synchronous=full')
a.execute('create table if not exists t(n, v)'); a.execute('create table if not exists other.o(n, v)')
n = a.execute('select coalesce(max(n), 0) from t').fetchone()[0]
while True:
    n += 1
    a.execute('begin'); a.execute('insert into t values(?, randomblob(3000))', (n,))
    a.execute('insert into o values(?, randomblob(9000))', (n,)); a.execute('commit')
    print(n, flush=True)
";

#[test]
fn a_transaction_over_two_databases_is_in_both_or_in_none() {
    for mode in ["delete", "truncate"] {
        let place = Place::new();
        let mut acked = 0;
        for round in 1..=6 {
            acked = killed_in(
                &place,
                &format!("MODE='{mode}'\n{PAIRS}"),
                acked + 7 * round,
            );
            let text = place.shell(
                ".open 'file:app.img:/app.db?vfs=varve'
                 attach 'file:app.img:/other.db?vfs=varve' as other;
                 pragma integrity_check; pragma other.integrity_check;
                 select count(*), max(n) from t; select count(*), max(n) from o;",
            );
            let lines: Vec<&str> = text.lines().collect();
            assert_eq!(lines[..2], ["ok", "ok"], "{text}");
            assert_eq!(lines[2], lines[3], "{mode}: {acked} acknowledged");
            place.e2fsck();
        }
    }
}
