//! Part C, the gateway limit: forwards JSON-RPC over HTTP and reads only the envelope.
//!
//! `rawgw PORT UPSTREAM_HOST:PORT`; each client connection has one upstream connection of its own.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, client, server};
use hyper_util::rt::TokioIo;
use perf::Envelope;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

type Sender = client::conn::http1::SendRequest<Full<Bytes>>;

async fn serve(stream: TcpStream, upstream: String) {
    let upstream_stream = TcpStream::connect(&upstream).await.unwrap();
    upstream_stream.set_nodelay(true).ok();
    let handshake = client::conn::http1::handshake(TokioIo::new(upstream_stream));
    let (sender, connection) = handshake.await.unwrap();
    tokio::spawn(async move {
        let _ = connection.await;
    });
    let sender = Arc::new(Mutex::new(sender));
    let service = service_fn(|request| forward(request, sender.clone(), upstream.clone()));
    let server = server::conn::http1::Builder::new();
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

async fn forward(
    request: Request<Incoming>,
    sender: Arc<Mutex<Sender>>,
    upstream: String,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let (mut parts, body) = request.into_parts();
    let bytes = body.collect().await?.to_bytes();
    // The least any gateway must do: know which method and which tool is meant.
    let _ = serde_json::from_slice::<Envelope>(&bytes).is_ok_and(|call| call.params.is_some());
    parts.headers.insert("host", upstream.parse().unwrap());
    parts.headers.remove("content-length");
    let mut sender = sender.lock().await;
    sender.ready().await?;
    let response = sender.send_request(Request::from_parts(parts, Full::new(bytes))).await?;
    let (mut parts, body) = response.into_parts();
    let bytes: Bytes = body.collect().await?.to_bytes();
    parts.headers.remove("content-length");
    parts.headers.remove("transfer-encoding");
    Ok(Response::from_parts(parts, Full::new(bytes)))
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let args: Vec<String> = std::env::args().collect();
    let listener = TcpListener::bind(format!("127.0.0.1:{}", args[1])).await.unwrap();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).ok();
        tokio::spawn(serve(stream, args[2].clone()));
    }
}
