//! The statements that are more than a line, each in a file of its own beside its reason.

#![expect(non_upper_case_globals, reason = "a statement is called by its file's name")]

macro_rules! statements {
    ($($name:ident $(= $($part:literal)+)?),+ $(,)?) => {
        $( pub(crate) const $name: &str = statements!(@text $name $($($part)+)?); )+
        /// Every statement with its name, for the tests that look at plans.
        pub const ALL: &[(&str, &str)] = &[ $( (stringify!($name), $name) ),+ ];
    };
    (@text $name:ident) => { include_str!(concat!("../sql/", stringify!($name), ".sql")) };
    (@text $name:ident $($part:literal)+) => { concat!($( include_str!(concat!("../sql/", $part, ".sql")) ),+) };
}

statements! {
    check_lease_for_claim,
    claim_jobs = "claim_jobs" "job_columns" "claimed_jobs",
    close_runs,
    due_schedules = "schedule_columns" "due_schedules",
    give_back,
    heartbeat,
    hold_serial_others,
    insert_queued,
    insert_schedule,
    insert_slots,
    job_view = "job_columns" "place_columns" "job_view",
    jobs_by_id = "job_columns" "jobs_by_id",
    keep_version,
    live_jobs,
    lock_serial_keys,
    lock_serial_keys_of_running,
    make_jobs,
    make_lanes,
    make_serial_keys,
    neighbours_ahead,
    neighbours_behind,
    next_due,
    orphans,
    prune_candidates,
    prune_serial_keys,
    prune_slots,
    queue_page,
    ready_serial_heads,
    reconcile_page = "schedule_columns" "reconcile_page",
    record_results,
    run_checks,
    schedule_by_id = "schedule_columns" "schedule_by_id",
    schedule_by_name = "schedule_columns" "schedule_by_name",
    schedule_jobs_page = "job_columns" "place_columns" "schedule_jobs_page",
    schedules_page = "schedule_columns" "schedules_page",
    set_plan,
    set_positions,
    slots_page,
    take_due_delayed,
    take_running,
    unused_serial_keys,
    unplanned_schedules = "schedule_columns" "unplanned_schedules",
}
