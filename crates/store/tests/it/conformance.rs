//! What every store must do, run against each of them.

use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::StreamId;
use toolgate_runtime::log::Tip;
use toolgate_runtime::port::{Append, Batch, Checkpoint, Lying, Rows, Store, StoreFault};

use crate::support::{Author, inbox, only, session, texts};

/// Makes one test per store of every promise.
macro_rules! promises {
    ($($promise:ident),* $(,)?) => {
        mod memory {
            use crate::support::block_on;
            $(#[test]
            fn $promise() {
                block_on(super::$promise(&toolgate_runtime::MemoryStore::new()));
            })*
        }

        mod sqlite {
            use crate::support::{block_on, open};
            $(#[test]
            fn $promise() {
                let folder = tempfile::tempdir().unwrap();
                block_on(super::$promise(&open(folder.path())));
            })*
        }
    };
}

promises!(
    an_empty_stream_has_nothing,
    what_was_appended_is_read_in_order,
    reading_goes_page_by_page,
    an_append_is_all_or_nothing,
    who_is_late_is_told_where_the_stream_ends,
    a_second_claim_fences_the_first,
    a_claim_is_no_record,
    what_would_break_a_stream_is_refused,
    whoever_was_fenced_claims_nothing_again,
    heads_are_the_newest_ones,
    an_append_without_records_only_signs,
    a_record_knows_where_the_project_ended,
    blobs_come_back_by_their_hash,
    a_refused_append_keeps_no_blobs,
    a_checkpoint_replaces_the_one_before,
);

async fn an_empty_stream_has_nothing(store: &dyn Store) {
    let stream = session("s1");
    assert_eq!(store.read(&stream, 1, 10).await, Ok(vec![]));
    assert_eq!(store.read(&stream, u64::MAX, 10).await, Ok(vec![]));
    assert_eq!(store.heads().await, Ok(vec![]));
    assert_eq!(store.blob(Digest::of(b"x")).await, Ok(None));
    assert_eq!(store.checkpoint(&stream).await, Ok(None));
    assert_eq!(store.append(Append::default()).await, Ok(()));
}

async fn what_was_appended_is_read_in_order(store: &dyn Store) {
    let mut project = Author::new(StreamId::Project, None);
    let mut said = Author::new(inbox("s1"), None);
    let first = project.batch(&["one", "two"]);
    store.append(only(first.clone())).await.unwrap();
    said.write(store, &["hello"]).await.unwrap();
    let second = project.batch(&["three"]);
    store.append(only(second.clone())).await.unwrap();
    let rows = store.read(&StreamId::Project, 1, 10).await.unwrap();
    let written = first.rows.iter().chain(second.rows.iter()).map(Lying::to_row);
    assert_eq!(rows, written.collect::<Vec<_>>());
    assert_eq!(texts(store, &said.stream).await, ["hello"]);
    // A session and its inbox are two streams.
    assert_eq!(texts(store, &session("s1")).await, [""; 0]);
}

async fn reading_goes_page_by_page(store: &dyn Store) {
    let mut author = Author::new(StreamId::Project, None);
    author.write(store, &["1", "2", "3", "4", "5"]).await.unwrap();
    let page = async |from, rows_max| {
        let rows = store.read(&StreamId::Project, from, rows_max).await.unwrap();
        rows.iter().map(|row| row.seq).collect::<Vec<_>>()
    };
    assert_eq!(page(1, 2).await, [1, 2]);
    assert_eq!(page(3, 2).await, [3, 4]);
    assert_eq!(page(5, 2).await, [5]);
    assert_eq!(page(6, 2).await, [0; 0]);
    assert_eq!(page(0, 1).await, [1]);
    assert_eq!(page(1, 0).await, [0; 0]);
}

async fn an_append_is_all_or_nothing(store: &dyn Store) {
    let epoch = store.claim(&session("s1")).await.unwrap();
    let mut own = Author::new(session("s1"), Some(epoch));
    let mut project = Author::new(StreamId::Project, None);
    let mut stranger = project.clone();
    stranger.write(store, &["first"]).await.unwrap();

    let (before, batches) = (own.clone(), vec![own.batch(&["a"]), project.batch(&["b"])]);
    let late = store.append(Append { batches, blobs: vec![] }).await;
    assert_eq!(late, Err(StoreFault::Moved { stream: StreamId::Project, found: 1 }));
    assert_eq!(texts(store, &session("s1")).await, [""; 0]);
    assert_eq!(store.heads().await, Ok(vec![stranger.head()]));

    own = before;
    let batches = vec![own.batch(&["a"]), stranger.batch(&["b"])];
    store.append(Append { batches, blobs: vec![] }).await.unwrap();
    assert_eq!(texts(store, &session("s1")).await, ["a"]);
    assert_eq!(texts(store, &StreamId::Project).await, ["first", "b"]);
}

async fn who_is_late_is_told_where_the_stream_ends(store: &dyn Store) {
    let mut quick = Author::new(inbox("s1"), None);
    let mut late = quick.clone();
    quick.write(store, &["1", "2"]).await.unwrap();
    let moved = Err(StoreFault::Moved { stream: inbox("s1"), found: 2 });
    assert_eq!(late.write(store, &["x"]).await, moved);
    late.follow(store).await;
    late.write(store, &["3"]).await.unwrap();
    assert_eq!(texts(store, &inbox("s1")).await, ["1", "2", "3"]);
    // Nor can anybody leave a gap.
    let mut ahead = late.clone();
    ahead.batch(&["4"]);
    let moved = Err(StoreFault::Moved { stream: inbox("s1"), found: 3 });
    assert_eq!(ahead.write(store, &["5"]).await, moved);
}

async fn a_second_claim_fences_the_first(store: &dyn Store) {
    let stream = session("s1");
    let mut first = Author::new(stream.clone(), Some(store.claim(&stream).await.unwrap()));
    first.write(store, &["a"]).await.unwrap();
    let mut second = Author::new(stream.clone(), Some(store.claim(&stream).await.unwrap()));
    assert!(second.epoch > first.epoch);
    // The old driver is fenced, also where it would have been late anyway.
    let fenced = Err(StoreFault::Fenced { stream: stream.clone() });
    assert_eq!(first.write(store, &["b"]).await, fenced);
    second.follow(store).await;
    second.write(store, &["c"]).await.unwrap();
    assert_eq!(first.write(store, &["b"]).await, fenced);
    assert_eq!(texts(store, &stream).await, ["a", "c"]);
    // Whoever never claimed drives nothing.
    let mut nobody = Author::new(session("s2"), Some(1));
    let fenced = Err(StoreFault::Fenced { stream: session("s2") });
    assert_eq!(nobody.write(store, &["x"]).await, fenced);
}

async fn whoever_was_fenced_claims_nothing_again(store: &dyn Store) {
    let stream = session("s1");
    let fenced = Err(StoreFault::Fenced { stream: stream.clone() });
    let first = store.claim(&stream).await.unwrap();
    let again = store.claim_again(&stream, first).await.unwrap();
    assert!(again > first, "what the first one has under way is fenced too");
    assert_eq!(store.claim_again(&stream, first).await, fenced);
    let second = store.claim(&stream).await.unwrap();
    assert_eq!(store.claim_again(&stream, again).await, fenced);
    assert_eq!(store.claim_again(&stream, second).await, Ok(second + 1), "nothing was changed");
}

async fn a_claim_is_no_record(store: &dyn Store) {
    assert_eq!(store.claim(&session("s1")).await, Ok(1));
    assert_eq!(store.claim(&session("s1")).await, Ok(2));
    assert_eq!(store.claim(&session("s2")).await, Ok(1));
    assert_eq!(store.heads().await, Ok(vec![]));
    assert_eq!(texts(store, &session("s1")).await, [""; 0]);
}

async fn what_would_break_a_stream_is_refused(store: &dyn Store) {
    let author = Author::new(StreamId::Project, None);
    let sound = author.clone().batch(&["a", "b"]);
    let broken = |breaks: fn(&mut Batch)| {
        let mut batch = sound.clone();
        breaks(&mut batch);
        only(batch)
    };
    let twice = Append { batches: vec![sound.clone(), sound.clone()], blobs: vec![] };
    let all = [
        broken(|batch| batch.rows = batch.rows.iter().skip(1).map(Lying::to_row).collect()),
        broken(|batch| batch.rows = batch.rows.iter().take(1).map(Lying::to_row).collect()),
        broken(|batch| batch.rows = Rows::default()),
        broken(|batch| batch.head.seq = 3),
        broken(|batch| batch.head.link = Digest::ZERO),
        twice,
    ];
    for append in all {
        assert!(matches!(store.append(append).await, Err(StoreFault::Unavailable(_))));
    }
    assert_eq!(store.heads().await, Ok(vec![]));
    store.append(only(sound)).await.unwrap();
}

async fn heads_are_the_newest_ones(store: &dyn Store) {
    let streams = [inbox("s1"), session("s2"), StreamId::Project, session("s1")];
    let mut authors = streams.map(|stream| Author::new(stream, None));
    for author in &mut authors {
        author.write(store, &["a", "b"]).await.unwrap();
        author.write(store, &["c"]).await.unwrap();
    }
    let heads = store.heads().await.unwrap();
    let [said, second, project, first] = authors.map(|author| author.head());
    assert_eq!(heads, [project, first, second, said]);
    assert!(heads.iter().all(|head| head.seq == 3));
}

async fn an_append_without_records_only_signs(store: &dyn Store) {
    let mut author = Author::new(StreamId::Project, None);
    author.write(store, &["a"]).await.unwrap();
    author.write(store, &[]).await.unwrap();
    assert_eq!(store.heads().await, Ok(vec![author.head()]));
    assert_eq!(texts(store, &StreamId::Project).await, ["a"]);
    let (mut said, long) = (Author::new(inbox("s1"), None), "b".repeat(20_000));
    said.write(store, &[&long]).await.unwrap();
    said.write(store, &[]).await.unwrap();
    assert_eq!(texts(store, &said.stream).await, [long.as_str()]);
    said.write(store, &["c"]).await.unwrap();
    assert_eq!(texts(store, &said.stream).await, [long.as_str(), "c"]);
}

async fn a_record_knows_where_the_project_ended(store: &dyn Store) {
    let mut project = Author::new(StreamId::Project, None);
    let mut said = Author::new(inbox("s1"), None);
    said.write(store, &["before"]).await.unwrap();
    project.write(store, &["a", "b"]).await.unwrap();
    said.write(store, &["one", "two"]).await.unwrap();
    project.write(store, &["c"]).await.unwrap();
    said.write(store, &["three"]).await.unwrap();
    let ends = async |seq| store.project_end_at(&said.stream, seq).await.unwrap();
    let mut found = Vec::new();
    for seq in 1..=5 {
        found.push(ends(seq).await);
    }
    assert_eq!(found, [Some(0), Some(2), Some(2), Some(3), None]);
    assert_eq!(store.project_end_at(&session("other"), 1).await, Ok(None));
    // A batch without records says where its stream must end.
    let stale = Author { tip: Tip { seq: 2, hash: Digest::ZERO }, ..project.clone() }.batch(&[]);
    let append = Append { batches: vec![said.clone().batch(&["late"]), stale], blobs: vec![] };
    let moved = StoreFault::Moved { stream: StreamId::Project, found: 3 };
    assert_eq!(store.append(append).await, Err(moved));
    let append = Append { batches: vec![said.batch(&["now"]), project.batch(&[])], blobs: vec![] };
    assert_eq!(store.append(append).await, Ok(()));
    assert_eq!(store.project_end_at(&said.stream, 5).await, Ok(Some(3)));
}

async fn blobs_come_back_by_their_hash(store: &dyn Store) {
    let contents = [b"".to_vec(), b"short".to_vec(), vec![9; 1 << 20]];
    let blobs: Vec<_> = contents.iter().map(|c| (Digest::of(c), c.clone())).collect();
    for _ in 0..2 {
        let append = Append { batches: vec![], blobs: blobs.clone() };
        store.append(append).await.unwrap();
    }
    for (hash, content) in blobs {
        assert_eq!(store.blob(hash).await, Ok(Some(content)));
    }
    assert_eq!(store.blob(Digest::of(b"other")).await, Ok(None));
}

async fn a_refused_append_keeps_no_blobs(store: &dyn Store) {
    let mut author = Author::new(session("s1"), Some(7));
    let (hash, batch) = (Digest::of(b"x"), author.batch(&["a"]));
    let append = Append { batches: vec![batch], blobs: vec![(hash, b"x".to_vec())] };
    assert!(store.append(append).await.is_err());
    assert_eq!(store.blob(hash).await, Ok(None));
}

async fn a_checkpoint_replaces_the_one_before(store: &dyn Store) {
    let checkpoint = |stream: StreamId, seq: u64, body: &[u8]| {
        let hash = Digest::of(body);
        Checkpoint { stream, seq, hash, body: body.to_vec() }
    };
    let (old, new) = (checkpoint(session("s1"), 3, b"old"), checkpoint(session("s1"), 9, b"new"));
    let other = checkpoint(StreamId::Project, 1, &[0; 100_000]);
    for stream in [session("s1"), StreamId::Project] {
        Author::new(stream, None).write(store, &["a"]).await.unwrap();
    }
    for saved in [&old, &other, &new] {
        store.save_checkpoint(saved.clone()).await.unwrap();
    }
    assert_eq!(store.checkpoint(&session("s1")).await, Ok(Some(new)));
    assert_eq!(store.checkpoint(&StreamId::Project).await, Ok(Some(other)));
    assert_eq!(store.checkpoint(&inbox("s1")).await, Ok(None));
}
