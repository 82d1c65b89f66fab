//! The tables that a move carries, in an order that respects their references, and what it leaves behind and why.

/// What a column holds, whatever the database calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A UUID.
    Id,
    /// An instant in microseconds.
    Time,
    /// Yes or no.
    Flag,
    /// A whole number.
    Number,
    /// A text.
    Text,
    /// A document that comes back byte for byte.
    Json,
    /// Bytes.
    Bytes,
    /// A list of texts.
    Tags,
}

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its name, the same in all stores.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
}

/// A table.
#[derive(Debug, PartialEq, Eq)]
pub struct Table {
    /// Its name, the same in all stores but for a prefix.
    pub name: &'static str,
    /// How many of the columns, from the first, are its key.
    pub key: usize,
    /// What is carried of it.
    pub columns: &'static [Column],
    /// How many rows are carried at once: few where a row may be large, so that a page fits into memory.
    pub page: usize,
    /// Whether a new store has rows here, which give way to those that come.
    pub seeded: bool,
}

macro_rules! tables {
    (@kind id) => { Kind::Id };
    (@kind time) => { Kind::Time };
    (@kind flag) => { Kind::Flag };
    (@kind number) => { Kind::Number };
    (@kind text) => { Kind::Text };
    (@kind json) => { Kind::Json };
    (@kind bytes) => { Kind::Bytes };
    (@kind tags) => { Kind::Tags };
    (@seeded seeded) => { true };
    (@seeded empty) => { false };
    ($( $table:ident $page:literal $seeded:ident by ($($key:ident: $key_kind:ident),+) {
        $($column:ident: $kind:ident),*
    } )+) => {
        /// What is carried, in this order.
        pub static TABLES: &[Table] = &[ $( Table {
            name: stringify!($table),
            key: [$( stringify!($key) ),+].len(),
            columns: &[
                $( Column { name: stringify!($key), kind: tables!(@kind $key_kind) }, )+
                $( Column { name: stringify!($column), kind: tables!(@kind $kind) }, )*
            ],
            page: $page,
            seeded: tables!(@seeded $seeded),
        }, )+ ];
    };
}

tables! {
    queues 500 empty by (name: text) {
        paused: flag, created_at: time
    }
    limits 500 empty by (scope: text, name: text) {
        concurrency: number, node_concurrency: number, rate_jobs: number, rate_per_us: number, rate_burst: number,
        level: number, level_at: time, created_at: time, updated_at: time
    }
    lanes 500 empty by (id: number) {
        queue: text, job_type: text, tags: tags
    }
    templates 500 empty by (id: id) {
        name: text, job: json, created_at: time, parameters: json
    }
    calendars 500 empty by (name: text) {
        description: text, rules: json, version: number, created_at: time, updated_at: time
    }
    cron_presets 500 empty by (name: text) {
        expression: text, description: text, created_at: time
    }
    fire_cap 500 seeded by (id: number) {
        state: json
    }
    flows 500 empty by (name: text) {
        version: number, definition: json, owner: text, created_at: time, updated_at: time
    }
    schedules 500 empty by (id: id) {
        name: text, description: text, labels: json, cron: text, every_us: number, at: time, timezone: text,
        dst_gap: text, dst_overlap: text, starts_at: time, ends_at: time, calendar: text, target: json, input: json,
        template_id: id, queue: text, priority: number, serial: flag, retry: json, timeout_us: number, missed: json,
        overlap: text, max_concurrent_runs: number, jitter_us: number, depends_on: id, depends_within_us: number,
        grant_id: id, owner: text, source: text, version: number, seed: text, anchor_at: time, created_at: time,
        updated_at: time, deleted_at: time, burst_allowed: flag, pause_after_failures: number, tags: json
    }
    managed_things 500 empty by (kind: text, name: text) {
        owner: text, definition: json, applied_at: time
    }
    schedule_versions 500 empty by (schedule_id: id, version: number) {
        replaced_at: time, definition: json
    }
    schedule_state 500 empty by (schedule_id: id) {
        enabled: flag, next_slot_at: time, next_run_at: time, last_slot_at: time, last_enqueued_at: time,
        last_job_id: id, fired_through: time, exhausted_at: time, problem: text, paused_at: time, paused_by: text,
        pause_note: text, fired_from: text, no_executor_since: time, paused_until: time, forgiven_at: time,
        forgiven_failures: number
    }
    schedule_results 500 empty by (schedule_id: id) {
        last_run_at: time, last_outcome: text, last_success_at: time, consecutive_failures: number,
        failing_since: time, recovered_from: time
    }
    backfills 500 empty by (id: id) {
        created_at: time, schedule_id: id, from_at: time, until_at: time, priority: number, per_minute: number,
        asked_by: text, next_at: time, made: number, passed: number, ended_at: time, cancelled: flag, again_at: time
    }
    nodes 500 empty by (id: id) {
        name: text, offers: json, started_at: time, left_at: time, lost_at: time
    }
    leases 500 empty by (node_id: id) {
        lease_id: id, counter: number
    }
    jobs 250 empty by (id: id) {
        created_at: time, lane_id: number, priority: number, target: json, input: json, run_at: time,
        serial_key: text, tags: json, retry: json, timeout_us: number, template_id: id, grant_id: id, trigger: text,
        trigger_detail: text, trace_context: text, schedule_id: id, slot_at: time, retry_of: id, root_job_id: id,
        chain_began_at: time, attempt: number, failures: number, interruptions: number, owner: text, job_key: text,
        job_key_mode: text
    }
    delayed 500 empty by (job_id: id) {
        run_at: time
    }
    queue 500 empty by (job_id: id) {
        lane_id: number, priority: number, position: number, created_at: time, queued_at: time, serial_key: text,
        schedule_id: id, ready: flag
    }
    running 500 empty by (job_id: id) {
        node_id: id, lease_id: id, claim_id: id, lane_id: number, priority: number, position: number,
        created_at: time, queued_at: time, serial_key: text, schedule_id: id, started_at: time,
        cancel_requested_at: time, cancel_code: text
    }
    runs 250 empty by (job_id: id) {
        node_id: id, started_at: time, finished_at: time, outcome: text, error_code: text, error: text,
        exit_code: number, output: json, log_ref: text, final: flag, usage: json
    }
    retries 500 empty by (retry_of: id) {
        job_id: id
    }
    schedule_live 500 empty by (schedule_id: id, job_id: id) {}
    slots 500 empty by (schedule_id: id, slot_at: time) {
        through: time, count: number, decision: text, reason: text, job_id: id, decided_at: time, node_id: id,
        late_ms: number, schedule_version: number, note: text
    }
    backfill_slots 500 empty by (schedule_id: id, slot_at: time, job_id: id) {
        backfill_id: id
    }
    job_keys 500 empty by (key: text) {
        job_id: id
    }
    unique_keys 500 empty by (key: text) {
        job_id: id, until_at: time
    }
    serial_holds 500 empty by (key: text) {
        job_id: id, held_at: time
    }
    reservations 500 empty by (id: id) {
        queue: text, holder: text, reserved_at: time, expires_at: time, ended_at: time
    }
    artifacts 500 empty by (job_id: id, number: number) {
        name: text, location: text, size_bytes: number, sha256: text
    }
    artifact_contents 8 empty by (job_id: id, number: number) {
        contents: bytes
    }
    run_logs 50 empty by (job_id: id, sequence: number) {
        lines: json
    }
    run_progress 500 empty by (job_id: id) {
        told_at: time, percent: number, note: text
    }
    step_memos 250 empty by (root_job_id: id, step: text) {
        value: json, job_id: id, remembered_at: time
    }
    flow_runs 500 empty by (job_id: id) {
        definition: json, depth: number, stopping: text, started_at: time, deadline: time, ended_at: time
    }
    flow_steps 500 empty by (flow_id: id, step: number) {
        name: text, waits: number, job_id: id, started_at: time, ended_at: time, outcome: text, error_code: text,
        error: text, output: json, items: number, items_started: number, items_ended: number, items_failed: number
    }
    flow_items 250 empty by (flow_id: id, step: number, item: number) {
        value: json, job_id: id, outcome: text, error: text, output: json
    }
    flow_jobs 500 empty by (job_id: id) {
        flow_id: id, step: number, item: number
    }
    bulk_operations 500 empty by (id: id) {
        created_at: time, action: text, filter: json, owner: text, priority: number, asked_by: text,
        cursor_state: number, cursor_after: id, done: number, passed: number, stepped_at: time, ended_at: time,
        cancelled: flag
    }
    outbox 500 empty by (id: id) {
        created_at: time, kind: text, job_id: id, schedule_id: id, node_id: id, payload: json, delivered_at: time
    }
    channels 500 empty by (name: text) {
        definition: json, version: number, created_at: time, updated_at: time
    }
    rules 500 empty by (name: text) {
        definition: json, state: json, version: number, created_at: time, updated_at: time
    }
    alerts 500 empty by (id: id) {
        rule: text, code: text, alert: json, closed_at: time
    }
    deliveries 500 empty by (id: id) {
        channel: text, alert_id: id, occasion: text, message: json, state: text, created_at: time, next_at: time,
        tried_since: time, tries: number, attempts: json, ended_at: time, taken_by: id
    }
    notify_state 500 seeded by (id: number) {
        looked_at: time, looked_through: time, again_at: time
    }
    api_tokens 500 empty by (id: id) {
        prefix: text, hash: bytes, name: text, owner: text, role: text, expires_at: time, created_at: time,
        revoked_at: time, last_used_at: time
    }
    sessions 500 empty by (hash: bytes) {
        token_id: id, expires_at: time
    }
    idempotency_keys 250 empty by (owner: text, key: text) {
        fingerprint: bytes, status: number, answer: text, created_at: time
    }
    audit_log 500 empty by (id: id) {
        at: time, actor: text, token_id: id, action: text, subject: text, request_id: text, before: json,
        after: json
    }
    grants 500 empty by (id: id) {
        owner: text, billing_account: text, scopes: json, expires_at: time, revoked_at: time, created_at: time,
        max_runs: number, rate_runs: number, rate_per_us: number, rate_burst: number, runs: number, level: number,
        level_at: time
    }
    billing_accounts 500 empty by (owner: text, name: text) {
        virtual_key: text, created_at: time
    }
    graph_runs 100 empty by (id: id) {
        graph_id: text, grant_id: id, owner: text, billing_account: text, input: json, trace_id: text, driver: id,
        beats: number, started_at: time, ended_at: time, error_code: text, error: text, output: json,
        provider_references: json
    }
    execution_requests 500 empty by (key: text) {
        hash: bytes, run_id: id, service: text, answer: text
    }
    charge_receipts 500 empty by (run_id: id, attempt: number, unit: text) {
        quantity: number, owner: text, billing_account: text, graph_id: text, grant_id: id, charged_at: time
    }
    retention 500 seeded by (ledger: text) {
        before: time, pruning: flag
    }
    owner_checks 500 empty by (id: number) {}
}

/// Tables that only some stores have: carried where both sides have them.
pub const NOT_EVERYWHERE: &[&str] = &["owner_checks"];

/// What is not carried, and why. A name without a dot is a whole table.
pub const LEFT_BEHIND: &[(&str, &str)] = &[
    ("migrations", "each store has its own schema"),
    ("partitions", "each store has its own partitions"),
    ("frozen", "the freeze is about the store, not about what it holds"),
    ("moves", "each side has its own part in a move"),
    ("move_progress", "how far this very move is"),
    ("counters", "positions are handed out from behind the last one that has come"),
    ("serial_keys", "rows to lock, made anew for the keys that are in use"),
    ("schedule_requests", "carried out before the store leaves"),
    ("scheduled_jobs", "made from the schedules"),
    ("limits.id", "handed out anew; lanes are given their limits when they come"),
    ("lanes.limits", "made from the limits"),
    ("queue.tags", "made from the jobs"),
    ("running.limited", "made from the limits"),
    ("schedule_state.asked_since", "what was asked is carried out before the store leaves"),
    ("schedules.job_type", "made from the target by the database itself"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c02_every_table_and_column_is_listed_once() {
        for (at, table) in TABLES.iter().enumerate() {
            assert!(TABLES[at + 1..].iter().all(|other| other.name != table.name), "{}", table.name);
            assert!(LEFT_BEHIND.iter().all(|(left, _)| *left != table.name), "{} is carried", table.name);
            for (at, column) in table.columns.iter().enumerate() {
                assert!(table.columns[at + 1..].iter().all(|other| other.name != column.name), "{}", column.name);
                let both = format!("{}.{}", table.name, column.name);
                assert!(LEFT_BEHIND.iter().all(|(left, _)| *left != both), "{both} is carried");
            }
            assert!(table.key >= 1 && table.key <= table.columns.len() && table.page > 0);
        }
    }

    #[test]
    fn c02_what_is_referred_to_comes_first() {
        let place = |name: &str| TABLES.iter().position(|table| table.name == name).expect("it is carried");
        for (first, then) in [
            ("queues", "lanes"),
            ("limits", "lanes"),
            ("lanes", "jobs"),
            ("schedules", "schedule_state"),
            ("schedules", "jobs"),
            ("nodes", "leases"),
            ("jobs", "runs"),
            ("flow_runs", "flow_steps"),
            ("api_tokens", "sessions"),
            ("billing_accounts", "graph_runs"),
            ("graph_runs", "execution_requests"),
        ] {
            assert!(place(first) < place(then), "{first} before {then}");
        }
    }
}
