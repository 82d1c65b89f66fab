//! Punctual for programs that embed it: open a store, declare work, run it.
