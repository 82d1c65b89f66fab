//! The conformance suite: one list of cases, each a fact about the port, run on every store.
//!
//! A case is `pub async fn <requirement>_<fact>(world: &mut World)` in one of the files beside this one, and stands
//! in [`for_each_conformance_case`](crate::for_each_conformance_case) once; a test below sees to it that none is
//! forgotten. A case that concerns one store only is marked there with the reason: `@sqlite_only("why") c01_…`.
#![expect(missing_docs, reason = "the name of a case is its statement")]

pub mod access;
pub mod alerts;
pub mod backfill;
pub mod bad_input;
pub mod bulk;
pub mod checks;
pub mod claims;
pub mod deliveries;
pub mod durability;
pub mod executions;
pub mod firing;
pub mod flow_chance;
pub mod flow_ends;
pub mod flows;
pub mod gaps;
pub mod grants;
pub mod history;
pub mod keys;
pub mod limits;
mod making;
pub mod memory;
pub mod missed;
pub mod moves;
pub mod offers;
pub mod outbox;
pub mod overlap;
pub mod policies;
pub mod queue;
pub mod readings;
pub mod records;
pub mod recovery;
pub mod repair;
pub mod runs;
pub mod schedules;
pub mod serial;
pub mod steering;
pub mod templates;
pub mod unique;
pub mod zones;

/// The one list: hands every case, by group, to another macro.
#[macro_export]
macro_rules! for_each_conformance_case {
    ($callback:path) => {
        $callback! {
            access {
                c12_a_token_keeps_its_hash_and_never_its_secret,
                c12_the_first_token_is_made_once,
                c12_tokens_are_listed_latest_first_and_revoked_for_good,
                c12_the_use_of_a_token_is_remembered_to_the_minute,
                c12_a_session_ends_with_its_token,
                c12_what_is_over_is_forgotten,
                c12_a_change_and_its_audit_row_are_one,
                c12_the_audit_log_is_read_in_pages_and_by_subject,
                c12_the_database_refuses_to_change_the_audit_log,
                c12_a_request_with_a_key_is_carried_out_once,
                c12_a_refused_request_leaves_its_key_free,
                c12_of_many_with_one_key_exactly_one_is_carried_out,
                a15_a_grant_and_its_schedule_are_made_together_or_not_at_all,
                c04_a_failed_job_can_be_retried_by_hand_once,
                c04_a_cancelled_job_can_be_retried_and_one_of_a_deleted_schedule_cannot,
            }
            backfill {
                a22_a_preview_counts_slots_and_gaps_and_writes_nothing,
                a22_only_slots_without_a_success_run_and_each_of_them_once,
                a22_a_slot_that_failed_in_the_backfill_too_is_a_gap_again,
                a22_a_backfill_goes_on_where_it_was_after_a_restart,
                a22_two_who_go_on_at_once_make_each_slot_once,
                a22_a_throttled_backfill_goes_on_with_the_clock,
                a22_a_cancelled_backfill_stops_and_what_it_made_goes_on,
                a22_deleting_the_schedule_ends_its_backfill,
                a22_a_range_that_lies_ahead_is_forgotten_or_too_long_is_refused,
                a22_a_backfill_stands_behind_present_work_and_keeps_no_slot_from_firing,
                a22_a_paused_schedule_is_filled_up_to_its_pause,
            }
            bulk {
                c18_bulk_cancel_stops_what_waits_and_what_runs,
                c18_bulk_operations_take_only_jobs_that_the_filter_finds,
                c18_jobs_that_come_later_are_not_changed,
                c04_bulk_retry_tries_what_failed_once_more_and_once_only,
                c04_bulk_retry_leaves_jobs_of_a_deleted_schedule_alone,
                c05_bulk_reprioritise_keeps_the_order_of_what_it_lifts,
                c18_a_bulk_operation_goes_on_where_it_was_after_a_restart,
                c04_two_who_go_on_at_once_change_each_job_once,
                c18_a_cancelled_bulk_operation_stops_and_is_listed,
                c18_a_bulk_operation_that_can_do_nothing_is_refused,
            }
            moves {
                c06_positions_stay_a_total_order_through_ten_thousand_moves,
            }
            templates {
                d09_a_template_keeps_its_parameters,
                d09_a_template_can_be_forgotten_and_its_name_used_again,
                d09_cron_presets_are_kept_by_name,
            }
            serial {
                a06_a_failure_holds_its_key_until_it_is_made_good,
                a06_a_held_key_waits_for_the_retries_of_its_policy,
                a06_without_the_setting_the_next_one_goes,
                a06_whatever_comes_to_a_held_key_waits,
                a06_a_held_key_is_listed_and_can_be_released,
                a06_a_serial_schedule_may_hold_its_slots,
                a06_of_many_nodes_none_takes_what_a_failure_holds,
                c11_a_hold_of_a_queue_can_be_renewed_until_it_has_ended,
            }
            unique {
                c18_a_unique_job_is_made_once_in_its_period,
                c18_a_unique_key_makes_jobs_the_same_whatever_they_do,
                c18_a_unique_job_without_success_is_made_again,
                c18_a_batch_with_the_same_unique_job_twice_makes_it_once,
                c18_of_many_who_make_a_unique_job_at_once_exactly_one_does,
                c18_the_edit_of_a_unique_job_stands_for_it,
                c18_unique_keys_that_are_over_are_forgotten,
                c18_uniqueness_that_makes_no_sense_is_refused,
                c18_calls_within_a_while_become_one_batch,
            }
            limits {
                c14_a_queue_gives_no_more_at_once_than_its_limit,
                c14_limits_on_everything_a_type_and_each_node_hold_too,
                c14_a_job_counts_for_each_of_its_tags_and_keeps_nobody_else_back,
                c14_a_limit_counts_what_runs_and_what_waits_already,
                c14_what_is_retried_edited_given_back_or_lost_stays_within_the_limit,
                c14_a_rate_lets_start_what_its_bucket_holds_and_says_when_there_is_more,
                c14_limits_are_set_listed_changed_and_removed,
                c14_many_who_claim_at_once_never_go_beyond_a_limit,
                c14_by_chance_the_stores_hand_out_what_a_plain_count_says,
                c14_the_stores_agree_on_the_use_of_every_limit,
                c14_the_jobs_of_a_schedule_carry_its_tags,
            }
            readings {
                b10_jobs_made_at_the_same_instant_are_listed_once_each,
                b10_jobs_are_found_by_the_state_they_are_in,
                b10_jobs_are_found_by_what_they_are,
                b10_jobs_are_found_by_when_they_were_made,
                b10_a_schedules_jobs_are_found_and_so_are_its_owners,
                a26_a_retry_belongs_to_whom_the_first_job_belonged,
                b10_a_rare_match_behind_many_others_is_found_page_by_page,
                b10_new_jobs_and_ends_can_be_followed,
                d12_the_samples_of_a_schedule_say_who_ran_what_when,
                b10_schedules_are_found_by_what_they_are,
                d04_the_schedules_that_are_due_next_come_first,
                b10_queues_show_what_waits_and_what_runs,
                b10_counting_stops_at_a_bound,
                b10_nodes_show_what_they_offer_and_run,
                d09_templates_are_listed_by_name,
                b10_figures_say_what_there_is,
            }
            schedules {
                d05_every_kind_of_timing_plans_its_first_slot,
                d05_cron_is_read_in_its_own_zone,
                d05_a_slot_at_this_very_instant_is_not_ahead,
                d05_an_at_fires_once_and_is_exhausted,
                d05_an_at_that_has_passed_is_refused,
                d05_slots_stay_within_starts_at_and_ends_at,
                c02_a_schedule_keeps_every_field,
                c02_every_kind_of_timing_and_policy_is_kept,
                c02_schedules_are_listed_by_name_page_by_page,
                c02_an_edit_replaces_the_definition_and_plans_from_now,
                c02_an_edit_fires_nothing_and_records_what_was_due,
                c02_an_edit_of_another_version_is_refused,
                c02_versions_of_a_schedule_are_kept,
                c02_a_name_is_taken_once,
                c02_a_template_is_kept_with_every_field_of_its_job,
                a26_deleting_cancels_what_waits_and_lets_what_runs_go_on,
                a26_deleting_keeps_history_and_frees_the_name,
                a26_a_deleted_schedule_is_not_found_by_any_verb,
                a26_a_run_that_outlives_its_schedule_can_still_be_closed,
                a24_a_schedule_is_found_by_id_or_by_name_and_never_confused,
            }
            steering {
                d03_a_paused_schedule_does_not_fire,
                d03_pausing_twice_changes_nothing,
                d03_resuming_fires_nothing_and_records_one_range,
                d03_resuming_before_a_slot_passed_records_nothing,
                d03_a_pause_outlives_the_process,
                d03_an_edit_of_a_paused_schedule_leaves_it_paused,
                d03_an_edit_while_paused_loses_no_slot,
                d03_trigger_makes_a_job_and_moves_nothing,
                d03_reschedule_to_a_later_time_records_what_it_jumps_over,
                d03_reschedule_to_an_earlier_time_fires_once_instead_of_the_old_slot,
                d03_reschedule_into_the_past_or_of_a_paused_schedule_is_refused,
                d03_reschedule_to_a_slot_that_was_given_up_is_refused,
                d03_reschedule_into_a_range_that_was_given_up_is_refused_for_its_slots_only,
                d03_reschedule_to_before_the_schedule_itself_is_refused,
                d03_a_slot_can_be_rescheduled_again,
                d03_skipping_the_next_slot_sets_aside_that_one_alone,
                d03_each_skip_leaves_one_more_out_also_one_that_is_due,
                d03_skipping_without_a_next_slot_is_refused,
                d04_next_and_last_times_can_be_asked_for,
                d04_failures_in_a_row_are_counted_until_a_success,
                d02_how_long_until_anything_is_due_is_a_duration_by_the_stores_clock,
                d02_only_the_stores_clock_decides_what_is_due,
                d04_a_schedule_that_is_unknown_is_none,
            }
            executions {
                a13_the_same_key_is_one_run_whoever_comes_first,
                a13_the_answer_is_kept_with_the_end_and_the_receipts,
                a13_a_run_whose_driver_stands_still_is_taken_over_once,
                a13_a_run_that_was_released_is_anybodys_and_its_driver_is_not_believed_any_more,
                a09_what_the_grant_refuses_writes_nothing,
                a09_runs_under_a_grant_are_counted_and_bounded,
                a14_a_run_that_has_ended_and_a_receipt_never_change,
                a13_keys_are_kept_as_long_as_the_ledger_and_receipts_for_ever,
                a18_usage_is_summed_by_graph_and_unit,
                a03_an_account_is_made_once_with_a_key_of_its_own,
            }
            firing {
                a04_a_thousand_due_slots_fire_once_each_whoever_tries,
                d01_of_many_who_fire_one_schedule_exactly_one_does,
                a04_a_slot_that_is_in_the_ledger_never_fires_again,
                a04_a_slot_fires_once_however_much_is_forgotten,
                a04_a_clock_that_goes_back_fires_nothing_twice,
                a05_the_next_slot_is_stored_with_the_job_that_was_fired,
                a05_a_refused_commit_moves_neither_plan_nor_ledger_nor_queue,
                a10_every_slot_leaves_a_record,
                a10_a_slot_can_be_followed_from_pending_to_its_end,
                a10_the_ledger_is_read_latest_first_page_by_page,
                e04_a_run_says_what_started_it,
                e04_every_and_at_say_their_text_too,
                e05_what_a_fire_changes_changes_together,
                e05_a_job_carries_what_its_schedule_says,
                d10_jitter_delays_a_slot_by_less_than_the_gap_and_keeps_its_name,
                e07_reads_go_on_while_ten_thousand_slots_are_fired,
                d10_a_batch_looks_at_no_more_than_it_was_asked_to,
                d10_jobs_are_queued_in_the_order_that_is_reported,
                d11_a_slot_runs_only_if_the_other_schedule_succeeded_within_the_window,
            }
            missed {
                a07_the_on_time_slot_fires_under_every_policy,
                d12_slots_that_do_not_run_are_counted_by_their_reason,
                a07_skip_plans_only_the_next_future_slot,
                a07_skip_fires_the_latest_slot_when_that_one_is_on_time,
                a07_the_window_of_skip_ends_after_sixty_seconds,
                a07_a_window_can_be_chosen,
                e03_once_makes_one_run_of_however_many_were_missed,
                e03_a_year_of_missed_minutes_costs_one_row,
                e03_once_with_a_window_does_not_run_what_is_older,
                e03_every_keeps_its_phase_over_missed_slots,
                b04_all_makes_up_for_each_slot_in_order,
                b04_all_makes_up_for_the_latest_ones_up_to_its_limit,
                b04_all_with_a_window_leaves_out_what_is_older,
                b04_much_to_make_up_for_is_spread_over_passes_and_none_is_lost,
                a05_a_year_of_every_second_is_decided_in_bounded_memory_and_work,
            }
            overlap {
                a21_every_policy_fires_when_nothing_is_alive,
                a21_allow_lets_both_run,
                a21_forbid_skips_the_slot_while_one_is_alive,
                a21_a_retry_that_waits_counts_as_alive,
                a21_replace_closes_what_waits,
                a21_replace_asks_what_runs_to_stop_and_waits_for_it,
                a21_queue_one_lets_at_most_one_wait,
                a21_queue_one_makes_up_for_one_slot_only,
                d10_max_concurrent_runs_skips_what_is_too_many,
                a06_jobs_of_a_serial_schedule_run_one_at_a_time_in_order,
                a06_a_triggered_job_of_a_serial_schedule_waits_its_turn,
                a06_a_failed_job_of_a_serial_schedule_frees_its_key,
            }
            policies {
                d11_a_calendar_keeps_every_field,
                d11_a_calendars_name_is_taken_once_and_bad_rules_are_refused,
                d11_a_schedule_names_a_calendar_that_is_there,
                d11_a_slot_that_the_calendar_closes_is_skipped_and_says_why,
                d11_many_schedules_of_several_calendars_are_decided_in_one_batch,
                d11_once_runs_the_latest_slot_that_its_calendar_allows,
                d11_an_edited_calendar_holds_from_the_next_slot_on_and_fires_nothing,
                d11_a_calendar_in_use_is_not_deleted,
                d11_of_a_deletion_and_a_use_at_once_one_is_refused,
                d11_a_schedule_whose_calendar_was_deleted_by_hand_tells_so,
                a22_a_backfill_leaves_alone_what_the_calendar_closes,
                d03_a_pause_with_an_end_goes_on_by_itself,
                d03_the_slot_at_the_end_of_a_pause_fires,
                d03_what_came_after_a_pause_that_nobody_ended_is_for_the_missed_policy,
                d03_the_end_of_a_pause_can_be_set_moved_and_forgotten,
                d03_of_many_who_end_a_pause_exactly_one_does,
                d03_a_schedule_pauses_by_itself_after_so_many_failures,
                d03_a_success_after_a_pause_begins_the_count_anew,
                d03_what_is_fired_from_memory_pauses_after_failures_and_goes_on_too,
                d10_no_second_fires_more_than_the_cap,
                d10_a_cap_holds_across_all_nodes,
                d10_burst_allowed_neither_waits_nor_counts,
                d10_what_a_cap_holds_back_for_long_is_late_and_not_lost,
                d10_a_schedule_with_much_to_make_up_for_is_capped_too,
                d10_delayed_jobs_and_pauses_do_not_wait_for_the_cap,
            }
            zones {
                b05_every_slot_fires_on_time_through_a_change_of_clock,
                e03_downtime_over_a_change_of_clock_is_decided_by_each_policy,
                d11_a_closed_day_is_closed_from_its_first_to_its_last_local_minute,
                d03_a_pause_over_a_change_of_clock_is_one_range,
            }
            checks {
                c17_a_sound_store_has_no_findings,
                c17_a_job_that_is_nowhere_is_found_and_named,
                c17_more_findings_than_asked_for_are_said_to_be_more,
                c17_a_job_in_two_places_is_found,
                c17_a_running_job_whose_lease_is_gone_is_found,
                c17_a_job_that_is_held_for_nothing_is_found,
                c17_a_missing_retry_is_found,
                c17_a_schedule_without_its_state_is_found,
                c17_a_ledger_that_runs_ahead_of_its_schedule_is_found,
                c17_a_slot_that_fired_a_job_nobody_has_is_found,
                c17_a_wrong_count_of_living_jobs_is_found,
                c17_schedules_that_stay_silent_are_found,
                c17_a_delayed_job_that_nobody_takes_is_found,
                c17_slots_that_a_wrong_clock_decided_are_found,
                c17_a_row_without_its_job_is_found,
            }
            repair {
                e01_a_null_plan_is_made_from_now_and_does_not_fire,
                e01_one_null_of_two_is_repaired_too,
                a08_an_impossible_plan_is_repaired_and_does_not_fire,
                a08_a_plan_in_the_far_future_is_found_by_the_reconciler,
                a08_the_reconciler_finds_nothing_in_normal_running,
                a08_the_reconciler_pages_through_all_schedules,
                d14_a_schedule_fired_under_a_clock_years_ahead_is_told,
                e01_an_exhausted_schedule_is_not_planned_anew,
                e02_an_invalid_cron_in_the_table_is_told_and_holds_up_nobody,
                e02_an_unknown_zone_in_the_table_is_told,
                e02_a_problem_is_told_once_and_fires_nothing_until_it_is_edited,
                e02_a_definition_that_cannot_be_read_holds_up_nobody,
            }
            queue {
                c02_a_job_keeps_every_field,
                c05_order_is_priority_then_position,
                c05_jobs_of_one_batch_and_of_several_keep_the_order_they_were_made_in,
                c05_equal_positions_are_ordered_by_age_and_then_by_id,
                c05_the_order_holds_across_the_job_types_of_a_queue,
                c05_a_queue_is_read_page_by_page,
                c05_queues_are_apart,
                c18_a_job_keeps_when_it_was_queued,
                b04_a_delayed_job_is_promoted_when_its_time_has_come,
                c06_a_job_can_be_moved_anywhere,
                c06_a_new_job_goes_behind_what_was_moved_to_the_end,
                c06_a_new_job_goes_behind_a_neighbourhood_that_was_renumbered,
                c06_moving_into_the_same_gap_never_runs_out_and_never_reorders_others,
                c06_thousands_of_moves_keep_every_order,
                c06_a_used_up_gap_is_renumbered_and_ties_keep_their_order,
                c06_a_move_is_refused_unless_both_wait_in_one_queue,
                c06_moving_a_job_beside_itself_changes_no_order,
                c18_an_edit_replaces_a_queued_job_at_its_exact_place,
                c03_a_dispatched_job_cannot_be_edited,
                c18_an_edit_of_a_serial_head_keeps_the_head,
                c07_cancelling_before_the_start_closes_the_job,
                c07_cancelling_a_running_job_asks_its_node,
                c07_cancelling_the_head_of_a_key_readies_the_next,
                c12_a_batch_is_made_whole_or_not_at_all,
            }
            claims {
                c07_a_claimed_job_is_out_of_the_queue_and_running,
                c07_every_job_is_in_exactly_one_place_all_its_life,
                c07_of_many_who_claim_each_job_goes_to_one,
                c07_a_node_gets_only_what_it_can_run,
                c07_a_claim_of_nothing_gives_nothing,
                c08_a_job_that_never_started_goes_back_to_its_exact_place,
                c08_only_the_holders_own_jobs_go_back,
                c08_a_node_leaves_when_it_runs_nothing,
                a06_serial_keys_hold_across_nodes_and_stores,
                a06_only_the_head_of_a_key_is_ready,
                a06_a_delayed_job_joins_its_key_when_it_is_promoted,
                c11_a_reserved_queue_gives_nothing_and_keeps_its_order,
                c11_a_second_reservation_is_refused_and_a_first_expires_by_itself,
                c11_an_impossible_reservation_is_refused,
                c11_a_paused_queue_gives_nothing_until_it_goes_on,
                c07_a_false_lease_changes_nothing,
                c07_a_job_that_another_node_runs_cannot_be_finished,
                c09_a_heartbeat_counts_and_says_what_is_believed_to_run,
                c09_two_nodes_of_one_name_are_two_nodes,
            }
            runs {
                c13_a_run_keeps_everything_that_was_reported,
                c13_of_a_large_batch_every_end_is_judged_by_itself,
                c13_every_outcome_and_error_code_can_be_kept,
                c13_artifacts_only_grow_and_keep_their_order,
                c13_the_database_refuses_to_change_artifacts,
                c03_the_database_refuses_to_change_a_job,
                c03_the_database_refuses_to_change_a_run,
                c03_the_database_refuses_to_change_the_slot_ledger,
                c03_what_was_fired_through_never_goes_back,
                a20_the_database_knows_the_closed_sets,
                c04_a_retry_is_a_new_job_at_the_end_of_a_chain,
                c04_a_job_of_a_schedule_is_retried_for_its_slot,
                c04_a_run_is_finished_once,
                c04_one_report_twice_in_a_batch_closes_once,
                c04_interruptions_have_a_budget_of_their_own,
                c04_what_cannot_be_helped_is_not_tried_again,
                c04_an_old_chain_is_not_continued,
                c04_no_retry_means_one_attempt_whatever_ended_it,
                c04_waits_grow_and_are_shortened_by_at_most_a_quarter,
                c04_a_completed_run_is_the_end,
                c04_a_cancelled_run_is_not_tried_again,
                c13_a_large_batch_of_ends_is_answered_in_its_order,
                c04_a_target_can_put_its_retry_off_or_give_up,
                c04_a_snooze_is_a_skipped_run_that_charges_nothing,
                c04_a_snooze_ends_with_the_age_of_its_chain_or_with_a_cancel,
            }
            records {
                c13_a_log_keeps_time_stream_and_text_of_every_line,
                c13_a_log_is_read_page_by_page_from_any_line,
                c13_a_log_can_be_followed_from_elsewhere_while_its_run_goes_on,
                c13_a_chunk_that_is_sent_twice_is_kept_once,
                c13_only_the_holder_of_the_lease_adds_to_a_log,
                c13_a_log_replaces_what_no_text_column_keeps,
                c13_progress_is_what_was_told_last,
                c13_the_database_refuses_to_change_what_runs_leave_behind,
                c13_what_a_run_left_behind_goes_with_it,
                c13_an_artifact_can_be_read_by_any_node,
                c13_an_artifact_that_is_too_large_is_refused,
                c04_a_step_is_remembered_once_for_its_whole_chain,
                c04_a_step_is_remembered_by_the_holder_of_the_lease_alone,
            }
            recovery {
                c09_an_unfinished_run_is_failed_as_node_lost_and_retried,
                c09_recovering_twice_does_nothing_the_second_time,
                c09_a_node_whose_counter_moved_is_not_lost,
                c09_the_late_end_of_a_lost_node_is_refused,
                c09_what_had_ended_before_the_node_was_lost_stays_as_it_is,
                c09_a_claim_left_over_beside_a_finished_run_is_dropped,
                c09_retries_of_several_lost_nodes_stand_in_the_order_of_their_jobs,
                c09_only_the_lost_nodes_runs_are_touched,
                c09_without_interruptions_left_the_loss_is_final,
                c09_a_lost_run_frees_its_serial_key_and_its_schedule,
                c10_a_missing_retry_is_made_once_whoever_recovers,
                c10_a_refused_commit_of_recovery_leaves_it_to_be_done_again,
                c09_nobody_lost_is_nothing_done,
                c09_a_cancelled_job_of_a_lost_node_is_not_retried,
            }
            durability {
                c01_everything_is_as_it_was_after_reopening,
                c01_a_second_store_on_the_same_data_sees_every_write_at_once,
                c01_many_writers_at_once_lose_nothing,
                c16_a_change_made_by_hand_is_believed,
                c12_a_refused_commit_is_told_and_leaves_everything_as_it_was,
                c12_a_job_whose_claim_was_refused_stays_queued,
                c12_all_who_shared_a_refused_commit_are_told,
                c12_one_bad_caller_does_not_spoil_the_others,
            }
            grants {
                a02_a_grant_is_kept_as_it_was_given,
                a02_grants_are_listed_latest_first_and_by_owner,
                a09_a_grant_is_revoked_once_and_stays,
                a03_a_grant_brings_its_billing_account,
                a09_a_grant_that_allows_nothing_is_refused,
            }
            history {
                c13_old_runs_go_with_their_jobs_and_young_ones_stay,
                c04_the_chain_of_a_living_job_is_kept_whole,
                a10_old_slots_go_and_the_plan_stays,
                c13_pruning_is_done_in_small_steps,
                c13_artifacts_go_with_their_run,
                c13_failed_runs_can_be_kept_longer_or_shorter_than_others,
                c13_the_last_jobs_of_each_schedule_can_be_kept_however_old,
                c13_what_stays_is_looked_at_once_in_a_pass,
                c13_slots_of_many_schedules_are_forgotten_step_by_step,
                c03_what_retention_may_delete_nobody_else_may,
            }
            outbox {
                n04_the_last_failure_of_a_chain_is_told_once_and_a_retry_is_not,
                n04_a_success_is_told_after_a_failure_that_was_told,
                n04_a_failure_and_a_success_of_one_batch_are_both_told,
                n04_a_lost_node_is_told_once,
                n04_what_was_cancelled_or_deleted_is_not_told,
                n04_news_is_written_with_what_it_tells_or_not_at_all,
                n04_missed_slots_are_told_with_their_decision,
                n04_notices_can_be_read_page_by_page,
                n04_old_notices_are_forgotten,
            }
            alerts {
                n01_a_channel_is_kept_edited_by_version_and_deleted_when_no_rule_needs_it,
                n02_a_rule_is_kept_with_channels_that_are_there_and_fit,
                n02_failures_of_one_cause_are_one_alert_and_one_message,
                n04_news_is_taken_in_with_all_that_comes_of_it_or_not_at_all,
                n03_b11_a_night_of_escalation_goes_as_the_rule_says,
                n03_what_is_not_there_cannot_be_acknowledged,
                n02_a_rule_that_is_deleted_or_off_takes_its_alerts_with_it,
                n02_late_starts_and_long_runs_are_found_while_they_last_and_after,
                n02_what_no_node_can_run_and_queues_that_are_too_old_are_found,
                n02_an_overdue_schedule_is_found_and_the_dead_mans_switch_hears_nothing_meanwhile,
                n02_lost_nodes_missed_slots_jumps_of_the_clock_and_recoveries_are_alerts,
                n04_old_alerts_and_deliveries_are_forgotten_when_they_are_over,
            }
            deliveries {
                n04_a_line_moves_in_order_one_message_at_a_time,
                n04_a_message_whose_sender_is_gone_goes_again_under_the_same_id,
                n04_what_failed_is_tried_again_later_and_those_behind_wait_for_it,
                n04_what_is_refused_is_given_up_and_can_be_sent_again_or_dropped,
                n04_a_channel_that_is_off_keeps_its_messages_and_one_that_is_deleted_drops_them,
                n04_deliveries_are_listed_by_channel_and_alert_page_by_page,
            }
            memory {
                d07_declared_schedules_are_created_edited_and_left_alone,
                d07_removal_is_asked_for_and_touches_the_same_owner_only,
                d07_a_name_of_somebody_else_is_refused_and_nothing_is_written,
                d07_many_who_declare_at_once_make_one_schedule,
                d07_a_slot_seen_by_memory_and_store_runs_once,
                d07_what_is_fired_from_memory_is_never_due_in_the_store,
                d14_a_schedule_is_switched_back_and_forth_and_no_slot_is_lost_or_fired_twice,
                d14_steering_reaches_what_is_fired_from_memory,
                d08_schedules_are_fired_from_memory_without_their_table,
                d08_the_ledger_goes_on_after_firing_from_memory,
                d08_a_range_does_not_cover_what_was_fired_from_memory,
                d08_what_is_remembered_is_due_soon_and_not_paused,
                c16_a_poisoned_memory_changes_nothing,
            }
            bad_input {
                d05_a_definition_that_could_never_work_is_refused_by_its_field,
                d05_a_cron_that_never_comes_is_refused_or_exhausted,
                d05_times_at_the_edges_of_the_calendar_are_survived,
                c02_hostile_names_are_found_again_verbatim,
                c02_the_longest_names_fit_and_longer_ones_are_refused,
                c12_ten_megabytes_of_input_are_refused_and_the_largest_input_is_kept,
                c12_nul_is_refused_in_input_and_replaced_in_what_a_run_returns,
                c12_a_failed_end_without_a_code_is_still_recorded,
                c12_an_endless_error_text_is_cut,
                c12_jobs_that_could_never_run_are_refused_by_their_field,
                c12_empty_batches_and_limits_of_zero_do_nothing,
                c12_the_largest_limits_are_survived,
                d11_a_schedule_that_depends_on_nobody_is_survived,
            }
            keys {
                c18_a_job_keeps_its_key_and_the_mode_of_it,
                c18_the_latest_call_under_a_key_replaces_what_waits,
                c18_a_call_again_and_again_runs_once_after_the_last,
                c18_a_key_may_keep_the_time_that_was_planned,
                c18_a_key_may_leave_what_is_there,
                c18_what_runs_is_never_replaced,
                c18_a_retry_holds_the_key_of_its_chain,
                c18_a_job_that_takes_the_place_of_another_holds_its_key,
                a06_replacing_a_job_by_its_key_frees_its_serial_key,
                c12_a_batch_may_use_a_key_once,
                c18_of_many_who_use_one_key_at_once_one_job_waits,
                c18_a_key_is_forgotten_with_its_job,
                c04_a_chain_is_followed_to_its_last_retry,
            }
            offers {
                e06_a_schedule_nobody_can_run_is_marked_and_waits,
                e06_other_schedules_go_on_meanwhile,
                e06_the_mark_goes_when_a_node_offers_the_target_again,
                e06_a_lost_node_offers_nothing,
                e06_the_missed_policy_decides_about_the_slots_that_waited,
                e06_jitter_and_a_chosen_time_survive_the_mark,
                e06_pausing_editing_and_deleting_a_marked_schedule_go_on_as_usual,
                e06_a_job_nobody_can_run_does_not_wait_for_ever,
                e06_a_job_waits_while_its_patience_lasts_and_runs_then,
                e06_giving_up_frees_the_serial_key,
                e06_every_kind_of_target_is_compared_by_its_job_type,
                e06_a_schedule_that_cannot_be_understood_holds_up_nobody,
                e06_marks_are_made_a_page_at_a_time,
            }
            flow_chance {
                d06_random_flows_end_as_an_independent_evaluator_says,
                d06_ten_thousand_items_are_begun_a_few_at_a_time,
            }
            flow_ends {
                d06_a_step_is_tried_again_before_its_flow_hears_of_it,
                d06_what_a_lost_node_ran_is_run_again_and_the_flow_goes_on,
                d06_a_flow_that_failed_begins_again_at_the_step_that_did,
                d06_a_step_is_not_retried_by_itself,
                d06_a_cancelled_flow_cancels_what_waits_and_stops_what_runs,
                d06_a_cancelled_step_counts_as_failed,
                d06_an_edited_step_takes_the_place_of_the_old_one,
                d06_a_flow_whose_time_is_over_is_stopped,
                d06_a_flow_may_be_a_step_of_another,
                d06_cancelling_reaches_flows_within_flows,
                d06_a_flow_that_runs_itself_comes_to_an_end,
                d06_a_flow_that_is_not_there_fails_with_a_remedy,
                d06_handing_over_twice_begins_once_and_only_by_the_holder,
                d06_a_value_that_is_not_there_fails_its_step_and_says_which,
                a06_a_serial_flow_keeps_its_key_until_its_last_step_is_done,
                d06_a_scheduled_flow_is_the_run_of_its_slot,
                d06_flows_are_stored_with_versions_and_owners,
                e03_a_flow_is_forgotten_with_its_job,
                d06_what_nobody_asks_for_is_not_kept_twice,
                a21_a_flow_that_is_replaced_stops_at_once,
            }
            flows {
                d12_the_steps_of_a_flow_stand_below_its_run_in_its_trace,
                d06_steps_follow_one_another_and_pass_on_what_they_return,
                d06_a_join_waits_for_all_its_predecessors,
                d06_many_ends_in_one_report_count_each_once,
                d06_a_condition_that_does_not_hold_skips_its_step_and_the_flow_goes_on,
                d06_a_step_runs_once_for_each_item_with_so_many_at_once_and_passes_on_the_list,
                d06_a_step_for_no_items_is_done_at_once,
                c15_a_failure_stops_the_flow_unless_it_says_otherwise,
                c15_a_group_is_a_flow_without_edges_or_with_one_chain,
                d06_failed_items_are_judged_like_failed_steps,
            }
            gaps {
                a04_a_slot_has_one_decision_whenever_it_is_made,
                a06_a_key_is_held_while_its_job_runs_whatever_happens_to_the_rest,
                d03_a_slot_given_up_ahead_of_its_time_stays_given_up,
                a10_the_ledger_outlives_the_history,
                c09_a_run_that_ended_is_not_overwritten_by_its_own_node,
                c12_ends_that_are_reported_together_are_stored_together_or_not_at_all,
                c12_a_call_that_fails_half_way_leaves_nothing_behind,
                a26_a_failed_run_of_a_deleted_schedule_is_not_tried_again,
                c04_the_chain_of_an_edited_retry_is_kept_whole,
                c07_the_first_reason_to_stop_a_run_stands,
                c08_a_job_that_was_asked_to_stop_does_not_go_back,
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    macro_rules! names {
        ($( $group:ident { $( $(@ $only:ident ($why:literal))? $case:ident, )+ } )+) => {
            /// Every group with its file and its listed cases.
            const LISTED: &[(&str, &str, &[&str])] = &[
                $( (stringify!($group), include_str!(concat!(stringify!($group), ".rs")), &[ $( stringify!($case), )+ ]), )+
            ];
        };
    }
    crate::for_each_conformance_case!(names);

    fn written(source: &str) -> BTreeSet<&str> {
        let cases = source.lines().filter_map(|line| line.strip_prefix("pub async fn "));
        cases.filter_map(|rest| rest.split('(').next()).collect()
    }

    #[test]
    fn every_case_that_is_written_is_listed_once() {
        for (group, source, listed) in LISTED {
            let unique: BTreeSet<&str> = listed.iter().copied().collect();
            assert_eq!(unique.len(), listed.len(), "{group} lists a case twice");
            assert_eq!(unique, written(source), "{group}");
        }
    }

    #[test]
    fn every_case_begins_with_the_requirement_it_shows() {
        for case in LISTED.iter().flat_map(|(_, _, listed)| listed.iter()) {
            let (id, fact) = case.split_once('_').expect("an id and a fact");
            let (letter, number) = id.split_at(1);
            assert!("abcden".contains(letter) && number.len() == 2 && number.parse::<u8>().is_ok(), "{case}");
            assert!(fact.len() > 10, "{case} states a fact");
        }
    }
}
