/* Loads the extension that VARVE_EXTENSION names before main runs, so that a program that knows
 * nothing of extensions has its VFS: what speedtest1.sh links to SQLite's speedtest1. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void load(void) {
    const char *extension = getenv("VARVE_EXTENSION");
    if (extension == NULL)
        return;
    sqlite3 *db = NULL;
    char *why = NULL;
    int code = sqlite3_open(":memory:", &db);
    if (code == SQLITE_OK)
        code = sqlite3_enable_load_extension(db, 1);
    if (code == SQLITE_OK)
        code = sqlite3_load_extension(db, extension, NULL, &why);
    if (code != SQLITE_OK) {
        fprintf(stderr, "%s: %s\n", extension, why != NULL ? why : sqlite3_errstr(code));
        exit(1);
    }
    sqlite3_close(db);
}
