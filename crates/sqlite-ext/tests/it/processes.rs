//! One image in several processes.

use crate::common::{Place, text_of};
use crate::errors::READ_ONLY;

/// `other(program)` starts Python on a program with the same prelude, in another process; `said`
/// waits for its end and answers what it printed.
const OTHERS: &str = "
import subprocess, time, signal
def other(program, **kw):
    text = PRELUDE + program
    return subprocess.Popen([sys.executable, '-c', text], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, **kw)
def said(p): return p.communicate()[0].strip()
";

fn python(place: &Place, program: &str) -> String {
    let prelude = crate::common::PRELUDE;
    text_of(&place.python(&format!("PRELUDE = '''{prelude}'''\n{OTHERS}\n{program}")))
}

/// Three processes and the one that mounted insert at the same time and count meanwhile.
#[test]
fn processes_that_write_at_once_lose_no_row() {
    for mode in ["delete", "truncate", "persist", "wal"] {
        let place = Place::new();
        let text = python(
            &place,
            &format!(
                "
WORK = '''
def work(who):
    c = db(uri='', isolation_level=None)
    c.execute('pragma journal_mode={mode}')
    last, failed = 0, []
    for n in range(25):
        c.execute('begin immediate')
        c.execute('insert into t values(?, ?)', (who, n))
        c.execute('commit')
        count = c.execute('select count(*) from t').fetchone()[0]
        if count <= last: failed.append((count, last))
        last = count
    print(c.execute('pragma journal_mode').fetchone()[0], failed)
    c.close()
'''
exec(WORK)
a = db(); a.execute('pragma journal_mode={mode}'); a.execute('create table t(who, n)'); a.commit()
others = [other(WORK + f'work({{who}})') for who in range(3)]
work(3)
print([said(o) for o in others])
print(a.execute('select count(*), count(distinct who) from t').fetchone())
print(a.execute('pragma integrity_check').fetchone()[0])
a.close()
"
            ),
        );
        let expected =
            format!("{mode} []\n['{mode} []', '{mode} []', '{mode} []']\n(100, 4)\nok\n");
        assert_eq!(text, expected);
        place.e2fsck();
    }
}

/// What one process has committed the other one sees in its next transaction, both ways, and a
/// reader keeps the snapshot with which it began.
#[test]
fn a_wal_is_shared_with_its_snapshots() {
    let place = Place::new();
    let text = python(
        &place,
        "
a = db(isolation_level=None); a.execute('pragma journal_mode=wal'); a.execute('create table t(v)')
b = other('''
c = db(uri='', isolation_level=None)
c.execute('begin'); first = c.execute('select count(*) from t').fetchone()[0]
print(first, flush=True); sys.stdin.readline()
print(c.execute('select count(*) from t').fetchone()[0])
c.execute('commit')
print(c.execute('select count(*) from t').fetchone()[0])
c.execute('insert into t values(3)')
print(c.execute('pragma wal_checkpoint').fetchone())
c.close()
''')
print(b.stdout.readline().strip())
a.execute('insert into t values(1)'); a.execute('insert into t values(2)')
print(b.communicate('\\n')[0].split('\\n'))
print(a.execute('select group_concat(v) from t').fetchone()[0])
a.close()
",
    );
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "0", "{text}");
    assert!(lines[1].starts_with("['0', '2', '(0, "), "{text}");
    assert_eq!(lines[2..], ["1,2,3"], "{text}");
    place.e2fsck();
}

/// Locks of one process are in the way of another one, and free as soon as it is known to have
/// ended (sqlite-ext-E7): nobody tries again here. What it had not committed is rolled back, and
/// what it had is there.
#[test]
fn a_process_that_is_killed_leaves_no_lock_and_no_half_transaction() {
    for mode in ["delete", "wal"] {
        let place = Place::new();
        let text = python(
            &place,
            &format!(
                "
a = db(isolation_level=None, timeout=0); a.execute('pragma journal_mode={mode}')
a.execute('create table t(v)')
b = other('''
c = db(uri='', isolation_level=None)
c.execute('pragma journal_mode={mode}')
c.execute('insert into t values(1)')
c.execute('pragma cache_size=5'); c.execute('begin immediate')
c.execute('insert into t values(2)')
for n in range(50): c.execute('insert into t values(randomblob(4000))')
print('there', flush=True); sys.stdin.readline()
''')
print(b.stdout.readline().strip())
try: a.execute('insert into t values(9)')
except sqlite3.OperationalError as e: print(e)
b.kill(); b.wait()
a.execute('insert into t values(3)')
print(a.execute('select group_concat(v) from t').fetchone()[0])
print(a.execute('pragma integrity_check').fetchone()[0])
a.close()
"
            ),
        );
        assert_eq!(text, "there\ndatabase is locked\n1,3\nok\n", "{mode}");
        place.e2fsck();
    }
}

/// With the process that mounted the connections of the others end; they hear it, may not mix what
/// is old with what is new, and find all that was acknowledged when they open the image again.
#[test]
fn the_end_of_the_process_that_mounted_is_an_error_and_loses_nothing() {
    for (mode, end) in [("delete", "kill"), ("wal", "kill"), ("wal", "exit")] {
        let place = Place::new();
        let text = python(
            &place,
            &format!(
                "
first = other('''
a = db(isolation_level=None); a.execute('pragma journal_mode={mode}'); a.execute('create table t(v)')
a.execute('pragma synchronous=extra')
print('mounted', flush=True); sys.stdin.readline()
import ctypes; ctypes.CDLL(None).exit(0)
''')
print(first.stdout.readline().strip())
c = db(uri='', isolation_level=None); c.execute('pragma synchronous=extra')
d = db(uri='', isolation_level=None)
print(d.execute('select count(*) from t').fetchone()[0])
for n in range(20): c.execute('insert into t values(?)', (n,))
c.execute('begin immediate')
if '{end}' == 'kill': first.kill()
else: first.stdin.write('\\n'); first.stdin.flush()
first.wait()
for sql in ['insert into t values(randomblob(100000))', 'commit']:
    try: c.execute(sql); print('done')
    except sqlite3.OperationalError as e: print(e)
print(why())
c.close()
try: db(uri='').execute('select count(*) from t')
except sqlite3.OperationalError as e: print(e, why())
d.close()
e = db(uri='', isolation_level=None)
print(e.execute('select count(*), max(v) from t').fetchone(), e.execute('pragma integrity_check').fetchone()[0])
e.close()
"
            ),
        );
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], ["mounted", "0"], "{text}");
        assert!(text.contains("disk I/O error"), "{text}");
        let told = "app.img: the process that had it mounted has ended; close all connections";
        assert_eq!(text.matches(told).count(), 2, "{text}");
        assert!(text.contains("\ndatabase is locked "), "{text}");
        assert_eq!(lines.last(), Some(&"(20, 19) ok"), "{mode}, {end}: {text}");
        place.e2fsck();
    }
}

/// A program that takes the lock and serves nobody.
#[test]
fn an_image_that_is_not_served_is_refused_at_once() {
    let place = Place::new();
    let text = python(
        &place,
        "
a = db(); a.execute('create table t(v)'); a.commit(); a.close()
import fcntl
f = open('app.img', 'r+b'); fcntl.flock(f, fcntl.LOCK_EX)
print(said(other('''
import time
start = time.time()
try: db(uri='', timeout=60)
except sqlite3.OperationalError as e: print(e, '|', why())
print(time.time() - start < 5)
''')))
f.close()
print(db().execute('select count(*) from t').fetchone()[0])
",
    );
    assert!(text.contains("database is locked | "), "{text}");
    assert!(text.contains("app.img: is in use by"), "{text}");
    assert!(text.ends_with("True\n0\n"), "{text}");
}

#[test]
fn a_client_of_a_read_only_mount_is_told_why_it_cannot_write() {
    let place = Place::new();
    let text = python(
        &place,
        "
a = db(); a.execute('create table t(v)'); a.execute('insert into t values(5)'); a.commit(); a.close()
a = db(uri='options=ro'); print(a.execute('select v from t').fetchone()[0])
print(said(other('''
b = db(uri=''); print(b.execute('select v from t').fetchone()[0])
try: b.execute('insert into t values(6)')
except sqlite3.OperationalError as e: print(e, '|', why())
''')))
",
    );
    assert!(
        text.starts_with("5\n5\nattempt to write a readonly database | "),
        "{text}"
    );
    assert!(text.contains(READ_ONLY), "{text}");
}

/// Where root runs the test, the other process gives its rights up.
#[test]
fn who_may_only_read_an_image_that_is_in_use_is_told_so() {
    let place = Place::new();
    let text = python(
        &place,
        "
a = db(); a.execute('create table t(v)'); a.commit()
os.chmod('.', 0o755); os.chmod('app.img', 0o444)
print(said(other('''
if os.getuid() == 0: os.setuid(65534)
try: db(uri='')
except sqlite3.OperationalError as e: print(e, '|', why())
''')))
a.execute('insert into t values(1)'); a.commit()
print(a.execute('select count(*) from t').fetchone()[0])
",
    );
    let told = "app.img: is in use by a process that serves only those who may write it, and this";
    assert!(text.starts_with("database is locked | "), "{text}");
    assert!(text.contains(told), "{text}");
    assert!(text.ends_with("\n1\n"), "{text}");
}

/// The limit is below what a shared index takes, and above the image.
#[test]
fn a_wal_without_shared_memory_is_refused_with_its_reason() {
    let place = Place::new();
    let text = python(
        &place,
        "
import resource
a = db(isolation_level=None); a.execute('create table t(v)'); a.execute('insert into t values(1)')
resource.setrlimit(resource.RLIMIT_FSIZE, (100 << 20, 100 << 20))
TRY = '''
try:
    c.execute('pragma journal_mode=wal'); c.execute('insert into t values(2)')
except sqlite3.OperationalError as e: print(e, '|', why())
'''
exec(TRY.replace('c.', 'a.'))
print(said(other('c = db(uri=\"\", isolation_level=None)' + TRY)))
a.close(); a = db(isolation_level=None)
a.execute('pragma locking_mode=exclusive'); a.execute('insert into t values(3)')
print(a.execute('pragma journal_mode').fetchone()[0], a.execute('select group_concat(v) from t').fetchone()[0])
a.close()
",
    );
    let told = "WAL index of /app.db: the system gives no memory that processes share";
    assert_eq!(text.matches(told).count(), 2, "{text}");
    assert!(text.ends_with("\nwal 1,3\n"), "{text}");
    place.e2fsck();
}

/// Whoever is first makes the image; nobody takes it away again.
#[test]
fn processes_that_make_an_image_at_once_share_it() {
    let place = Place::new();
    let text = python(
        &place,
        "
WORK = '''
sys.stdin.readline()
c = db(isolation_level=None)
c.execute('create table if not exists t(v)')
c.execute('insert into t values(1)')
c.close()
'''
for n in range(8):
    others = [other(WORK) for _ in range(5)]
    time.sleep(.3)
    for o in others: o.stdin.write(chr(10)); o.stdin.flush()
    # One whose server has ended is refused, and has written nothing.
    ended = [s for s in map(said, others) if s]
    for s in ended:
        if 'disk I/O error' not in s and 'database is locked' not in s: print(s)
    c = db(uri='')
    count = c.execute('select count(*) from t').fetchone()[0]
    if not 5 - len(ended) <= count <= 5: print(count, ended)
    c.close(); os.remove('app.img')
",
    );
    assert_eq!(text, "");
}

/// A child that a client forked holds its socket, too.
#[test]
fn a_child_of_a_client_does_not_keep_the_image() {
    let place = Place::new();
    let text = python(
        &place,
        "
import fcntl
a = db(isolation_level=None); a.execute('create table t(v)')
o = other('''
c = db(uri='', isolation_level=None); c.execute('insert into t values(1)')
child = os.fork()
if child == 0:
    sys.stdin.readline(); os._exit(0)
c.close(); print('closed', flush=True); os.waitpid(child, 0)
''')
print(o.stdout.readline().strip())
a.close()
free = False
with open('app.img', 'r+b') as f:
    for n in range(200):
        try: fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB); free = True; break
        except BlockingIOError: time.sleep(.01)
print(free)
said(o)
",
    );
    assert_eq!(text, "closed\nTrue\n");
}

/// Connections that say nothing, and more than wait to be accepted.
#[test]
fn a_queue_of_connections_is_no_end_of_waiting() {
    let place = Place::new();
    let text = python(
        &place,
        "
import socket
a = db(isolation_level=None); a.execute('create table t(v)')
at = os.stat('app.img')
name = lambda n: '\\0varve-sqlite-%x-%x-%d' % (at.st_dev, at.st_ino, n)
def silent(n):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.setblocking(False)
    try: s.connect(name(n))
    except BlockingIOError: pass
    return s
all_ = [silent(0) for _ in range(300)]
threads = len(os.listdir('/proc/self/task'))
print(threads < 50)
time.sleep(2.5)
print(said(other('print(db(uri=str()).execute(\"select count(*) from t\").fetchone())')))
a.close()
# A name that nobody serves, with a full queue.
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
for _ in range(500):
    # The thread that served it ends a moment after the image.
    try: s.bind(name(0)); break
    except OSError: time.sleep(.01)
s.listen(0)
all_ += [silent(0) for _ in range(3)]
import fcntl
f = open('app.img', 'r+b'); fcntl.flock(f, fcntl.LOCK_EX)
start = time.time()
print('is in use by' in said(other('''
try: db(uri='', timeout=60)
except sqlite3.OperationalError as e: print(e, '|', why())
''')), time.time() - start < 20)
",
    );
    assert_eq!(text, "True\n(0,)\nTrue True\n");
}

/// Messages that would take all descriptors of the process that mounted, or end it.
#[test]
fn a_client_that_asks_for_too_much_of_an_index_gets_nothing() {
    let place = Place::new();
    let program = STRANGERS.split("print(code(").next().unwrap();
    let more = "
open_ = head(1, 0, 0x106, 1) + b'/b.db'
EXTEND = 2**63
ask = lambda region, bytes: head(14, 1, region, bytes | EXTEND)
before = len(os.listdir('/proc/self/fd'))
asked = [ask(0, 8), ask(65535, 32768), ask(4096, 32768), ask(0, 65536), ask(4095, 32768)]
print([code(r) for r in hello(head(MAGIC), more=[open_] + asked)])
print(len(os.listdir('/proc/self/fd')) - before < 20)
";
    let text = python(&place, &format!("{program}\n{more}"));
    assert_eq!(text, "[0, 0, 5386, 5386, 5386, 5386, 0]\nTrue\n");
}

/// Programs that connect and are no extension: none gets in, and none harms the process that
/// mounted.
#[test]
fn strangers_are_not_let_in() {
    let place = Place::new();
    let text = python(&place, STRANGERS);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "0", "{text}");
    for line in &lines[1..3] {
        assert!(line.contains("use the same extension in both"), "{text}");
    }
    for line in &lines[3..7] {
        assert!(line.contains("only those who may write it"), "{text}");
    }
    assert_eq!(lines[7..9], ["[b'']", "3001"], "{text}");
    assert_eq!(lines[9], "[0, 0, 266, 5386, 5130]", "{text}");
    assert_eq!(lines[10..], ["3002", "1"], "{text}");
    place.e2fsck();
}

/// The numbers of messages and files are those of `share/wire.rs`.
const STRANGERS: &str = r"
import array, random, socket, struct
a = db(isolation_level=None); a.execute('create table t(v)')
at = os.stat('app.img')
name = '\0varve-sqlite-%x-%x-0' % (at.st_dev, at.st_ino)
def head(what, which=1, a=at.st_dev, b=at.st_ino): return struct.pack('<IIQQ', what, which, a, b)
def hello(message, path='app.img', mode=os.O_RDWR, more=()):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect(name); s.settimeout(20)
    fds = [os.open(path, mode)] if path else []
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', fds))] if fds else []
    s.sendmsg([message], rights)
    [os.close(fd) for fd in fds]
    answers = [s.recv(100000)]
    for m in more:
        s.send(m); answers.append(s.recv(100000))
    s.close()
    return answers
MAGIC = 0x56525653
code = lambda answer: struct.unpack('<i', answer[:4])[0]
text = lambda answer: answer[24:].decode()
print(code(hello(head(MAGIC))[0]))
print(text(hello(head(MAGIC, 2))[0]))
print(text(hello(head(7))[0]))
for path, mode in [(None, 0), ('app.img', os.O_RDONLY), ('varve.so', os.O_RDONLY), ('/dev/null', os.O_RDWR)]:
    print(text(hello(head(MAGIC), path, mode)[0]))
print(hello(b'short'))
random.seed(1)
wrong = [head(random.choice([*range(1, 20), 2**32 - 1]), random.choice([0, 1, 2**32 - 1]),
    random.choice([0, 1, 2**31, 2**63, 2**64 - 1]), random.choice([0, 1, 2**31, 2**64 - 1])) +
    random.randbytes(random.choice([0, 1, 5000])) for n in range(3000)]
print(len(hello(head(MAGIC), more=wrong)))
open_ = head(1, 0, 0x106, 1) + b'/b.db'
wrong_of_file = [head(3, 1, 0, 65537), head(14, 1, 0, 2**62), head(15, 1, 9, 8)]
print([code(r) for r in hello(head(MAGIC), more=[open_] + wrong_of_file)])
print(len(hello(head(MAGIC), more=[open_] + wrong)))
a.execute('insert into t values(1)'); print(a.execute('select count(*) from t').fetchone()[0])
a.close()
";
