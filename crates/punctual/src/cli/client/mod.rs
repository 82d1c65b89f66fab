//! The commands that speak the HTTP API: to a server, or to the same router in this process.

mod alert;
pub(crate) mod api;
mod backfill;
mod billing;
mod bulk;
mod calendar;
mod channel;
mod delivery;
mod doctor;
mod flow;
mod grant;
mod graph;
mod job;
mod limit;
pub(crate) mod manifest;
mod policy;
mod preset;
mod queue;
mod reserve;
mod rule;
mod run;
mod schedule;
mod settings;
pub(crate) mod show;
mod stats;
mod system;
mod target;
mod template;
mod token;

use clap::{Args, Subcommand};

use self::api::ConnectArgs;
use super::import::ImportCommand;
use super::{Output, Stop};

// A command, and where the API is that it speaks to. Not for `--help`, which would show it in place of the command's own.
#[derive(Args)]
pub(crate) struct Over<C: Args> {
    #[command(flatten)]
    connect: ConnectArgs,
    #[command(flatten)]
    command: C,
}

/// Several commands under one word.
#[derive(Args)]
pub(crate) struct Group<C: Subcommand> {
    #[command(subcommand)]
    command: C,
}

// One variant per command, each with a file and a `run` of its own.
#[derive(Subcommand)]
pub(crate) enum ClientCommand {
    /// Make, look at and steer schedules
    #[command(visible_alias = "schedules")]
    Schedule(Over<Group<schedule::ScheduleCommand>>),
    Why(Over<schedule::WhyArgs>),
    /// Look at backfills and stop them; `punctual schedule backfill` begins one
    #[command(visible_alias = "backfills")]
    Backfill(Over<Group<backfill::BackfillCommand>>),
    /// Make, look at and change calendars: days and times at which nothing may run
    #[command(visible_alias = "calendars")]
    Calendar(Over<Group<calendar::CalendarCommand>>),
    Plan(Over<manifest::PlanArgs>),
    Apply(Over<manifest::ApplyArgs>),
    Export(Over<manifest::ExportArgs>),
    Run(Over<run::RunArgs>),
    /// Make, look at and steer jobs
    #[command(visible_alias = "jobs")]
    Job(Over<Group<job::JobCommand>>),
    /// Store, run and look at flows: steps that follow one another
    #[command(visible_alias = "flows")]
    Flow(Over<Group<flow::FlowCommand>>),
    /// Look at bulk operations and stop them; `punctual job bulk` begins one
    #[command(visible_alias = "bulks")]
    Bulk(Over<Group<bulk::BulkCommand>>),
    /// Look at queues, stop and start them, hold one for yourself
    #[command(visible_alias = "queues")]
    Queue(Over<Group<queue::QueueCommand>>),
    /// Limit how many jobs run at once and how many start in a while
    #[command(visible_alias = "limits")]
    Limit(Over<Group<limit::LimitCommand>>),
    /// Make and look at templates: named jobs to begin with
    #[command(visible_alias = "templates")]
    Template(Over<Group<template::TemplateCommand>>),
    /// Make and look at cron presets: named expressions for `schedule add --preset`
    #[command(visible_alias = "presets")]
    Preset(Over<Group<preset::PresetCommand>>),
    /// Make, try, look at and change channels: where people are told
    #[command(visible_alias = "channels")]
    Channel(Over<Group<channel::ChannelCommand>>),
    /// Make, look at and change rules: of what people are told, and whom
    #[command(visible_alias = "rules")]
    Rule(Over<Group<rule::RuleCommand>>),
    /// Look at alerts and acknowledge them
    #[command(visible_alias = "alerts")]
    Alert(Over<Group<alert::AlertCommand>>),
    /// Look at messages, send them again, take them out of the line
    #[command(visible_alias = "deliveries")]
    Delivery(Over<Group<delivery::DeliveryCommand>>),
    /// Make, list and revoke API tokens
    #[command(visible_alias = "tokens")]
    Token(Over<Group<token::TokenCommand>>),
    /// Make, look at and revoke grants: durable permission to run graphs
    #[command(visible_alias = "grants")]
    Grant(Over<Group<grant::GrantCommand>>),
    /// Look at graphs and run them
    #[command(visible_alias = "graphs")]
    Graph(Over<Group<graph::GraphCommand>>),
    /// Look at billing accounts and what was used of them
    Billing(Over<Group<billing::BillingCommand>>),
    /// Look at and change what holds for all nodes
    Settings(Over<Group<settings::SettingsCommand>>),
    Status(Over<system::StatusArgs>),
    /// Look at the nodes
    #[command(visible_alias = "nodes")]
    Node(Over<Group<system::NodeCommand>>),
    Audit(Over<system::AuditArgs>),
    Doctor(Over<doctor::DoctorArgs>),
    /// Bring schedules from elsewhere, with a report of what differs in meaning
    Import(Over<Group<ImportCommand>>),
}

impl ClientCommand {
    pub(crate) fn run(self, out: &mut Output) -> Result<(), Stop> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let done = runtime.block_on(self.carry_out(out));
        // What a store does in the background may go on; nobody waits for it.
        runtime.shutdown_background();
        done
    }

    async fn carry_out(self, out: &mut Output) -> Result<(), Stop> {
        match self {
            Self::Schedule(over) => over.command.command.run(&over.connect.connect().await?, out).await,
            Self::Backfill(over) => over.command.command.run(&over.connect.connect().await?, out).await,
            Self::Calendar(over) => over.command.command.run(&over.connect.connect().await?, out).await,
            Self::Settings(over) => over.command.command.run(&over.connect.connect().await?, out).await,
            Self::Why(over) => over.command.run(&over.connect.connect().await?, out).await,
            // A file that cannot be read is told before anybody is asked.
            Self::Plan(over) => over.command.run(&over.connect, out).await,
            Self::Apply(over) => over.command.run(&over.connect, out).await,
            Self::Export(over) => over.command.run(&over.connect.connect().await?, out).await,
            Self::Run(over) => over.command.run(&over.connect.connect().await?, out).await,
            Self::Job(over) => over.command.command.run(&over.connect.connect().await?, out).await,
            Self::Flow(over) => over.command.command.run(&over.connect.connect().await?, out).await,
            Self::Bulk(over) => over.command.command.run(&over.connect.connect().await?, out).await,
            Self::Queue(over) => over.command.command.run(&over.connect.connect().await?, out).await,
            Self::Limit(over) => over.command.command.run(&over.connect.connect().await?, out).await,
            Self::Template(over) => over.command.command.run(&over.connect.connect().await?, out).await,
            Self::Preset(over) => over.command.command.run(&over.connect.connect().await?, out).await,
            Self::Channel(over) => over.command.command.run(&over.connect.connect().await?, out).await,
            Self::Rule(over) => over.command.command.run(&over.connect.connect().await?, out).await,
            Self::Alert(over) => over.command.command.run(&over.connect.connect().await?, out).await,
            Self::Delivery(over) => over.command.command.run(&over.connect.connect().await?, out).await,
            Self::Token(over) => over.command.command.run(&over.connect.connect().await?, out).await,
            Self::Graph(over) => over.command.command.run(&over.connect.connect().await?, out).await,
            Self::Billing(over) => over.command.command.run(&over.connect.connect().await?, out).await,
            Self::Grant(over) => over.command.command.run(&over.connect.connect().await?, out).await,
            Self::Status(over) => over.command.run(&over.connect.connect().await?, out).await,
            Self::Node(over) => over.command.command.run(&over.connect.connect().await?, out).await,
            Self::Audit(over) => over.command.run(&over.connect.connect().await?, out).await,
            Self::Doctor(over) => over.command.run(&over.connect.connect().await?, out).await,
            // Most imports need no store.
            Self::Import(over) => over.command.command.run(&over.connect, out).await,
        }
    }
}
