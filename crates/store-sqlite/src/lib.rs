//! The SQLite store: one writer thread with group commit, and WAL readers.
