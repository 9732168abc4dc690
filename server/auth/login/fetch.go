package login

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"kaas.dev/kaas/internal/hostfile"
	"kaas.dev/kaas/server/auth/idp"
)

// mostToken is more than any token has, in bytes. A request with a longer one would be refused.
const mostToken = 128 << 10

// fetchError is why there is no token from a provider.
type fetchError struct {
	from   string
	status int    // of the answer; 0 where there was none
	code   string // of the provider's error
	err    error
	passes bool // the same may go well the next time
}

func (e *fetchError) Error() string {
	switch {
	case e.status == 0:
		return fmt.Sprintf("no token from %s: %v", e.from, e.err)
	case e.code != "":
		return fmt.Sprintf("no token from %s: HTTP status %d, %s", e.from, e.status, e.code)
	}
	return fmt.Sprintf("no token from %s: HTTP status %d", e.from, e.status)
}

func (e *fetchError) Unwrap() error { return e.err }

// mayPass reports that the same may go well the next time.
func mayPass(err error) bool {
	var e *fetchError
	return errors.As(err, &e) && e.passes
}

// errorCode is how a provider names an error (RFC 6749, 5.2): what is more than that may be
// anything, a secret that it was sent among it.
var errorCode = regexp.MustCompile(`^[a-z_]{1,40}$`)

// grant asks the provider for a token.
func (s *tokenSettings) grant(ctx context.Context) (token, error) {
	client, done, err := s.client()
	if err != nil {
		return token{}, err
	}
	defer done()
	conf := clientcredentials.Config{ClientID: s.id, ClientSecret: s.secret, TokenURL: s.url.String(), AuthStyle: oauth2.AuthStyleInHeader}
	if s.scope != "" {
		conf.Scopes = []string{s.scope}
	}
	now := time.Now()
	got, err := conf.Token(context.WithValue(ctx, oauth2.HTTPClient, client))
	if err != nil {
		return token{}, s.failed(err)
	}
	t, err := readToken(got.AccessToken, now)
	if errors.Is(err, errOpaque) && !got.Expiry.IsZero() {
		t.expires, err = got.Expiry, nil
	}
	if err == nil && !now.Before(t.expires) {
		err = errors.New("the token that it gives has expired: do the clocks differ?")
	}
	if err != nil {
		return token{}, &fetchError{from: idp.Name(s.url), err: err}
	}
	return t, nil
}

// failed tells why a request failed, without what the provider has said.
func (s *tokenSettings) failed(err error) error {
	out := &fetchError{from: idp.Name(s.url), err: errors.New("its answer is not one with a token")}
	var answer *oauth2.RetrieveError
	var transport *url.Error
	var distrust *tls.CertificateVerificationError
	switch {
	case errors.As(err, &answer):
		out.status = answer.Response.StatusCode
		out.passes = out.status >= 500 || out.status == http.StatusTooManyRequests || out.status == http.StatusRequestTimeout
		if errorCode.MatchString(answer.ErrorCode) {
			out.code = answer.ErrorCode
		}
	case errors.As(err, &transport):
		out.err, out.passes = transport.Err, !errors.As(err, &distrust)
	}
	return out
}

// client is what speaks to the provider once, and what ends it.
func (s *tokenSettings) client() (*http.Client, func(), error) {
	c := idp.Client{TLS: s.tls, Connect: s.connectTimeout, Total: s.connectTimeout + s.readTime}
	client, done, err := c.Open()
	if err != nil {
		return nil, nil, s.optionError(err)
	}
	client.Transport = &asKafka{client.Transport, s}
	return client, done, nil
}

// asKafka sends the client's ID and secret as they are, as Kafka does unless it is told to
// encode them.
type asKafka struct {
	http.RoundTripper
	s *tokenSettings
}

func (a *asKafka) RoundTrip(req *http.Request) (*http.Response, error) {
	if !a.s.urlencode {
		req = req.Clone(req.Context())
		req.SetBasicAuth(a.s.id, a.s.secret)
	}
	return a.RoundTripper.RoundTrip(req)
}

// readFile is the token in the file.
func (s *tokenSettings) readFile(now time.Time) (token, error) {
	b, err := hostfile.Read(s.url.Path, mostToken)
	if err != nil {
		return token{}, fmt.Errorf("no token to log in with: %w", err)
	}
	t, err := readToken(strings.TrimSpace(string(b)), now)
	if err == nil && !now.Before(t.expires) {
		err = fmt.Errorf("the token has expired at %s", t.expires.Format(time.RFC3339))
	}
	if err != nil && !errors.Is(err, errOpaque) {
		return token{}, fmt.Errorf("no token to log in with: %s: %w", s.url.Path, err)
	}
	return t, nil
}

var (
	errNoToken = errors.New("it is no token")
	// errOpaque is for a token that does not say until when it is good.
	errOpaque = errors.New("the token does not say until when it is good")
)

// latest is the last second that has four digits for its year.
const latest = 253402300799

// tokenText is what a token may be (RFC 6750, 2.1).
var tokenText = regexp.MustCompile(`^[-._~+/A-Za-z0-9]+=*$`)

// readToken takes from a JWT until when it is good. Whether it is genuine is for brokers to find
// out.
func readToken(raw string, now time.Time) (token, error) {
	t := token{raw: raw, got: now}
	if !tokenText.MatchString(raw) || len(raw) > mostToken {
		return t, errNoToken
	}
	parts := strings.Split(raw, ".")
	var claims struct {
		Exp *float64 `json:"exp"`
	}
	if len(parts) != 3 {
		return t, errOpaque
	}
	b, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(b, &claims) != nil || claims.Exp == nil {
		return t, errOpaque
	}
	t.expires = time.Unix(int64(max(0, min(*claims.Exp, latest))), 0)
	return t, nil
}
