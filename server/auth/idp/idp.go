// Package idp is how brokers speak to an identity provider by HTTP, for tokens of their own and
// for the keys by which others' are signed: over TLS as the options of a login module have it.
//
// # Invariants
//
//   - What was asked for over TLS never comes, or goes, without it: a redirect keeps the scheme.
//   - URLs have no user in them, and are named without their query, which may be a secret, too.
package idp

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"

	"kaas.dev/kaas/server/tlsconf"
)

// Errors of URLs. They have nothing of the URL, which may have a password in it.
var (
	ErrURL  = errors.New("it is no http://, https:// or file:// URL")
	ErrUser = errors.New("has a user in it, which would be shown and logged")
)

// ParseURL judges where something is: https or http of a provider, or file.
func ParseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, ErrURL
	case u.Scheme == "file" && u.Host == "" && u.Path != "":
		return u, nil
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, ErrURL
	case u.User != nil:
		return nil, ErrUser
	}
	return u, nil
}

// Name is how logs and errors call an URL.
func Name(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// ParseTLS reads the options of a login module that begin with ssl.; its errors are of the type
// tlsconf.KeyError.
func ParseTLS(options map[string]string) (*tlsconf.Settings, error) {
	return tlsconf.ParseClient(func(key string) (string, string, bool) {
		if v, ok := options[key]; ok {
			return v, key, true
		}
		return tlsconf.DefaultOf(key), key, false
	})
}

// Client speaks to a provider a few times.
type Client struct {
	// TLS is how https is spoken; nil where it is not.
	TLS *tlsconf.Settings
	// Connect and Total bound a connection, and all of a request.
	Connect, Total time.Duration
	// Redirects says that they are followed, to the same scheme. They are not where there are
	// secrets in the request.
	Redirects bool
}

// mostRedirects is how many redirects are followed.
const mostRedirects = 5

var errRedirect = errors.New("it redirects from https to http, or too often")

// Open makes the client, with what the files of the settings have now, and what ends it.
func (c *Client) Open() (*http.Client, func(), error) {
	t := &http.Transport{DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: c.Connect}).DialContext,
		TLSHandshakeTimeout: c.Connect}
	if c.TLS != nil {
		st, err := tlsconf.Open(c.TLS, false)
		if err != nil {
			return nil, nil, err
		}
		t.TLSClientConfig = st.ClientConfig("") // of whatever host a connection is to
	}
	return &http.Client{Transport: t, Timeout: c.Total, CheckRedirect: c.redirect}, t.CloseIdleConnections, nil
}

func (c *Client) redirect(to *http.Request, via []*http.Request) error {
	switch {
	case !c.Redirects:
		return http.ErrUseLastResponse
	case len(via) > mostRedirects, to.URL.Scheme != via[0].URL.Scheme:
		return errRedirect
	}
	return nil
}
