//! Decides how places and epochs are stored: SQLite counts to 2^63, and never below zero here.

use rusqlite::{Error, Result, Row};

/// A count from a row; one below zero is damage.
pub(super) fn count(row: &Row<'_>, column: usize) -> Result<u64> {
    let found: i64 = row.get(column)?;
    u64::try_from(found).map_err(|_| Error::IntegralValueOutOfRange(column, found))
}

/// A count for a row; one that SQLite cannot hold is refused by it as the content's fault.
pub(super) fn stored(count: u64) -> Result<i64> {
    i64::try_from(count).map_err(|error| Error::ToSqlConversionFailure(error.into()))
}
