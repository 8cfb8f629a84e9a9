/* Loads the extension from two connections, and works in one image from two threads. */
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int ok, const char *what, sqlite3 *db) {
    if (!ok) {
        fprintf(stderr, "%s: %s\n", what, db ? sqlite3_errmsg(db) : "");
        exit(1);
    }
}

static void run(sqlite3 *db, const char *sql) {
    check(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK, sql, db);
}

static long number(sqlite3 *db, const char *sql) {
    sqlite3_stmt *s;
    check(sqlite3_prepare_v2(db, sql, -1, &s, NULL) == SQLITE_OK, sql, db);
    check(sqlite3_step(s) == SQLITE_ROW, sql, db);
    long n = (long)sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return n;
}

static void load(sqlite3 *db, const char *entry) {
    char *why = NULL;
    sqlite3_enable_load_extension(db, 1);
    int code = sqlite3_load_extension(db, "./varve", entry, &why);
    check(code == SQLITE_OK, why ? why : "load", db);
    sqlite3_free(why);
}

static sqlite3 *opened(const char *name) {
    sqlite3 *db;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI;
    check(sqlite3_open_v2(name, &db, flags, NULL) == SQLITE_OK, name, db);
    sqlite3_busy_timeout(db, 60000);
    return db;
}

static void *inserts(void *name) {
    sqlite3 *db = opened(name);
    for (int i = 0; i < 20; i++)
        run(db, "begin immediate; insert into t values(randomblob(500)); commit;");
    sqlite3_close(db);
    return NULL;
}

int main(void) {
    static char name[] = "file:app.img:/a.db?vfs=varve&create=64M";
    sqlite3 *first, *second, *db;
    check(sqlite3_open(":memory:", &first) == SQLITE_OK, "memory", first);
    check(sqlite3_open(":memory:", &second) == SQLITE_OK, "memory", second);
    load(first, NULL);
    load(second, "sqlite3_varve_init");
    load(first, NULL);
    check(strcmp(sqlite3_vfs_find(NULL)->zName, "varve") != 0, "not the default", NULL);
    for (int round = 0; round < 2; round++) {
        db = opened(name);
        run(db, round ? "pragma journal_mode=wal" : "pragma journal_mode=persist");
        run(db, "create table if not exists t(v)");
        pthread_t threads[2];
        for (int i = 0; i < 2; i++)
            check(pthread_create(&threads[i], NULL, inserts, name) == 0, "thread", NULL);
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
        check(number(db, "select count(*) from t") == 40 * (round + 1), "rows", db);
        char *vfs = NULL;
        sqlite3_file_control(db, "main", SQLITE_FCNTL_VFSNAME, &vfs);
        check(vfs && strcmp(vfs, "varve") == 0, "name of the VFS", db);
        sqlite3_free(vfs);
        check(sqlite3_close(db) == SQLITE_OK, "close", db);
    }
    /* A failure has a text, on connections that were there before and on later ones. */
    check(number(first, "select varve_error() is null") == 1, "no failure yet", first);
    check(sqlite3_open_v2("no.img:/a.db", &db, SQLITE_OPEN_READWRITE, "varve") == SQLITE_CANTOPEN,
          "an image that is not there", NULL);
    sqlite3_close(db);
    check(number(first, "select varve_error() like '%no.img%create=SIZE%'") == 1, "the text", first);
    check(sqlite3_open(":memory:", &db) == SQLITE_OK, "memory", db);
    check(number(db, "select varve_error() like '%no.img%'") == 1, "the text, later", db);
    sqlite3_close(db);
    sqlite3_close(first);
    sqlite3_close(second);
    puts("all checks passed");
    return 0;
}
