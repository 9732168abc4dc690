package oauth

import (
	"crypto/tls"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kaas.dev/kaas/internal/testcerts"
	"kaas.dev/kaas/server/auth/idp"
)

// An https provider is trusted as the login module's options have it, and what was asked for
// over TLS is not taken from elsewhere without it.
func TestKeysByTLS(t *testing.T) {
	p := newProvider(t)
	give := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(p.jwks()) })
	open := httptest.NewServer(give)
	defer open.Close()
	ca := testcerts.Authority(t, "ca")
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, ca.CertPEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/keys", give)
	mux.Handle("/moved", http.RedirectHandler("/keys", http.StatusFound))
	mux.Handle("/open", http.RedirectHandler(open.URL+"/keys", http.StatusFound))
	mux.Handle("/round", http.RedirectHandler("/round", http.StatusFound))
	srv := httptest.NewUnstartedServer(mux)
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{ca.Local(t, "id").TLS()}}
	srv.StartTLS()
	defer srv.Close()
	trusted := map[string]string{"ssl.truststore.type": "PEM", "ssl.truststore.location": file}
	for _, tc := range []struct {
		what, url string
		options   map[string]string
		fails     string
	}{
		{"an authority of its own", srv.URL + "/keys", trusted, ""},
		{"moved", srv.URL + "/moved", trusted, ""},
		{"not trusted", srv.URL + "/keys", nil, "unknown authority"},
		{"moved to http", srv.URL + "/open", trusted, "redirects from https to http"},
		{"moved for ever", srv.URL + "/round", trusted, "too often"},
		{"http from the start", open.URL + "/keys", trusted, ""},
	} {
		s := settings(tc.url)
		var err error
		if s.TLS, err = idp.ParseTLS(tc.options); err != nil {
			t.Fatal(err)
		}
		m := New(s, slog.New(slog.DiscardHandler))
		err = m.keys.load(t.Context())
		if (err == nil) != (tc.fails == "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
			t.Errorf("%s: %v", tc.what, err)
		}
		if has := m.keys.set.Load() != nil; has != (err == nil) {
			t.Errorf("%s: keys are taken: %v", tc.what, has)
		}
	}
}

// A secret in the URL is in no line of the log.
func TestURLIsNotLogged(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, url := range []string{strings.Replace(gone.URL, "://", "://kaas:JWKSSECRET@", 1) + "/keys", gone.URL + "/keys?key=JWKSSECRET"} {
		var log strings.Builder
		k := newKeys(settings(url), slog.New(slog.NewTextHandler(&log, nil)))
		if err := k.load(t.Context()); err == nil {
			t.Error("there are keys")
		} else {
			k.log.Error("no keys", "from", k.name(), "err", err)
		}
		if strings.Contains(log.String(), "SECRET") || !strings.Contains(log.String(), "from=") {
			t.Error(log.String())
		}
	}
}
