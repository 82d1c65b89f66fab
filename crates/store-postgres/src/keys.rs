//! Job keys and chains of retries; the rule about keys is in the database, where callers of any language find it.

use crate::PostgresStore;
use crate::error::Work;
use crate::join;
use crate::params::params;
use crate::rows::{self, Columns};
use crate::tx::Tx;
use crate::wake::Wakes;
use async_trait::async_trait;
use punctual_core::chain::Chains;
use punctual_core::id::JobId;
use punctual_core::job::{Job, JobView, NewJob};
use punctual_core::store::{Changes, StoreResult};
use punctual_core::unique::Enqueued;

impl Tx<'_> {
    /// Makes jobs some of which have keys, by the database's own function. The caller tells idle nodes.
    pub(crate) async fn enqueue_with_keys(&mut self, specs: &[NewJob]) -> Work<Vec<Enqueued>> {
        let document = join::document(specs)?;
        let call = "SELECT job_id, is_new FROM punctual_internal.enqueue_once($1::text::json, $2, false)";
        self.all(call, params![document, self.at()], |row| {
            let mut c = Columns::of(row);
            Ok(Enqueued { id: c.id()?, is_new: c.next()? })
        })
        .await
    }

    /// The job that takes another's place holds its key.
    pub(crate) async fn hand_key_on(&self, old: &Job, new: JobId) -> Work<()> {
        if old.spec.job_key.is_some() {
            let hand_on = "UPDATE punctual_internal.job_keys SET job_id = $2 WHERE job_id = $1";
            self.execute(hand_on, params![old.id.0, new.0]).await?;
        }
        let hand_on = "UPDATE punctual_internal.unique_keys SET job_id = $2 WHERE job_id = $1";
        self.execute(hand_on, params![old.id.0, new.0]).await?;
        Ok(())
    }
}

#[async_trait]
impl Chains for PostgresStore {
    async fn chain_end(&self, id: JobId) -> StoreResult<Option<JobView>> {
        let session = self.shared.session().await?;
        let find = "SELECT punctual_internal.chain_end($1)";
        let found = session.rows(find, &params![id.0]).await.map_err(|error| crate::error::store_error(&error))?;
        let last = rows::collect(&found, |row| Columns::of(row).id())?.pop().unwrap_or(id);
        Ok(crate::jobs::read_view(&session, last).await?)
    }

    fn ends(&self) -> Box<dyn Changes> {
        Box::new(Wakes(self.shared.ended.subscribe()))
    }
}
