/* Included before SQLite's source by `cargo xtask sqlite-race`: SQLite reads and writes memory that
 * its connections share by these two, and each is to be a point where another task may run. A macro
 * is not expanded inside of itself, so the compiler's own function is what is called. */
extern void varve_shared_memory(void);
#define __atomic_load_n(from, order) (varve_shared_memory(), __atomic_load_n(from, order))
#define __atomic_store_n(to, value, order) \
    (varve_shared_memory(), __atomic_store_n(to, value, order))
