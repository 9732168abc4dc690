package server

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/server/auth/login"
	"kaas.dev/kaas/server/auth/oauth"
	"kaas.dev/kaas/server/auth/sasl"
)

const (
	plainModule = "org.apache.kafka.common.security.plain.PlainLoginModule"
	scramModule = "org.apache.kafka.common.security.scram.ScramLoginModule"
	oauthModule = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
	plainJAAS   = plainModule + ` required username="kaas" password="kaas-secret" user_kaas="kaas-secret" user_alice="alice-secret";`
	scramJAAS   = scramModule + ` required username="kaas" password="kaas-secret";`
)

func saslKeyRows() map[string]keyRow {
	sasls := func(f func(SASL) bool) func(*Config) bool { return func(c *Config) bool { return f(c.SASL) } }
	oauths := func(f func(oauth.Settings) bool) func(*Config) bool {
		return func(c *Config) bool { return f(c.SASL.OAuth) }
	}
	rows := map[string]keyRow{
		"sasl.oauthbearer.jwks.endpoint.url":                  {"file:///x", oauths(func(s oauth.Settings) bool { return s.URL == "file:///x" })},
		"sasl.oauthbearer.jwks.endpoint.refresh.ms":           {"21", oauths(func(s oauth.Settings) bool { return s.Refresh == 21*time.Millisecond })},
		"sasl.oauthbearer.jwks.endpoint.retry.backoff.ms":     {"22", oauths(func(s oauth.Settings) bool { return s.Backoff == 22*time.Millisecond })},
		"sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": {"23", oauths(func(s oauth.Settings) bool { return s.MaxBackoff == 23*time.Millisecond })},
		"sasl.oauthbearer.expected.issuer":                    {"me", oauths(func(s oauth.Settings) bool { return s.Issuer == "me" })},
		"sasl.oauthbearer.expected.audience":                  {"a, b", oauths(func(s oauth.Settings) bool { return len(s.Audience) == 2 })},
		"sasl.oauthbearer.clock.skew.seconds":                 {"24", oauths(func(s oauth.Settings) bool { return s.Skew == 24*time.Second })},
		"sasl.oauthbearer.scope.claim.name":                   {"scp", oauths(func(s oauth.Settings) bool { return s.ScopeClaim == "scp" })},
		"sasl.oauthbearer.sub.claim.name":                     {"who", oauths(func(s oauth.Settings) bool { return s.SubClaim == "who" })},
		"sasl.server.callback.handler.class":                  {validator, func(*Config) bool { return true }}, // it changes nothing
		"sasl.enabled.mechanisms":                             {"plain,SCRAM-SHA-512", sasls(func(s SASL) bool { return len(s.Mechanisms) == 2 && s.Mechanisms[0] == sasl.Plain })},
		"sasl.mechanism.inter.broker.protocol":                {"PLAIN", sasls(func(s SASL) bool { return s.InterBroker == sasl.Plain })},
		"sasl.server.max.receive.size":                        {"17", sasls(func(s SASL) bool { return s.MaxReceive == 17 })},
		"connections.max.reauth.ms":                           {"18", sasls(func(s SASL) bool { return s.Reauth == 18*time.Millisecond })},
		"connection.failed.authentication.delay.ms":           {"19", sasls(func(s SASL) bool { return s.FailureDelay == 19*time.Millisecond })},
		"listener.name.plaintext.plain.sasl.jaas.config": {plainJAAS, func(c *Config) bool {
			return c.at("PLAINTEXT", sasl.Plain).SASL.Login.Options["username"] == "kaas" && c.SASL.Login.Module == ""
		}},
	}
	for _, k := range login.Keys { // what they do is shown in login
		rows[k.Name] = keyRow{"some", func(c *Config) bool {
			v, name, given := c.settingAt(place{"ANY", sasl.OAuthBearer}, k.Name)
			return v == "some" && name == k.Name && given
		}}
	}
	return rows
}

// What is set for a listener counts there, and what is set for a mechanism of it, with that.
func TestConfigScoped(t *testing.T) {
	c, err := LoadConfig(Sources{Sets: []string{"listeners=IN.SIDE://:0,OUT://:0", "listener.security.protocol.map=IN.SIDE:PLAINTEXT,OUT:SASL_PLAINTEXT",
		"connections.max.reauth.ms=1", "listener.name.in.side.connections.max.reauth.ms=2", "listener.name.out.connections.max.reauth.ms=3",
		"listener.name.OUT.plain.connections.max.reauth.ms=4", "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256", "listener.name.out.plain.sasl.jaas.config=" + plainJAAS}})
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[place]time.Duration{{"IN.SIDE", ""}: 2, {"IN.SIDE", "PLAIN"}: 2, {"OUT", ""}: 3, {"OUT", "PLAIN"}: 4, {"OUT", "SCRAM-SHA-256"}: 3, {"OTHER", ""}: 1} {
		if got := c.at(at.listener, at.mechanism).SASL.Reauth; got != want*time.Millisecond {
			t.Errorf("%v: %v, want %d ms", at, got, want)
		}
	}
	if c.SASL.Reauth != time.Millisecond {
		t.Errorf("the broker's own is %v", c.SASL.Reauth)
	}
}

// The environment means the same listeners and mechanisms.
func TestConfigScopedByEnvironment(t *testing.T) {
	c, err := LoadConfig(Sources{Environ: []string{"KAAS_LISTENERS=SASL_PLAINTEXT://:0", "KAAS_SASL_ENABLED_MECHANISMS=SCRAM-SHA-512", "KAAS_SASL_MECHANISM_INTER_BROKER_PROTOCOL=SCRAM-SHA-512",
		"KAAS_LISTENER_NAME_SASL_PLAINTEXT_SCRAM_SHA_512_SASL_JAAS_CONFIG=" + scramJAAS}})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.at("SASL_PLAINTEXT", sasl.ScramSHA512).SASL.Login.Options["username"]; got != "kaas" {
		t.Errorf("logs in as %q", got)
	}
}

func TestConfigSASLRefused(t *testing.T) {
	outside := []string{"listeners=IN://:0,OUT://:0", "listener.security.protocol.map=IN:PLAINTEXT,OUT:SASL_PLAINTEXT"}
	tokens := []string{"inter.broker.listener.name=OUT", "sasl.enabled.mechanisms=OAUTHBEARER", "sasl.mechanism.inter.broker.protocol=OAUTHBEARER", "sasl.oauthbearer.jwks.endpoint.url=file:///x"}
	for name, tc := range map[string]struct {
		sets []string
		want string
	}{
		"no mechanism":          {nil, "no mechanism is enabled"},
		"unknown mechanism":     {[]string{"sasl.enabled.mechanisms=GSSAPI"}, "sasl.enabled.mechanisms"},
		"nobody":                {[]string{"sasl.enabled.mechanisms=PLAIN"}, "listener.name.out.plain.sasl.jaas.config"},
		"bare jaas":             {[]string{"sasl.jaas.config=" + plainJAAS}, "for a mechanism of a listener"},
		"jaas of a listener":    {[]string{"listener.name.out.sasl.jaas.config=" + plainJAAS}, "unknown name"},
		"wrong module":          {[]string{"sasl.enabled.mechanisms=PLAIN", "listener.name.out.plain.sasl.jaas.config=" + scramJAAS}, "PlainLoginModule"},
		"malformed":             {[]string{"listener.name.out.plain.sasl.jaas.config=" + plainModule + " required kaas-secret"}, "has no value"},
		"no such listener":      {[]string{"listener.name.other.connections.max.reauth.ms=1"}, "OTHER"},
		"twice":                 {[]string{"listener.name.out.connections.max.reauth.ms=1", "listener.name.OUT.connections.max.reauth.ms=1"}, "twice"},
		"no key of listeners":   {[]string{"listener.name.out.num.partitions=1"}, "unknown name"},
		"no number":             {[]string{"listener.name.out.connections.max.reauth.ms=x"}, "listener.name.out.connections.max.reauth.ms"},
		"long delay":            {[]string{"connection.failed.authentication.delay.ms=1000", "connections.max.idle.ms=1000"}, "connection.failed.authentication.delay.ms"},
		"brokers without one":   {[]string{"inter.broker.listener.name=OUT", "sasl.enabled.mechanisms=SCRAM-SHA-512"}, "sasl.mechanism.inter.broker.protocol"},
		"brokers not enabled":   {[]string{"inter.broker.listener.name=OUT", "sasl.enabled.mechanisms=SCRAM-SHA-512", "sasl.mechanism.inter.broker.protocol=PLAIN"}, "not \"PLAIN\""},
		"brokers as nobody":     {[]string{"inter.broker.listener.name=OUT", "sasl.enabled.mechanisms=SCRAM-SHA-512", "sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512"}, "as whom"},
		"unsigned tokens":       {[]string{"sasl.enabled.mechanisms=OAUTHBEARER"}, "sasl.oauthbearer.jwks.endpoint.url"},
		"no such URL":           {[]string{"sasl.oauthbearer.jwks.endpoint.url=ftp://x/y"}, "sasl.oauthbearer.jwks.endpoint.url"},
		"a password in the URL": {[]string{"sasl.oauthbearer.jwks.endpoint.url=https://kaas:kaas-secret@x/y"}, "sasl.oauthbearer.jwks.endpoint.url"},
		"keys not to be trusted": {[]string{"sasl.enabled.mechanisms=OAUTHBEARER", "sasl.oauthbearer.jwks.endpoint.url=https://x/y",
			"listener.name.out.oauthbearer.sasl.jaas.config=" + oauthModule + ` required ssl.truststore.type="moon";`}, "its option ssl.truststore.type"},
		"a plugin":                 {[]string{"sasl.server.callback.handler.class=com.example.Mine"}, "no plugins"},
		"brokers with tokens":      {[]string{"inter.broker.listener.name=OUT", "sasl.enabled.mechanisms=OAUTHBEARER", "sasl.mechanism.inter.broker.protocol=OAUTHBEARER", "sasl.oauthbearer.jwks.endpoint.url=file:///x"}, "config sasl.oauthbearer.token.endpoint.url (from its default): this broker logs in to others: is needed"},
		"brokers without a secret": {append(tokens[:len(tokens):len(tokens)], "listener.name.out.oauthbearer.sasl.oauthbearer.token.endpoint.url=https://x/y"), "config sasl.jaas.config (from its default): this broker logs in to others: it has no clientId"},
		"brokers with half a secret": {append(tokens[:len(tokens):len(tokens)], "sasl.oauthbearer.token.endpoint.url=https://x/y",
			"listener.name.out.oauthbearer.sasl.jaas.config="+oauthModule+` required clientId="kaas-secret";`), "config listener.name.out.oauthbearer.sasl.jaas.config (from --set): this broker logs in to others: it has no clientSecret"},
		"brokers with an odd factor": {append(tokens[:len(tokens):len(tokens)], "sasl.oauthbearer.token.endpoint.url=file:///x", "listener.name.out.sasl.login.refresh.window.factor=7"), "config listener.name.out.sasl.login.refresh.window.factor (from --set)"},
		"brokers half": {[]string{"inter.broker.listener.name=OUT", "sasl.enabled.mechanisms=SCRAM-SHA-512", "sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512",
			"listener.name.out.scram-sha-512.sasl.jaas.config=" + scramModule + ` required username="kaas-secret";`}, "username and password"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := LoadConfig(Sources{Sets: append(outside[:2:2], tc.sets...)})
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "kaas-secret") {
				t.Errorf("%v, want it to say %q and no secret", err, tc.want)
			}
		})
	}
}

// Passwords are shown to nobody.
func TestDescribeConfigsHidesPasswords(t *testing.T) {
	c, err := LoadConfig(Sources{Sets: []string{"listeners=SASL_PLAINTEXT://:0", "sasl.enabled.mechanisms=PLAIN", "sasl.mechanism.inter.broker.protocol=PLAIN",
		"listener.name.sasl_plaintext.plain.sasl.jaas.config=" + plainJAAS}})
	if err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeSynonyms = true
	seen := false
	for _, v := range c.describeBroker(noCluster{}.View()) {
		out := describedConfig(req, v)
		if secret := v.kind == kmsg.ConfigTypePassword; secret != out.IsSensitive || secret && out.Value != nil {
			t.Errorf("%s is shown as %v, sensitive %v", v.name, out.Value, out.IsSensitive)
		}
		seen = seen || strings.HasPrefix(v.name, "listener.name.") && out.Source == kmsg.ConfigSourceStaticBrokerConfig
		for _, s := range out.ConfigSynonyms {
			if s.Value != nil && strings.Contains(*s.Value, "secret") {
				t.Errorf("%s shows %s", v.name, *s.Value)
			}
		}
	}
	if !seen {
		t.Error("what is set for a listener is not shown")
	}
}

// Types are Kafka's: by them tools tell what a value may be.
func TestDescribeConfigsTypes(t *testing.T) {
	c, err := LoadConfig(Sources{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]kmsg.ConfigType{
		"sasl.oauthbearer.jwks.endpoint.refresh.ms":           kmsg.ConfigTypeLong,
		"sasl.oauthbearer.jwks.endpoint.retry.backoff.ms":     kmsg.ConfigTypeLong,
		"sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": kmsg.ConfigTypeLong,
		"sasl.oauthbearer.clock.skew.seconds":                 kmsg.ConfigTypeInt,
		"sasl.server.callback.handler.class":                  kmsg.ConfigTypeClass,
		"connections.max.reauth.ms":                           kmsg.ConfigTypeLong,
		"sasl.login.refresh.window.factor":                    kmsg.ConfigTypeDouble,
		"sasl.login.refresh.buffer.seconds":                   kmsg.ConfigTypeShort,
		"sasl.login.read.timeout.ms":                          kmsg.ConfigTypeInt,
		"sasl.oauthbearer.client.credentials.client.secret":   kmsg.ConfigTypePassword,
		"connection.failed.authentication.delay.ms":           kmsg.ConfigTypeInt,
		"sasl.enabled.mechanisms":                             kmsg.ConfigTypeList,
		"sasl.jaas.config":                                    kmsg.ConfigTypePassword,
	}
	for _, v := range c.describeBroker(noCluster{}.View()) {
		got := describedConfig(kmsg.NewPtrDescribeConfigsRequest(), v).ConfigType
		if kind, ok := want[v.name]; ok && got != kind {
			t.Errorf("%s is of type %v, want %v", v.name, got, kind)
		}
		delete(want, v.name)
	}
	if len(want) > 0 {
		t.Errorf("not described: %v", want)
	}
}
