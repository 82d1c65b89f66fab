//! The handle that a program holds: its store, its tasks, and the node that it runs.

use crate::address::{Backing, StoreOptions};
use crate::enqueue::{Batch, Enqueue};
use crate::handle::JobHandle;
use crate::limits::LimitBuilder;
use crate::reserve::Reserve;
use crate::schedules::{Others, ScheduleBuilder};
use crate::{Cancelled, Context, Error, JobId, JobView, NodeEvent, Result, Schedule, Target, TaskError};
use punctual_core::execute::Executor;
use punctual_core::meter::Meter;
use punctual_core::store::{ScheduleKey, Store};
use punctual_core::trace::Tracer;
use punctual_core::upkeep::Declarations;
use punctual_engine::dispatch::DeskOptions;
use punctual_engine::flow::{FLOW, FlowExecutor};
use punctual_engine::node::{self, NodeOptions, Signals};
use punctual_engine::notify::NotifyOptions;
use punctual_engine::targets::command::{CommandExecutor, CommandOptions};
use punctual_engine::targets::task::Handler;
use punctual_engine::work::Executors;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Punctual inside a program: open it once, clone it freely.
///
/// ```
/// # punctual::testing::block_on(async {
/// use punctual::{Context, Punctual};
///
/// # let folder = tempfile::tempdir()?;
/// # let url = format!("sqlite:{}", folder.path().join("app.db").display());
/// let punctual = Punctual::open(&url).await?;                  // sqlite:PATH or postgres://…
/// punctual.task("double", |_: Context, n: u32| async move { Ok(n * 2) });
///
/// let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
/// let node = punctual.clone();
/// let node = tokio::spawn(async move { node.run_until(async { drop(stopped.await) }).await });
/// assert_eq!(punctual.enqueue("double", &21).send_and_wait::<u32>().await?, 42);
/// stop.send(()).ok();
/// node.await??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Punctual {
    shared: Arc<Shared>,
}

/// Is told what the node does.
type OnEvent = Box<dyn Fn(&NodeEvent) + Send + Sync>;

struct Shared {
    backing: Backing,
    store: Arc<dyn Store>,
    node: NodeOptions,
    executors: Mutex<Executors>,
    owner: Option<String>,
    on_event: Option<OnEvent>,
}

impl std::fmt::Debug for Punctual {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Punctual").field("store", &self.shared.backing).finish_non_exhaustive()
    }
}

impl Punctual {
    /// Opens a store by its address, `sqlite:PATH` or `postgres://…`, and brings its schema up to date.
    ///
    /// ```
    /// # punctual::testing::block_on(async {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("app.db");
    /// let punctual = punctual::Punctual::open(&format!("sqlite:{}", path.display())).await?;
    /// # drop(punctual);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub async fn open(url: &str) -> Result<Self> {
        Self::builder(url).open().await
    }

    /// The same, with something to be said about how its node works.
    ///
    /// ```
    /// # punctual::testing::block_on(async {
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("app.db").display());
    /// use std::time::Duration;
    /// let punctual = punctual::Punctual::builder(&url)
    ///     .name("mail-1")
    ///     .concurrency(16)
    ///     .queues(["mail"])
    ///     .shutdown_grace(Duration::from_secs(60))
    ///     .open()
    ///     .await?;
    /// # drop(punctual);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn builder(url: &str) -> Builder {
        Builder {
            url: url.to_owned(),
            store: StoreOptions::default(),
            // The rules are judged by every node; who sends messages is for the program to say.
            node: NodeOptions { notify: Some(NotifyOptions::default()), ..NodeOptions::default() },
            executors: Executors::default().with(FLOW, Arc::new(FlowExecutor)),
            commands: false,
            owner: None,
            on_event: None,
        }
    }

    /// Registers a handler: what a job with this task name does on this node. A later one of the same name takes the
    /// place of the earlier one. Register all before [`run_until`](Self::run_until): the node offers what is there then.
    ///
    /// The input is what was enqueued, the output what [`JobHandle::wait`] answers with; both travel as JSON.
    ///
    /// ```
    /// # punctual::testing::block_on(async {
    /// use punctual::{Context, TaskError, testing::TestPunctual};
    ///
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Digest { user: u64 }
    ///
    /// let test = TestPunctual::new().await?;
    /// test.task("digest", |_: Context, input: Digest| async move {
    ///     if input.user == 0 {
    ///         return Err(TaskError::Fatal("there is no user 0".to_owned()));
    ///     }
    ///     Ok(format!("digest for {}", input.user))
    /// });
    /// let job = test.enqueue("digest", &Digest { user: 7 }).send().await?;
    /// test.run_pending().await?;
    /// assert_eq!(job.wait::<String>().await?, "digest for 7");
    /// # Ok::<(), punctual::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn task<I, O, F, W>(&self, name: &str, handler: F)
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        F: Fn(Context, I) -> W + Send + Sync + 'static,
        W: Future<Output = std::result::Result<O, TaskError>> + Send + 'static,
    {
        self.register(name, Arc::new(Handler::new(handler)));
    }

    /// Registers a handler that computes, or waits without `await`: each run has a thread of its own. Nobody can end it
    /// from outside, so it looks at [`Context::is_stopped`] from time to time.
    ///
    /// ```
    /// # punctual::testing::block_on(async {
    /// use punctual::{Context, testing::TestPunctual};
    ///
    /// let test = TestPunctual::new().await?;
    /// test.blocking_task("sum", |ctx: Context, up_to: u64| {
    ///     Ok((0..up_to).take_while(|_| ctx.is_stopped().is_none()).sum::<u64>())
    /// });
    /// let job = test.enqueue("sum", &10).send().await?;
    /// test.run_pending().await?;
    /// assert_eq!(job.wait::<u64>().await?, 45);
    /// # Ok::<(), punctual::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn blocking_task<I, O, F>(&self, name: &str, handler: F)
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        F: Fn(Context, I) -> std::result::Result<O, TaskError> + Send + Sync + 'static,
    {
        self.register(name, Arc::new(Handler::blocking(handler)));
    }

    fn register(&self, name: &str, executor: Arc<dyn Executor>) {
        let job_type = Target::task(name).job_type();
        let mut executors = self.shared.executors.lock().unwrap_or_else(PoisonError::into_inner);
        *executors = std::mem::take(&mut *executors).with(job_type, executor);
    }

    /// Begins a job for a task; nothing happens before it is sent. The task need not be registered here: any node that
    /// offers it may run the job.
    ///
    /// ```
    /// # punctual::testing::block_on(async {
    /// # let test = punctual::testing::TestPunctual::new().await?;
    /// use std::time::Duration;
    /// test.enqueue("digest", &7)
    ///     .priority(5)
    ///     .queue("mail")
    ///     .job_key("user:7")
    ///     .timeout(Duration::from_secs(30))
    ///     .send()
    ///     .await?;
    /// # Ok::<(), punctual::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn enqueue<I: Serialize + ?Sized>(&self, task: &str, input: &I) -> Enqueue {
        self.enqueue_target(Target::task(task), input)
    }

    /// Begins a job for a target of any kind, such as a command.
    ///
    /// ```
    /// # punctual::testing::block_on(async {
    /// # let test = punctual::testing::TestPunctual::new().await?;
    /// use punctual::Target;
    /// let job = test.enqueue_target(Target::command(["backup.sh", "--all"]), &()).send().await?;
    /// # drop(job);
    /// # Ok::<(), punctual::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn enqueue_target<I: Serialize + ?Sized>(&self, target: Target, input: &I) -> Enqueue {
        Enqueue::new(self.clone(), target, input)
    }

    /// Begins a batch with one job of a task for each input. All are made, or none.
    ///
    /// ```
    /// # punctual::testing::block_on(async {
    /// # let test = punctual::testing::TestPunctual::new().await?;
    /// let jobs = test.enqueue_many("digest", [1, 2, 3]).send().await?;
    /// assert_eq!(jobs.len(), 3);
    /// # Ok::<(), punctual::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn enqueue_many<I: Serialize>(&self, task: &str, inputs: impl IntoIterator<Item = I>) -> Batch {
        inputs.into_iter().fold(Batch::new(self.clone()), |batch, input| batch.with(self.enqueue(task, &input)))
    }

    /// Begins an empty batch.
    ///
    /// ```
    /// # punctual::testing::block_on(async {
    /// # let test = punctual::testing::TestPunctual::new().await?;
    /// let jobs = test.batch().with(test.enqueue("a", &1)).with(test.enqueue("b", &2).priority(9)).send().await?;
    /// assert_eq!(jobs.len(), 2);
    /// # Ok::<(), punctual::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn batch(&self) -> Batch {
        Batch::new(self.clone())
    }

    /// Takes exclusive hold of a queue: it hands out nothing until it is given back or the time is over (C11).
    ///
    /// ```
    /// # punctual::testing::block_on(async {
    /// # let test = punctual::testing::TestPunctual::new().await?;
    /// use std::time::Duration;
    /// let mut held = test.reserve("mail").expires_in(Duration::from_secs(60)).take().await?;
    /// assert!(test.reserve("mail").take().await.is_err(), "one at a time");
    /// held.renew().await?;                           // or: held.during(async { … }).await?
    /// held.release().await?;
    /// test.reserve("mail").wait(Duration::from_secs(1)).take().await?.during(async {}).await?;
    /// # Ok::<(), punctual::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn reserve(&self, queue: impl Into<String>) -> Reserve {
        Reserve::new(self.clone(), queue.into())
    }

    /// Begins a schedule that this program declares; nothing happens before it is saved.
    ///
    /// ```
    /// # punctual::testing::block_on(async {
    /// # let test = punctual::testing::TestPunctual::new().await?;
    /// test.schedule("nightly").cron("0 2 * * *")?.timezone("Europe/Berlin")?.task("report").save().await?;
    /// # Ok::<(), punctual::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn schedule(&self, name: &str) -> ScheduleBuilder {
        ScheduleBuilder::new(self.clone(), name)
    }

    /// Writes all schedules of this program at once, or none of them. [`Others::Remove`] also removes those that it
    /// declared before and does not any more: what waits of them is cancelled, and their history stays.
    ///
    /// ```
    /// # punctual::testing::block_on(async {
    /// # let test = punctual::testing::TestPunctual::new().await?;
    /// use punctual::Others;
    /// let old = test.schedule("old").cron("@daily")?.task("report");
    /// let new = test.schedule("new").cron("@hourly")?.task("report");
    /// test.declare([old], Others::Keep).await?;
    /// test.declare([new], Others::Remove).await?;
    /// assert!(test.schedule_state("old").await?.is_none());
    /// # Ok::<(), punctual::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn declare(
        &self, schedules: impl IntoIterator<Item = ScheduleBuilder>, others: Others,
    ) -> Result<Vec<Schedule>> {
        let declared = schedules.into_iter().map(ScheduleBuilder::declaration).collect::<Result<Vec<_>>>()?;
        let remove_others = others == Others::Remove;
        let declarations = Declarations { owner: self.shared.owner.clone(), schedules: declared, remove_others };
        Ok(self.shared.store.declare_schedules(declarations).await?.schedules)
    }

    /// A schedule as it stands, by its name or id.
    ///
    /// ```
    /// # punctual::testing::block_on(async {
    /// # let test = punctual::testing::TestPunctual::new().await?;
    /// assert!(test.schedule_state("nightly").await?.is_none());
    /// # Ok::<(), punctual::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn schedule_state(&self, name: &str) -> Result<Option<Schedule>> {
        Ok(self.shared.store.schedule(&ScheduleKey::from(name)).await?)
    }

    /// Limits how many jobs run at once or start in a while, on all nodes together: `all`, those of a `queue:NAME`, of
    /// a `type:NAME` such as `type:task:mail`, or with a `tag:NAME`.
    ///
    /// ```
    /// # punctual::testing::block_on(async {
    /// # let test = punctual::testing::TestPunctual::new().await?;
    /// use std::time::Duration;
    ///
    /// test.limit("tag:gpu").concurrency(2).save().await?;
    /// test.limit("queue:mail").rate(100, Duration::from_secs(60)).burst(10).save().await?;
    /// test.limit("tag:gpu").remove().await?;
    /// # Ok::<(), punctual::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn limit(&self, subject: &str) -> LimitBuilder {
        LimitBuilder::new(Arc::clone(&self.shared.store), subject)
    }

    /// A handle of a job that was made before, here or elsewhere.
    ///
    /// ```
    /// # punctual::testing::block_on(async {
    /// # let test = punctual::testing::TestPunctual::new().await?;
    /// let job = test.enqueue("digest", &7).send().await?;
    /// let later = test.handle(job.id());
    /// assert_eq!(later.view().await?.job.attempt, 1);
    /// # Ok::<(), punctual::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn handle(&self, id: JobId) -> JobHandle {
        JobHandle::new(self.clone(), id)
    }

    /// One job with everything that is known about it.
    ///
    /// ```
    /// # punctual::testing::block_on(async {
    /// # let test = punctual::testing::TestPunctual::new().await?;
    /// use punctual::JobState;
    /// let job = test.enqueue("digest", &7).send().await?;
    /// assert_eq!(test.job(job.id()).await?.state(), JobState::Queued);
    /// # Ok::<(), punctual::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn job(&self, id: JobId) -> Result<JobView> {
        self.shared.store.job(id).await?.ok_or(Error::NoSuchJob(id))
    }

    /// Stops a job: one that waits never starts, one that runs is told to stop.
    ///
    /// ```
    /// # punctual::testing::block_on(async {
    /// # let test = punctual::testing::TestPunctual::new().await?;
    /// use punctual::Cancelled;
    /// let job = test.enqueue("digest", &7).send().await?;
    /// assert_eq!(test.cancel(job.id()).await?, Cancelled::BeforeStart);
    /// # Ok::<(), punctual::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn cancel(&self, id: JobId) -> Result<Cancelled> {
        Ok(self.shared.store.cancel_job(id).await?)
    }

    /// Works until `shutdown` is done: fires schedules, runs jobs, recovers what lost nodes left. Running jobs may then
    /// finish within the grace.
    ///
    /// May be called in as many processes as there are; they are all alike.
    ///
    /// ```
    /// # punctual::testing::block_on(async {
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("app.db").display());
    /// use punctual::{Context, Punctual};
    /// let punctual = Punctual::open(&url).await?;
    /// let (done, is_done) = tokio::sync::watch::channel(false);
    /// punctual.task("last", move |_: Context, (): ()| {
    ///     let done = done.clone();
    ///     async move { Ok(done.send_replace(true)) }
    /// });
    /// punctual.enqueue("last", &()).send().await?;
    /// let mut stop = is_done.clone();
    /// punctual.run_until(async move { drop(stop.wait_for(|done| *done).await) }).await?;
    /// assert!(*is_done.borrow());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub async fn run_until(&self, shutdown: impl Future<Output = ()> + Send + 'static) -> Result<()> {
        let signals = Signals { gently: Box::pin(shutdown), now: Box::pin(std::future::pending()) };
        let tell = |event: NodeEvent| {
            if let Some(on_event) = &self.shared.on_event {
                on_event(&event);
            }
        };
        let (store, node) = (Arc::clone(&self.shared.store), self.shared.node.clone());
        Ok(node::run_until(store, self.executors(), node, signals, tell).await?)
    }

    /// Tells the workers of this process that there may be new work: after the commit of a SQLite transaction in which
    /// jobs were sent (see [`Enqueue::send_in`]). They would notice within a tenth of a second by themselves.
    /// PostgreSQL tells everybody at the commit, and this does nothing.
    pub fn wake(&self) {
        match &self.shared.backing {
            #[cfg(feature = "sqlite")]
            Backing::Sqlite(store) => store.wake(),
            #[cfg(feature = "postgres")]
            Backing::Postgres(_) => {}
        }
    }

    /// The store port, for what this handle has no words for.
    ///
    /// ```
    /// # punctual::testing::block_on(async {
    /// # let test = punctual::testing::TestPunctual::new().await?;
    /// use punctual::Store;
    /// test.store().set_queue_paused("mail", true).await?;
    /// # Ok::<(), punctual::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.shared.store)
    }

    #[cfg(any(feature = "rusqlite", feature = "tokio-postgres", feature = "sqlx-postgres"))]
    pub(crate) fn backing(&self) -> &Backing {
        &self.shared.backing
    }

    pub(crate) fn executors(&self) -> Executors {
        self.shared.executors.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// How a node of this program works.
pub struct Builder {
    url: String,
    pub(crate) store: StoreOptions,
    pub(crate) node: NodeOptions,
    executors: Executors,
    commands: bool,
    owner: Option<String>,
    on_event: Option<OnEvent>,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("node", &self.node).finish_non_exhaustive()
    }
}

impl Builder {
    /// What the node is called, for people.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.node.name = name.into();
        self
    }

    /// Whose the schedules are that this program declares. Only those of the same owner are changed or removed by it, so
    /// that two programs on one store need two.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// How many jobs run at once; 8 unless it is said.
    #[must_use]
    pub fn concurrency(mut self, jobs: usize) -> Self {
        self.node.desk = DeskOptions { room: jobs.max(1), ..self.node.desk };
        self
    }

    /// Takes jobs of these queues only; of all unless it is said.
    #[must_use]
    pub fn queues<S: Into<String>>(mut self, queues: impl IntoIterator<Item = S>) -> Self {
        self.node.desk.queues = queues.into_iter().map(Into::into).collect();
        self
    }

    /// How long running jobs may go on after the shutdown has come; 30 seconds unless it is said.
    #[must_use]
    pub fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.node.shutdown_grace = grace;
        self
    }

    /// How long a node may be silent before others take its jobs over, and how often it says that it lives; 15 seconds
    /// and one second unless it is said. The first must be at least three times the second.
    #[must_use]
    pub fn lease(mut self, lease: Duration, heartbeat: Duration) -> Self {
        (self.node.lease, self.node.heartbeat) = (lease, heartbeat);
        self
    }

    /// How often an idle node looks for work that it was not told of; twice a second unless it is said.
    #[must_use]
    pub fn poll(mut self, every: Duration) -> Self {
        self.node.poll = every;
        self
    }

    /// Lets the node run commands as well as the tasks of this program. Whoever may enqueue jobs may then run programs
    /// here, so it is not done unasked.
    #[must_use]
    pub fn run_commands(mut self) -> Self {
        self.commands = true;
        self
    }

    /// Lets the node run HTTP and SQL jobs as well, within these rules.
    ///
    /// ```
    /// # punctual::testing::block_on(async {
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("app.db").display());
    /// use punctual::calls::CallOptions;
    /// let punctual = punctual::Punctual::builder(&url).run_calls(&CallOptions::default())?.open().await?;
    /// # drop(punctual);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    #[cfg(feature = "calls")]
    pub fn run_calls(mut self, rules: &crate::calls::CallOptions) -> Result<Self> {
        self.executors = rules.executors(self.executors)?;
        Ok(self)
    }

    /// Is told what the node does, in numbers: see [`Meter`].
    #[must_use]
    pub fn meter(mut self, meter: Arc<dyn Meter>) -> Self {
        self.node.meter = meter;
        self
    }

    /// Is given the spans of the node's runs: see [`Tracer`], and the module `otlp` for a receiver of OpenTelemetry.
    #[must_use]
    pub fn tracer(mut self, tracer: Arc<dyn Tracer>) -> Self {
        self.node.tracer = tracer;
        self
    }

    /// Is told when the node is ready, draining, fenced, or has left.
    #[must_use]
    pub fn on_event(mut self, tell: impl Fn(&NodeEvent) + Send + Sync + 'static) -> Self {
        self.on_event = Some(Box::new(tell));
        self
    }

    /// The most connections to PostgreSQL, those for heartbeats and wake-ups apart; 8 unless it is said.
    #[cfg(feature = "postgres")]
    #[must_use]
    pub fn pool_size(mut self, connections: usize) -> Self {
        self.store.postgres.pool_size = connections;
        self
    }

    /// Where the database itself is, for heartbeats and wake-ups, when the address leads to a pooler such as pgbouncer.
    #[cfg(feature = "postgres")]
    #[must_use]
    pub fn direct_url(mut self, url: impl Into<String>) -> Self {
        self.store.postgres.direct_url = Some(url.into());
        self
    }

    /// Opens the store.
    pub async fn open(self) -> Result<Punctual> {
        if self.node.heartbeat.saturating_mul(3) > self.node.lease {
            return Err(punctual_core::invalid::Invalid::new("lease", "is shorter than three heartbeats")
                .remedy("make the lease longer or the heartbeat shorter")
                .into());
        }
        let backing = Backing::open(&self.url, self.store).await?;
        let (store, node, owner, on_event) = (backing.store(), self.node, self.owner, self.on_event);
        let mut executors = self.executors;
        if self.commands {
            // A node that is stopped for as long as this has given up its lease, and so must its commands.
            let options = CommandOptions { silence: node.lease * 2 / 3, ..CommandOptions::default() };
            executors = executors.with("command", Arc::new(CommandExecutor::new(options)));
        }
        let executors = Mutex::new(executors);
        Ok(Punctual { shared: Arc::new(Shared { backing, store, node, executors, owner, on_event }) })
    }
}
