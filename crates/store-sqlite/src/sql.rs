//! The statements that are more than a line, each in a file of its own beside its reason.

#![expect(non_upper_case_globals, reason = "a statement is called by its file's name")]

macro_rules! statements {
    ($($name:ident),+ $(,)?) => {
        $( pub(crate) const $name: &str = include_str!(concat!("../sql/", stringify!($name), ".sql")); )+
        /// Every statement with its name, for the tests that look at plans.
        pub const ALL: &[(&str, &str)] = &[ $( (stringify!($name), $name) ),+ ];
    };
}

statements! {
    claim_job,
    claimable_lanes,
    due_delayed,
    due_schedules,
    give_back,
    hold_serial_others,
    insert_job,
    insert_queued,
    insert_run,
    insert_running,
    insert_schedule,
    insert_slot,
    job_by_id,
    job_places,
    keep_version,
    lane_head,
    lane_page,
    live_of_schedule,
    next_due,
    prune_candidates,
    prune_slots,
    ready_serial_head,
    reconcile_page,
    record_result,
    run_checks,
    schedule_by_id,
    schedule_by_name,
    schedule_jobs_page,
    schedules_page,
    serial_head,
    set_plan,
    slots_page,
    take_running,
    unplanned_schedules,
}
