//! Definitions: what is refused, and where; and what follows from what.
