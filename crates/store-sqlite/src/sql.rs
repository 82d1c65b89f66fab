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
    audit_after,
    audit_page,
    audit_page_of_subject,
    claim_job,
    claimable_lanes,
    due_delayed,
    due_schedules,
    ended_after,
    ended_figures,
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
    jobs_after,
    jobs_page = "jobs_page_head" "scan_jobs" "jobs_page_tail",
    jobs_page_delayed = "jobs_page_head" "scan_delayed" "jobs_page_tail",
    jobs_page_of_owner = "jobs_page_head" "scan_jobs_of_owner" "jobs_page_tail",
    jobs_page_of_schedule = "jobs_page_head" "scan_jobs_of_schedule" "jobs_page_tail",
    jobs_page_queue = "jobs_page_head" "scan_queue" "jobs_page_tail",
    jobs_page_running = "jobs_page_head" "scan_running" "jobs_page_tail",
    jobs_page_runs = "jobs_page_head" "scan_runs" "jobs_page_tail",
    jobs_page_runs_not_completed = "jobs_page_head" "scan_runs_not_completed" "jobs_page_tail",
    keep_version,
    lane_head,
    lane_page,
    live_of_schedule,
    next_due,
    next_schedules,
    nodes_page,
    prune_candidates,
    prune_slots,
    queue_figures,
    ready_serial_head,
    reconcile_page,
    record_result,
    running_figures,
    scan_delayed,
    scan_jobs,
    scan_jobs_of_owner,
    scan_jobs_of_schedule,
    scan_queue,
    scan_running,
    scan_runs,
    scan_runs_not_completed,
    scan_schedules,
    scan_schedules_of_owner,
    schedule_by_id,
    schedule_by_name,
    schedule_jobs_page,
    schedules_filtered = "schedules_filtered_head" "scan_schedules" "schedules_filtered_tail",
    schedules_filtered_of_owner = "schedules_filtered_head" "scan_schedules_of_owner" "schedules_filtered_tail",
    schedules_page,
    serial_head,
    session_by_hash,
    set_plan,
    slots_page,
    stats,
    take_running,
    unplanned_schedules,
}
