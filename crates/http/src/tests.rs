//! What holds of the transport, against servers on this computer that misbehave.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustls::pki_types::{PrivateKeyDer, pem::PemObject};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// What a server does with the connections it gets, one after the other.
type Deed = fn(TcpStream, usize) -> futures_util::future::BoxFuture<'static, ()>;

/// A server, and how many connections and requests it had.
struct Staged {
    port: u16,
    connections: Arc<AtomicUsize>,
}

async fn stage(deed: Deed) -> Staged {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let number = counted.fetch_add(1, Ordering::SeqCst) + 1;
            tokio::spawn(deed(stream, number));
        }
    });
    Staged { port, connections }
}

/// Reads one request to the end of its body; `false` when the client went away.
async fn request(stream: &mut TcpStream) -> bool {
    let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&all).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.unwrap_or("0").parse().unwrap() {
                return true;
            }
        }
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return false,
            Ok(count) => all.extend_from_slice(&buffer[..count]),
        }
    }
}

async fn say(stream: &mut TcpStream, text: &str) {
    let _ = stream.write_all(text.as_bytes()).await;
    let _ = stream.flush().await;
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

fn quick() -> Patience {
    Patience { connect_ms_max: 2_000, request_ms_max: Some(10_000), ..Patience::default() }
}

fn server(base: &str, roots: Roots) -> Arc<Server> {
    Transport::new(roots).server(parse(base, Plain::Private).unwrap().0)
}

fn here(staged: &Staged) -> Arc<Server> {
    server(&format!("http://127.0.0.1:{}", staged.port), Roots::default())
}

async fn ask(server: &Arc<Server>, patience: &Patience) -> Result<Answer, HttpFault> {
    let uri = Uri::from_static("/v1/x");
    let mut headers = HeaderMap::new();
    headers.insert("host", "localhost".parse().unwrap());
    let deadline = after(tokio::time::Instant::now(), 20_000);
    let asking = Asking { uri: &uri, headers: &headers, body: Bytes::from("{}"), deadline };
    server.send(&asking, patience).await
}

async fn whole(server: &Arc<Server>, patience: &Patience) -> Result<String, HttpFault> {
    let bytes = ask(server, patience).await?.whole().await?;
    Ok(String::from_utf8(bytes.to_vec()).unwrap())
}

#[tokio::test]
async fn one_connection_serves_many_requests() {
    let staged = stage(|mut stream, _| {
        Box::pin(async move {
            while request(&mut stream).await {
                say(&mut stream, OK).await;
            }
        })
    })
    .await;
    let server = here(&staged);
    for _ in 0..5 {
        assert_eq!(whole(&server, &quick()).await.as_deref(), Ok("ok"));
    }
    assert_eq!(staged.connections.load(Ordering::SeqCst), 1);
    // Those who ask at the same time get one each, and all are kept.
    let both = futures_util::future::join(ask(&server, &quick()), ask(&server, &quick())).await;
    drop((both.0.unwrap().whole().await.unwrap(), both.1.unwrap().whole().await.unwrap()));
    for _ in 0..3 {
        whole(&server, &quick()).await.unwrap();
    }
    assert_eq!(staged.connections.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_kept_connection_that_was_closed_is_replaced_once() {
    // The first connection answers once and closes when asked again, before a byte.
    let staged = stage(|mut stream, _| {
        Box::pin(async move {
            if request(&mut stream).await {
                say(&mut stream, OK).await;
                request(&mut stream).await;
            }
        })
    })
    .await;
    let server = here(&staged);
    for _ in 0..3 {
        assert_eq!(whole(&server, &quick()).await.as_deref(), Ok("ok"));
    }
    assert_eq!(staged.connections.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn what_must_be_written_once_is_not_written_over_a_second_connection() {
    let staged = stage(|mut stream, _| {
        Box::pin(async move {
            if request(&mut stream).await {
                say(&mut stream, OK).await;
                request(&mut stream).await;
            }
        })
    })
    .await;
    let server = here(&staged);
    assert_eq!(whole(&server, &quick()).await.as_deref(), Ok("ok"));
    let (uri, deadline) = (Uri::from_static("/"), after(tokio::time::Instant::now(), 20_000));
    let headers = HeaderMap::new();
    let asking = Asking { uri: &uri, headers: &headers, body: Bytes::from("{}"), deadline };
    let answer = server.send_as(Verb::PostOnce, &asking, &quick()).await;
    let fault = answer.err().expect("no answer");
    assert_eq!(fault, HttpFault::CutOff);
    assert!(fault.may_have_arrived());
    assert_eq!(staged.connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_new_connection_that_says_nothing_is_a_fault_and_not_replaced() {
    let staged = stage(|mut stream, _| {
        Box::pin(async move {
            request(&mut stream).await;
        })
    })
    .await;
    assert_eq!(whole(&here(&staged), &quick()).await, Err(HttpFault::CutOff));
    assert_eq!(staged.connections.load(Ordering::SeqCst), 1);
}

/// What a server may say, and what comes of it.
#[tokio::test]
async fn a_server_that_misbehaves_is_told_apart() {
    fn deed(
        text: &'static str,
    ) -> impl Fn(TcpStream) -> futures_util::future::BoxFuture<'static, ()> {
        move |mut stream| {
            Box::pin(async move {
                request(&mut stream).await;
                say(&mut stream, text).await;
            })
        }
    }
    let table: &[(&str, HttpFault)] = &[
        (
            "HTTP/1.1 302 Found\r\nlocation: http://evil.example/\r\ncontent-length: 0\r\n\r\n",
            HttpFault::Redirected { status: 302, to: Some("http://evil.example/".into()) },
        ),
        (
            "HTTP/1.1 308 Moved\r\nlocation: /v2\r\ncontent-length: 0\r\n\r\n",
            HttpFault::Redirected { status: 308, to: Some("/v2".into()) },
        ),
        (
            "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 1\r\n\r\nx",
            HttpFault::Unreadable("it is packed, and nobody asked for that"),
        ),
        ("HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n", HttpFault::TooLarge { max: 100 }),
        ("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", HttpFault::CutOff),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab", HttpFault::CutOff),
        ("HTTP/1.1 200", HttpFault::Unreadable("it is no HTTP answer, or its head is incomplete")),
        (
            "SSH-2.0-OpenSSH_9\r\n",
            HttpFault::Unreadable("it is no HTTP answer, or its head is incomplete"),
        ),
    ];
    for (text, fault) in table {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
        let deed = deed(text);
        let playing = async {
            let (stream, _) = listener.accept().await.unwrap();
            deed(stream).await;
        };
        let patience = Patience { answer_bytes_max: 100, ..quick() };
        let server = server(&base, Roots::default());
        let (found, ()) = futures_util::future::join(whole(&server, &patience), playing).await;
        assert_eq!(found.as_ref(), Err(fault), "{text:?}");
    }
}

#[tokio::test]
async fn every_wait_ends() {
    // Silence before the head, silence after it, drip for ever, and more than anybody takes.
    let silent = stage(|mut stream, _| {
        Box::pin(async move {
            request(&mut stream).await;
            std::future::pending().await
        })
    })
    .await;
    let patience = Patience { first_byte_ms_max: Some(30), ..quick() };
    let late = |what, ms| Err(HttpFault::TimedOut { what, ms });
    assert_eq!(whole(&here(&silent), &patience).await, late("the first byte of the answer", 30));

    let dripping = stage(|mut stream, _| {
        Box::pin(async move {
            request(&mut stream).await;
            say(&mut stream, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
            loop {
                say(&mut stream, "1\r\nx\r\n").await;
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        })
    })
    .await;
    let patience = Patience { idle_ms_max: Some(5_000), request_ms_max: Some(60), ..quick() };
    assert_eq!(whole(&here(&dripping), &patience).await, late("the whole request", 60));
    let patience = Patience { answer_bytes_max: 3, ..quick() };
    assert_eq!(whole(&here(&dripping), &patience).await, Err(HttpFault::TooLarge { max: 3 }));
    let begun = ask(&here(&dripping), &patience).await.unwrap().up_to(5).await;
    assert_eq!(begun, Ok((Bytes::from_static(b"xxxxx"), false)));

    let stalling = stage(|mut stream, _| {
        Box::pin(async move {
            request(&mut stream).await;
            say(&mut stream, "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nha").await;
            std::future::pending().await
        })
    })
    .await;
    let patience = Patience { idle_ms_max: Some(30), ..quick() };
    assert_eq!(whole(&here(&stalling), &patience).await, late("the next byte of the answer", 30));
}

/// A server that always has something to say is bound by the same deadline, and nobody waits for it.
#[tokio::test]
async fn a_flood_of_tiny_pieces_is_cut_off_and_lets_others_go_on() {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // On a thread of its own, so that there is always more than can be read.
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _request = stream.read(&mut [0; 4096]).unwrap();
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        let many = "1\r\nx\r\n".repeat(10_000);
        // Seconds of it, and then it is whole.
        let written = (0..300).try_for_each(|_| stream.write_all(many.as_bytes()));
        drop(written.and_then(|()| stream.write_all(b"0\r\n\r\n")));
    });
    let server = server(&format!("http://127.0.0.1:{port}"), Roots::default());
    let patience = Patience { request_ms_max: Some(200), ..quick() };
    let turns = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&turns);
    let beside = tokio::spawn(async move {
        loop {
            counted.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
        }
    });
    let read = whole(&server, &patience).await;
    assert_eq!(read, Err(HttpFault::TimedOut { what: "the whole request", ms: 200 }));
    assert!(turns.load(Ordering::SeqCst) > 100, "{turns:?}");
    beside.abort();
}

/// An error answer that never ends costs a few seconds, however patient one is.
#[tokio::test]
async fn the_beginning_of_an_answer_is_not_waited_for_without_end() {
    let dripping = stage(|mut stream, _| {
        Box::pin(async move {
            request(&mut stream).await;
            say(&mut stream, "HTTP/1.1 500 Oops\r\ntransfer-encoding: chunked\r\n\r\n").await;
            loop {
                say(&mut stream, "1\r\nx\r\n").await;
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        })
    })
    .await;
    let far = Some(600_000);
    let patience = Patience { idle_ms_max: far, request_ms_max: far, ..quick() };
    let mut answer = ask(&here(&dripping), &patience).await.unwrap();
    let reading = answer.beginning(1 << 20);
    let read = tokio::time::timeout(std::time::Duration::from_secs(20), reading).await;
    assert!(read.expect("it ends").starts_with(b"xx"));
}

#[tokio::test]
async fn nobody_at_home_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
    drop(listener);
    let found = whole(&server(&base, Roots::default()), &quick()).await;
    assert!(matches!(found, Err(HttpFault::Unreachable { .. })), "{found:?}");
}

#[tokio::test]
async fn an_answer_that_is_dropped_half_way_takes_its_connection_with_it() {
    let staged = stage(|mut stream, number| {
        Box::pin(async move {
            while request(&mut stream).await {
                let half = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nha";
                say(&mut stream, if number == 1 { half } else { OK }).await;
            }
        })
    })
    .await;
    let server = here(&staged);
    drop(ask(&server, &quick()).await.unwrap());
    assert_eq!(whole(&server, &quick()).await.as_deref(), Ok("ok"));
    assert_eq!(staged.connections.load(Ordering::SeqCst), 2);
}

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/tls").join(name)
}

/// A server that speaks TLS with a certificate of our own authority.
async fn secure() -> u16 {
    let certificate = rustls::pki_types::CertificateDer::from_pem_file(fixture("server.pem"));
    let key = PrivateKeyDer::from_pem_file(fixture("server.key.pem"));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.unwrap()], key.unwrap())
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut buffer = [0; 4096];
            let _ = stream.read(&mut buffer).await;
            let _ = stream.write_all(OK.as_bytes()).await;
            let _ = stream.flush().await;
        }
    });
    port
}

#[tokio::test]
async fn a_certificate_is_checked_and_nothing_is_downgraded() {
    let ours = Roots { only: Some(fixture("authority.pem")), beside: None };
    let port = secure().await;
    let base = format!("https://127.0.0.1:{port}");
    assert_eq!(whole(&server(&base, ours.clone()), &quick()).await.as_deref(), Ok("ok"));
    // Somebody else's authority does not vouch for it.
    let other = Roots { only: Some(fixture("stranger.pem")), beside: None };
    let found = whole(&server(&base, other), &quick()).await;
    assert!(matches!(found, Err(HttpFault::Tls { .. })), "{found:?}");
    // The right certificate for another name.
    let found = whole(&server(&format!("https://127.0.0.2:{port}"), ours.clone()), &quick()).await;
    assert!(matches!(found, Err(HttpFault::Tls { .. })), "{found:?}");
    // A server without TLS is not spoken to without it.
    let staged = stage(|mut stream, _| {
        Box::pin(async move {
            let mut first = [0; 64];
            let read = stream.read(&mut first).await.unwrap();
            assert!(!first[..read].starts_with(b"POST"), "a request came in clear text");
            say(&mut stream, "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
        })
    })
    .await;
    let clear = server(&format!("https://127.0.0.1:{}", staged.port), ours);
    let found = whole(&clear, &quick()).await;
    assert!(matches!(found, Err(HttpFault::NoTls { .. })), "{found:?}");
}

#[tokio::test]
async fn a_wrong_scheme_is_told_quickly_and_never_tried_again() {
    let ours = Roots { only: Some(fixture("authority.pem")), beside: None };
    // One that answers in clear text, one that waits for the end of a line, one that hangs up.
    let deeds: [(Deed, &str); 3] = [
        (
            |mut stream, _| {
                Box::pin(async move {
                    let _ = stream.read(&mut [0; 4096]).await;
                    say(&mut stream, "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
                })
            },
            "answered without TLS",
        ),
        (
            |mut stream, _| {
                Box::pin(async move {
                    let _ = stream.read(&mut [0; 4096]).await;
                    std::future::pending().await
                })
            },
            "did not answer in TLS",
        ),
        (
            |mut stream, _| {
                Box::pin(async move {
                    let _ = stream.read(&mut [0; 4096]).await;
                })
            },
            "closed the connection",
        ),
    ];
    for (deed, words) in deeds {
        let staged = stage(deed).await;
        let clear = server(&format!("https://127.0.0.1:{}", staged.port), ours.clone());
        let fault = whole(&clear, &quick()).await.unwrap_err();
        let told = fault.to_string();
        assert!(told.contains(words) && told.contains("http://"), "{told}");
        assert_eq!(fault.kind(), toolgate_kernel::event::FaultKind::Unusable);
    }
    // Clear text where TLS is spoken.
    let base = format!("http://127.0.0.1:{}", secure().await);
    let fault = whole(&server(&base, ours), &quick()).await.unwrap_err();
    assert!(matches!(fault, HttpFault::OnlyTls { .. }), "{fault}");
    assert!(fault.to_string().contains("https://"), "{fault}");
}
