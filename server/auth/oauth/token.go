package oauth

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// algorithms are those of public keys. Secrets that both sides know are none, and neither is
// no signature at all.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

var errSignature = errors.New("the token is not signed by a key that is known")

// token is what is used of one that is good.
type token struct {
	user    string
	expires time.Time
}

// check reads a token and says whose it is.
func (m *Mechanism) check(raw string, now time.Time) (token, error) {
	t, err := jwt.ParseSigned(raw, algorithms)
	if err != nil || len(t.Headers) != 1 {
		return token{}, errors.New("it is no signed token")
	}
	var std jwt.Claims
	claims := map[string]any{}
	if !m.verify(t, &std, &claims) {
		return token{}, errSignature
	}
	switch {
	case std.Expiry == nil:
		return token{}, errors.New("the token does not say until when it is good")
	case std.IssuedAt == nil:
		return token{}, errors.New("the token does not say since when it is good")
	}
	want := jwt.Expected{Issuer: m.s.Issuer, AnyAudience: jwt.Audience(m.s.Audience), Time: now}
	if err := std.ValidateWithLeeway(want, m.s.Skew); err != nil {
		return token{}, fmt.Errorf("the token is not good here and now: %w", err)
	}
	if err := scopes(claims[m.s.ScopeClaim]); err != nil {
		return token{}, err
	}
	user, _ := claims[m.s.SubClaim].(string)
	if user = strings.TrimSpace(user); user == "" {
		return token{}, fmt.Errorf("the token does not say whose it is, in %s", m.s.SubClaim)
	}
	return token{user, std.Expiry.Time()}, nil
}

// verify reads the claims with whichever key has signed them.
func (m *Mechanism) verify(t *jwt.JSONWebToken, into ...any) bool {
	h := t.Headers[0]
	for _, key := range m.keys.named(h.KeyID) {
		if (key.Algorithm == "" || key.Algorithm == h.Algorithm) && t.Claims(key.Key, into...) == nil {
			return true
		}
	}
	return false
}

// scopes refuses a scope that is none: it is a text with spaces, or a list of texts.
func scopes(v any) error {
	switch v := v.(type) {
	case nil, string:
		return nil
	case []any:
		for _, s := range v {
			if _, ok := s.(string); !ok {
				return errors.New("the token's scopes are no texts")
			}
		}
		return nil
	}
	return errors.New("the token's scope is neither a text nor a list")
}
