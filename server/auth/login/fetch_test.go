package login

import (
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kaas.dev/kaas/internal/testcerts"
	"kaas.dev/kaas/server/auth/jaas"
	"kaas.dev/kaas/server/auth/sasl"
	"kaas.dev/kaas/server/tlsconf"
)

const oddSecret = "se cret/%&:ä"

func jwtOf(claims string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

func answer(raw string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":%q,"token_type":"bearer","expires_in":60}`, raw)
	}
}

// endpoint is a provider with TLS, and the options by which it is trusted.
func endpoint(t *testing.T, h http.HandlerFunc) (url, options string) {
	t.Helper()
	ca := testcerts.Authority(t, "ca")
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, ca.CertPEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{ca.Local(t, "id").TLS()}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL + "/token", ` ssl.truststore.type="PEM" ssl.truststore.location="` + file + `"`
}

// lookIn finds what is given, and defaults.
func lookIn(url string, more map[string]string) tlsconf.Lookup {
	return func(key string) (string, string, bool) {
		if v, ok := more[key]; ok {
			return v, key, true
		}
		if key == urlKey {
			return url, key, true
		}
		for _, k := range Keys {
			if k.Name == key {
				return k.Default, key, false
			}
		}
		return "", key, false
	}
}

func parsed(t *testing.T, url, options string, more map[string]string) *tokenSettings {
	t.Helper()
	module, err := jaas.Parse(Modules[sasl.OAuthBearer] + ` required clientId="ka as" clientSecret="` + oddSecret + `" scope="a b"` + options + `;`)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Parse(sasl.OAuthBearer, module, lookIn(url, more))
	if err != nil {
		t.Fatal(err)
	}
	return s.tokens
}

// What is asked of a provider is what Kafka asks.
func TestGrant(t *testing.T) {
	in := time.Now().Add(time.Hour).Unix()
	for encode, userinfo := range map[string]string{"false": "ka as:" + oddSecret, "true": "ka+as:se+cret%2F%25%26%3A%C3%A4"} {
		url, options := endpoint(t, func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			auth, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(r.Header.Get("Authorization"), "Basic "))
			if r.Method != http.MethodPost || string(b) != "grant_type=client_credentials&scope=a+b" || string(auth) != userinfo ||
				r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
				t.Errorf("%s %q %s, want the header %s", r.Method, b, auth, userinfo)
			}
			answer(jwtOf(fmt.Sprintf(`{"exp":%d}`, in)))(w, r)
		})
		got, err := parsed(t, url, options, map[string]string{urlencodeKey: encode}).grant(t.Context())
		if err != nil || got.expires.Unix() != in || !strings.HasPrefix(got.raw, "e30.") {
			t.Errorf("%v, %v", got, err)
		}
	}
}

// Settings of their own win over the options of the login module.
func TestGrantSettings(t *testing.T) {
	url, options := endpoint(t, func(w http.ResponseWriter, r *http.Request) {
		id, secret, _ := r.BasicAuth()
		if r.FormValue("scope") != "other" || id != "me" || secret != "mine" {
			t.Errorf("%s %s %s", id, secret, r.FormValue("scope"))
		}
		answer(jwtOf(`{"exp":9e11}`))(w, r)
	})
	got, err := parsed(t, url, options, map[string]string{idKey: "me", secretKey: "mine", scopeKey: "other"}).grant(t.Context())
	if err != nil || got.expires.Unix() != latest {
		t.Error(got.expires, err)
	}
}

// Why there is no token is told, and nothing that is secret or that anybody could have written.
func TestGrantFails(t *testing.T) {
	long := answer(jwtOf(`{"exp":` + fmt.Sprint(time.Now().Add(time.Hour).Unix()) + `}`))
	status := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			fmt.Fprint(w, body)
		}
	}
	for name, tc := range map[string]struct {
		h      http.HandlerFunc
		want   string
		passes bool
	}{
		"refused":       {status(401, `{"error":"invalid_client","error_description":"`+oddSecret+`"}`), "HTTP status 401, invalid_client", false},
		"refused oddly": {status(400, `{"error":"`+oddSecret+`"}`), "HTTP status 400", false},
		"no JSON":       {status(403, oddSecret), "HTTP status 403", false},
		"out of order":  {status(503, oddSecret), "HTTP status 503", true},
		"too often":     {status(429, ""), "HTTP status 429", true},
		"elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/token" {
				t.Error("a redirect is followed, with the secret")
			}
			http.Redirect(w, r, "/other", http.StatusTemporaryRedirect)
		}, "HTTP status 307", false},
		"another answer": {status(200, `{"id_token":"`+oddSecret+`"}`), "its answer is not one with a token", false},
		"nonsense":       {status(200, oddSecret), "its answer is not one with a token", false},
		"no token":       {answer("a b"), "it is no token", false},
		"too long":       {answer(strings.Repeat("a", mostToken+1)), "it is no token", false},
		"over":           {answer(jwtOf(`{"exp":1}`)), "has expired", false},
		"hangs up":       {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF", true},
		"slow": {func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // else nobody looks for the end of the connection
			<-r.Context().Done()
		}, "exceeded", true},
		"none to be trusted": {long, "certificate signed by unknown authority", false},
	} {
		t.Run(name, func(t *testing.T) {
			url, options := endpoint(t, tc.h)
			if name == "none to be trusted" {
				_, options = endpoint(t, tc.h)
			}
			more := map[string]string{}
			if name == "slow" {
				more = map[string]string{readKey: "100", connectKey: "2000"} // the handshake has the second, and all has both
			}
			_, err := parsed(t, url, options, more).grant(t.Context())
			if err == nil || !strings.HasPrefix(err.Error(), "no token from https://127.0.0.1:") || !strings.Contains(err.Error(), tc.want) ||
				strings.Contains(err.Error(), "cret") || mayPass(err) != tc.passes {
				t.Errorf("%v, may pass: %v, want %q", err, mayPass(err), tc.want)
			}
		})
	}
	if _, err := parsed(t, "http://127.0.0.1:1/token", "", nil).grant(t.Context()); err == nil || !strings.Contains(err.Error(), "connection refused") || !mayPass(err) {
		t.Error(err)
	}
	_, err := parsed(t, "https://127.0.0.1:1/token", ` ssl.truststore.type="PEM" ssl.truststore.location="/no/such"`, nil).grant(t.Context())
	var key *tlsconf.KeyError
	if !errors.As(err, &key) || err.Error() != "sasl.jaas.config: its option ssl.truststore.location: /no/such: no such file or directory" {
		t.Error(err)
	}
}

// A token need not say until when it is good, if the provider does.
func TestOpaqueToken(t *testing.T) {
	url, options := endpoint(t, answer("opaque"))
	got, err := parsed(t, url, options, nil).grant(t.Context())
	if left := time.Until(got.expires); err != nil || got.raw != "opaque" || left > time.Minute || left < 30*time.Second {
		t.Error(left, err)
	}
}

// A file is read anew each time.
func TestTokenFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	b := newBearer(parsed(t, "file://"+file, "", nil), nil, slog.New(slog.DiscardHandler))
	good, over := jwtOf(`{"exp":9e9}`), jwtOf(`{"exp":9}`)
	for _, tc := range []struct{ text, want, fails string }{
		{"", "", file},
		{good + "\n", good, ""},
		{over, "", file + ": the token has expired at 1970-01-01T"},
		{"opaque", "opaque", ""},
		{"two words", "", file + ": it is no token"},
		{good, good, ""},
	} {
		if tc.text != "" {
			if err := os.WriteFile(file, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := b.get(t.Context())
		if got != tc.want || (err == nil) != (tc.fails == "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
			t.Errorf("%q: %q, %v", tc.text, got, err)
		}
	}
	b.Run(t.Context()) // has nothing to do
}

// The token is said as RFC 7628 has it, with what else the login module has.
func TestBearerSays(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("opaque"), 0o600); err != nil {
		t.Fatal(err)
	}
	module, err := jaas.Parse(Modules[sasl.OAuthBearer] + ` required extension_traceId="7";`)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Parse(sasl.OAuthBearer, module, lookIn("file://"+file, nil))
	if err != nil {
		t.Fatal(err)
	}
	m := New(s, slog.New(slog.DiscardHandler))
	_, first, err := m.Authenticate(t.Context(), "")
	if m.Name() != "OAUTHBEARER" || err != nil || string(first) != "n,,\x01auth=Bearer opaque\x01traceId=7\x01\x01" {
		t.Errorf("%s %q %v", m.Name(), first, err)
	}
}
