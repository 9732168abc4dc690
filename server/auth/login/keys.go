package login

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"kaas.dev/kaas/server/auth/idp"
	"kaas.dev/kaas/server/tlsconf"
)

// Kind is how a key's value is written.
type Kind int

// The kinds of values.
const (
	Text Kind = iota
	Class
	Password // never shown
	Short
	Int
	Long
	Double
	Bool
)

// Key is one setting of OAUTHBEARER's tokens.
type Key struct {
	Name, Default string
	Kind          Kind
	Doc           string
}

// The keys' names.
const (
	urlKey         = "sasl.oauthbearer.token.endpoint.url"
	idKey          = "sasl.oauthbearer.client.credentials.client.id"
	secretKey      = "sasl.oauthbearer.client.credentials.client.secret"
	scopeKey       = "sasl.oauthbearer.scope"
	urlencodeKey   = "sasl.oauthbearer.header.urlencode"
	handlerKey     = "sasl.login.callback.handler.class"
	connectKey     = "sasl.login.connect.timeout.ms"
	readKey        = "sasl.login.read.timeout.ms"
	backoffKey     = "sasl.login.retry.backoff.ms"
	maxBackoffKey  = "sasl.login.retry.backoff.max.ms"
	factorKey      = "sasl.login.refresh.window.factor"
	jitterKey      = "sasl.login.refresh.window.jitter"
	minPeriodKey   = "sasl.login.refresh.min.period.seconds"
	bufferKey      = "sasl.login.refresh.buffer.seconds"
	handlerClass   = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
	idOption       = "clientId"
	secretOption   = "clientSecret"
	scopeOption    = "scope"
	minFactor      = 0.5
	maxFactor      = 1.0
	maxJitter      = 0.25
	mostMinPeriod  = 900
	mostBuffer     = 3600
	mostMillis     = math.MaxInt32
	mostLongMillis = math.MaxInt64 / int64(time.Millisecond)
)

// Keys are all of them.
var Keys = []Key{
	{urlKey, "", Text, "Where tokens come from to log in with: https or http, of an identity provider that gives them to clients with a secret (client credentials grant), or file for a file that holds one."},
	{idKey, "", Text, "Who the identity provider is asked as. Empty: clientId of the login module."},
	{secretKey, "", Password, "The secret that proves it. Empty: clientSecret of the login module."},
	{scopeKey, "", Text, "The scope that is asked for. Empty: scope of the login module, or none."},
	{urlencodeKey, "false", Bool, "Whether the two are URL-encoded in the header that they are sent in, as RFC 6749 has it."},
	{handlerKey, "", Class, "For configurations made for Kafka: OAuthBearerLoginCallbackHandler, which is how tokens are fetched in any case."},
	{connectKey, "", Int, "How long a connection to the identity provider may take. Empty: 10 seconds."},
	{readKey, "", Int, "How long its answer may take. Empty: 10 seconds."},
	{backoffKey, "100", Long, "How long after a try that failed the next follows; twice as long each time."},
	{maxBackoffKey, "10000", Long, "The longest such pause, and how long it is tried before a login fails."},
	{factorKey, "0.8", Double, "The part of a token's time after which the next one is fetched."},
	{jitterKey, "0.05", Double, "The greatest part of a token's time that is added to that at random."},
	{minPeriodKey, "60", Short, "Seconds that there are between two tokens at least, where a token's time allows it."},
	{bufferKey, "300", Short, "Seconds before a token's end by which the next one is fetched, where its time allows it."},
}

// reader reads settings by their keys until one is wrong.
type reader struct {
	look tlsconf.Lookup
	err  error
}

// fail blames a key, under the name it was given by.
func (r *reader) fail(key, why string, a ...any) {
	if r.err == nil {
		_, name, _ := r.look(key)
		r.err = blame(name, fmt.Errorf(why, a...))
	}
}

func (r *reader) text(key string) string {
	v, _, _ := r.look(key)
	return strings.TrimSpace(v)
}

func (r *reader) number(key string, least, most int64) int64 {
	n, err := strconv.ParseInt(r.text(key), 10, 64)
	if err != nil || n < least || n > most {
		r.fail(key, "must be a number from %d to %d", least, most)
	}
	return n
}

func (r *reader) millis(key string, most int64) time.Duration {
	return time.Duration(r.number(key, 1, most)) * time.Millisecond
}

// limit is how long something may take, which Kafka has no default for.
func (r *reader) limit(key string) time.Duration {
	if r.text(key) == "" {
		return 10 * time.Second
	}
	return r.millis(key, mostMillis)
}

func (r *reader) part(key string, least, most float64) float64 {
	f, err := strconv.ParseFloat(r.text(key), 64)
	if err != nil || !(f >= least && f <= most) {
		r.fail(key, "must be from %v to %v", least, most)
	}
	return f
}

func (r *reader) boolean(key string) bool {
	switch v := strings.ToLower(r.text(key)); v {
	case "true", "false":
		return v == "true"
	}
	r.fail(key, "must be true or false")
	return false
}

// tokenSettings are where tokens come from, and how.
type tokenSettings struct {
	url                      *url.URL
	id, secret, scope        string
	urlencode                bool
	connectTimeout, readTime time.Duration
	backoff, maxBackoff      time.Duration
	factor, jitter           float64
	minPeriod, buffer        time.Duration
	tls                      *tlsconf.Settings // of https
	notes                    []string
}

func parseTokens(options map[string]string, look tlsconf.Lookup) (*tokenSettings, error) {
	r := &reader{look: look}
	or := func(key, option string) string {
		if v := r.text(key); v != "" {
			return v
		}
		return strings.TrimSpace(options[option])
	}
	t := &tokenSettings{
		id: or(idKey, idOption), secret: or(secretKey, secretOption), scope: or(scopeKey, scopeOption), urlencode: r.boolean(urlencodeKey),
		connectTimeout: r.limit(connectKey), readTime: r.limit(readKey),
		backoff: r.millis(backoffKey, mostLongMillis), maxBackoff: r.millis(maxBackoffKey, mostLongMillis),
		factor: r.part(factorKey, minFactor, maxFactor), jitter: r.part(jitterKey, 0, maxJitter),
		minPeriod: time.Duration(r.number(minPeriodKey, 0, mostMinPeriod)) * time.Second,
		buffer:    time.Duration(r.number(bufferKey, 0, mostBuffer)) * time.Second,
	}
	if h := r.text(handlerKey); h != "" && h != handlerClass {
		r.fail(handlerKey, "%q is not %s: there are no plugins", h, handlerClass)
	}
	t.setURL(r)
	if r.err == nil && t.url.Scheme != "file" {
		r.err = t.checkGrant(options)
	}
	return t, r.err
}

func (s *tokenSettings) setURL(r *reader) {
	text := r.text(urlKey)
	u, err := idp.ParseURL(text)
	switch {
	case text == "":
		r.fail(urlKey, "is needed: it is to say where the tokens are to log in with")
	case errors.Is(err, idp.ErrUser):
		r.fail(urlKey, "has a user in it: the client's ID and secret have settings of their own")
	case err != nil:
		r.fail(urlKey, "%w", err)
	}
	s.url = u
}

// checkGrant judges what a provider needs to know.
func (s *tokenSettings) checkGrant(options map[string]string) (err error) {
	switch {
	case s.id == "":
		return blame(jaasKey, errors.New("it has no clientId, and "+idKey+" is not given"))
	case s.secret == "":
		return blame(jaasKey, errors.New("it has no clientSecret, and "+secretKey+" is not given"))
	case s.url.Scheme == "http":
		s.notes = append(s.notes, urlKey+" is not https: the client's secret and its tokens can be read on the way")
		return nil
	}
	s.tls, err = idp.ParseTLS(options)
	return s.optionError(err)
}

// optionError blames the login module, which has what is for TLS to the provider among its
// options.
func (s *tokenSettings) optionError(err error) error {
	if err == nil {
		return nil
	}
	return blame(jaasKey, fmt.Errorf("its option %w", err))
}
