//! Cron expressions and the time zones they are read in.
