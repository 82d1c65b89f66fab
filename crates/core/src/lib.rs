//! The words and rules of Punctual, with no I/O, no clock and no async runtime.
//!
//! # Words
//!
//! | word | meaning |
//! | --- | --- |
//! | schedule | when and what: a cron, an `every` or a single `at`, a target, its input and its policies |
//! | slot | one instant at which a schedule is due by its definition |
//! | due | a slot whose time, jitter included, has come |
//! | missed | a due slot that is later than the policy's window, or that a later due slot stands for |
//! | late | how long after it was due a slot was decided |
//! | slot ledger | one row for every slot decided, with the decision and the reason |
//! | job | one unit of work, executed at most once, immutable once dispatched |
//! | run | the execution of a job, known by the job's id, immutable once ended |
//! | retry | a new job whose `retry_of` is the failed one |
//! | attempt | the length of that chain |
//! | job key | the name of a job of which only one waits at a time |
//! | target | what a job does |
//! | job type | what a node must offer to run a target |
//! | queue | a named line of jobs |
//! | lane | the jobs of one queue that have one job type; claiming looks at the head of each lane |
//! | lease | a node's right to finish the runs it claimed |
//! | node | one running process |
//! | grant | durable permission to execute |
//! | graph run | the execution of a graph by its provider, known to the execution service |
//! | receipt | what is charged for a graph run, once for each unit |
//! | owner | whose a schedule, a job or a grant is; others neither see nor use it |
//! | reservation | exclusive hold of a queue |
//! | freeze | a store refuses to start anything, or to write anything, until it is thawed |
//! | move | everything that a store holds is carried into another one, and the first stays frozen |
//! | calendar | a named set of days and times at which nothing may run |
//! | notice | news in the outbox, written with what it tells |
//! | channel | where people are told: a webhook, a mailbox, a chat room, or a dead-man's switch |
//! | rule | of what they are told, by which channels, in which steps |
//! | alert | a trouble that a rule covers, from its beginning to its end; what has one cause is one alert |
//! | manifest | schedules, and what they need, as a file says them; applied as a whole, owned by a label |
//! | delivery | one message of an alert to one channel, sent until it arrives |
//!
//! # A job's life
//!
//! The state is where the row is, never a column:
//!
//! ```text
//!            enqueue, fire                 claim                  finish (leased)
//!   (new) ───────────────────▶ queue ──────────────▶ running ───────────────────────▶ runs
//!     │                       ▲  │  ▲                  │   │                            │
//!     │ run_at ahead          │  │  └── give back ─────┘   │ node lost                  │ failed, within
//!     ▼                       │  │     (never started)     └──────────▶ runs ───────────┤ its budgets
//!   delayed ──────────────────┘  │ cancel, replace                                      ▼
//!             promote            └──────────────────▶ runs                     a new job (retry_of)
//! ```

pub mod access;
pub mod backfill;
pub mod bulk;
pub mod calendar;
pub mod cap;
pub mod chain;
pub mod checks;
pub mod closing;
pub mod control;
pub mod cron;
pub mod duration;
pub mod execute;
pub mod execution;
pub mod expression;
pub mod firing;
pub mod flow;
pub mod freeze;
pub mod grant;
pub mod graph;
pub mod health;
pub mod id;
pub mod invalid;
pub mod job;
pub mod job_key;
pub mod json;
pub mod ledger;
pub mod limits;
pub mod manifest;
pub mod meter;
pub mod name;
pub mod nearest;
pub mod notify;
pub mod offers;
pub mod order;
pub mod policies;
pub mod readings;
pub mod records;
pub mod recovery;
pub mod replan;
pub mod retention;
pub mod retry;
pub mod run;
pub mod schedule;
pub mod secret;
pub mod series;
pub mod slot;
pub mod slot_days;
pub mod statistics;
pub mod store;
pub mod target;
pub mod template;
pub mod timing;
pub mod trace;
pub mod transfer;
pub mod unique;
pub mod upkeep;
pub mod virtual_clock;
pub mod why;
pub mod words;
