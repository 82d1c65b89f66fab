//! Steering schedules by hand, on both sides.

use super::drive::{Agreement, Drive, at, picked};
use crate::model;
use punctual_core::schedule::ByHand;

impl Drive {
    pub(super) async fn pause(&mut self, pick: usize) -> Agreement {
        let Some(index) = picked(&self.living(), pick) else { return Ok(()) };
        let result = self.world.store().pause_schedule(self.schedules[index], None, None).await;
        if self.heard(result)?.is_some() {
            self.model.pause_schedule(index);
        }
        Ok(())
    }

    pub(super) async fn resume(&mut self, pick: usize) -> Agreement {
        let Some(index) = picked(&self.living(), pick) else { return Ok(()) };
        let result = self.world.store().resume_schedule(self.schedules[index]).await;
        if self.heard(result)?.is_some() {
            self.model.resume_schedule(index);
        }
        Ok(())
    }

    pub(super) async fn reschedule(&mut self, pick: usize, seconds: i64) -> Agreement {
        let Some(index) = picked(&self.living(), pick) else { return Ok(()) };
        let to = self.model.now + seconds * model::SECOND;
        let result = self.world.store().reschedule(self.schedules[index], at(to)).await;
        let mut moved = self.model.clone();
        match (result, moved.reschedule(index, to)) {
            (Ok(_), true) => {
                self.model = moved;
                Ok(())
            }
            (Err(_), true) if self.refusing => Ok(()),
            (Err(_), false) => Ok(()),
            (result, moved) => Err(format!("reschedule: the model says {moved}, the store {result:?}")),
        }
    }

    pub(super) async fn skip_next(&mut self, pick: usize) -> Agreement {
        let Some(index) = picked(&self.living(), pick) else { return Ok(()) };
        let result = self.world.store().skip_next(self.schedules[index], None).await;
        let mut skipped = self.model.clone();
        match (result, skipped.skip_next(index)) {
            (Ok(_), true) => {
                self.model = skipped;
                Ok(())
            }
            (Err(_), true) if self.refusing => Ok(()),
            (Err(_), false) => Ok(()),
            (result, skipped) => Err(format!("skip next: the model says {skipped}, the store {result:?}")),
        }
    }

    pub(super) async fn trigger(&mut self, pick: usize) -> Agreement {
        let Some(index) = picked(&self.living(), pick) else { return Ok(()) };
        let result = self.world.store().trigger_schedule(self.schedules[index], ByHand::default()).await;
        if let Some(id) = self.heard(result)? {
            self.model.trigger_schedule(index, &self.schedules[index].to_string());
            self.jobs.push(id);
        }
        Ok(())
    }

    pub(super) async fn delete(&mut self, pick: usize) -> Agreement {
        let Some(index) = picked(&self.living(), pick) else { return Ok(()) };
        let result = self.world.store().delete_schedule(self.schedules[index]).await;
        if self.heard(result)?.is_some() {
            self.model.delete_schedule(index);
        }
        Ok(())
    }

    pub(super) async fn pause_until(&mut self, pick: usize, seconds: i64) -> Agreement {
        let Some(index) = picked(&self.living(), pick) else { return Ok(()) };
        let until = self.model.now + seconds * model::SECOND;
        let result = self.world.store().pause_schedule_until(self.schedules[index], at(until), None, None).await;
        let mut paused = self.model.clone();
        match (result, paused.pause_schedule_until(index, until)) {
            (Ok(_), true) => {
                self.model = paused;
                Ok(())
            }
            (Err(_), true) if self.refusing => Ok(()),
            (Err(_), false) => Ok(()),
            (result, paused) => Err(format!("pause until: the model says {paused}, the store {result:?}")),
        }
    }
}
