//! Part D, a trivial axum + SQLite program: opens a database, binds a port, prints `ready`, exits.

use axum::{Router, routing::get};
use tokio::net::TcpListener;

const TABLE: &str = "pragma journal_mode=wal; \
    create table if not exists t(id integer primary key, v text); \
    insert into t(v) values('x')";

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let path = std::env::temp_dir().join("perf-cold.db");
    let database = rusqlite::Connection::open(path).unwrap();
    database.execute_batch(TABLE).unwrap();
    let app: Router = Router::new().route("/", get(|| async { "ok" }));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = tokio::spawn(async move { axum::serve(listener, app).await });
    tokio::task::yield_now().await;
    println!("ready");
    server.abort();
}
