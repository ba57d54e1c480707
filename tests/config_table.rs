//! Good and bad files: what each error says, and that a check gives the verdict of a start.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::fs;
use std::path::Path;
use std::process::Command;

use heliosdb_proxy::{Config, House};

/// Enough to start, before or after other keys.
const NODES: &str = "
[[nodes]]
name = 'pg1'
host = '10.0.0.1'
[[nodes]]
name = 'pg2'
host = '10.0.0.2'
";

/// A file and the line that refuses it, without the file's name.
#[rustfmt::skip]
const BAD: &[(&str, &str)] = &[
    // Not TOML, or not these tables.
    ("admin_address = ", ":1:17: not TOML: "),
    ("max_connections = 1\nmax_connections = 2", ":2:1: not TOML: duplicate key"),
    ("health = 5", ": health = 5: allowed is a table [health]"),
    ("nodes = 'pg1'", ": nodes = \"pg1\": allowed is a list of tables [[nodes]]"),
    ("", ": nodes: not given; allowed is at least one [[nodes]] with name and host"),
    ("nodes = []", ": nodes: not given; allowed is at least one [[nodes]]"),
    ("listeners = []", ": listeners = []: allowed is at least one, or to leave the key out for 127.0.0.1:5432"),

    // Unknown keys.
    ("colour = 1", ": colour: unknown key; allowed at the top level: write_timeout_secs, connect_timeout_ms, "),
    ("max_conections = 5", ": max_conections: unknown key; did you mean max_connections? allowed at the top level: "),
    ("write_timeout_ms = 5", ": write_timeout_ms: unknown key; did you mean write_timeout_secs? "),
    ("[health]\ncheck_interval_secs = 5", ": health.check_interval_secs: unknown key; did you mean check_interval_ms? allowed in health: check_interval_ms, check_timeout_ms, "),
    ("lease_timeout_secs = 5", ": lease_timeout_secs: unknown key; it belongs to [topology]; allowed at the top level: "),
    ("[rest]\nport = 8008\ndial_concurrency = 5", ": rest.dial_concurrency: unknown key; it belongs at the top level, above the first table; allowed in rest: "),
    ("[[listeners]]\naddress = 'localhost:1'\n[[listeners]]\nrout = 'primary'", ": listeners[1].rout: unknown key; did you mean route? allowed in listeners[1]: address, route, "),
    ("[haelth]", ": haelth: unknown key; did you mean health? "),

    // Numbers and their units.
    ("write_timeout_secs = 0", ": write_timeout_secs = 0: allowed is a positive number (seconds)"),
    ("write_timeout_secs = -1.5", ": write_timeout_secs = -1.5: allowed is a positive number (seconds)"),
    ("write_timeout_secs = nan", ": write_timeout_secs = nan: allowed is a positive number (seconds)"),
    ("write_timeout_secs = inf", ": write_timeout_secs = inf: allowed is a positive number (seconds)"),
    ("write_timeout_secs = '45s'", ": write_timeout_secs = \"45s\": allowed is a positive number (seconds)"),
    ("write_timeout_secs = '45'", ": write_timeout_secs = \"45\": allowed is a positive number (seconds)"),
    ("dead_peer_secs = -1", ": dead_peer_secs = -1: allowed is 0 or a positive number (seconds)"),
    ("connect_timeout_ms = 0", ": connect_timeout_ms = 0: allowed is a positive whole number (milliseconds)"),
    ("connect_timeout_ms = 1.5", ": connect_timeout_ms = 1.5: allowed is a positive whole number (milliseconds)"),
    ("[health]\nfast_interval_ms = [100]", ": health.fast_interval_ms = [100]: allowed is a positive whole number (milliseconds)"),
    ("[health]\nfailure_threshold = 0", ": health.failure_threshold = 0: allowed is a positive whole number up to 4294967295"),
    ("max_connections = 4294967296", ": max_connections = 4294967296: allowed is a positive whole number up to 4294967295"),
    ("[rest]\nport = 0", ": rest.port = 0: allowed is a port from 1 to 65535"),
    ("[rest]\nport = 65536", ": rest.port = 65536: allowed is a port from 1 to 65535"),
    ("on_lease_expired = 'drop'", ": on_lease_expired = \"drop\": allowed is \"keep\" | \"close\""),
    ("on_lease_expired = true", ": on_lease_expired = true: allowed is \"keep\" | \"close\""),
    ("enable_chaos = 'yes'", ": enable_chaos = \"yes\": allowed is true | false"),

    // Addresses.
    ("admin_address = '9090'", ": admin_address = \"9090\": allowed is IP:PORT, [IPv6]:PORT or localhost:PORT, or \"\" for none"),
    ("admin_address = 9090", ": admin_address = 9090: allowed is IP:PORT, [IPv6]:PORT or localhost:PORT, or \"\" for none"),
    ("[[listeners]]\nroute = 'primary'", ": listeners[0].address: not given; allowed is IP:PORT, "),
    ("[[listeners]]\naddress = 'db:5432'", ": listeners[0].address = \"db:5432\": allowed is IP:PORT, "),
    ("[[listeners]]\naddress = ''", ": listeners[0].address = \"\": allowed is a text that is not empty"),
    ("[[listeners]]\naddress = 'run/sock'", ": listeners[0].address = \"run/sock\": allowed is IP:PORT, "),
    ("[[listeners]]\naddress = '[::1]:1'\n[[listeners]]\naddress = '[0:0::1]:1'", ": listeners[1].address = \"[0:0::1]:1\": listeners[0] has this address; allowed is each address once"),
    ("admin_address = '127.0.0.1:5432'\n[[listeners]]\naddress = 'localhost:5432'", ": admin_address = \"127.0.0.1:5432\": listeners[0] has this address; "),
    ("[[listeners]]\naddress = '127.0.0.1:1'\nmode = '0700'", ": listeners[0].mode = \"0700\": 127.0.0.1:1 is not a unix socket; allowed is to leave the key out"),
    ("[[listeners]]\naddress = '127.0.0.1:1'\ngroup = 'app'", ": listeners[0].group = \"app\": 127.0.0.1:1 is not a unix socket; "),
    ("[[listeners]]\naddress = '/s/.s.PGSQL.1'\nmode = '0888'", ": listeners[0].mode = \"0888\": allowed are permission bits in octal"),
    ("[[listeners]]\naddress = '/s/.s.PGSQL.1'\nmode = 700", ": listeners[0].mode = 700: allowed is a text"),

    // Nodes.
    ("[[nodes]]\nhost = 'a'", ": nodes[0].name: not given; allowed is a text"),
    ("[[nodes]]\nname = 'a'", ": nodes[0].host: not given; allowed is a name or an IP address, without a port"),
    ("[[nodes]]\nname = 'a'\nhost = '10.0.0.9:5432'", ": nodes[0].host = \"10.0.0.9:5432\": allowed is a name or an IP address, without a port"),
    ("[[nodes]]\nname = 'a'\nhost = 'b'\nrest_host = 'http://b'", ": nodes[0].rest_host = \"http://b\": allowed is a name"),
    ("[[nodes]]\nname = 'a'\nhost = 'x'\n[[nodes]]\nname = 'a'\nhost = 'y'", ": nodes[1].name = \"a\": nodes[0] has this name; allowed is each name once"),
    ("[[nodes]]\nname = 'a'\nhost = 'PG.example.'\n[[nodes]]\nname = 'b'\nhost = 'pg.example'", ": nodes[1].host = \"pg.example\": nodes[0] has this host with the same port 5432; allowed is each address once"),
    ("[[nodes]]\nname = 'a'\nhost = '2001:db8::1'\n[[nodes]]\nname = 'b'\nhost = '[2001:DB8:0::1]'", ": nodes[1].host = \"2001:DB8:0::1\": nodes[0] has this host"),
    ("[topology]\nsystem_identifier = 'main'", ": topology.system_identifier = \"main\": allowed are the digits"),
    ("[topology]\nscope = ''", ": topology.scope = \"\": allowed is a text that is not empty"),

    // The read port.
    ("[[listeners]]\naddress = 'localhost:1'\nroute = 'rw'", ": listeners[0].route = \"rw\": allowed is \"primary\" | \"replica\" | \"any\""),
    ("[[listeners]]\npolicy = 'random'", ": listeners[0].policy = \"random\": allowed is \"round_robin\" | \"least_connections\""),
    ("[[listeners]]\nfallback = 'primary'", ": listeners[0].fallback = \"primary\": allowed is \"leader\" | \"none\""),
    ("[[listeners]]\non_promotion = true", ": listeners[0].on_promotion = true: allowed is \"keep\" | \"close\""),
    ("[[listeners]]\nrequire_streaming = 'yes'", ": listeners[0].require_streaming = \"yes\": allowed is true | false"),
    ("[[listeners]]\narchive_recovery = 1", ": listeners[0].archive_recovery = 1: allowed is true | false"),
    ("[[listeners]]\nmax_lag_bytes = -1", ": listeners[0].max_lag_bytes = -1: allowed is 0 or a positive whole number"),
    ("[[listeners]]\nmax_lag_bytes = '16MB'", ": listeners[0].max_lag_bytes = \"16MB\": allowed is 0 or a positive whole number"),
    ("[[nodes]]\nweight = -5", ": nodes[0].weight = -5: allowed is 0 or a positive whole number"),

    // Keys that a provider has no use for, and those that it needs.
    ("[topology]\nuser = 'u'", ": topology.user = \"u\": topology.provider = \"check\" has no use for it; allowed with \"postgres\" | \"static\""),
    ("[topology]\npassword_file = 'u'", ": topology.password_file = \"u\": topology.provider = \"check\" has no use for it; allowed with \"postgres\" | \"static\""),
    ("[topology]\ndatabase = 'u'", ": topology.database = \"u\": topology.provider = \"check\" has no use for it"),
    ("[topology]\ntls_mode = 'require'", ": topology.tls_mode = \"require\": topology.provider = \"check\" has no use for it"),
    ("[topology]\nca_file = 'u'", ": topology.ca_file = \"u\": topology.provider = \"check\" has no use for it"),
    ("[topology]\ncert_file = 'u'", ": topology.cert_file = \"u\": topology.provider = \"check\" has no use for it"),
    ("[topology]\nkey_file = 'u'", ": topology.key_file = \"u\": topology.provider = \"check\" has no use for it"),
    ("[topology]\nprovider = 'postgres'\nuser = 'u'\nca_file = 'c'", ": topology.ca_file = \"c\": only topology.tls_mode = \"verify-ca\" | \"verify-full\" verifies anything"),
    ("[topology]\nprovider = 'postgres'\nuser = 'u'\ncert_file = 'c'", ": topology.cert_file = \"c\": it needs topology.key_file beside it"),
    ("[topology]\nprovider = 'postgres'\nuser = 'u'\ncert_file = 'c'\nkey_file = 'k'\ntls_mode = 'disable'", ": topology.cert_file = \"c\": topology.tls_mode = \"disable\" speaks no TLS"),
    ("[topology]\npoll_interval_secs = 1", ": topology.poll_interval_secs = 1.0: topology.provider = \"check\" has no use for it; allowed with \"patroni\" | \"postgres\""),
    ("[topology]\npoll_interval_secs = 0", ": topology.poll_interval_secs = 0: allowed is a positive number (seconds)"),
    ("[topology]\ncheck_query = 'SELECT 2'", ": topology.check_query = \"SELECT 2\": topology.provider = \"check\" has no use for it; allowed with \"static\""),
    ("[topology]\nprovider = 'postgres'\nuser = 'u'\ncheck_query = 'SELECT 2'", ": topology.check_query = \"SELECT 2\": topology.provider = \"postgres\" has no use for it"),
    ("[topology]\nprovider = 'postgres'\nuser = 'u'\npatroni_ttl_secs = 30", ": topology.patroni_ttl_secs = 30.0: topology.provider = \"postgres\" has no use for it; allowed with \"check\" | \"patroni\""),
    ("[topology]\nprovider = 'postgres'", ": topology.user: not given; topology.provider = \"postgres\" logs in; allowed is a text"),
    ("[topology]\nprovider = 'static'\ncheck_query = 'SELECT 2'\n[[nodes]]\nname = 'a'\nhost = 'a'\nrole = 'primary'", ": topology.check_query = \"SELECT 2\": topology.user is not given, so nobody logs in"),
    ("[topology]\nprovider = 'static'\npassword_file = '/p'\n[[nodes]]\nname = 'a'\nhost = 'a'\nrole = 'primary'", ": topology.password_file = \"/p\": topology.user is not given, so nobody logs in"),
    ("[topology]\nprovider = 'static'\n[[nodes]]\nname = 'a'\nhost = 'a'", ": nodes[0].role = \"auto\": topology.provider = \"static\" asks no node what it is; allowed is \"primary\" | \"standby\" | \"replica\""),
    ("[topology]\nprovider = 'static'\n[[nodes]]\nname = 'a'\nhost = 'a'\nrole = 'primary'\n[[nodes]]\nname = 'b'\nhost = 'b'\nrole = 'primary'", ": nodes[1].role = \"primary\": nodes[0] is enabled and has this role; with topology.provider = \"static\" allowed is one that is enabled"),
    ("[[nodes]]\nrole = 'leader'", ": nodes[0].role = \"leader\": allowed is \"auto\" | \"primary\" | \"standby\" | \"replica\""),

    // Features to come.
    ("admin_address = '0.0.0.0:9090'", ": admin_address = \"0.0.0.0:9090\": off loopback; allowed is a loopback address, or to set admin_token_file as well"),
    ("admin_address = '[::]:9090'\nenable_chaos = true", ": admin_address = \"[::]:9090\": off loopback; "),
    ("admin_token_file = ''", ": admin_token_file = \"\": allowed is a text that is not empty"),
    ("admin_token_file = 5", ": admin_token_file = 5: allowed is a text"),
    ("admin_allow_insecure = 'yes'", ": admin_allow_insecure = \"yes\": allowed is true | false"),
    ("[[listeners]]\ntls = 'terminate'", ": listeners[0].tls = \"terminate\": not yet; allowed is \"passthrough\""),
    ("[[listeners]]\ntls_cert_file = '/c'", ": listeners[0].tls_cert_file = \"/c\": not yet"),
    ("[[listeners]]\ntls_key_file = '/c'", ": listeners[0].tls_key_file = \"/c\": not yet"),
    ("[[listeners]]\ntls_client_ca_file = '/c'", ": listeners[0].tls_client_ca_file = \"/c\": not yet"),
    ("[[listeners]]\naccept_proxy = true", ": listeners[0].accept_proxy = true: not yet"),
    ("[[listeners]]\ntrusted_proxies = ['10.0.0.0/8']", ": listeners[0].trusted_proxies = [\"10.0.0.0/8\"]: not yet; allowed is []"),
    ("[topology]\nprovider = 'manual'\nuser = 'u'", ": topology.user = \"u\": topology.provider = \"manual\" has no use for it; allowed with \"postgres\" | \"static\""),
    ("[topology]\nprovider = 'consul'", ": topology.provider = \"consul\": allowed is \"check\" | \"patroni\" | \"postgres\" | \"static\" | \"manual\""),
    ("[topology]\nprovider = 'patroni'\npatroni_endpoints = 'http://a:8008'", ": topology.patroni_endpoints = \"http://a:8008\": allowed is a list of texts"),
    ("[topology]\nprovider = 'patroni'\npatroni_endpoints = ['http://a:8008', 'a:8008']", ": topology.patroni_endpoints[1] = \"a:8008\": allowed is a URL with a port and without a login, such as http://"),
    ("[topology]\nprovider = 'patroni'\npatroni_endpoints = ['http://a']", ": topology.patroni_endpoints[0] = \"http://a\": allowed is a URL with a port"),
    ("[topology]\nprovider = 'patroni'\npatroni_endpoints = ['ftp://a:8008']", ": topology.patroni_endpoints[0] = \"ftp://a:8008\": allowed is a URL"),
    ("[topology]\nprovider = 'patroni'\npatroni_endpoints = ['http://u:geheim@a:8008']", ": topology.patroni_endpoints[0] = \"…\": allowed is a URL with a port and without a login"),
    ("[topology]\nprovider = 'patroni'\npatroni_endpoints = ['http://a:8008', 'HTTP://a:8008/']", ": topology.patroni_endpoints[1] = \"HTTP://a:8008/\": it is the same as [0]; allowed is each URL once"),
    ("[topology]\nprovider = 'patroni'\npatroni_endpoints = ['https://a:8008']", ": topology.patroni_endpoints[0] = \"https://a:8008\": rest.scheme says otherwise; allowed is one scheme"),
    ("[topology]\npatroni_request_timeout_ms = 0", ": topology.patroni_request_timeout_ms = 0: allowed is a positive whole number"),
    ("[topology]\ndiscover = 1", ": topology.discover = 1: allowed is true | false"),
    ("[topology]\npatroni_endpoints = ['http://a:8008']", ": topology.patroni_endpoints = [\"http://a:8008\"]: topology.provider = \"check\" has no use for it; allowed with \"patroni\""),
    ("[topology]\npatroni_request_timeout_ms = 1", ": topology.patroni_request_timeout_ms = 1: topology.provider = \"check\" has no use for it; allowed with \"patroni\""),
    ("[topology]\ndiscover = true", ": topology.discover = true: topology.provider = \"check\" has no use for it; allowed with \"patroni\""),
    ("[topology]\ntls_mode = 'yes'", ": topology.tls_mode = \"yes\": allowed is \"disable\" | \"prefer\" | \"require\" | \"verify-ca\" | \"verify-full\""),
    ("[backend]\ntls = 'verify-full'", ": backend.tls = \"verify-full\": not yet; allowed is \"disable\""),
    ("[backend]\nca_file = 'u'", ": backend.ca_file = \"u\": not yet"),
    ("[backend]\ncert_file = 'u'", ": backend.cert_file = \"u\": not yet"),
    ("[backend]\nkey_file = 'u'", ": backend.key_file = \"u\": not yet"),
    ("[backend]\nsend_proxy = true", ": backend.send_proxy = true: not yet; allowed is false"),

    // The REST API over TLS.
    ("[rest]\nscheme = 'tls'", ": rest.scheme = \"tls\": allowed is \"http\" | \"https\""),
    ("[rest]\nca_file = 'u'", ": rest.ca_file = \"u\": it needs rest.scheme = \"https\"; allowed is that, or to leave the key out"),
    ("[rest]\ncert_file = 'u'\nkey_file = 'v'", ": rest.cert_file = \"u\": it needs rest.scheme = \"https\"; "),
    ("[rest]\nscheme = 'http'\nkey_file = 'u'", ": rest.key_file = \"u\": it needs rest.scheme = \"https\"; "),
    ("[rest]\nserver_name = 'u'", ": rest.server_name = \"u\": it needs rest.scheme = \"https\"; "),
    ("[rest]\nca_file = 5", ": rest.ca_file = 5: allowed is a text"),
    ("[rest]\nscheme = 'https'\ncert_file = 'u'", ": rest.cert_file = \"u\": it needs rest.key_file beside it; allowed are both or neither"),
    ("[rest]\nscheme = 'https'\nkey_file = 'u'", ": rest.key_file = \"u\": it needs rest.cert_file beside it; allowed are both or neither"),
    ("[rest]\nusername = 'u'", ": rest.username = \"u\": it needs rest.password_file beside it; "),
    ("[rest]\npassword_file = 'u'", ": rest.password_file = \"u\": it needs rest.username beside it; "),
    ("[rest]\nusername = 'a:b'\npassword_file = 'u'", ": rest.username = \"a:b\": allowed is a name without a colon (RFC 7617)"),
    ("[rest]\nscheme = 'https'\nserver_name = 'a b'", ": rest.server_name = \"a b\": no certificate can name it; allowed is a DNS name or an IP address"),
    ("[rest]\nscheme = 'https'\n[[nodes]]\nname = 'a'\nhost = 'böse.de'", ": nodes[0].host = \"böse.de\": no certificate can name it; "),
    ("[rest]\nscheme = 'https'\n[[nodes]]\nname = 'a'\nhost = 'a'\nrest_host = 'böse.de'", ": nodes[0].rest_host = \"böse.de\": no certificate can name it; "),

    // Variables.
    ("admin_address = '${HELIOS_PORT'", ": admin_address = \"${HELIOS_PORT\": allowed is ${VAR} or ${VAR:-default}"),
    ("max_connections = '${HELIOS_NO:-many}'", ": max_connections = \"many\": allowed is a positive whole number"),
];

/// Files that start. Each is completed by [`NODES`], asks for port 0 and names what does not exist.
const GOOD: &[&str] = &[
    "",
    "write_timeout_secs = 0.001\nconnect_timeout_ms = 1\ndead_peer_secs = 0\ndrain_timeout_secs = 0",
    "write_timeout_secs = 1e30\nconnect_timeout_ms = 9223372036854775807\nmax_connections = 1",
    "max_connections = '${HELIOS_NO:-7}'\nwrite_timeout_secs = '${HELIOS_NO:-1.5}'\nadmin_allow_insecure = '${HELIOS_NO:-false}'",
    "admin_allow_insecure = true\nenable_chaos = true\nadmin_token_file = '/no/such/token'",
    "[topology]\nprovider = 'patroni'",
    "[topology]\nprovider = 'patroni'\npatroni_endpoints = ['http://no.such.host.invalid:1', 'http://[::1]:8008']\npatroni_request_timeout_ms = 1\npoll_interval_secs = 0.5\ndiscover = true",
    "[topology]\nprovider = 'patroni'\npatroni_endpoints = ['https://pg1.invalid:8008']\n[rest]\nscheme = 'https'",
    "[topology]\nscope = '${HELIOS_NO:-123}'\nsystem_identifier = '7123456789012345678'\npatroni_ttl_secs = 30",
    "[topology]\nprovider = 'manual'",
    "[health]\ncheck_interval_ms = 1\nfast_interval_ms = 99999\nmax_staleness_ms = 1",
    "[[nodes]]\nname = 'pg0'\nhost = 'no.such.host.invalid'\nrest_host = '::1'\nrest_port = 1\nenabled = false",
    "[[nodes]]\nname = '2001:db8::1'\nhost = '[2001:db8::1]'",
    "[rest]\nscheme = 'https'",
    "[rest]\nscheme = 'https'\nserver_name = 'patroni.example'\n[[nodes]]\nname = 'pg0'\nhost = 'böse.de'",
    "[rest]\nscheme = 'https'\n[[nodes]]\nname = 'pg0'\nhost = '[fe80::1%eth0]'\nrest_host = 'pg_0.example.'",
    "[[listeners]]\naddress = '127.0.0.1:0'\nroute = 'replica'\npolicy = 'least_connections'\nfallback = 'none'\non_promotion = 'close'\nrequire_streaming = true\narchive_recovery = true\nmax_lag_bytes = 0\n[[listeners]]\naddress = '[::1]:0'\nroute = 'any'",
    "[[nodes]]\nname = 'no reads'\nhost = '10.0.0.3'\nweight = 0",
    "[[nodes]]\nname = 'same host'\nhost = '10.0.0.1'\nport = 5433",
    "[[nodes]]\nname = 'pg0'\nhost = '10.0.0.3'\nrole = 'primary'",
    "[topology]\nprovider = 'postgres'\nuser = 'probe'\ndatabase = 'db'\npoll_interval_secs = 0.5",
    "[topology]\nprovider = 'static'\n[[nodes]]\nname = 'a'\nhost = '10.0.0.1'\nrole = 'primary'\n[[nodes]]\nname = 'b'\nhost = '10.0.0.2'\nrole = 'standby'",
    "[topology]\nprovider = 'static'\nuser = 'u'\ncheck_query = 'SELECT 2'\n[[nodes]]\nname = 'a'\nhost = '10.0.0.1'\nrole = 'primary'\n[[nodes]]\nname = 'b'\nhost = '10.0.0.2'\nrole = 'primary'\nenabled = false",
];

/// Every key with its default, as the README shows it.
const DEFAULTS: &str = include_str!("../src/config/defaults.toml");

fn check(file: &Path) -> (bool, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_helios-proxy"))
        .args(["check", "--config"])
        .arg(file)
        .output()
        .unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(matches!(out.status.code(), Some(0 | 2)), "{said}");
    (out.status.success(), said)
}

/// The error and everything behind it, as one line.
fn chain(error: &dyn std::error::Error) -> String {
    let behind = error.source().map(|source| format!(": {}", chain(source)));
    format!("{error}{}", behind.unwrap_or_default())
}

fn completed(text: &str) -> String {
    let own = text.contains("nodes") || text.is_empty();
    format!("{text}\n{}", if own { "" } else { NODES })
}

#[test]
fn every_bad_file_is_refused_in_one_line_that_names_file_key_value_and_what_is_allowed() {
    let mut wrong = Vec::new();
    for (text, words) in BAD {
        let error = Config::from_toml(&completed(text))
            .map(|_| text)
            .unwrap_err();
        let said = chain(&error);
        if !said.starts_with(&format!("config{words}")) || said.contains('\n') {
            wrong.push(format!("{text}\n said {said}\n not  config{words}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn a_check_refuses_what_a_start_refuses_and_with_the_same_words() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.toml");
    for (text, _) in BAD {
        fs::write(&file, completed(text)).unwrap();

        let start = chain(&Config::load(&file).unwrap_err());
        let (accepted, said) = check(&file);

        assert!(!accepted, "{text}");
        assert_eq!(said.trim_end(), format!("helios-proxy: {start}"));
    }
}

/// Completes a good file: nothing of it may meet what runs on this machine.
fn startable(text: &str) -> String {
    let own = text.contains("[listeners]") || text.contains("listeners =");
    let listeners = if own {
        ""
    } else {
        "[[listeners]]\naddress = '127.0.0.1:0'"
    };
    // Declared nodes bring their roles; the usual ones have none.
    let nodes = if text.contains("'static'") { "" } else { NODES };
    format!("admin_address = ''\n{text}\n{listeners}\n{nodes}")
}

#[tokio::test]
async fn a_check_accepts_what_a_start_accepts_and_touches_nothing_that_it_names() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("good.toml");
    for text in GOOD {
        fs::write(&file, startable(text)).unwrap();

        let (accepted, said) = check(&file);
        assert!(accepted, "{text}\n{said}");

        let house = House::start(Config::load(&file).unwrap()).await;
        house
            .unwrap_or_else(|error| panic!("{text}\n{}", chain(&error)))
            .stop()
            .await;
    }
}

#[tokio::test]
async fn what_needs_the_machine_is_left_to_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("elsewhere.toml");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let group = folder.path().join(".s.PGSQL.1").display().to_string();
    for (address, more, words) in [
        (taken.as_str(), "", "in use"),
        ("/no/such/folder/.s.PGSQL.1", "", "/no/such/folder"),
        (&group, "group = 'no-such-group'", "no-such-group"),
    ] {
        let listener = format!("admin_address = ''\n[[listeners]]\naddress = '{address}'\n{more}");
        fs::write(&file, format!("{listener}\n{NODES}")).unwrap();

        assert_eq!(check(&file), (true, String::new()));
        let Err(error) = House::start(Config::load(&file).unwrap()).await else {
            panic!("started on {address}");
        };
        assert!(chain(&error).contains(words), "{}", chain(&error));
    }
}

#[tokio::test]
async fn a_named_file_is_left_to_the_start_which_names_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (file, empty, absent) = (at("rest.toml"), at("empty"), at("absent"));
    fs::write(&empty, "").unwrap();
    let https = "scheme = 'https'\n";
    for (rest, words) in [
        (
            format!("{https}ca_file = '{absent}'"),
            format!("rest.ca_file = {absent:?}: cannot be read: No such file"),
        ),
        (
            format!("{https}ca_file = '{empty}'"),
            format!("rest.ca_file = {empty:?}: holds no certificate in PEM"),
        ),
        (
            format!("{https}ca_file = '{}'", at("")),
            "not a regular file".to_owned(),
        ),
        (
            format!("{https}cert_file = '{absent}'\nkey_file = '{empty}'"),
            format!("rest.cert_file = {absent:?}: cannot be read"),
        ),
        (
            format!("username = 'u'\npassword_file = '{empty}'"),
            format!("rest.password_file = {empty:?}: holds no password"),
        ),
    ] {
        fs::write(&file, startable(&format!("[rest]\n{rest}"))).unwrap();

        assert!(check(Path::new(&file)).0, "{rest}");
        let Err(error) = House::start(Config::load(Path::new(&file)).unwrap()).await else {
            panic!("started with {rest}");
        };
        assert!(chain(&error).contains(&words), "{}", chain(&error));
    }
}

#[tokio::test]
async fn off_loopback_a_check_asks_for_the_key_and_a_start_for_the_token() {
    let folder = tempfile::tempdir().unwrap();
    let (file, token) = (folder.path().join("a.toml"), folder.path().join("token"));
    let text = format!(
        "admin_address = '0.0.0.0:0'\nadmin_token_file = {token:?}\nlisteners = [{{ address = '127.0.0.1:0' }}]\n{NODES}"
    );
    fs::write(&file, text).unwrap();

    assert_eq!(check(&file), (true, String::new()));
    let Err(error) = House::start(Config::load(&file).unwrap()).await else {
        panic!("started without its token");
    };
    let said = chain(&error);
    assert!(
        said.contains(&format!("{token:?} cannot be read")),
        "{said}"
    );

    fs::write(&token, "secret").unwrap();
    let house = House::start(Config::load(&file).unwrap()).await.unwrap();
    house.stop().await;
}

#[test]
fn every_key_written_out_with_its_default_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("defaults.toml");
    fs::write(&file, DEFAULTS).unwrap();

    assert_eq!(check(&file), (true, String::new()));
    Config::load(&file).unwrap();
}

#[test]
fn a_check_leaves_unset_variables_to_the_start_and_judges_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("vars.toml");
    let text = "
        max_connections = '${HELIOS_NO}'
        admin_address = '${HELIOS_NO}'
        nodes = [
            { name = '${HELIOS_NO_A}', host = 'h', port = '${HELIOS_NO}' },
            { name = '${HELIOS_NO_B}', host = 'h', port = '${HELIOS_NO}' },
            { name = 'c', host = '${HELIOS_NO}' },
        ]
        listeners = [{ address = '${HELIOS_NO}', mode = '0700' }, { address = '127.0.0.1:9090' }]
    ";
    fs::write(&file, text).unwrap();

    assert_eq!(check(&file), (true, String::new()));
    let start = Config::load(&file).unwrap_err().to_string();
    let words = "admin_address = \"${HELIOS_NO}\": the environment variable HELIOS_NO is not set";
    assert!(start.contains(words), "{start}");

    fs::write(&file, text.replace("'c'", "''")).unwrap();
    assert!(
        check(&file)
            .1
            .contains("nodes[2].name = \"\": allowed is a text")
    );
}

#[test]
fn doubts_are_printed_and_do_not_refuse() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("doubtful.toml");
    fs::write(&file, format!("write_timeout_secs = 5\n{NODES}")).unwrap();

    let (accepted, said) = check(&file);

    assert!(accepted);
    assert!(said.starts_with(&format!(
        "{}: warning: write_timeout_secs = 5: ",
        file.display()
    )));
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let (accepted, said) = check(Path::new("/no/such/file.toml"));

    assert!(!accepted);
    assert_eq!(
        said,
        "helios-proxy: /no/such/file.toml: cannot be read: No such file or directory (os error 2)\n"
    );
}

/// The keys that may stand below `header`, as the error for an impossible one lists them.
fn keys_below(header: &str) -> Vec<String> {
    let error = Config::from_toml(&format!("{header}\nzzzzzzzzzz = 1\n")).unwrap_err();
    let words = error.to_string();
    let (_, keys) = words.rsplit_once(": ").unwrap();
    keys.split(", ").map(str::to_owned).collect()
}

#[test]
fn the_readme_explains_every_key() {
    let readme = include_str!("../README.md");
    let options = readme.split("\n## Options\n").nth(1).unwrap();
    let options = options.split("\n## ").next().unwrap();
    let mut table = "";
    let mut told = std::collections::BTreeSet::new();
    for row in options.lines().filter(|line| line.starts_with('|')) {
        let first = row.split('|').nth(1).unwrap();
        let names = first.split('`').skip(1).step_by(2);
        for name in names {
            if name.starts_with('[') {
                table = name;
            } else {
                told.insert((table, name));
            }
        }
    }

    let tables = [
        "",
        "[[listeners]]",
        "[health]",
        "[topology]",
        "[rest]",
        "[backend]",
        "[[nodes]]",
    ];
    let is_table = |key: &str| {
        tables
            .iter()
            .any(|table| table.trim_matches(['[', ']']) == key)
    };
    let later = [
        "accept_proxy",
        "send_proxy",
        "trusted_proxies",
        "tls_cert_file",
        "tls_key_file",
        "tls_client_ca_file",
    ];
    for table in tables {
        for key in keys_below(table).iter().filter(|key| !is_table(key)) {
            let is_later = later.contains(&key.as_str()) || key == "tls" || table == "[backend]";
            assert!(
                told.contains(&(table, key.as_str())) || is_later,
                "{table} {key} is not in the README's table of options"
            );
        }
    }
}
