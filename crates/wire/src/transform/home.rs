//! Decides whose server an address is, where the provider itself wants what no other server does.

/// Whose server it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Home {
    /// Anybody's.
    #[default]
    Elsewhere,
    /// OpenAI's own, or the one at Azure.
    OpenAi,
    /// Mistral's own.
    Mistral,
}

const HOMES: &[(&str, Home)] = &[
    ("api.openai.com", Home::OpenAi),
    ("openai.azure.com", Home::OpenAi),
    ("api.mistral.ai", Home::Mistral),
];

impl Home {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Elsewhere => "elsewhere",
            Self::OpenAi => "openai",
            Self::Mistral => "mistral",
        }
    }

    pub(super) fn of(base_url: &str) -> Self {
        let rest = base_url.trim().split_once("://").map_or("", |(_, rest)| rest);
        let host = rest.split(['/', '?', '#', ':']).next().unwrap_or_default();
        let host = host.to_ascii_lowercase();
        let at = |name: &str| {
            host.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with('.'))
        };
        HOMES.iter().find(|(name, _)| at(name)).map(|(_, home)| *home).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_is_known_by_its_own_address() {
        for (url, home) in [
            ("https://api.openai.com", Home::OpenAi),
            (" https://API.openai.com:443/v1", Home::OpenAi),
            ("https://eu.api.openai.com/v1", Home::OpenAi),
            ("https://mine.openai.azure.com/openai/v1", Home::OpenAi),
            ("https://api.mistral.ai", Home::Mistral),
            ("https://notapi.openai.com", Home::Elsewhere),
            ("https://api.openai.com.evil.example", Home::Elsewhere),
            ("http://127.0.0.1:1234/v1", Home::Elsewhere),
            ("", Home::Elsewhere),
        ] {
            assert_eq!(Home::of(url), home, "{url}");
        }
    }
}
