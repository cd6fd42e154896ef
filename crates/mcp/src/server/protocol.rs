//! Decides what the protocol itself answers, and how news reach those who listen for them.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::line::Line;
use super::message::{self, RequestId};
use super::refusal::Refused;
use super::served::{Answer, Caller, Lists, Request, Served};

/// Methods that the newest revision no longer has.
const OLD: &[&str] =
    &["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];

/// Methods that only the newest revision has.
const NEW: &[&str] = &["server/discover", "subscriptions/listen"];

/// Answers a request that needs nothing of its transport.
pub(crate) async fn answer(
    served: &dyn Served,
    request: Request<'_>,
    line: &Line,
) -> Result<Answer, Refused> {
    let modern = request.caller.revision.modern();
    let elsewhere = if modern { OLD } else { NEW };
    if elsewhere.contains(&request.method) {
        return Err(Refused::method(request.method));
    }
    match request.method {
        "server/discover" => Ok(served.card(request.caller).discovered()),
        "ping" => Ok(Answer::new("{}".to_owned())),
        _ => served.answer(request, line).await,
    }
}

/// What a listener wants to hear of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Wanted {
    #[serde(default)]
    tools_list_changed: bool,
    #[serde(default)]
    prompts_list_changed: bool,
    #[serde(default)]
    resources_list_changed: bool,
}

impl Wanted {
    /// Everything, as clients of the older revisions get it.
    pub(crate) const ALL: Self =
        Self { tools_list_changed: true, prompts_list_changed: true, resources_list_changed: true };

    /// Reads the params of `subscriptions/listen`. What is not offered is left out.
    pub(crate) fn read(params: &str, lists: &Lists) -> Result<Self, Refused> {
        #[derive(Deserialize)]
        struct Params {
            notifications: Wanted,
        }
        let params: Params = serde_json::from_str(params)
            .map_err(|_| Refused::params("subscriptions/listen says which notifications."))?;
        let asked = params.notifications;
        Ok(Self {
            tools_list_changed: asked.tools_list_changed && lists.tools.is_some(),
            prompts_list_changed: asked.prompts_list_changed && lists.prompts.is_some(),
            resources_list_changed: asked.resources_list_changed && lists.resources.is_some(),
        })
    }

    fn shown(self) -> Value {
        let kinds = [
            ("toolsListChanged", self.tools_list_changed),
            ("promptsListChanged", self.prompts_list_changed),
            ("resourcesListChanged", self.resources_list_changed),
        ];
        let wanted = kinds.into_iter().filter(|(_, wanted)| *wanted);
        wanted.map(|(kind, wanted)| (kind.to_owned(), Value::Bool(wanted))).collect()
    }

    /// The notifications that two looks at the lists ask for.
    fn between(self, before: &Lists, after: &Lists) -> Vec<&'static str> {
        let kinds = [
            (self.tools_list_changed, before.tools != after.tools, "tools"),
            (self.prompts_list_changed, before.prompts != after.prompts, "prompts"),
            (self.resources_list_changed, before.resources != after.resources, "resources"),
        ];
        let told = kinds.into_iter().filter(|(wanted, moved, _)| *wanted && *moved);
        told.map(|(_, _, kind)| match kind {
            "tools" => "notifications/tools/list_changed",
            "prompts" => "notifications/prompts/list_changed",
            _ => "notifications/resources/list_changed",
        })
        .collect()
    }
}

/// How often a silent stream shows that it is alive.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Sends news until nobody reads them. A subscription has an id that every message carries.
pub(crate) async fn listen(
    served: &dyn Served,
    caller: &Caller,
    wanted: Wanted,
    subscription: Option<&RequestId>,
    out: &mpsc::Sender<String>,
) {
    let meta: Map<String, Value> = match subscription {
        None => Map::new(),
        Some(id) => {
            let id: Value = serde_json::from_str(id.as_json()).unwrap_or_default();
            let meta = json!({ "io.modelcontextprotocol/subscriptionId": id });
            Map::from_iter([("_meta".to_owned(), meta)])
        }
    };
    let mut changes = served.changes();
    let mut before = served.lists(caller);
    if subscription.is_some() {
        let mut params = meta.clone();
        params.insert("notifications".to_owned(), wanted.shown());
        let method = "notifications/subscriptions/acknowledged";
        if out.send(message::notification(method, &params.into())).await.is_err() {
            return;
        }
    }
    loop {
        let moved = tokio::select! {
            moved = changes.changed() => moved,
            () = out.closed() => return,
        };
        if moved.is_err() {
            return;
        }
        changes.borrow_and_update();
        let after = served.lists(caller);
        for method in wanted.between(&before, &after) {
            if out.send(message::notification(method, &meta.clone().into())).await.is_err() {
                return;
            }
        }
        before = after;
    }
}

/// The last word on a subscription that this side ends.
pub(crate) fn listened(id: &RequestId, server: &str) -> String {
    let result = format!(
        "{{\"resultType\":\"complete\",\"_meta\":{{\"io.modelcontextprotocol/subscriptionId\":{},\
         \"io.modelcontextprotocol/serverInfo\":{server}}}}}",
        id.as_json()
    );
    message::response(id, &result)
}
