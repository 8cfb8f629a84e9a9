/* Transactions of one row each, in one connection that stays open: what bench.sh measures.
 * usage: transactions URI JOURNAL_MODE COUNT [EXTENSION [hold]]
 * It prints transactions in a second. With `hold` it keeps the database open until its input ends. */
#define _POSIX_C_SOURCE 199309L
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void run(sqlite3 *db, const char *sql) {
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) {
        fprintf(stderr, "%s: %s\n", sql, sqlite3_errmsg(db));
        exit(1);
    }
}

static sqlite3 *opened(const char *name) {
    sqlite3 *db;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI;
    if (sqlite3_open_v2(name, &db, flags, NULL) != SQLITE_OK) {
        fprintf(stderr, "%s: %s\n", name, sqlite3_errmsg(db));
        exit(1);
    }
    return db;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: %s URI JOURNAL_MODE COUNT [EXTENSION [hold]]\n", argv[0]);
        return 2;
    }
    if (argc > 4) {
        sqlite3 *loader = opened(":memory:");
        char *why = NULL;
        sqlite3_enable_load_extension(loader, 1);
        if (sqlite3_load_extension(loader, argv[4], NULL, &why) != SQLITE_OK) {
            fprintf(stderr, "%s: %s\n", argv[4], why);
            return 1;
        }
    }
    sqlite3 *db = opened(argv[1]);
    char mode[64];
    snprintf(mode, sizeof mode, "pragma journal_mode=%s", argv[2]);
    run(db, mode);
    run(db, "pragma synchronous=full");
    run(db, "drop table if exists t; create table t(id integer primary key, v, at)");
    sqlite3_stmt *insert;
    const char *sql = "insert into t(v, at) values(hex(randomblob(50)), '2026-01-01')";
    if (sqlite3_prepare_v2(db, sql, -1, &insert, NULL) != SQLITE_OK) {
        fprintf(stderr, "%s\n", sqlite3_errmsg(db));
        return 1;
    }
    int count = atoi(argv[3]);
    double start = seconds();
    for (int i = 0; i < count; i++) {
        if (sqlite3_step(insert) != SQLITE_DONE) {
            fprintf(stderr, "%s\n", sqlite3_errmsg(db));
            return 1;
        }
        sqlite3_reset(insert);
    }
    printf("%.0f\n", count / (seconds() - start));
    sqlite3_finalize(insert);
    if (argc > 5) {
        fflush(stdout);
        while (getchar() != EOF) {
        }
    }
    return sqlite3_close(db);
}
