//! Plans how the configured MCP servers are reached, with their secrets looked up.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use toolgate_http::Transport;
use toolgate_kernel::config::{AgentText, Secret, ServerText, Transport as Way};
use toolgate_kernel::hidden::Hidden;
use toolgate_kernel::names::ServerName;
use toolgate_mcp::client::oauth::{Keeper, OauthPlan};
use toolgate_mcp::client::{Bounds, HttpKind, Reach, Registry, ServerPlan, inherited};
use toolgate_mcp::{Supplies, Terms};
use toolgate_packs::enabled;
use toolgate_runtime::Crew;

use crate::environment;
use crate::exit::Exit;
use crate::host::SystemClock;
use crate::isolation::Isolation;
use crate::permits::PermitFile;
use crate::project::{Opened, Place};
use crate::redaction::{hidden, redactor};
use crate::stop::Stop;
use crate::trust::TrustedAccess;

/// Milliseconds until a server is connected, when its configuration says nothing: some are fetched
/// before they start.
const CONNECT_MS: u64 = 30_000;

/// Milliseconds of one call, when the configuration says nothing.
const CALL_MS: u64 = 120_000;

/// The servers of a process, shared by its sessions.
pub(crate) struct Servers(Option<Arc<Registry>>);

impl Servers {
    /// Lets a crew use the servers that are configured. None is started before it is needed.
    pub(crate) fn join(
        crew: &mut Crew,
        place: &Place,
        access: &TrustedAccess,
        text: &AgentText,
        opened: &Opened,
    ) -> Result<Self> {
        if text.mcp_servers.is_empty() {
            return Ok(Self(None));
        }
        let registry = Arc::new(registry(place, access, text)?);
        let (written, source) = (text.clone(), crew.agent.source.clone());
        let build = move |servers| {
            let packs = enabled(&written).map_err(|error| format!("{error:#}"))?;
            let own = packs.into_iter().map(|pack| pack.section);
            let sections = own.chain(servers).collect();
            let agent = written.clone().build(sections).map_err(|refusal| refusal.to_string())?;
            // Approvals are bound to the file also where servers bring tools.
            Ok(match &source {
                Some(source) => agent.with_source(source.as_ref().clone()),
                None => agent,
            })
        };
        let (runtime, own) = (Arc::clone(&opened.runtime), crew.tools.clone());
        let supplies = Supplies::new(
            Arc::clone(&registry),
            runtime,
            all_terms(&place.folder, text),
            own,
            Box::new(build),
        );
        crew.supplier = Some(Arc::new(supplies));
        Ok(Self(Some(registry)))
    }

    /// Does some work, then lets the servers go: connections are ended, and programs are gone within
    /// five seconds.
    pub(crate) async fn around<T>(&self, work: impl Future<Output = T>) -> T {
        let done = work.await;
        if let Some(registry) = &self.0 {
            registry.close().await;
        }
        done
    }

    /// The same for work that says when it needs them no more, which may be before its end.
    pub(crate) async fn around_until<T>(
        &self,
        needless: impl Future<Output = ()>,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = std::pin::pin!(work);
        tokio::select! {
            biased;
            done = work.as_mut() => self.around(async { done }).await,
            () = needless => tokio::join!(work, self.around(async {})).0,
        }
    }

    /// The same for work that does not listen itself: when the program is told to stop, the work is
    /// dropped, as in a crash, and the servers go first.
    pub(crate) async fn around_until_told(
        &self,
        work: impl Future<Output = Result<Exit>>,
    ) -> Result<Exit> {
        let mut stop = Stop::listen()?;
        self.around(async {
            tokio::select! {
                biased;
                done = work => done,
                // It did not do what it should, however it was told.
                _ = stop.heard() => Ok(Exit::Interrupted),
            }
        })
        .await
    }
}

/// What is written down about the tools of each server.
pub(crate) fn all_terms(folder: &Path, text: &AgentText) -> BTreeMap<ServerName, Terms> {
    let terms = |server: &ServerText| Terms {
        is_logged_in: is_logged_in(folder, server),
        server: server.clone(),
        effects: server.effects.clone(),
        short_names: server.short_names,
        required: server.required,
    };
    text.mcp_servers.iter().map(|(name, server)| (name.clone(), terms(server))).collect()
}

/// Whether a login is kept for a server. One that cannot be read counts as one.
pub(crate) fn is_logged_in(folder: &Path, server: &ServerText) -> bool {
    let Some(url) = &server.url else { return false };
    let kept = PermitFile::of(folder, url).and_then(|file| file.kept());
    kept.map_or(true, |permit| permit.is_some())
}

/// The servers of a configuration. Nothing is started or sent. What one of them lacks is told when it
/// is needed.
pub(crate) fn registry(
    place: &Place,
    access: &TrustedAccess,
    text: &AgentText,
) -> Result<Registry> {
    let http = Arc::new(Transport::new(environment::roots()?));
    let isolation = Isolation::of(place, text).map_err(|error| format!("{error:#}"));
    let bounds = Bounds::of(&text.limits);
    let plans = text.mcp_servers.iter().map(|(name, server)| {
        let lacking = |why| Reach::Nowhere { why: format!("{why:#}") };
        let isolation = isolation.as_ref().map_err(|error| anyhow!("{error}"));
        let reach = match server.transport() {
            Way::Stdio => isolation.and_then(|isolation| program(isolation, access, name, server)),
            way @ (Way::Http | Way::Sse | Way::StreamableHttp | Way::Auto) => {
                address(access, server, way, &http)
            }
        };
        let reach = reach.unwrap_or_else(lacking);
        ServerPlan { bounds, ..with(name, server, reach) }
    });
    Ok(Registry::with_redactor(plans.collect(), http, &redactor()))
}

/// A server with an address as it is reached, with its secrets.
pub(crate) fn plan(
    access: &TrustedAccess,
    name: &ServerName,
    server: &ServerText,
    http: &Arc<Transport>,
) -> Result<ServerPlan> {
    Ok(with(name, server, address(access, server, server.transport(), http)?))
}

fn with(name: &ServerName, server: &ServerText, reach: Reach) -> ServerPlan {
    ServerPlan {
        name: name.clone(),
        reach,
        connect_ms_max: server.connect_ms_max.unwrap_or(CONNECT_MS),
        call_ms_max: server.call_ms_max.unwrap_or(CALL_MS),
        bounds: Bounds::default(),
    }
}

/// How a program is started.
fn program(
    isolation: &Isolation,
    access: &TrustedAccess,
    name: &ServerName,
    server: &ServerText,
) -> Result<Reach> {
    let ours = environment::all();
    let ours = ours.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let mut env: BTreeMap<String, Hidden> = inherited(ours);
    env.extend(isolation.environment(name, server));
    let project = isolation.project.as_path();
    env.extend(server.env.iter().map(|named| value(access, named)).collect::<Result<Vec<_>>>()?);
    let cwd = server.cwd.as_ref().map_or_else(|| project.to_owned(), |cwd| project.join(cwd));
    let program = PathBuf::from(server.command.as_deref().context("it has no command")?);
    let sandbox = Some(Box::new(isolation.sandbox(name, server)?));
    Ok(Reach::Stdio { program, args: server.args.clone(), env, cwd, sandbox })
}

/// A named value of the configuration, looked up.
fn value(access: &TrustedAccess, (name, secret): (&String, &Secret)) -> Result<(String, Hidden)> {
    Ok((name.clone(), hidden(name, secret, &access.look_up(secret)?)))
}

/// How a server with an address is reached.
fn address(
    access: &TrustedAccess,
    server: &ServerText,
    way: Way,
    http: &Arc<Transport>,
) -> Result<Reach> {
    let kind = match way {
        Way::Sse => HttpKind::Sse,
        Way::Stdio | Way::Http | Way::StreamableHttp => HttpKind::Streamable,
        Way::Auto => HttpKind::Auto,
    };
    let url = server.url.clone().context("it has no url")?;
    let given = server.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"));
    // A server with a token of its own is never given that of a login.
    let keeper = if given || server.auth.is_some() {
        None
    } else {
        let file = PermitFile::of(access.folder(), &url)?;
        let http = Arc::clone(http);
        Some(Arc::new(Keeper::new(&url, http, Box::new(file), Arc::new(SystemClock))))
    };
    let headers = server.headers.iter().map(|named| value(access, named)).collect::<Result<_>>()?;
    let bearer = server.auth.as_ref().map(|secret| access.look_up(secret)).transpose()?;
    let bearer = bearer.map(Hidden::new);
    Ok(Reach::Http { url, headers, bearer, keeper, kind })
}

/// Who we are to the authorization server of a server.
pub(crate) fn oauth(access: &TrustedAccess, server: &ServerText) -> Result<OauthPlan> {
    let Some(oauth) = &server.oauth else { return Ok(OauthPlan::default()) };
    let secret = oauth.client_secret.as_ref().map(|secret| access.look_up(secret)).transpose()?;
    Ok(OauthPlan {
        client_id: oauth.client_id.clone(),
        client_secret: secret.as_deref().map(Hidden::new),
        scopes: oauth.scopes.clone(),
        client_metadata_url: oauth.client_metadata_url.clone(),
    })
}
