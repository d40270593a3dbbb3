//! Which proxy the environment asks for.

/// The address of the proxy for an endpoint, by the variables that most programs follow. `NO_PROXY` is matched
/// against the endpoint's host: whole, or as the end of it after a dot; `*` is every host.
pub(crate) fn from_variables(get: &dyn Fn(&str) -> Option<String>, endpoint: &str) -> Option<String> {
    let either = |upper: &str, lower: &str| get(upper).or_else(|| get(lower));
    let of_scheme = if endpoint.starts_with("https:") {
        either("HTTPS_PROXY", "https_proxy")
    } else {
        either("HTTP_PROXY", "http_proxy")
    };
    let proxy = of_scheme.or_else(|| either("ALL_PROXY", "all_proxy"))?;
    let host = host(endpoint);
    let excepted = either("NO_PROXY", "no_proxy")
        .is_some_and(|list| list.split(',').any(|entry| excepts(entry.trim().trim_start_matches('.'), host)));
    (!excepted).then_some(proxy)
}

fn excepts(entry: &str, host: &str) -> bool {
    let ends = host.strip_suffix(entry).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    entry == "*" || (!entry.is_empty() && ends)
}

/// The host of `scheme://host:port/path`.
fn host(address: &str) -> &str {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    rest.split(['/', ':']).next().unwrap_or(rest)
}

#[cfg(test)]
mod tests {
    fn proxy(variables: &[(&str, &str)], endpoint: &str) -> Option<String> {
        let get = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| String::from(*value))
        };
        super::from_variables(&get, endpoint)
    }

    #[test]
    fn the_scheme_of_the_endpoint_chooses_the_proxy() {
        let both = [("HTTPS_PROXY", "http://s:1"), ("http_proxy", "http://p:2")];
        assert_eq!(proxy(&both, "https://huggingface.co").as_deref(), Some("http://s:1"));
        assert_eq!(proxy(&both, "http://mirror:80").as_deref(), Some("http://p:2"));
        assert_eq!(proxy(&[("ALL_PROXY", "http://a:3")], "http://mirror").as_deref(), Some("http://a:3"));
        assert_eq!(proxy(&[], "https://huggingface.co"), None);
    }

    #[test]
    fn excepted_hosts_are_reached_directly() {
        for (list, direct) in [
            ("localhost,hub.corp", true),
            ("corp", true),
            (".corp", true),
            ("*", true),
            ("orp", false),
            ("", false),
            ("x.hub.corp", false),
        ] {
            let found =
                proxy(&[("HTTPS_PROXY", "http://s:1"), ("NO_PROXY", list)], "https://hub.corp:8443/x");
            assert_eq!(found.is_none(), direct, "NO_PROXY={list}");
        }
    }
}
