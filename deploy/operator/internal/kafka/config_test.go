package kafka

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kaas.dev/kaas/internal/testcerts"
)

func write(t *testing.T, file, text string) string {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const login = `sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="op" password="hidden";` + "\n"

func TestConfig(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct {
		name, bootstrap, text string
		seeds                 []string
		user                  string
		fails                 string
	}{
		{name: "flag", bootstrap: "a:1, b:2", seeds: []string{"a:1", "b:2"}},
		{name: "file", text: "bootstrap.servers=c:3\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n" + login, seeds: []string{"c:3"}, user: "op"},
		{name: "both", bootstrap: "a:1", text: "bootstrap.servers=c:3\nrequest.timeout.ms=1\n", seeds: []string{"a:1"}},
		{name: "none", fails: "no brokers"},
		{name: "no port", bootstrap: "a", fails: "not HOST:PORT"},
		{name: "no login", bootstrap: "a:1", text: "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config=x password=hidden\n", fails: "sasl.jaas.config"},
		{name: "no file", bootstrap: "a:1", text: "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=/nowhere/at/all\n" + login, fails: "/nowhere/at/all"},
	} {
		file := ""
		if tc.text != "" {
			file = write(t, filepath.Join(dir, "properties"), tc.text)
		}
		s, err := NewConfig(tc.bootstrap, file).read()
		switch {
		case tc.fails != "":
			if err == nil || !strings.Contains(err.Error(), tc.fails) || strings.Contains(err.Error(), "hidden") {
				t.Errorf("%s: %v", tc.name, err)
			}
		case err != nil:
			t.Errorf("%s: %v", tc.name, err)
		case !slices.Equal(s.seeds, tc.seeds) || s.user != tc.user:
			t.Errorf("%s: %v, %q", tc.name, s.seeds, s.user)
		}
	}
}

// New files are taken when they are sound, and what they name counts as well.
func TestRefresh(t *testing.T) {
	dir := t.TempDir()
	trust := filepath.Join(dir, "ca.pem")
	put := func() { write(t, trust, string(testcerts.Authority(t, "a").CertPEM())) }
	put()
	text := "bootstrap.servers=c:3\nsecurity.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nssl.truststore.type=PEM\nssl.truststore.location=" + trust + "\n" + login
	file := write(t, filepath.Join(dir, "properties"), text)
	c, err := Dial(NewConfig("", file), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { c.Close() }()
	for _, step := range []struct {
		name  string
		do    func()
		taken bool
		fails bool
	}{
		{"nothing has changed", func() {}, false, false},
		{"a new authority", put, true, false},
		{"it is damaged", func() { write(t, trust, "x") }, false, true},
		{"and gone", func() { os.Remove(trust) }, false, true},
		{"and back", put, true, false},
		{"a new login", func() { write(t, file, strings.ReplaceAll(text, "op", "other")) }, true, false},
	} {
		old := c.now.Load()
		step.do()
		err := c.refresh()
		if (err != nil) != step.fails || (c.now.Load() != old) != step.taken {
			t.Errorf("%s: %v, taken: %v", step.name, err, c.now.Load() != old)
		}
	}
	if c.User() != "other" {
		t.Error(c.User())
	}
}
