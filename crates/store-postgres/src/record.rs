//! A record within a row: columns that only some rows have, as one that the others leave empty.

use std::error::Error;
use tokio_postgres::types::{FromSql, Type};

type Unread = Box<dyn Error + Sync + Send>;

/// The columns of a record, each with its own type, as the server sends them.
pub(crate) struct Record<'a>(Vec<(Type, Option<&'a [u8]>)>);

impl<'a> Record<'a> {
    /// One of its columns.
    pub(crate) fn get<T: FromSql<'a>>(&self, at: usize) -> Result<T, Unread> {
        let (kind, value) = self.0.get(at).ok_or("it has fewer columns")?;
        if T::accepts(kind) { T::from_sql_nullable(kind, *value) } else { Err(format!("it is {kind}").into()) }
    }
}

impl<'a> FromSql<'a> for Record<'a> {
    /// The number of columns; then of each its type, its length or -1 for null, and its value.
    fn from_sql(_: &Type, mut raw: &'a [u8]) -> Result<Self, Unread> {
        let count = take_number(&mut raw)?;
        let columns = (0..count).map(|_| {
            let number = take_number(&mut raw)?.cast_unsigned();
            let kind = Type::from_oid(number).ok_or_else(|| format!("its type {number} is unknown"))?;
            let value = match usize::try_from(take_number(&mut raw)?) {
                Ok(length) => Some(take(&mut raw, length)?),
                Err(_) => None,
            };
            Ok((kind, value))
        });
        columns.collect::<Result<_, Unread>>().map(Self)
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::RECORD
    }
}

fn take<'a>(raw: &mut &'a [u8], length: usize) -> Result<&'a [u8], Unread> {
    let (taken, rest) = raw.split_at_checked(length).ok_or("it ends too early")?;
    *raw = rest;
    Ok(taken)
}

fn take_number(raw: &mut &[u8]) -> Result<i32, Unread> {
    Ok(i32::from_be_bytes(take(raw, 4)?.try_into()?))
}

#[cfg(test)]
mod tests {
    use super::Record;
    use tokio_postgres::types::{FromSql, Type};

    fn sent(columns: &[(u32, Option<&[u8]>)]) -> Vec<u8> {
        let mut raw = i32::try_from(columns.len()).unwrap().to_be_bytes().to_vec();
        for (kind, value) in columns {
            raw.extend(kind.to_be_bytes());
            raw.extend(value.map_or(-1, |value| i32::try_from(value.len()).unwrap()).to_be_bytes());
            raw.extend(value.unwrap_or_default());
        }
        raw
    }

    #[test]
    fn columns_are_read_by_their_own_types() {
        let raw = sent(&[(23, Some(&7_i32.to_be_bytes())), (25, None), (25, Some(b"word"))]);
        let record = Record::from_sql(&Type::RECORD, &raw).unwrap();
        assert_eq!(record.get::<i32>(0).unwrap(), 7);
        assert_eq!(record.get::<Option<&str>>(1).unwrap(), None);
        assert_eq!(record.get::<&str>(2).unwrap(), "word");
        assert!(record.get::<&str>(0).is_err(), "a number is no word");
        assert!(record.get::<&str>(1).is_err(), "and nothing is none, either");
        assert!(record.get::<i32>(3).is_err(), "there is no fourth");
    }

    #[test]
    fn what_is_cut_or_of_a_type_that_nobody_knows_is_no_record() {
        let raw = sent(&[(25, Some(b"word"))]);
        assert!(Record::from_sql(&Type::RECORD, &raw).is_ok());
        for end in 0..raw.len() {
            assert!(Record::from_sql(&Type::RECORD, &raw[..end]).is_err(), "cut at {end}");
        }
        assert!(Record::from_sql(&Type::RECORD, &sent(&[(4_000_000_000, None)])).is_err());
    }
}
