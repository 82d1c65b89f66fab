//! What goes into a statement: values that carry their SQL type, so that no statement has to be prepared to learn it.

use jiff::Timestamp;
use std::time::{Duration, SystemTime};
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

/// The parameters of one statement.
#[derive(Debug, Default)]
pub(crate) struct Params<'a>(Vec<(Box<dyn ToSql + Sync + Send + 'a>, Type)>);

impl<'a> Params<'a> {
    pub(crate) fn with(mut self, value: impl Param + 'a) -> Self {
        let kind = value.kind();
        self.0.push((Box::new(value), kind));
        self
    }

    pub(crate) fn types(&self) -> Vec<Type> {
        self.0.iter().map(|(_, kind)| kind.clone()).collect()
    }

    pub(crate) fn values(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.0.iter().map(|(value, _)| value.as_ref() as &(dyn ToSql + Sync)).collect()
    }

    pub(crate) fn typed(&self) -> Vec<(&(dyn ToSql + Sync), Type)> {
        self.0.iter().map(|(value, kind)| (value.as_ref() as &(dyn ToSql + Sync), kind.clone())).collect()
    }
}

/// Collects parameters in the order of a statement.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        $crate::params::Params::default()$(.with($value))*
    };
}
pub(crate) use params;

/// A value that knows its SQL type.
pub(crate) trait Param: ToSql + Sync + Send {
    fn kind(&self) -> Type;
}

/// A value that is not a list.
pub(crate) trait Scalar: ToSql + Sync + Send {
    const KIND: Type;
    const LIST: Type;
}

macro_rules! scalars {
    ($($rust:ty => $kind:ident, $list:ident;)+) => { $(
        impl Scalar for $rust {
            const KIND: Type = Type::$kind;
            const LIST: Type = Type::$list;
        }
    )+ };
}

scalars! {
    bool => BOOL, BOOL_ARRAY;
    i32 => INT4, INT4_ARRAY;
    i64 => INT8, INT8_ARRAY;
    &str => TEXT, TEXT_ARRAY;
    String => TEXT, TEXT_ARRAY;
    &[u8] => BYTEA, BYTEA_ARRAY;
    Uuid => UUID, UUID_ARRAY;
    SystemTime => TIMESTAMPTZ, TIMESTAMPTZ_ARRAY;
}

impl<T: Scalar> Param for T {
    fn kind(&self) -> Type {
        T::KIND
    }
}

impl<T: Scalar> Param for Option<T> {
    fn kind(&self) -> Type {
        T::KIND
    }
}

impl<T: Scalar> Param for Vec<T> {
    fn kind(&self) -> Type {
        T::LIST
    }
}

impl<T: Scalar> Param for Vec<Option<T>> {
    fn kind(&self) -> Type {
        T::LIST
    }
}

impl<T: Scalar> Param for Option<Vec<T>> {
    fn kind(&self) -> Type {
        T::LIST
    }
}

/// An instant as it is stored: whole microseconds, none before the first that PostgreSQL knows.
pub(crate) fn time(at: Timestamp) -> SystemTime {
    let micros = at.as_microsecond().max(punctual_core::transfer::FIRST_MICROS);
    let span = Duration::from_micros(micros.unsigned_abs());
    if micros < 0 { SystemTime::UNIX_EPOCH - span } else { SystemTime::UNIX_EPOCH + span }
}

/// A limit as it is sent.
pub(crate) fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d05_times_before_the_first_of_postgresql_become_it() {
        let first = time(Timestamp::MIN);
        assert!(first < time(Timestamp::UNIX_EPOCH));
        assert_eq!(first, time("-009999-06-01T00:00:00Z".parse().unwrap()));
        let finer = Timestamp::from_nanosecond(1_999).unwrap();
        assert_eq!(time(finer), SystemTime::UNIX_EPOCH + Duration::from_micros(1));
    }
}
