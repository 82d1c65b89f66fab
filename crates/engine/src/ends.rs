//! Runs that have ended and are not reported, and how many of them go into one report.

use punctual_core::id::JobId;
use punctual_core::json::Json;
use punctual_core::store::FinishedRun;

/// What one report holds has about so many bytes at most, and one end more: a server closes the connection on a message
/// that is too large for it, and would do so each time that it is sent again.
const REPORT_BYTES: usize = 16 << 20;

/// In the order in which they are to be reported.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    runs: Vec<FinishedRun>,
    /// How large they are together.
    bytes: usize,
}

/// How many bytes an end has that may be many.
fn size(end: &FinishedRun) -> usize {
    let documents = [&end.output, &end.usage].into_iter().flatten().map(Json::as_str).map(str::len);
    documents.chain(end.error.as_ref().map(String::len)).sum()
}

impl Ends {
    pub(crate) fn push(&mut self, end: FinishedRun) {
        self.bytes += size(&end);
        self.runs.push(end);
    }

    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = JobId> + '_ {
        self.runs.iter().map(|end| end.job_id)
    }

    /// How many go into one report of so many at most: fewer where they are large.
    pub(crate) fn reportable(&self, most: usize) -> usize {
        // Almost always. While thousands end in a moment, nobody should look at each of them.
        if self.bytes < REPORT_BYTES {
            return self.runs.len().min(most);
        }
        let mut bytes = 0;
        let fits = |end: &&FinishedRun| {
            let before = bytes;
            bytes += size(end);
            before < REPORT_BYTES
        };
        self.runs.iter().take(most).take_while(fits).count()
    }

    /// Takes the first of them, as many as go into one report of so many at most.
    pub(crate) fn take(&mut self, most: usize) -> Vec<FinishedRun> {
        let later = self.runs.split_off(self.reportable(most));
        self.bytes = later.iter().map(size).sum();
        std::mem::replace(&mut self.runs, later)
    }

    /// Those that could not be reported are the first of the next ones.
    pub(crate) fn put_back(&mut self, first: Vec<FinishedRun>) {
        let later = std::mem::replace(&mut self.runs, first);
        self.runs.extend(later);
        self.bytes = self.runs.iter().map(size).sum();
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

impl Extend<FinishedRun> for Ends {
    fn extend<T: IntoIterator<Item = FinishedRun>>(&mut self, ends: T) {
        ends.into_iter().for_each(|end| self.push(end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn a_report_is_no_larger_than_a_server_takes_however_large_each_end_is() {
        let output = Json::from_output(&"x".repeat(1 << 20)).unwrap();
        let large =
            |n| FinishedRun { output: Some(output.clone()), ..FinishedRun::completed(JobId(Uuid::from_u128(n))) };
        let mut ends = Ends::default();
        ends.extend((0..40).map(large));
        assert_eq!((ends.reportable(4000), ends.reportable(3)), (16, 3));
        let first = ends.take(usize::MAX);
        assert_eq!(ends.reportable(4000), 16);
        ends.put_back(first);
        let mut taken = Vec::new();
        while !ends.is_empty() {
            taken.push(ends.take(usize::MAX).len());
        }
        assert_eq!(taken, [16, 16, 8]);
        ends.extend((0..40).map(|n| FinishedRun::completed(JobId(Uuid::from_u128(n)))));
        assert_eq!(ends.take(usize::MAX).len(), 40, "small ones go together, whatever was there before");
    }
}
