//! Importers as a whole: hostile input, and what is said about every directive.
