//! What calls of the web tool are staged on: a web of our own, and the whole gate.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use toolgate_http::{Roots, Transport};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::config::AgentText;
use toolgate_kernel::envelope::Envelope;
use toolgate_kernel::event::{CallRefused, CallSettled, Event, Record, StreamId};
use toolgate_kernel::names::SessionId;
use toolgate_packs::web::Web;
use toolgate_runtime::log::{Tip, read_from};
use toolgate_runtime::{Crew, Driver, MemoryStore, Resources, Runtime, Toolbox};
use toolgate_testkit::clock::FakeClock;
use toolgate_testkit::web::{FakeWeb, PUBLIC, Said};
use toolgate_wire::script::Script;

/// One web, one session.
pub(crate) struct WebStage {
    pub(crate) web: Arc<FakeWeb>,
    pub(crate) driver: Driver,
    store: Arc<MemoryStore>,
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/tls").join(name)
}

impl WebStage {
    /// A web whose every server says this, for an agent with the web tool.
    pub(crate) async fn new(
        config: Value,
        say: impl Fn(&str) -> Said + Clone + Send + Sync + 'static,
    ) -> Self {
        Self::with_replies(config, json!([{ "text": "Done." }]), say).await
    }

    /// The same with a model that plays these replies.
    pub(crate) async fn with_replies(
        config: Value,
        replies: Value,
        say: impl Fn(&str) -> Said + Clone + Send + Sync + 'static,
    ) -> Self {
        let web = Arc::new(FakeWeb::default());
        for host in ["pub.test", "example.com", "other.test", "xn--bcher-kva.example"] {
            web.name(host, &[&[PUBLIC]]);
        }
        web.serve(say.clone()).await.unwrap();
        secure(&web, say).await;
        let roots = Roots { only: Some(fixture("authority.pem")), beside: None };
        let transport = Transport::over(roots, web.clone());
        let resources = Resources::default().with(Web(Arc::new(transport)));
        let mut text: AgentText = serde_json::from_value(config).unwrap();
        text.packs = Some(vec![toolgate_kernel::config::PackName::Web]);
        let packs = toolgate_packs::enabled(&text).unwrap();
        let sections = packs.iter().map(|pack| pack.section.clone()).collect();
        let mut crew = Crew::new(Arc::new(text.build(sections).unwrap()), Toolbox::of(&packs));
        let script = serde_json::from_value(json!({ "replies": replies })).unwrap();
        crew.provider = Some(Arc::new(Script::new("web", script)));
        let (store, clock) = (Arc::new(MemoryStore::new()), Arc::new(FakeClock::default()));
        let runtime = Runtime::new(store.clone(), clock).with_resources(resources);
        let session = SessionId::parse("web").unwrap();
        let actor = Actor::Human("ada".into());
        let driver = Driver::open(Arc::new(runtime), crew, session, &actor, "look").await.unwrap();
        Self { web, driver, store }
    }

    /// One call.
    pub(crate) async fn call(&mut self, args: Value) -> Envelope {
        self.named("web", args).await
    }

    /// One call by another name.
    pub(crate) async fn named(&mut self, tool: &str, args: Value) -> Envelope {
        let caller = Actor::Client("stage".into());
        self.driver.call(&caller, tool, &args.to_string(), None).await.unwrap()
    }

    pub(crate) async fn fetch(&mut self, url: &str) -> Envelope {
        self.call(json!({ "action": "fetch", "url": url })).await
    }

    /// What callers were told, in order.
    pub(crate) async fn told(&self) -> Vec<Envelope> {
        let stream = StreamId::Session(SessionId::parse("web").unwrap());
        let mut told = Vec::new();
        let each = |record: Record<Event>, _: &_| {
            if let Event::CallSettled(CallSettled { envelope, .. })
            | Event::CallRefused(CallRefused { envelope, .. }) = record.event
            {
                told.push(Envelope::clone(&envelope));
            }
        };
        read_from(self.store.as_ref(), &stream, Tip::START, each).await.unwrap();
        told
    }

    /// Connections that went anywhere but to the internet.
    pub(crate) fn forbidden(&self) -> Vec<String> {
        let connections = self.web.connections();
        let public = |ip: &str| [PUBLIC, "93.184.216.35"].contains(&ip);
        let ips = connections.iter().map(|address| address.ip().to_string());
        ips.filter(|ip| !public(ip)).collect()
    }
}

/// A server of TLS that the tests trust.
async fn secure(web: &Arc<FakeWeb>, say: impl Fn(&str) -> Said + Send + Sync + 'static) {
    let certificate = CertificateDer::from_pem_file(fixture("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(fixture("server.key.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    web.secure(listener.local_addr().unwrap());
    let (web, say) = (Arc::clone(web), Arc::new(say));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, web, say) = (acceptor.clone(), Arc::clone(&web), Arc::clone(&say));
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    web.answer(stream, say.as_ref()).await;
                }
            });
        }
    });
}
