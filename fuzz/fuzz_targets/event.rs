//! Arbitrary bytes as a record of each stream: what can be read is written and read back the same.

#![no_main]

use std::fmt::Debug;

use libfuzzer_sys::fuzz_target;
use serde::de::DeserializeOwned;
use toolgate_kernel::event::{Event, InboxEvent, ProjectEvent, Record, Written};

fuzz_target!(|data: &[u8]| {
    round_trip::<Event>(data);
    round_trip::<ProjectEvent>(data);
    round_trip::<InboxEvent>(data);
});

fn round_trip<E>(data: &[u8])
where
    E: Written + PartialEq + Debug + DeserializeOwned,
{
    let Ok(record) = Record::<E>::decode(data) else { return };
    let bytes = record.encode().expect("its author was checked when it was read");
    let again = Record::<E>::decode(&bytes).expect("what we wrote can be read");
    assert_eq!(record, again, "{}", String::from_utf8_lossy(&bytes));
    assert_eq!(bytes, serde_json::to_vec(&record).unwrap(), "as serde writes it");
    assert_eq!(bytes, again.encode().unwrap());
}
