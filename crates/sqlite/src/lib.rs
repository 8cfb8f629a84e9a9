//! An SQLite VFS over the Varve file layer.
